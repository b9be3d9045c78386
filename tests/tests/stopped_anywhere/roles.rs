//! The victim and its partner: what each can do of an operation.

use limic::{Endpoint, Error, HybridEndpoint, Loan, Loaned, OwnedSend, Peer, Region, RegionKey};
use limic_tests::{check, content};

/// Bytes of each region, and of long messages.
pub(crate) const LONG: usize = 64 << 10;
/// Bytes of messages that are copied by instructions: the fewest that go in two fragments when
/// their receiver asks for them.
pub(crate) const COPIED: usize = 4100;
/// The same of those that nobody asked for.
pub(crate) const EAGER: usize = 13_000;
/// What the victim sends before the operation: the messages number 1 and 2.
pub(crate) const BEFORE: u64 = 2;
/// The first message of the operation.
pub(crate) const FIRST: u64 = BEFORE + 1;
/// The message to the victim.
pub(crate) const BACK: u64 = 100;
/// What the victim writes to the region of its partner.
pub(crate) const WRITTEN: u64 = 200;
/// What the partner writes to the region of the victim.
const OVERWRITTEN: u64 = 300;

/// The process that is ended or held in the middle. What is no part of the operation is done before
/// or after it.
pub(crate) struct Victim<'a> {
    pub(crate) endpoint: &'a HybridEndpoint,
    pub(crate) partner: Peer,
    /// The key of its partner's region.
    pub(crate) key: RegionKey,
    pub(crate) region: Option<Region<'a, HybridEndpoint>>,
    pub(crate) message: Vec<u8>,
    pub(crate) loan: Option<Loan<'a, HybridEndpoint>>,
    /// What it writes to its partner's region, and reads from there.
    pub(crate) written: Vec<u8>,
    pub(crate) read: Option<Vec<u8>>,
    /// What it receives: message [`BACK`].
    pub(crate) buffer: Vec<u8>,
    pub(crate) received: usize,
    pub(crate) loaned: Option<Loaned>,
    /// What was its region.
    pub(crate) memory: Vec<u8>,
}

impl<'a> Victim<'a> {
    pub(crate) fn new(
        endpoint: &'a HybridEndpoint,
        partner: Peer,
        key: RegionKey,
        region: Region<'a, HybridEndpoint>,
    ) -> Self {
        let message = content(FIRST, LONG);
        let mut loan = endpoint.loan(LONG).expect("a loan");
        loan.copy_from_slice(&message);
        Self {
            endpoint,
            partner,
            key,
            region: Some(region),
            message,
            loan: Some(loan),
            written: content(WRITTEN, LONG),
            read: None,
            buffer: vec![1; LONG],
            received: 0,
            loaned: None,
            memory: Vec::new(),
        }
    }

    pub(crate) fn send(&self, len: usize) {
        let sent = self
            .endpoint
            .send(self.partner, FIRST, &self.message[..len]);
        sent.expect("the partner lives");
    }

    pub(crate) fn receive(&mut self, len: usize) {
        let received = self
            .endpoint
            .recv((self.partner, BACK), &mut self.buffer[..len]);
        self.received = received.expect("the partner lives").len as usize;
    }

    pub(crate) fn write(&self, len: usize) {
        let data = &self.written[..len];
        let written = self.endpoint.write(self.partner, self.key, 0, data);
        written.expect("the partner lives");
    }

    pub(crate) fn read(&mut self, len: usize) {
        self.buffer.truncate(len);
        let read = self
            .endpoint
            .read(self.partner, self.key, 0, &mut self.buffer);
        read.expect("the partner lives");
        self.read = Some(core::mem::take(&mut self.buffer));
    }

    /// Looks at what it has got.
    pub(crate) fn check(mut self) {
        check(BACK, &self.buffer[..self.received]);
        if let Some(loaned) = self.loaned {
            check(BACK, &loaned.to_vec());
        }
        let is_empty = |read: Vec<u8>| read.iter().all(|byte| *byte == 0);
        assert!(self.read.is_none_or(is_empty), "nobody has written there");
        self.memory.fill(9);
        // A write that is late would show.
        for _ in 0..100 {
            self.endpoint.progress();
        }
        assert!(self.memory.iter().all(|byte| *byte == 9), "a late write");
    }
}

/// The process that goes on.
pub(crate) struct Partner<'a> {
    pub(crate) endpoint: &'a HybridEndpoint,
    pub(crate) victim: Peer,
    /// The key of the victim's region.
    pub(crate) key: RegionKey,
}

/// What the partner has to do with an operation.
pub(crate) struct Part<'a> {
    /// Lengths of the messages that the victim sends in it, in order.
    pub(crate) comes: Vec<usize>,
    pub(crate) sends: Vec<OwnedSend<'a, HybridEndpoint>>,
    /// What it does again and again while the victim is in the middle.
    pub(crate) meanwhile: Box<dyn FnMut() -> Result<(), Error> + 'a>,
}

impl<'a> Partner<'a> {
    pub(crate) fn receives(&self, comes: &[usize]) -> Part<'a> {
        Part {
            comes: comes.to_vec(),
            sends: Vec::new(),
            meanwhile: Box::new(|| Ok(())),
        }
    }

    pub(crate) fn sends(&self, len: usize) -> Part<'a> {
        let sent = self.endpoint.isend(self.victim, BACK, content(BACK, len));
        Part {
            sends: vec![sent.expect("the victim lives")],
            ..self.receives(&[])
        }
    }

    /// Writes to the victim's region and reads there.
    pub(crate) fn accesses(&self) -> Part<'a> {
        let Self {
            endpoint,
            victim,
            key,
        } = *self;
        let mut under_way = None;
        Part {
            meanwhile: Box::new(move || {
                let (write, read) = match under_way.take() {
                    Some(both) => both,
                    None => (
                        endpoint.iwrite(victim, key, 0, content(OVERWRITTEN, COPIED))?,
                        endpoint.iread(victim, key, 0, vec![0; 100])?,
                    ),
                };
                let (mut write, mut read) = (write, read);
                if write.test() & read.test() {
                    write.wait()?;
                    read.wait()?;
                } else {
                    under_way = Some((write, read));
                }
                Ok(())
            }),
            ..self.receives(&[])
        }
    }
}
