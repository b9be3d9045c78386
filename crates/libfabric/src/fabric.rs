//! All connections of one endpoint.

use core::time::Duration;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::time::Instant;

use limic_fabric::{
    Arrivals, ConnectionFailure, ConnectionId, Counts, Event, Fabric, Form, Limits, Network, Part,
    RemoteRange, SendRefused,
};
use limic_ofi_abi::fi_addr_t;

use crate::connection::{Connection, Outgoing, Over};
use crate::device::{Device, Posted, Registration};
use crate::packet::{HELLO_BYTES, LONGEST};
use crate::pool::{Owner, Slot, UnderWay};
use crate::reads::{Ending, Reads};
use crate::settings::{OfiError, OfiSettings};

/// Packets that are there to be filled by peers.
const RECEIVES: usize = 64;
/// Connections that are over and still known: a peer that learns of it late is told.
const MOST_OVER: usize = 1 << 16;
/// Polls between two where each is a call of the kernel.
const SELDOM: u32 = 8;

/// What a connection takes over a provider whose longest read has so many bytes.
pub(crate) const fn limits(longest_read: usize) -> Limits {
    Limits {
        longest: LONGEST as u64,
        in_place_from: u64::MAX,
        has_reads: longest_read > 0,
        sends_cost: false,
    }
}

/// All connections of one endpoint.
#[derive(Debug)]
pub struct OfiFabric {
    pub(crate) device: Device,
    pub(crate) timeout: Duration,
    pub(crate) id: u64,
    pub(crate) secret: u64,
    pub(crate) hello: Vec<u8>,
    /// Those that are not over, by number.
    pub(crate) connections: BTreeMap<u32, Box<Connection>>,
    /// The last ones that are over.
    pub(crate) over: BTreeMap<u32, Over>,
    /// The number of the next one: each is used once.
    pub(crate) next_number: u32,
    /// The connection with each endpoint.
    pub(crate) known: HashMap<u64, u32>,
    /// Names that are in the address vector.
    pub(crate) addresses: HashMap<Vec<u8>, fi_addr_t>,
    /// Packets that may be on their way at once.
    pub(crate) most_sends: usize,
    /// Packets that are posted to be sent.
    pub(crate) sending: UnderWay,
    /// Packets that have gone or come, and were not looked at.
    pub(crate) ended: VecDeque<(Slot, usize)>,
    /// Bytes of the longest read of the provider; 0: it has none.
    pub(crate) longest_read: usize,
    pub(crate) reads: Reads,
    /// Connections that are over, but for their reads.
    pub(crate) ending: BTreeMap<u32, Ending>,
    /// What peers may read, by token.
    pub(crate) offered: HashMap<u64, (Registration, RemoteRange)>,
    /// Packets of no connection that are to go.
    pub(crate) loose: VecDeque<(Outgoing, fi_addr_t, u32)>,
    /// Connections with packets that the provider did not take.
    pub(crate) blocked: VecDeque<u32>,
    /// Connections whose peers say nothing, and are to be asked.
    pub(crate) silent: VecDeque<u32>,
    /// Connections whose next packet has come already.
    pub(crate) deliverable: VecDeque<u32>,
    /// Receives that could not be posted.
    pub(crate) unposted: Vec<Slot>,
    pub(crate) events: VecDeque<Event>,
    /// Those that hold messages.
    pub(crate) holding: u32,
    pub(crate) by_looks: bool,
    /// The provider has a connection with each peer.
    pub(crate) connects: bool,
    poll_every: u32,
    /// The descriptor does not tell of what is there already.
    restless: bool,
    pub(crate) turn: u32,
    /// Looks at all connections so far, and the last one.
    pub(crate) walks: u32,
    pub(crate) walked_at: Instant,
    pub(crate) counts: Counts,
}

impl OfiFabric {
    /// What each connection takes, where there are no reads.
    pub const LIMITS: Limits = limits(0);

    /// Opens an endpoint of libfabric. `id` names the endpoint, and `secret` lets peers in.
    ///
    /// # Errors
    /// Says what is in the way.
    pub fn open(settings: &OfiSettings, id: u64, secret: u64) -> Result<Self, OfiError> {
        let device = Device::open(settings)?;
        let provider = device.info.provider();
        let sockets = provider
            .split(';')
            .any(|part| ["tcp", "net", "sockets", "udp"].contains(&part));
        let longest_read = device.info.longest_read();
        let mut fabric = Self {
            by_looks: device.moves_by_looks(),
            most_sends: device.most_sends(),
            device,
            timeout: settings.timeout,
            id,
            secret,
            hello: Vec::new(),
            connections: BTreeMap::new(),
            over: BTreeMap::new(),
            next_number: 0,
            known: HashMap::new(),
            addresses: HashMap::new(),
            sending: UnderWay::default(),
            ended: VecDeque::new(),
            longest_read,
            reads: Reads::default(),
            ending: BTreeMap::new(),
            offered: HashMap::new(),
            loose: VecDeque::new(),
            blocked: VecDeque::new(),
            silent: VecDeque::new(),
            deliverable: VecDeque::new(),
            unposted: Vec::new(),
            events: VecDeque::new(),
            holding: 0,
            connects: provider.ends_with("ofi_rxm") || provider == "tcp",
            poll_every: if sockets { SELDOM } else { 1 },
            restless: false,
            turn: 0,
            walks: 0,
            walked_at: Instant::now(),
            counts: Counts::default(),
        };
        for _ in 0..RECEIVES {
            let slot = fabric.device.take().map_err(OfiError::Failed)?;
            if let Posted::Failed(why) = fabric.receive_into(slot) {
                let why = format!("{provider} of libfabric: fi_recv: {why}");
                return Err(OfiError::Failed(why));
            }
        }
        Ok(fabric)
    }

    pub(crate) fn receive_into(&mut self, slot: Slot) -> Posted {
        let posted = self.device.post_receive(slot);
        match posted {
            Posted::Yes => {}
            _ if self.device.is_open() => self.unposted.push(slot),
            _ => self.device.pool.give_back(slot),
        }
        posted
    }

    pub(crate) fn connection(&mut self, number: u32) -> Option<&mut Connection> {
        self.connections.get_mut(&number).map(Box::as_mut)
    }

    pub(crate) fn at(&self, number: u32) -> Option<&Connection> {
        self.connections.get(&number).map(Box::as_ref)
    }

    pub(crate) fn note_held(&mut self, number: u32) {
        let by_looks = self.by_looks;
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.note_held(by_looks, &mut self.holding);
        }
    }

    /// A connection ends, and an event tells of it.
    pub(crate) fn fail(&mut self, number: u32, why: ConnectionFailure) {
        // Nothing goes now to who is not reached, which is told when a packet of it comes; and who
        // has said so itself knows.
        let gone = matches!(
            why,
            ConnectionFailure::Lost(_) | ConnectionFailure::Unreachable(_)
        );
        let id = self.at(number).map(|connection| connection.id);
        let Some(id) = id.filter(|_| self.end(number, !gone)) else {
            return;
        };
        if self.end_reads(number) {
            return self.tell_when_quiet(number, id, why);
        }
        let connection = ConnectionId(number);
        self.events.push_back(Event::Failed { connection, why });
    }

    /// A connection ends. `tell`: its peer is told. False if it was over.
    pub(crate) fn end(&mut self, number: u32, tell: bool) -> bool {
        let Some(over) = self.connections.remove(&number) else {
            return false;
        };
        if self.known.get(&over.id) == Some(&number) {
            self.known.remove(&over.id);
        }
        self.holding -= u32::from(over.holds);
        for packet in over.queue.iter().chain(&over.open) {
            self.device.pool.give_back(packet.slot);
        }
        if over.posted > 0 {
            let now = match tell {
                true => Owner::Nobody(self.walks),
                false => Owner::GivenUp,
            };
            self.sending.disown(number, now);
        }
        // A goodbye is an answer too. The peer may be closing now, and must get no packet more: one
        // that comes while `ofi_rxm` over verbs closes its connection ends the process (1.17).
        let knows = over.leaving && over.queue.is_empty();
        if let Some(remote) = over.remote.filter(|_| tell && !knows) {
            self.send_left(remote, over.address);
        }
        let (token, remote, address) = (over.token, over.remote, over.address);
        let over = Over {
            token,
            remote,
            address,
        };
        self.over.insert(number, over);
        if self.over.len() > MOST_OVER {
            self.over.pop_first();
        }
        true
    }
}

impl Fabric for OfiFabric {
    fn part(&self) -> Part {
        self.device.part
    }

    fn reaches(&self, part: &Part) -> bool {
        part.network() == Network::Ofi && self.device.reaches(part.place())
    }

    fn set_hello(&mut self, hello: Vec<u8>) {
        debug_assert!(hello.len() <= HELLO_BYTES, "the layer above keeps to it");
        self.hello = hello;
    }

    fn connect(
        &mut self,
        to: &Part,
        id: u64,
        secret: u64,
    ) -> Result<ConnectionId, ConnectionFailure> {
        self.call(to, id, secret).map(ConnectionId)
    }

    fn disconnect(&mut self, connection: ConnectionId) {
        self.flush(connection.0);
        self.end(connection.0, true);
        if self.end_reads(connection.0) {
            self.wait_until_quiet(connection.0);
        }
        let of_it = |event: &Event| {
            matches!(event, Event::Failed { connection: other, .. }
                | Event::Connected { connection: other, .. } if *other == connection)
        };
        self.events.retain(|event| !of_it(event));
    }

    fn is_connected(&self, connection: ConnectionId) -> bool {
        self.at(connection.0).is_some_and(Connection::is_ready)
    }

    fn limits(&self, _: ConnectionId) -> Limits {
        limits(self.longest_read)
    }

    fn send(
        &mut self,
        to: ConnectionId,
        form: Form,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), SendRefused> {
        self.write_message(to.0, form, fill)
    }

    fn cork(&mut self, to: ConnectionId) {
        if let Some(connection) = self.connection(to.0) {
            connection.corked = true;
        }
    }

    fn uncork(&mut self, to: ConnectionId) {
        if let Some(connection) = self.connection(to.0) {
            connection.corked = false;
        }
        self.flush(to.0);
    }

    fn holding(&self) -> u32 {
        self.holding
    }

    fn gave_time(&mut self) {
        for connection in self.connections.values_mut() {
            connection.had_time |= core::mem::take(&mut connection.holds);
        }
        self.holding = 0;
    }

    fn poll(&mut self, arrivals: &mut Arrivals) -> Option<Event> {
        self.take_next(arrivals)
    }

    fn poll_every(&self) -> u32 {
        self.poll_every
    }

    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        self.device.descriptor().into_iter().collect()
    }

    fn arm(&mut self) -> Result<(), String> {
        self.look_at_the_clock();
        self.restless = !self.device.may_sleep();
        Ok(())
    }

    fn longest_sleep(&self) -> Option<Duration> {
        let needs_looks = self.restless || self.device.descriptor().is_none();
        if needs_looks && self.device.is_open() {
            return Some(Duration::from_millis(1));
        }
        self.next_deadline()
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn close(&mut self, within: Duration) {
        self.say_goodbye(within);
    }

    fn leave_to_parent(self: Box<Self>) {
        // To close anything would end connections of the parent, whose threads are not here.
        core::mem::forget(self);
    }

    #[expect(unsafe_code, reason = "memory behind the borrow checker")]
    unsafe fn offer(
        &mut self,
        token: u64,
        start: *const u8,
        len: usize,
    ) -> Result<RemoteRange, String> {
        // SAFETY: the caller's promise.
        unsafe { self.lend(token, start, len) }
    }

    fn withdraw(&mut self, token: u64) {
        self.take_back(token);
    }

    #[expect(unsafe_code, reason = "memory behind the borrow checker")]
    unsafe fn read(
        &mut self,
        from: ConnectionId,
        remote: RemoteRange,
        into: *mut u8,
        len: usize,
        token: u64,
    ) -> Result<(), String> {
        // SAFETY: the caller's promise.
        unsafe { self.begin_read(from.0, remote, (into, len), token) }
    }
}
