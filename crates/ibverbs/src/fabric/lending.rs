//! Rings lent to peers that talk a lot, and their pauses while this endpoint sleeps (`ring`
//! has the protocol).

use super::connection::OwnRing;
use super::ring::{Pause, RingIn, RingOut};
use super::sending::{LEND_RING, PAUSE_RING, RESUME_RING, RING_PAUSED};
use super::{ConnectionId, Fabric};
use crate::objects::{Access, Bytes, StableBytes};

/// Bytes of the message that lends a ring.
const LENT: usize = 8 + 8 + 2 + 2;
/// The packets before a ring is resumed double with each pause, so often at most.
const DOUBLINGS: u32 = 6;

impl Fabric {
    /// The peer talks a lot: it gets a ring.
    pub(super) fn lend_ring(&mut self, number: u32) {
        let (slots, slot_bytes) = (self.settings.ring_slots, self.settings.slot_bytes);
        if slots == 0 || self.rings_granted >= self.settings.rings || !self.may_poll(number) {
            return;
        }
        // Slots hold whole words.
        let slot_bytes = slot_bytes - slot_bytes % 8;
        let memory = match Bytes::zeroed(RingIn::bytes(slots, slot_bytes)) {
            Ok(memory) => memory,
            Err(_) => return,
        };
        // SAFETY: the memory is the ring's own, of which nobody holds a reference (it is read as
        // words and copied out), and the ring drops the registration first.
        let spread =
            unsafe { self.register(memory.start().as_ptr(), memory.len(), Access::REMOTE_WRITE) };
        let Ok(spread) = spread.map(std::sync::Arc::try_unwrap) else {
            return;
        };
        let Ok(spread) = spread else { return };
        let mut lent = [0; LENT];
        lent[..8].copy_from_slice(&spread.start().to_le_bytes());
        lent[8..16].copy_from_slice(&spread.remote_keys().to_le_bytes());
        lent[16..18].copy_from_slice(&slots.to_le_bytes());
        lent[18..].copy_from_slice(&slot_bytes.to_le_bytes());
        let id = ConnectionId(number);
        if self
            .send(id, LEND_RING, 0, LENT, |room| room.copy_from_slice(&lent))
            .is_err()
        {
            // Asked for again with the next packet.
            if let Some(connection) = self.connections.get_mut(&number) {
                connection.received = connection.received.saturating_sub(1);
            }
            return;
        }
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.ring_in = Some(Box::new(OwnRing {
                _registered: spread,
                memory,
                reader: RingIn::new(slots, slot_bytes),
                pause: Pause::No,
                pauses: 0,
                beside: 0,
            }));
            self.ring_connections.push(number);
            self.rings_granted += 1;
        }
    }

    /// Whether the last byte of a packet in a ring says that all others are there: if all adapters
    /// that the peer may write by promise that. Soft-RoCE has none, and copies in this order.
    fn may_poll(&self, number: u32) -> bool {
        let connection = self.connections.get(&number);
        let mut streams = connection
            .into_iter()
            .flat_map(|it| it.streams.iter().flatten());
        streams.all(|stream| {
            let limits = self.rails[stream.rail].domain.context().limits();
            limits.in_software || stream.pair.writes_come_in_order()
        })
    }

    /// A peer lends a ring.
    pub(super) fn borrow_ring(&mut self, number: u32, payload: &[u8]) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let Ok(bytes) = <[u8; LENT]>::try_from(payload) else {
            return self.corrupt(number, "a ring of the wrong form");
        };
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let ring = RingOut::new(
            word(0),
            word(8),
            u16::from_le_bytes([bytes[16], bytes[17]]),
            u16::from_le_bytes([bytes[18], bytes[19]]),
        );
        match ring {
            // After a stream has failed it is not known which slots were written.
            Some(ring) if connection.live_streams() == connection.streams.len() => {
                connection.ring_out = Some(ring);
            }
            Some(_) => {}
            None => self.corrupt(number, "a ring of impossible size"),
        }
    }

    /// This endpoint is about to sleep: asks the writers of all rings to pause. A writer
    /// that could not be asked now, or was passed over, is asked the next time.
    pub(super) fn pause_rings(&mut self) {
        let mut at = 0;
        // Sending may fail a connection, whose ring is out of the list then.
        while let Some(&number) = self.ring_connections.get(at) {
            at += 1;
            let ring = self.ring_of(number);
            if ring.is_none_or(|ring| ring.pause != Pause::No)
                || self
                    .send(ConnectionId(number), PAUSE_RING, 0, 0, |_| {})
                    .is_err()
            {
                continue;
            }
            if let Some(ring) = self.ring_of(number) {
                ring.pause = Pause::Asked;
                ring.pauses = ring.pauses.saturating_add(1);
                self.counts.ring_pauses += 1;
            }
        }
    }

    /// The writer has paused. Everything that it had written was before this in the connection's
    /// order, so it was read.
    pub(super) fn ring_paused(&mut self, number: u32) {
        match self.ring_of(number) {
            Some(ring) if ring.pause == Pause::Asked => {
                ring.pause = Pause::Granted;
                ring.beside = 0;
            }
            _ => self.corrupt(number, "an answer to a pause that nobody asked for"),
        }
    }

    /// Lets the writer go on if it talks a lot again.
    pub(super) fn resume_ring(&mut self, number: u32) {
        let after = self.settings.ring_after;
        let Some(ring) = self.ring_of(number) else {
            return;
        };
        let wanted = after.saturating_mul(1 << ring.pauses.saturating_sub(1).min(DOUBLINGS));
        if ring.beside < wanted {
            return;
        }
        let sent = self.send(ConnectionId(number), RESUME_RING, 0, 0, |_| {});
        if let (Ok(_), Some(ring)) = (sent, self.ring_of(number)) {
            ring.pause = Pause::No;
        }
    }

    /// The reader of the ring that this side writes into is about to sleep.
    pub(super) fn asked_to_pause(&mut self, number: u32) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        if let Some(ring) = &mut connection.ring_out {
            ring.paused = true;
        }
        connection.owes_pause = true;
        self.answer_pause(number);
    }

    /// Answers it, as soon as there is room. `ring_out` is paused already, so that the answer does
    /// not go there itself.
    pub(super) fn answer_pause(&mut self, number: u32) {
        let owed = self
            .connections
            .get(&number)
            .is_some_and(|connection| connection.owes_pause);
        if !owed {
            return;
        }
        let sent = self.send(ConnectionId(number), RING_PAUSED, 0, 0, |_| {});
        if let (Ok(_), Some(connection)) = (sent, self.connections.get_mut(&number)) {
            connection.owes_pause = false;
        }
    }

    /// The reader is awake again.
    pub(super) fn asked_to_resume(&mut self, number: u32) {
        let connection = self.connections.get_mut(&number);
        if let Some(ring) = connection.and_then(|it| it.ring_out.as_mut()) {
            ring.paused = false;
        }
    }

    fn ring_of(&mut self, number: u32) -> Option<&mut OwnRing> {
        self.connections.get_mut(&number)?.ring_in.as_deref_mut()
    }
}
