//! What a process does that keeps the rules.

mod leave;
mod one_sided;
mod room;
mod wait;

use std::rc::Rc;

use limic::raw::{Loans, Messages, Posted, RawLoaned, RawSlice, RequestId, Requests};
use limic::{Endpoint, Error, HybridEndpoint, Peer, Status, Tag};

use self::room::Room;
use crate::oracle;
use crate::schedule::{wait_for, wrong};
use crate::script::{BAIT, BAIT_LEN, Ending, Malice, Receive, Script, Taking, content};
use crate::sim;

/// Where the number of an endpoint begins in its address.
const ID: usize = 12;

/// A peer is gone, as it may be in this run.
#[derive(Debug)]
struct Gone;

type Result<T> = core::result::Result<T, Gone>;

/// A send under way.
struct Sending {
    id: RequestId,
    _data: Data,
}

/// Bytes of a message. Who still reads them when they are given back finds others.
enum Data {
    Private(Box<[u8]>),
    PeerReadable(limic::Buffer),
}

impl Data {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Private(bytes) => bytes,
            Self::PeerReadable(buffer) => buffer,
        }
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let bytes = match self {
            Self::Private(bytes) => &mut bytes[..],
            Self::PeerReadable(buffer) => &mut buffer[..],
        };
        bytes.fill(0xee);
    }
}

/// A receive under way.
struct Receiving {
    id: RequestId,
    posted: u64,
    receive: Receive,
    room: Room,
    /// It is watched: its outcome comes by itself.
    watched: bool,
}

struct Honest<'a> {
    me: usize,
    script: &'a Script,
    endpoint: &'a HybridEndpoint,
    peers: Vec<Peer>,
    sends: Vec<Sending>,
    receives: Vec<Receiving>,
    posted: u64,
    reached: u32,
    /// Loans that are kept for a while.
    held: Vec<RawLoaned>,
    /// Room for a message of a hostile process.
    bait: Option<Room>,
}

/// A buffer whose owner's code panics when it is dropped.
struct PanicsOnDrop(#[expect(dead_code, reason = "kept until it is dropped")] Data);

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        std::panic::panic_any(PanicsToo);
    }
}

/// What that panic comes with.
pub(crate) struct PanicsToo;

impl Drop for PanicsToo {
    fn drop(&mut self) {
        panic!("{}", crate::campaign::A_USERS_PANIC);
    }
}

/// A random choice.
fn one_in(many: u32) -> bool {
    sim::with(|sim| sim.chance(many))
}

fn doing(what: impl FnOnce() -> String) {
    sim::with(|sim| {
        let current = sim.current.expect("a process");
        let what = format!("process {current} {}", what());
        sim.note(|| what.clone());
        sim.processes[current].doing = what;
    });
}

/// From here on others may find a process gone.
fn leaves(me: usize) {
    sim::with(|sim| sim.processes[me].leaves = true);
}

/// The life of a process.
pub(crate) fn live(me: usize, script: &Rc<Script>) {
    let script = Rc::clone(script);
    let endpoint = open(&script, me);
    sim::with(|sim| {
        let address = endpoint
            .as_ref()
            .map(|one| one.address().to_bytes().to_vec());
        sim.board.addresses[me] = Some(address);
    });
    let Some(endpoint) = endpoint else { return };
    wait_for("waits for addresses", |sim| {
        let processes = sim.processes.iter().zip(&sim.board.addresses);
        processes.fold(true, |all, (process, address)| {
            all && (address.is_some() || process.is_over())
        })
    });
    let addresses: Vec<Option<Vec<u8>>> = sim::with(|sim| {
        let addresses = sim.board.addresses.iter();
        addresses.map(|address| address.clone().flatten()).collect()
    });
    // A process that ended before it opened an endpoint is named by an address that nobody has.
    let peers = addresses.iter().enumerate().map(|(process, address)| {
        let mut nowhere = endpoint.address().to_bytes();
        nowhere[ID] ^= process as u8 + 1;
        endpoint.connect(address.as_deref().unwrap_or(&nowhere))
    });
    let peers = peers.collect::<core::result::Result<Vec<Peer>, Error>>();
    let peers = peers.unwrap_or_else(|error| wrong(error));
    let mut honest = Honest {
        me,
        script: &script,
        endpoint: &endpoint,
        peers,
        sends: Vec::new(),
        receives: Vec::new(),
        posted: 0,
        reached: 0,
        held: Vec::new(),
        bait: None,
    };
    match honest.work() {
        Ok(()) => leaves(me),
        Err(Gone) => honest.give_up(),
    }
    honest.held.clear();
    doing(|| "closes".to_owned());
    count_paths(&endpoint);
    let bait = honest.bait.take();
    drop(honest);
    endpoint.close();
    if let Some(bait) = bait {
        bait.give_up();
    }
    drop(endpoint);
}

/// Notes by which paths the messages went.
fn count_paths(endpoint: &HybridEndpoint) {
    let counters = endpoint.counters();
    sim::with(|sim| {
        for (path, traffic) in counters.paths {
            *sim.counts.paths.entry(path.to_string()).or_default() += traffic.messages;
        }
    });
}

/// Opens an endpoint; tries again if the kernel refuses.
fn open(script: &Script, me: usize) -> Option<HybridEndpoint> {
    for _ in 0..8 {
        doing(|| "opens".to_owned());
        if let Ok(endpoint) = HybridEndpoint::with(script.settings[me].clone()) {
            return Some(endpoint);
        }
    }
    sim::with(|sim| sim.faults.call = 0);
    match HybridEndpoint::with(script.settings[me].clone()) {
        Ok(endpoint) => Some(endpoint),
        Err(error) => wrong(format!("it cannot be opened: {error}")),
    }
}

impl Honest<'_> {
    fn work(&mut self) -> Result<()> {
        self.take_bait();
        for number in 0..self.script.phases.len() {
            let last = number + 1 == self.script.phases.len();
            let hasty = last && self.script.ending == Ending::Hasty(self.me);
            self.phase(number, hasty)?;
            if hasty {
                self.leave_hastily();
                return Ok(());
            }
            if self.script.phases[number].one_sided && !self.script.may_fail {
                self.one_sided()?;
            }
            if !last && one_in(2) {
                self.held.clear();
            }
        }
        self.held.clear();
        if self.script.ending == Ending::Together {
            self.meet_all("waits for the end");
        }
        Ok(())
    }

    /// Posts a receive for what a hostile process sends.
    fn take_bait(&mut self) {
        let Some(from) = self.script.hostile.iter().position(|hostile| *hostile) else {
            return;
        };
        let selector = limic::Selector::exact(self.peers[from], Tag(BAIT));
        let mut room = Room::new(BAIT_LEN);
        // SAFETY: the room is kept until the endpoint is closed.
        let posted = unsafe { self.endpoint.post_recv(&selector, &room.slices()) };
        if let Ok(Posted::Pending(_)) = posted {
            self.bait = Some(room);
        }
    }

    /// Messages of one phase.
    fn phase(&mut self, number: usize, hasty: bool) -> Result<()> {
        let (script, me) = (self.script, self.me);
        let phase = &script.phases[number];
        let mine = phase.messages.iter().copied();
        let mut sends = mine
            .filter(|one| script.messages[*one].from == me)
            .peekable();
        let mut receives = phase.receives[self.me].iter().peekable();
        let taking = phase.taking[self.me];
        loop {
            let posts = taking == Taking::Posted && receives.peek().is_some();
            match (sends.peek().is_some(), posts) {
                (false, false) => break,
                (true, receive) if !receive || one_in(2) => {
                    let message = sends.next().expect("one that is there");
                    self.post_send(message)?;
                }
                _ => {
                    let receive = *receives.next().expect("one that is there");
                    self.post_receive(receive)?;
                }
            }
            if one_in(8) {
                self.endpoint.progress();
            }
        }
        if hasty {
            return Ok(());
        }
        for receive in receives {
            if taking == Taking::InOrder && one_in(8) {
                self.post_receive(*receive)?;
            } else {
                self.take(*receive, taking)?;
            }
        }
        self.wait_for_all()
    }

    fn post_send(&mut self, index: usize) -> Result<()> {
        let message = &self.script.messages[index];
        doing(|| format!("sends message {index} ({message:?})"));
        let (to, tag) = (self.peers[message.to], Tag(message.tag));
        let data: Box<[u8]> = (0..message.len).map(|at| content(index, at)).collect();
        sim::with(|sim| sim.counts.sent += 1);
        if message.loan
            && let Ok(loan) = self.endpoint.borrow_loan(message.len)
        {
            let room = loan.start;
            // SAFETY: a loan is writable for its length until it is sent.
            unsafe { room.copy_from_nonoverlapping(data.as_ptr(), data.len()) };
            // SAFETY: it was borrowed just now.
            let posted = unsafe { self.endpoint.post_loan(to, tag, loan, data.len()) };
            return self.sent(posted, Data::Private(Box::default()));
        }
        let data = match limic::Buffer::new(data.len()).filter(|_| one_in(2)) {
            Some(mut buffer) => {
                buffer.copy_from_slice(&data);
                Data::PeerReadable(buffer)
            }
            None => Data::Private(data),
        };
        let bytes = data.bytes();
        let cut = sim::with(|sim| sim.rng.usize(0..=bytes.len()));
        let whole = [RawSlice::from(bytes)];
        let pieces = [RawSlice::from(&bytes[..cut]), RawSlice::from(&bytes[cut..])];
        let slices = if one_in(4) { &pieces[..] } else { &whole[..] };
        // SAFETY: the data is kept until the send is over (`sends`, or abandoned to the endpoint);
        // a process that is killed leaks it.
        let posted = unsafe {
            if slices.len() == 1 && one_in(2) {
                if self.endpoint.try_send(to, tag, None, slices) {
                    return Ok(());
                }
                self.endpoint.post_send_slow(to, tag, slices)
            } else {
                self.endpoint.post_send(to, tag, slices)
            }
        };
        self.sent(posted, data)
    }

    fn sent(&mut self, posted: limic::Result<Posted>, data: Data) -> Result<()> {
        match posted {
            Ok(Posted::Done(Ok(_))) => Ok(()),
            Ok(Posted::Done(Err(error))) | Err(error) => self.fails(&error),
            Ok(Posted::Pending(id)) if one_in(16) => {
                self.endpoint.abandon(id, Box::new(PanicsOnDrop(data)));
                sim::with(|sim| sim.counts.fault("panic in a drop"));
                Ok(())
            }
            Ok(Posted::Pending(id)) => {
                self.sends.push(Sending { id, _data: data });
                Ok(())
            }
        }
    }

    /// Room for each message that a receive may get.
    fn room_for(&self, receive: &Receive) -> Room {
        let messages = self.script.messages.iter();
        let fits = messages.filter(|message| message.to == self.me && receive.accepts(message));
        Room::new(fits.map(|message| message.len).max().unwrap_or(0))
    }

    fn selector(&self, receive: &Receive) -> limic::Selector {
        receive.selector(receive.from.map(|from| self.peers[from]))
    }

    fn next_post(&mut self) -> u64 {
        self.posted += 1;
        self.posted
    }

    fn post_receive(&mut self, receive: Receive) -> Result<()> {
        let mut room = self.room_for(&receive);
        let posted = self.next_post();
        doing(|| format!("posts receive {posted} ({receive:?})"));
        // SAFETY: the room is kept until the receive is over; a process that is killed leaks it.
        let answer = unsafe {
            self.endpoint
                .post_recv(&self.selector(&receive), &room.slices())
        };
        self.goes_on(answer, posted, receive, room)
    }

    /// A receive was posted: it is over, or it is waited for later.
    fn goes_on(
        &mut self,
        answer: limic::Result<Posted>,
        posted: u64,
        receive: Receive,
        room: Room,
    ) -> Result<()> {
        match answer {
            Ok(Posted::Done(Ok(status))) => self.arrived(posted, receive, &status, room),
            Ok(Posted::Done(Err(error))) | Err(error) => return self.fails(&error),
            Ok(Posted::Pending(id)) => self.receives.push(Receiving {
                id,
                posted,
                receive,
                room,
                watched: false,
            }),
        }
        Ok(())
    }

    /// Takes a message before it goes on.
    fn take(&mut self, receive: Receive, taking: Taking) -> Result<()> {
        let selector = self.selector(&receive);
        let posted = self.next_post();
        doing(|| format!("takes {posted} ({receive:?}, {taking:?})"));
        match taking {
            Taking::Posted | Taking::Blocking | Taking::InOrder => {
                let mut room = self.room_for(&receive);
                // SAFETY: the room outlives the call.
                match unsafe { self.endpoint.recv_blocking(&selector, &room.slices()) } {
                    Ok(status) => self.arrived(posted, receive, &status, room),
                    Err(error) => return self.fails(&error),
                }
            }
            Taking::Loaned => match self.take_loan(&selector) {
                Ok(loaned) => {
                    let status = loaned.status;
                    let mut bytes = vec![0; status.len as usize];
                    // SAFETY: it is readable for its length while it is held.
                    unsafe {
                        loaned
                            .start
                            .copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len())
                    };
                    self.note_arrival(posted, receive, &status, &bytes);
                    if one_in(2) {
                        self.held.push(loaned);
                    }
                }
                Err(error) => return self.fails(&error),
            },
            Taking::Probed => {
                let (status, claim) = loop {
                    match self.endpoint.claim(&selector) {
                        Ok(Some(found)) => break found,
                        Ok(None) => self.endpoint.sleep(None),
                        Err(error) => return self.fails(&error),
                    }
                };
                let mut room = Room::new(status.len as usize);
                // SAFETY: the room is kept until the receive is over; a process that is killed
                // leaks it.
                let answer = unsafe { self.endpoint.post_claimed(claim, &room.slices()) };
                return self.goes_on(answer, posted, receive, room);
            }
        }
        Ok(())
    }

    fn take_loan(&self, selector: &limic::Selector) -> limic::Result<RawLoaned> {
        let fetches = |fetches| sim::with(|sim| sim.processes[self.me].fetches = fetches);
        fetches(true);
        let taken = self.endpoint.take_loan_blocking(selector);
        fetches(false);
        taken
    }

    /// A receive is over.
    fn arrived(&mut self, posted: u64, receive: Receive, status: &Status, room: Room) {
        let bytes = room.finish(status.len as usize);
        self.note_arrival(posted, receive, status, &bytes);
    }

    fn note_arrival(&mut self, posted: u64, receive: Receive, status: &Status, bytes: &[u8]) {
        if self.script.malice == Malice::Scribbles {
            return;
        }
        let from = self.peers.iter().position(|peer| *peer == status.peer);
        let from = from.unwrap_or_else(|| wrong(format!("a message of {} came", status.peer)));
        let key = (self.me, posted, receive);
        let found = sim::with(|sim| {
            sim.note(|| format!("receive {posted} has {} bytes from {from}", bytes.len()));
            oracle::arrived(sim, self.script, key, from, status, bytes)
        });
        if let Err(what) = found {
            wrong(what);
        }
    }

    fn may_be_lost(&self, peer: Peer) -> bool {
        let process = self.peers.iter().position(|other| *other == peer);
        process.is_some_and(|process| sim::with(|sim| sim.processes[process].may_be_lost()))
    }

    /// An operation failed: that is wrong, unless the peer that it names may be gone.
    fn fails(&mut self, error: &Error) -> Result<()> {
        let was_short = sim::with(|sim| sim.processes[self.me].was_short);
        match error {
            // A message in an arena, for whose descriptor there was no room, is lost.
            Error::NoMemory(_) if was_short => Ok(()),
            _ if self.script.malice == Malice::Scribbles => Err(Gone),
            Error::PeerFailed { peer, .. } if self.script.may_fail && self.may_be_lost(*peer) => {
                doing(|| format!("gives up: {error}"));
                Err(Gone)
            }
            error => wrong(format!("an operation fails: {error}")),
        }
    }
}
