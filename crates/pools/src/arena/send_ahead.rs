//! Room for messages that go ahead of their receivers.

use limic_shm::ring::Memory;
use limic_shm::segment::LOAN_FLAGS;
use limic_shm::system::now_ns;

use super::slots::Slots;
use super::{ALIGN, ArenaMessage, ArenaRange, Arenas};

/// Time without messages ahead after which their memory is given back: longer than a pause between
/// two phases of a program, since it takes long to make it again.
const IDLE_NS: u64 = 1_000_000_000;

impl Arenas {
    /// Room for a message of `len` bytes that goes ahead of its receiver. `None` if `budget` bytes
    /// of such messages are not taken yet, or three quarters of the flags are in use, by them or
    /// the application: the rest is for its loans.
    pub fn reserve_send_ahead(&mut self, len: usize, budget: u64) -> Option<ArenaRange> {
        self.reclaim_send_ahead();
        let need = len.max(1).checked_next_multiple_of(ALIGN)?;
        let full = |arenas: &Self| {
            arenas.send_ahead_bytes.saturating_add(need as u64) > budget
                || arenas.slots.unused_flags() <= LOAN_FLAGS as usize / 4
        };
        if full(self) {
            self.look_at_holders();
            // A peer that takes nothing must not hold back the others' room.
            self.end_send_ahead_if(Slots::is_back);
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
    fn reclaim_send_ahead(&mut self) {
        // Receivers take in order, so one look at the oldest tells; another one that is done comes
        // back with it.
        while self
            .send_ahead
            .front()
            .is_some_and(|oldest| self.slots.is_back(*oldest))
        {
            if let Some(oldest) = self.send_ahead.pop_front() {
                self.end_send_ahead(oldest);
            }
        }
    }

    /// Now and then: if no message has gone ahead for a while, gives the memory back that was made
    /// for them, as far as none of them lies there any more. Gives the numbers of these arenas, for
    /// the peers that have mapped them.
    #[cold]
    pub fn retire_idle_send_ahead(&mut self) -> Vec<u32> {
        let mut retired = Vec::new();
        if !self.arenas.iter().flatten().any(|arena| arena.send_ahead) {
            return retired;
        }
        let now = now_ns();
        if self.send_ahead_idle_since_ns == 0 {
            self.send_ahead_idle_since_ns = now;
        }
        if now - self.send_ahead_idle_since_ns < IDLE_NS {
            return retired;
        }
        self.reclaim_send_ahead();
        for (number, place) in self.arenas.iter_mut().enumerate() {
            if let Some(arena) = place.take_if(|arena| arena.send_ahead && arena.is_free()) {
                self.bytes -= arena.view.len();
                retired.push(number as u32);
            }
        }
        retired
    }

    /// Lends the room, which was filled with `len` bytes, to a peer. The message says how many
    /// before it are ahead of this peer and not taken, or `most` if there are more. `None`, and
    /// the room is free again: all flags are in use.
    pub fn lend_send_ahead(
        &mut self,
        range: ArenaRange,
        peer: u32,
        len: u64,
        most: u32,
    ) -> Option<ArenaMessage> {
        let before = self.not_taken_by(peer, most);
        self.free_a_flag();
        let Some(slot) = self.slots.lend_send_ahead(range, peer) else {
            self.free(range);
            return None;
        };
        self.send_ahead_bytes += range.len as u64;
        self.send_ahead_idle_since_ns = 0;
        self.send_ahead.push_back(slot);
        Some(self.message(slot, len, Some(before)))
    }

    /// So many messages are ahead of a peer. Takes back what it has taken, as far as it looks:
    /// others may hold older ones for long, so that the peer would seem to lag with them.
    ///
    /// Reads a flag for each message that was taken since, and at most `most` others.
    fn not_taken_by(&mut self, peer: u32, most: u32) -> u32 {
        let (mut count, mut at) = (0, 0);
        while count < most {
            let Some(flag) = self.send_ahead.get(at) else {
                break;
            };
            if self.slots.peer(*flag) != peer {
                at += 1;
            } else if !self.slots.is_back(*flag) {
                count += 1;
                at += 1;
            } else if let Some(taken) = self.send_ahead.remove(at) {
                self.end_send_ahead(taken);
            }
        }
        count
    }

    /// Undoes [`lend_send_ahead`](Self::lend_send_ahead) for a record that found no room in the
    /// ring.
    pub fn undo_send_ahead(&mut self) {
        if let Some(slot) = self.send_ahead.pop_back() {
            self.end_send_ahead(slot);
        }
    }

    /// Takes back the messages of which this is said.
    pub(super) fn end_send_ahead_if(&mut self, is_over: impl Fn(&Slots, u32) -> bool) {
        for flag in core::mem::take(&mut self.send_ahead) {
            if is_over(&self.slots, flag) {
                self.end_send_ahead(flag);
            } else {
                self.send_ahead.push_back(flag);
            }
        }
    }

    fn end_send_ahead(&mut self, flag: u32) {
        let range = self.slots.end(flag);
        self.send_ahead_bytes -= range.len as u64;
        self.free(range);
    }
}

#[cfg(test)]
#[path = "send_ahead_tests.rs"]
mod tests;
