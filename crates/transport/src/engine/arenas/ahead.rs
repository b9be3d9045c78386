//! Room for messages that go ahead of their receivers: see `engine/ahead.rs`.

use limic_shm::ring::Memory;
use limic_shm::segment::LOAN_FLAGS;

use super::slots::Slots;
use super::{ALIGN, Arenas, LoanRecord, Room};
use crate::policy::lag::LONG;

impl Arenas {
    /// Room for a message of `len` bytes that goes ahead of its receiver. `None` if `budget` bytes of such messages are not taken yet, or three quarters of the flags are in use, by them or the
    /// application: the rest is for its loans.
    pub(crate) fn room_ahead(&mut self, len: usize, budget: u64) -> Option<Room> {
        self.reclaim_ahead();
        let need = len.max(1).checked_next_multiple_of(ALIGN)?;
        let full = |arenas: &Self| {
            arenas.ahead_bytes.saturating_add(need as u64) > budget
                || arenas.slots.unused_flags() <= LOAN_FLAGS as usize / 4
        };
        if full(self) {
            self.take_from_ended();
            // A peer that takes nothing must not hold back the others' room.
            self.end_ahead_if(Slots::is_back);
            if full(self) {
                return None;
            }
        }
        self.find(need).or_else(|| {
            self.grow(need, len, true).ok()?;
            self.find(need)
        })
    }

    /// Takes back what receivers have taken of the messages that went ahead.
    fn reclaim_ahead(&mut self) {
        // Receivers take in order, so one look at the oldest tells; another one that is done comes back with it.
        while self
            .ahead
            .front()
            .is_some_and(|oldest| self.slots.is_back(*oldest))
        {
            if let Some(oldest) = self.ahead.pop_front() {
                self.end_ahead(oldest);
            }
        }
    }

    /// Whether memory was made for messages that go ahead.
    pub(crate) fn has_ahead(&self) -> bool {
        self.arenas.iter().flatten().any(|arena| arena.ahead)
    }

    /// Gives the memory back that was made for messages that go ahead, as far as none of them lies there any more. Gives
    /// the numbers of these arenas, for the peers that have mapped them.
    pub(crate) fn retire_ahead(&mut self) -> Vec<u32> {
        self.reclaim_ahead();
        let mut retired = Vec::new();
        for (number, place) in self.arenas.iter_mut().enumerate() {
            if let Some(arena) = place.take_if(|arena| arena.ahead && arena.is_free()) {
                self.bytes -= arena.view.len();
                retired.push(number as u32);
            }
        }
        retired
    }

    /// Lends the room, which was filled, to a peer; also says how many messages to this peer are ahead already and not taken,
    /// or [`LONG`] if there are more. `None`, and the room is free again, if all flags are in use.
    pub(crate) fn go_ahead(&mut self, room: Room, peer: u32) -> Option<(LoanRecord, u32)> {
        let before = self.not_taken_by(peer);
        self.free_a_flag();
        let Some(slot) = self.slots.go_ahead(room, peer) else {
            self.free(room);
            return None;
        };
        self.ahead_bytes += room.len as u64;
        self.ahead.push_back(slot);
        Some((self.record(slot), before))
    }

    /// So many messages are ahead of a peer. Takes back what it has taken, as far as it looks: others may hold older ones for
    /// long, so that the peer would seem to lag with them.
    ///
    /// Reads a flag for each message that was taken since, and at most [`LONG`] others.
    fn not_taken_by(&mut self, peer: u32) -> u32 {
        let (mut count, mut at) = (0, 0);
        while count < LONG
            && let Some(flag) = self.ahead.get(at)
        {
            if self.slots.peer(*flag) != peer {
                at += 1;
            } else if !self.slots.is_back(*flag) {
                count += 1;
                at += 1;
            } else if let Some(taken) = self.ahead.remove(at) {
                self.end_ahead(taken);
            }
        }
        count
    }

    /// Undoes [`go_ahead`](Self::go_ahead) for a record that found no room in the ring.
    pub(crate) fn stay_behind(&mut self) {
        if let Some(slot) = self.ahead.pop_back() {
            self.end_ahead(slot);
        }
    }

    /// Takes back the messages of which this is said.
    pub(super) fn end_ahead_if(&mut self, is_over: impl Fn(&Slots, u32) -> bool) {
        for flag in core::mem::take(&mut self.ahead) {
            if is_over(&self.slots, flag) {
                self.end_ahead(flag);
            } else {
                self.ahead.push_back(flag);
            }
        }
    }

    fn end_ahead(&mut self, flag: u32) {
        let room = self.slots.end(flag);
        self.ahead_bytes -= room.len as u64;
        self.free(room);
    }
}

#[cfg(test)]
#[path = "ahead_tests.rs"]
mod tests;
