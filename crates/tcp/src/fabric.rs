//! All connections of one endpoint.

use core::time::Duration;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use limic_fabric::{
    Arrivals, ConnectionFailure, ConnectionId, Counts, Event, Fabric, Form, Limits, Part,
    SendRefused, Stretch,
};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};

use crate::connection::{Connection, Known, Stranger};
use crate::greeting::HELLO;
use crate::looking::{Hot, Look};
use crate::place::{part_of, place_of};
use crate::record::{LONGEST, WRITTEN_IN_PLACE};
use crate::{interface, sockets};

/// What a fabric is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpSettings {
    /// The interface that peers call, by name or address; `None`: the one that leads to others.
    pub interface: Option<String>,
    /// The loopback serves if there is nothing else.
    pub also_loopback: bool,
    /// How long a machine may be silent that was asked for something, before it counts as lost.
    pub timeout: Duration,
}

impl Default for TcpSettings {
    fn default() -> Self {
        Self {
            interface: None,
            also_loopback: false,
            timeout: Duration::from_secs(30),
        }
    }
}

/// What a token of the event set stands for.
pub(crate) const LISTENER: u64 = 0;
pub(crate) const STRANGER: u64 = 1 << 32;
pub(crate) const CONNECTION: u64 = 2 << 32;

/// All connections of one endpoint.
#[derive(Debug)]
pub struct TcpFabric {
    pub(crate) events_set: OwnedFd,
    pub(crate) listener: Option<OwnedFd>,
    pub(crate) part: Part,
    /// Where calls come from, if that was asked for.
    pub(crate) from: Option<IpAddr>,
    pub(crate) timeout: Duration,
    pub(crate) id: u64,
    pub(crate) secret: u64,
    pub(crate) hello: Vec<u8>,
    /// Those that are not over, by number.
    pub(crate) connections: BTreeMap<u32, Box<Connection>>,
    /// The number of the next one: each is used once.
    pub(crate) next_number: u32,
    pub(crate) known: HashMap<u64, Known>,
    pub(crate) strangers: Vec<Option<Stranger>>,
    pub(crate) events: VecDeque<Event>,
    /// Connections that are to be read.
    pub(crate) readable: VecDeque<u32>,
    /// The connection that brought the last bytes.
    pub(crate) hot: Hot,
    /// How far the next poll looks.
    pub(crate) next_look: Look,
    /// Connections that are not ready.
    pub(crate) beginning: u32,
    /// Those that hold messages.
    pub(crate) holding: u32,
    /// Those whose socket takes nothing more.
    pub(crate) blocked: u32,
    /// Polls.
    pub(crate) turn: u32,
    /// Reads since the event set was asked.
    pub(crate) reads: u32,
    /// Nobody is accepted until then: no descriptor was free, or no place for a stranger.
    pub(crate) paused: Option<Instant>,
    /// When the clock was looked at last, but for looks before all news from before had been seen.
    pub(crate) looked_at: Instant,
    /// The most events that may be there since then and were not seen.
    pub(crate) unseen: usize,
    pub(crate) listened_at: Instant,
    pub(crate) counts: Counts,
}

impl TcpFabric {
    /// What each connection takes.
    pub const LIMITS: Limits = Limits {
        longest: LONGEST as u64,
        in_place_from: WRITTEN_IN_PLACE as u64,
        has_reads: false,
        sends_cost: true,
    };

    /// Listens. `id` names the endpoint, and `secret` lets peers in.
    ///
    /// # Errors
    /// Says what is in the way.
    pub fn open(settings: &TcpSettings, id: u64, secret: u64) -> Result<Self, String> {
        let ip = interface::choose(settings.interface.as_deref(), settings.also_loopback)?;
        let failed = |what: &str, error: Errno| format!("{what} at {ip}: {error}");
        let listening = sockets::listener(ip, settings.timeout);
        let (listener, at) = listening.map_err(|error| failed("a socket", error))?;
        let part = part_of(at).ok_or_else(|| format!("{at} is no address of IP"))?;
        let events_set = epoll::create(epoll::CreateFlags::CLOEXEC);
        let events_set = events_set.map_err(|error| failed("epoll", error))?;
        let data = EventData::new_u64(LISTENER);
        epoll::add(&events_set, &listener, data, EventFlags::IN)
            .map_err(|error| failed("epoll", error))?;
        Ok(Self {
            events_set,
            listener: Some(listener),
            part,
            from: settings.interface.as_ref().map(|_| ip),
            timeout: settings.timeout,
            id,
            secret,
            hello: Vec::new(),
            connections: BTreeMap::new(),
            next_number: 0,
            known: HashMap::new(),
            strangers: Vec::new(),
            events: VecDeque::new(),
            readable: VecDeque::new(),
            hot: Hot::Nobody,
            next_look: Look::Everything,
            beginning: 0,
            holding: 0,
            blocked: 0,
            turn: 0,
            reads: 0,
            paused: None,
            looked_at: Instant::now(),
            unseen: 0,
            listened_at: Instant::now(),
            counts: Counts::default(),
        })
    }

    pub(crate) fn connection(&mut self, number: u32) -> Option<&mut Connection> {
        self.connections.get_mut(&number).map(Box::as_mut)
    }

    pub(crate) fn at(&self, number: u32) -> Option<&Connection> {
        self.connections.get(&number).map(Box::as_ref)
    }

    /// Adds a connection; gives its number.
    pub(crate) fn enter(&mut self, connection: Connection) -> u32 {
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        self.beginning += u32::from(!connection.is_ready());
        self.connections.insert(number, Box::new(connection));
        number
    }

    /// Closes a socket that is in the event set, and ends its connection. A forked child may have
    /// a copy of it, so it is taken out and shut down first.
    pub(crate) fn close_socket(&self, socket: OwnedFd) {
        // It fails only for a socket that is not in the set.
        let _ = epoll::delete(&self.events_set, &socket);
        // It fails only for a connection that has ended.
        let _ = shutdown(&socket, Shutdown::Both);
        drop(socket);
    }

    /// A connection ends, and an event tells of it.
    pub(crate) fn fail(&mut self, number: u32, why: ConnectionFailure) {
        if self.end(number) {
            let connection = ConnectionId(number);
            self.events.push_back(Event::Failed { connection, why });
        }
    }

    /// A connection ends. False if it was over.
    pub(crate) fn end(&mut self, number: u32) -> bool {
        let Some(over) = self.connections.remove(&number) else {
            return false;
        };
        if self.hot.number() == Some(number) {
            self.hot = Hot::Nobody;
        }
        self.beginning -= u32::from(!over.is_ready());
        self.holding -= u32::from(over.holds);
        self.blocked -= u32::from(over.blocked);
        if let Some(socket) = over.socket {
            self.close_socket(socket);
        }
        true
    }
}

impl Fabric for TcpFabric {
    fn part(&self) -> Part {
        self.part
    }

    fn set_hello(&mut self, hello: Vec<u8>) {
        debug_assert!(hello.len() <= HELLO, "the layer above keeps to it");
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
        self.end(connection.0);
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
        Self::LIMITS
    }

    fn send(
        &mut self,
        to: ConnectionId,
        form: Form,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), SendRefused> {
        self.write_message(to.0, form, fill)
    }

    #[expect(unsafe_code, reason = "the trait's")]
    unsafe fn begin(
        &mut self,
        to: ConnectionId,
        form: Form,
        head: &[u8],
        data: &[Stretch],
    ) -> Result<usize, SendRefused> {
        // SAFETY: the caller's promise.
        unsafe { self.begin_message(to.0, form, head, data) }
    }

    #[expect(unsafe_code, reason = "the trait's")]
    unsafe fn go_on(&mut self, to: ConnectionId, data: &[Stretch]) -> usize {
        // SAFETY: the caller's promise.
        unsafe { self.write_rest(to.0, data) }
    }

    fn left_to_go(&self, to: ConnectionId) -> usize {
        self.at(to.0).map_or(0, |connection| connection.to_go)
    }

    #[expect(unsafe_code, reason = "the trait's")]
    unsafe fn receive(&mut self, from: ConnectionId, into: *mut u8, len: usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe { self.read_rest(from.0, into, len) }
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
        8
    }

    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.events_set.as_fd()]
    }

    fn arm(&mut self) -> Result<(), String> {
        // The event set stays readable as long as anything is there that it watches.
        self.watch_hot();
        self.look_at_the_clock();
        self.next_look = Look::Everything;
        Ok(())
    }

    fn notice(&mut self) {
        self.next_look = Look::Everything;
    }

    fn longest_sleep(&self) -> Option<Duration> {
        self.next_deadline()
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn close(&mut self, within: Duration) {
        self.say_goodbye(within);
    }

    fn leave_to_parent(self: Box<Self>) {
        // The copies of the sockets are closed, and nothing is said over them. What the event set
        // watches stays, since it is one for both processes.
        drop(self);
    }
}

/// The place of a peer.
pub(crate) fn place(to: &Part) -> Result<std::net::SocketAddr, ConnectionFailure> {
    place_of(to).ok_or_else(|| ConnectionFailure::Local("its address is none of TCP".to_owned()))
}
