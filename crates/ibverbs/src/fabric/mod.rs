//! All connections of one endpoint: packets, and transfers of long messages, over queue pairs that
//! stay small.
//!
//! - `contact`: the first contact of two endpoints, by datagrams (`greeter`, `greeting`);
//! - `clock`: greetings are repeated, and silent peers are asked;
//! - `sending`: a message goes into a packet, alone or with others (`packet`), and to a stream or
//!   the peer's `ring`;
//! - `lending`: rings are lent to peers that talk a lot, and pause while this endpoint sleeps;
//! - `receiving`: packets come out in order, whatever way they took;
//! - `transfer`: RDMA reads, cut into parts and dealt out to the streams;
//! - `failing`: a stream breaks, and the others take over what it had; or the peer is lost;
//! - `mending`: a stream that broke is made anew;
//! - `doubt`: whether an adapter that has failed has lost packets;
//! - `draining`: what a queue pair has received is kept when it ends.
//!
//! There are no timers, and no threads move anything: everything moves in [`Fabric::poll`]. One
//! thread notices when memory is unmapped, if the settings ask for it (`watch`).

mod address;
mod cache;
mod clock;
mod connection;
mod contact;
mod doubt;
mod draining;
mod failing;
mod greeter;
mod greeting;
mod lending;
mod mending;
mod rail;
mod receives;
mod receiving;
mod ring;
mod sending;
mod settings;
mod spread;
#[cfg(test)]
mod tests;
mod transfer;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

pub use address::{FabricAddress, LONGEST_ADDRESS, RailAddress};
pub use greeting::HELLO;
#[cfg(fuzzing)]
#[doc(hidden)]
pub use greeting::any_greeting;
pub use limic_fabric::{
    Arrivals, ConnectionFailure, ConnectionId, Counts, Event, RemoteRange, SendRefused,
    TransferError,
};
use rustix::time::{ClockId, Timespec, clock_gettime};
pub use settings::{FabricSettings, Keep};
pub use spread::Spread;

use self::cache::Cache;
use self::connection::{Connection, Known};
use self::rail::Rail;
use self::spread::Packets;
use self::transfer::Transfers;
use crate::objects::{Access, Completion};
use crate::{VerbsError, packet};

/// Bytes of the longest message in a packet of so many bytes.
pub(crate) const fn longest_message(packet_bytes: u32) -> usize {
    let bytes = if (packet_bytes as usize) < packet::MOST {
        packet_bytes as usize
    } else {
        packet::MOST
    };
    bytes - packet::HEADER - packet::FULL
}

/// All connections of one endpoint.
#[derive(Debug)]
pub struct Fabric {
    // Connections with their queue pairs go first, memory that adapters use after them.
    /// Those that are not over, by number. Each number is used once.
    connections: BTreeMap<u32, Box<Connection>>,
    next_number: u32,
    /// Attempts to connect that were begun.
    attempts: u32,
    packets: Packets,
    /// Connections with a packet that is being filled, and had no time for that.
    open_packets: u32,
    transfers: Transfers,
    cache: Cache,
    rails: Vec<Rail>,
    settings: FabricSettings,
    id: u64,
    secret: u64,
    hello: Vec<u8>,
    known: HashMap<u64, Known>,
    /// Which connection a queue pair of a rail belongs to.
    by_pair: HashMap<(usize, u32), u32>,
    events: VecDeque<Event>,
    /// Packets that came, in the order of coming: rail and buffer.
    arrived: VecDeque<Arrived>,
    /// Completions that were taken off the queue of a rail, but for those of packets.
    taken: VecDeque<(usize, Completion)>,
    /// Packets that came before their turn, and whose turn it is now.
    late: VecDeque<(u32, Vec<u8>)>,
    /// Connections whose peers write into a ring here.
    ring_connections: Vec<u32>,
    rings_granted: u16,
    counts: Counts,
    scratch: Vec<u8>,
    /// What the coarse clock said at the last poll, and the time then.
    tick: Timespec,
    looked_at: Instant,
}

/// A packet that lies in a receive buffer.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    rail: usize,
    buffer: u32,
    len: u32,
    /// The connection that it came by, if that is known and the receive went well.
    connection: Option<u32>,
}

impl Fabric {
    /// Opens the devices. `id` names the endpoint, `secret` lets peers in, and `hello` (at most
    /// [`HELLO`] bytes) is what they are told when they are connected.
    ///
    /// # Errors
    /// [`VerbsError`]: no library, no device, no port, limits.
    ///
    /// # Panics
    /// If the settings do not pass [`FabricSettings::check`], or `hello` is too long: both are the
    /// caller's to check.
    pub fn open(
        settings: FabricSettings,
        id: u64,
        secret: u64,
        hello: Vec<u8>,
    ) -> Result<Self, VerbsError> {
        assert!(settings.check().is_ok() && hello.len() <= HELLO, "checked");
        let rails = rail::open_all(&settings)?;
        let packets = Packets::new(&rails, settings.packets, settings.packet_bytes)?;
        Ok(Self {
            connections: BTreeMap::new(),
            next_number: 0,
            attempts: 0,
            packets,
            open_packets: 0,
            transfers: Transfers::default(),
            cache: Cache::new(&rails, settings.keep),
            rails,
            settings,
            id,
            secret,
            hello,
            known: HashMap::new(),
            by_pair: HashMap::new(),
            events: VecDeque::new(),
            arrived: VecDeque::new(),
            taken: VecDeque::new(),
            late: VecDeque::new(),
            ring_connections: Vec::new(),
            rings_granted: 0,
            counts: Counts::default(),
            scratch: Vec::new(),
            tick: clock_gettime(ClockId::MonotonicCoarse),
            looked_at: Instant::now(),
        })
    }

    /// Where peers reach this endpoint.
    #[must_use]
    pub fn address(&self) -> FabricAddress {
        FabricAddress {
            first: self.rails[0].address(),
            second: self.rails.get(1).map(Rail::address),
        }
    }

    /// What peers are told from now on; at most [`HELLO`] bytes, which is the caller's to check.
    pub fn set_hello(&mut self, hello: Vec<u8>) {
        debug_assert!(hello.len() <= HELLO, "checked");
        self.hello = hello;
    }

    /// Ends a connection at once. No event tells of it; its transfers are over, and nothing touches
    /// their memory any more.
    pub fn disconnect(&mut self, connection: ConnectionId) {
        self.end(connection.0, ConnectionFailure::Closed);
        let of_it = |event: &Event| {
            matches!(event, Event::Failed { connection: other, .. }
                | Event::Connected { connection: other, .. } if *other == connection)
        };
        self.events.retain(|event| !of_it(event));
    }

    /// The devices in use.
    pub fn devices(&self) -> impl Iterator<Item = &str> {
        self.rails.iter().map(|rail| rail.domain.context().name())
    }

    /// Whether the kernel does the work of one of the devices, on processors that pollers want too.
    #[must_use]
    pub fn in_software(&self) -> bool {
        let mut domains = self.rails.iter().map(|rail| &rail.domain);
        domains.any(|domain| domain.context().limits().in_software)
    }

    /// Bytes of a packet on a connection.
    pub(crate) fn packet_bytes(&self, connection: ConnectionId) -> u32 {
        let connection = self.connections.get(&connection.0);
        connection.map_or(self.settings.packet_bytes, |c| c.packet_bytes)
    }

    /// Bytes of the longest message that [`send`](Self::send) takes on a connection.
    #[must_use]
    pub fn longest_message(&self, connection: ConnectionId) -> usize {
        longest_message(self.packet_bytes(connection))
    }

    /// What was moved so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Registers memory for transfers on every rail that works.
    ///
    /// # Errors
    /// [`VerbsError::Call`]: over RLIMIT_MEMLOCK, not mapped with the needed permission.
    ///
    /// # Safety
    /// As [`Registration::new`](crate::objects::Registration::new).
    pub unsafe fn register(
        &self,
        start: *mut u8,
        len: usize,
        access: Access,
    ) -> Result<Arc<Spread>, VerbsError> {
        // SAFETY: the caller's promise.
        unsafe { Spread::new(&self.rails, start, len, access) }.map(Arc::new)
    }

    /// As [`register`](Self::register), for memory that is likely to be used again: the
    /// registration may be kept ([`Keep`]), and found by the next call with the same start, if it
    /// is still right.
    ///
    /// # Errors
    /// As [`register`](Self::register).
    ///
    /// # Safety
    /// As [`register`](Self::register), also for what the process has at these addresses later on.
    /// So `access` must not let peers write.
    pub unsafe fn register_again(
        &mut self,
        start: *mut u8,
        len: usize,
        access: Access,
    ) -> Result<Arc<Spread>, VerbsError> {
        if self.cache.is_on() {
            if let Some(found) = self.cache.find(start as u64, len, access) {
                self.counts.registrations_found += 1;
                return Ok(found);
            }
            self.counts.registrations_made += 1;
        }
        let (keep, watched) = self.cache.watch(start as u64, len);
        let wanted = access | self.cache.access();
        // SAFETY: the caller's promise.
        let made = unsafe { self.register(start, len, wanted) };
        let made = match made {
            Ok(made) => made,
            Err(_) => {
                self.cache.clear();
                // Or a device is gone of which nobody has heard yet.
                self.hear_devices();
                // SAFETY: as above.
                unsafe { self.register(start, len, wanted)? }
            }
        };
        if keep {
            self.cache.keep(Arc::clone(&made), access, watched);
        }
        Ok(made)
    }

    /// Moves everything on, and gives one event. `None`: nothing is to be told now.
    pub fn poll(&mut self, arrivals: &mut Arrivals) -> Option<Event> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        if self.take_packet(arrivals) {
            return Some(Event::Messages);
        }
        self.take_completions();
        // This clock moves with the kernel's ticks and is cheap to read.
        let tick = clock_gettime(ClockId::MonotonicCoarse);
        if tick != self.tick {
            self.tick = tick;
            self.hear_devices();
            self.look_at_the_clock();
        }
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        self.take_packet(arrivals).then_some(Event::Messages)
    }

    /// The descriptors that become readable when something happens, after [`arm`](Self::arm).
    pub fn wake_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.rails.iter().map(|rail| rail.notifier.as_fd())
    }

    /// Asks for notice of what comes next, and peers to leave their rings alone. Poll once more
    /// before sleeping; and sleep no longer than [`longest_sleep`](Self::longest_sleep).
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn arm(&mut self) -> Result<(), VerbsError> {
        self.pause_rings();
        // Who sleeps polls seldom.
        self.look_at_the_clock();
        for rail in self.rails.iter().filter(|rail| !rail.is_broken) {
            rail.queue.take_notices();
            rail.queue.arm()?;
        }
        Ok(())
    }

    /// How long a sleeper may sleep before it has to [`poll`](Self::poll): greetings are repeated,
    /// silent peers are asked, and rings whose writers have not agreed to a pause are looked into.
    /// `None` if nobody is connected, and all is well.
    #[must_use]
    pub fn longest_sleep(&self) -> Option<core::time::Duration> {
        clock::longest_sleep(self)
    }

    /// Connections on which messages that were taken wait for an entry to leave with, and had no
    /// time for that: only [`poll`](Self::poll) sends them.
    #[inline]
    #[must_use]
    pub fn holding(&self) -> u32 {
        self.open_packets
    }

    /// What waits now had time to leave.
    pub fn gave_time(&mut self) {
        let connections = self.connections.values_mut();
        for open in connections.filter_map(|connection| connection.open.as_mut()) {
            open.had_time = true;
        }
        self.open_packets = 0;
    }

    /// Streams of a connection that are in use.
    #[must_use]
    pub fn live_streams(&self, connection: ConnectionId) -> usize {
        let connection = self.connections.get(&connection.0);
        connection.map_or(0, |connection| connection.live_streams())
    }

    /// Whether a connection is ready: messages go at once, as far as there is room.
    #[must_use]
    pub fn is_connected(&self, connection: ConnectionId) -> bool {
        let connection = self.connections.get(&connection.0);
        connection.is_some_and(|connection| connection.is_ready())
    }
}
