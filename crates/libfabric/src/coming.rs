//! What comes: packets, and the ends of operations.

use limic_fabric::{Arrivals, ConnectionFailure, ConnectionId, Event};

use crate::device::{Failure, Looked, Posted, ROOM};
use crate::fabric::OfiFabric;
use crate::packet::{Greeting, Header, Kind, take};
use crate::pool::{Operation, Owner, Slot};

/// Packets of one peer that may overtake each other.
const MOST_EARLY: u64 = 64;
/// Polls between two looks at the clock.
const CLOCK_EVERY: u32 = 64;

impl OfiFabric {
    /// The next event; the messages of one are in `arrivals`.
    pub(crate) fn take_next(&mut self, arrivals: &mut Arrivals) -> Option<Event> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        self.turn = self.turn.wrapping_add(1);
        if self.turn % CLOCK_EVERY == 0 {
            self.look_at_the_clock();
        }
        if let Some(event) = self.take_early(arrivals) {
            return Some(event);
        }
        if self.ended.is_empty() {
            self.look();
            self.try_again();
            self.post_reads();
            self.ask();
        }
        while let Some((slot, len)) = self.ended.pop_front() {
            if let Some(owner) = self.sending.remove(slot) {
                self.has_gone(slot, owner);
            } else {
                let came = self.has_come(slot, len, arrivals);
                self.receive_into(slot);
                if came {
                    return Some(Event::Messages);
                }
            }
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
        }
        let event = self.events.pop_front();
        event.or_else(|| self.take_early(arrivals))
    }

    /// Asks the provider what has ended.
    pub(crate) fn look(&mut self) {
        for slot in core::mem::take(&mut self.unposted) {
            self.receive_into(slot);
        }
        let mut ended = ROOM;
        match self.device.look(&mut ended) {
            Looked::Nothing => {}
            Looked::Ended(count) => {
                for (operation, len) in &ended[..count] {
                    match *operation {
                        Operation::Packet(slot) => self.ended.push_back((slot, *len)),
                        Operation::Read(number) => self.part_ended(number, Ok(())),
                    }
                }
            }
            Looked::Failed(operation, failure) => self.has_failed(operation, failure),
            Looked::Broken(why) => {
                let all: Vec<u32> = self.connections.keys().copied().collect();
                for number in all {
                    self.lose(number, format!("libfabric's queue is broken: {why}"));
                }
            }
        }
    }

    /// A packet was sent.
    fn has_gone(&mut self, slot: Slot, owner: Owner) {
        self.device.pool.give_back(slot);
        let Owner::Connection(number) = owner else {
            return;
        };
        if let Some(connection) = self.connection(number) {
            connection.posted -= 1;
            connection.moved = true;
            self.note_held(number);
        }
    }

    /// An operation has failed. A send that has, was to a peer that is not reached; a receive that
    /// has, was of a packet that is none of limic.
    fn has_failed(&mut self, operation: Option<Operation>, failure: Failure) {
        let slot = match operation {
            Some(Operation::Packet(slot)) => slot,
            Some(Operation::Read(number)) => return self.part_ended(number, Err(failure)),
            None => {
                let why = failure.why;
                return tracing::debug!("an operation that nobody knows has failed: {why}");
            }
        };
        let why = failure.why;
        match self.sending.remove(slot) {
            Some(owner) => {
                self.device.pool.give_back(slot);
                if let Owner::Connection(number) = owner {
                    if let Some(connection) = self.connection(number) {
                        connection.posted -= 1;
                    }
                    self.lose(number, why);
                }
            }
            None => {
                self.counts.refused += 1;
                if let Posted::Failed(why) = self.receive_into(slot) {
                    tracing::debug!("a packet cannot be received into: {why}");
                }
            }
        }
    }

    /// A packet has come. True if there are messages in `arrivals`.
    fn has_come(&mut self, slot: Slot, len: usize, arrivals: &mut Arrivals) -> bool {
        let bytes = self.device.pool.bytes(slot);
        // A greeting is small, and messages are copied once: out of the packet, into `arrivals`.
        let Some((header, more)) = bytes.get(..len).and_then(Header::split) else {
            self.counts.refused += 1;
            return false;
        };
        let number = header.number;
        if header.kind == Kind::Hello {
            let more = more.to_vec();
            self.called(header, &more);
            return false;
        }
        let Some(connection) = self
            .connections
            .get_mut(&number)
            .filter(|connection| connection.token == header.token)
        else {
            let more = (header.kind == Kind::Welcome).then(|| more.to_vec());
            self.came_late(header, more.as_deref());
            return false;
        };
        connection.heard = true;
        match header.kind {
            Kind::Hello => false,
            Kind::Welcome => {
                let more = more.to_vec();
                self.answered(number, &more);
                false
            }
            Kind::Left => {
                let why = "it has ended the connection".to_owned();
                self.fail(number, ConnectionFailure::Lost(why));
                false
            }
            Kind::Data | Kind::Goodbye => {
                let goodbye = header.kind == Kind::Goodbye;
                let is_next = header.sequence == connection.expected && connection.is_ready();
                if !is_next {
                    let ahead = header.sequence.checked_sub(connection.expected);
                    let fits = ahead.is_some_and(|ahead| ahead < MOST_EARLY);
                    let early = (goodbye, more.to_vec());
                    if !fits || connection.early.insert(header.sequence, early).is_some() {
                        let why = "packets without order".to_owned();
                        self.fail(number, ConnectionFailure::Corrupt(why));
                    }
                    return false;
                }
                if connection.early.contains_key(&(header.sequence + 1)) {
                    self.deliverable.push_back(number);
                }
                connection.expected += 1;
                arrivals.begin(ConnectionId(number));
                let taken = take(more, arrivals);
                self.was_taken(number, goodbye, taken, arrivals)
            }
        }
    }

    /// A packet has come over no connection. If one has been here, the peer is told that it is
    /// over: it may have been given up without the peer's knowing, or what told it was lost.
    fn came_late(&mut self, header: Header, welcome: Option<&[u8]>) {
        let over = self.over.get(&header.number).copied();
        let Some(over) = over.filter(|over| over.token == header.token) else {
            self.counts.refused += 1;
            return;
        };
        let said = welcome.and_then(Greeting::from_bytes);
        let remote = over.remote.or_else(|| said?.remote());
        if let Some(remote) = remote.filter(|_| header.kind != Kind::Left) {
            self.send_left(remote, over.address);
        }
    }

    /// The next packet of a connection has come before.
    fn take_early(&mut self, arrivals: &mut Arrivals) -> Option<Event> {
        while let Some(number) = self.deliverable.pop_front() {
            let Some(connection) = self.connections.get_mut(&number) else {
                continue;
            };
            let Some((goodbye, messages)) = connection.early.remove(&connection.expected) else {
                continue;
            };
            connection.expected += 1;
            self.deliverable.push_front(number);
            arrivals.begin(ConnectionId(number));
            let taken = take(&messages, arrivals);
            if self.was_taken(number, goodbye, taken, arrivals) {
                return Some(Event::Messages);
            }
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
        }
        None
    }

    /// The messages of a packet are in `arrivals`. True if there are any.
    fn was_taken(
        &mut self,
        number: u32,
        goodbye: bool,
        taken: Result<(), String>,
        arrivals: &Arrivals,
    ) -> bool {
        match taken {
            Ok(()) if goodbye => self.fail(number, ConnectionFailure::Closed),
            Ok(()) => return !arrivals.is_empty(),
            Err(why) => self.fail(number, ConnectionFailure::Corrupt(why)),
        }
        false
    }
}
