//! The first contact with a peer, and the clock: who has to be greeted again, and who is silent for
//! too long.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::ConnectionFailure;
use super::connection::{Connection, Known, Stage, Stream};
use super::greeting::{Greeting, LONGEST};
use super::rail::Rail;
use super::{ConnectionId, Event, Fabric, FabricAddress};
use crate::VerbsError;
use crate::objects::{
    Access, AddressHandle, Bytes, Completion, CompletionQueue, DatagramQueue, GRH_BYTES,
    LocalSlice, MemoryRegion, ProtectionDomain, QueuePairState, WorkKind, WorkStatus,
};
use crate::packet::Sequence;

/// Requests of the datagram queue have this bit in their number.
pub(super) const DATAGRAM: u64 = 1 << 62;

/// Datagrams that can be on their way, and be waiting to be read.
const SLOTS: u32 = 64;
/// Completions that greetings can have under way: one for each slot of either direction.
pub(super) const DATAGRAMS: u32 = 2 * SLOTS;
/// Bytes of a datagram with what the adapter puts before it.
const SLOT_BYTES: usize = 1024;
const _: () = assert!(LONGEST + GRH_BYTES <= SLOT_BYTES);

/// Peers that may be known; those without a connection are forgotten then.
const MOST_KNOWN: usize = 1 << 18;
/// The time before a greeting is repeated for the first time; it doubles each time, up to
/// [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// How long a ring is left alone whose writer has not agreed to a pause.
const RING_PAUSE: Duration = Duration::from_millis(1);

/// The queue for greetings, and its memory.
#[derive(Debug)]
pub(super) struct Greeter {
    // The queue before the memory that it may still fill.
    queue: DatagramQueue,
    memory: MemoryRegion<Bytes>,
    /// Ways that datagrams are using, and slots that are free.
    ways: Vec<Option<AddressHandle>>,
    free: Vec<u32>,
    domain: Arc<ProtectionDomain>,
    _completions: Arc<CompletionQueue>,
}

impl Greeter {
    pub(super) fn new(rail: &Rail) -> Result<Self, VerbsError> {
        let queue = DatagramQueue::new(&rail.domain, &rail.queue, &rail.port, SLOTS)?;
        // Receives first, sends behind them.
        let bytes = Bytes::zeroed(2 * SLOTS as usize * SLOT_BYTES)?;
        let greeter = Self {
            queue,
            memory: MemoryRegion::new(&rail.domain, bytes, Access::LOCAL)?,
            ways: (0..SLOTS).map(|_| None).collect(),
            free: (0..SLOTS).rev().collect(),
            domain: Arc::clone(&rail.domain),
            _completions: Arc::clone(&rail.queue),
        };
        for slot in 0..SLOTS {
            greeter.post_receive(slot)?;
        }
        Ok(greeter)
    }

    pub(super) fn number(&self) -> u32 {
        self.queue.number()
    }

    fn post_receive(&self, slot: u32) -> Result<(), VerbsError> {
        let at = slot as usize * SLOT_BYTES;
        let Some(slice) = LocalSlice::of(self.memory.registration(), at, SLOT_BYTES) else {
            return Ok(());
        };
        // SAFETY: the slot is not posted at this time; the region outlives the queue (field order).
        unsafe { self.queue.post_receive(DATAGRAM | u64::from(slot), slice) }
    }

    /// Sends a datagram if there is a slot; a lost one is repeated by the clock.
    fn send(&mut self, rail: &Rail, to: &FabricAddress, bytes: &[u8]) {
        let Some(slot) = self.free.pop() else { return };
        let at = (SLOTS + slot) as usize * SLOT_BYTES;
        self.memory.memory_mut().write(at, bytes);
        let sent = AddressHandle::new(&self.domain, &rail.port, &to.port).and_then(|way| {
            let slice = LocalSlice::of(self.memory.registration(), at, bytes.len());
            let Some(slice) = slice else { return Ok(()) };
            let id = DATAGRAM | 1 << 32 | u64::from(slot);
            // SAFETY: the slot is not in use until its completion; the handle is kept until then.
            unsafe { self.queue.send(id, slice, &way, to.greeter)? };
            self.ways[slot as usize] = Some(way);
            Ok(())
        });
        if let Err(error) = sent {
            self.free.push(slot);
            tracing::debug!("a greeting was not sent: {error}");
        }
    }
}

impl Fabric {
    /// Connects to a peer, at the first call; the connection is ready with [`Event::Connected`], or
    /// over with [`Event::Failed`]. A peer whose connection failed is tried anew, by another one.
    ///
    /// # Errors
    /// [`VerbsError`] if this side cannot make its queue pairs.
    pub fn connect(
        &mut self,
        to: &FabricAddress,
        peer: u64,
        secret: u64,
    ) -> Result<ConnectionId, VerbsError> {
        let number = self.enter(to, peer, secret)?;
        self.greet(number);
        Ok(ConnectionId(number))
    }

    /// The number of the connection with a peer, made if there is none that lives.
    fn enter(&mut self, to: &FabricAddress, peer: u64, secret: u64) -> Result<u32, VerbsError> {
        if let Some(known) = self.known.get(&peer) {
            if self.connections.contains_key(&known.connection) {
                return Ok(known.connection);
            }
        }
        let pairs = self.by_pair.len() + usize::from(self.settings.streams);
        for rail in &mut self.rails {
            rail.make_room(pairs, &self.settings)?;
        }
        let mut streams = Vec::new();
        for place in 0..self.settings.streams {
            let rail = usize::from(place) % self.rails.len();
            let pair = self.rails[rail].queue_pair(&self.settings)?;
            streams.push(Some(Stream {
                pair,
                rail,
                free: self.settings.send_entries,
                unsignalled: 0,
                posted: VecDeque::new(),
                next: 0,
            }));
        }
        let number = self.next_number;
        // The numbers of requests have room for so many.
        self.next_number = (number + 1) % (1 << 30);
        let pair = |stream: &Stream| ((stream.rail, stream.pair.number()), number);
        self.by_pair.extend(streams.iter().flatten().map(pair));
        if self.known.len() >= MOST_KNOWN {
            let lives = |known: &Known| self.connections.contains_key(&known.connection);
            self.known.retain(|_, known| lives(known));
        }
        let (connection, heard) = (number, 0);
        self.known.insert(peer, Known { connection, heard });
        let now = Instant::now();
        let connection = Connection {
            id: peer,
            secret,
            address: *to,
            stage: Stage::Greeting {
                since: now,
                next: now,
                tries: 0,
            },
            attempt: number + 1,
            heard,
            hello: Vec::new(),
            streams,
            packet_bytes: self.settings.packet_bytes,
            sequence: 0,
            last_sent: None,
            open: None,
            corked: false,
            again: VecDeque::new(),
            ring_out: None,
            ring_in: None,
            owes_pause: false,
            arrivals: Sequence::default(),
            last_received: None,
            received: 0,
            waiting: VecDeque::new(),
            turn: 0,
            heard_at: now,
            pinged_at: now,
        };
        self.connections.insert(number, Box::new(connection));
        Ok(number)
    }

    /// Says who this is and whom it heard.
    fn greet(&mut self, number: u32) {
        let Some(connection) = self.connections.get(&number) else {
            return;
        };
        let greeting = Greeting {
            to: connection.id,
            secret: connection.secret,
            from: self.id,
            attempt: connection.attempt,
            greeter: self.greeter.number(),
            answer_secret: self.secret,
            ready: connection.is_ready(),
            heard: connection.heard,
            packet_bytes: self.settings.packet_bytes,
            streams: connection
                .streams
                .iter()
                .flatten()
                .map(|stream| stream.pair.as_remote())
                .collect(),
            hello: self.hello.clone(),
        };
        let (to, bytes) = (connection.address, greeting.to_bytes());
        self.greeter.send(&self.rails[0], &to, &bytes);
    }

    /// A request of the datagram queue is over.
    pub(super) fn datagram_completed(&mut self, completion: &Completion) {
        let slot = completion.id as u32 % SLOTS;
        if completion.id & (1 << 32) != 0 {
            self.greeter.ways[slot as usize] = None;
            self.greeter.free.push(slot);
            return;
        }
        let good = completion.status == WorkStatus::Done && completion.kind == WorkKind::Receive;
        let mut bytes = core::mem::take(&mut self.scratch);
        bytes.clear();
        if good {
            let len = (completion.bytes as usize).clamp(GRH_BYTES, SLOT_BYTES) - GRH_BYTES;
            bytes.resize(len, 0);
            let at = slot as usize * SLOT_BYTES + GRH_BYTES;
            self.greeter.memory.memory().read(at, &mut bytes);
        }
        if let Err(error) = self.greeter.post_receive(slot) {
            tracing::error!("a receive for greetings is lost: {error}");
        }
        if let Some(greeting) = Greeting::from_bytes(&bytes) {
            self.greeted(&greeting);
        }
        self.scratch = bytes;
    }

    /// A greeting came. Anybody can send one, so nothing is believed without the secret.
    fn greeted(&mut self, greeting: &Greeting) {
        let stranger = greeting.to != self.id || greeting.secret != self.secret;
        if stranger || greeting.from == self.id || greeting.attempt == 0 {
            return;
        }
        if let Some(known) = self.known.get(&greeting.from).copied() {
            let connection = self.connections.get(&known.connection);
            let heard = connection.map_or(known.heard, |connection| connection.heard);
            let ahead = greeting.attempt.wrapping_sub(heard);
            let is_late = ahead > u32::MAX / 2 || ahead == 0 && connection.is_none();
            if heard != 0 && is_late {
                return;
            }
            if heard != 0 && ahead > 0 {
                // The peer has lost this connection, and begins anew.
                let why = ConnectionFailure::Lost("the peer connects anew".to_owned());
                self.end(known.connection, why);
            }
        }
        let from = FabricAddress {
            port: greeting.streams[0].address,
            greeter: greeting.greeter,
        };
        let number = match self.enter(&from, greeting.from, greeting.answer_secret) {
            Ok(number) => number,
            Err(error) => {
                tracing::warn!("peer {:#x} cannot be answered: {error}", greeting.from);
                return;
            }
        };
        if let Err(why) = self.hear(number, greeting) {
            self.end(number, why);
            return;
        }
        if !greeting.ready {
            self.greet(number);
        }
    }

    /// Takes in what a greeting says: connects the queue pairs at the first one, and is ready when
    /// the peer has heard this side.
    fn hear(&mut self, number: u32, greeting: &Greeting) -> Result<(), ConnectionFailure> {
        let Some(connection) = self.connections.get_mut(&number) else {
            return Ok(());
        };
        if connection.heard == 0 {
            if greeting.streams.len() != connection.streams.len() {
                // It greets on until its time is over; no queue pairs are made for that again.
                connection.heard = greeting.attempt;
                return Err(ConnectionFailure::Local(format!(
                    "it has {} streams and this side {}: give both the same number",
                    greeting.streams.len(),
                    connection.streams.len()
                )));
            }
            for (stream, remote) in connection.streams.iter_mut().zip(&greeting.streams) {
                let Some(stream) = stream else { continue };
                if stream.pair.state() == QueuePairState::Initialised {
                    stream
                        .pair
                        .connect(remote)
                        .map_err(|error| ConnectionFailure::Local(error.to_string()))?;
                }
            }
            connection.heard = greeting.attempt;
            connection.hello.clone_from(&greeting.hello);
            connection.packet_bytes = greeting.packet_bytes.clamp(256, self.settings.packet_bytes);
        }
        let was_heard = greeting.heard == connection.attempt;
        if was_heard {
            self.becomes_ready(number);
        }
        Ok(())
    }

    /// The peer knows this side, by its greeting or by a packet. True if that is news.
    pub(super) fn becomes_ready(&mut self, number: u32) -> bool {
        let Some(connection) = self.connections.get_mut(&number) else {
            return false;
        };
        if !matches!(connection.stage, Stage::Greeting { .. }) || connection.heard == 0 {
            return false;
        }
        connection.stage = Stage::Ready;
        connection.heard_at = Instant::now();
        connection.pinged_at = connection.heard_at;
        self.events.push_back(Event::Connected {
            connection: ConnectionId(number),
            peer: connection.id,
            hello: connection.hello.clone(),
        });
        true
    }

    /// Repeats greetings whose time has come, gives up those whose time is over, and asks silent
    /// peers.
    pub(super) fn look_at_the_clock(&mut self) {
        let now = Instant::now();
        self.looked_at = now;
        let mut from = 0;
        while let Some((&number, connection)) = self.connections.range_mut(from..).next() {
            from = number + 1;
            match &mut connection.stage {
                Stage::Greeting { since, next, tries } => {
                    let waited = now.duration_since(*since);
                    if waited > self.settings.greeting {
                        let why = ConnectionFailure::Unreachable(format!(
                            "not for {} ms",
                            waited.as_millis()
                        ));
                        self.end(number, why);
                    } else if now >= *next {
                        *next = now + (FIRST_PAUSE * (1 << (*tries).min(5))).min(LONGEST_PAUSE);
                        *tries += 1;
                        self.greet(number);
                    }
                }
                Stage::Ready => {
                    let silent = now.duration_since(connection.heard_at.max(connection.pinged_at));
                    if silent > self.settings.keep_alive {
                        self.ping(number);
                    }
                    self.post_again(number);
                    self.flush(number);
                    self.answer_pause(number);
                    self.post_parts(number);
                }
            }
        }
    }
}

/// How long a sleeper may sleep.
pub(super) fn longest_sleep(fabric: &Fabric) -> Option<Duration> {
    let pause = |connection: &Connection| match connection.stage {
        Stage::Greeting { .. } => FIRST_PAUSE,
        Stage::Ready if connection.must_be_polled() => RING_PAUSE,
        Stage::Ready => fabric.settings.keep_alive,
    };
    fabric.connections.values().map(|it| pause(it)).min()
}
