//! What becomes of operations that nobody waits for one by one: the list of those that are done, in the order of their ends.

use super::{Kind, NONE, RequestId, Requests, Slot, State, Then};
use crate::error::Outcome;

impl<O: Kind> Requests<O> {
    /// What happens to an operation that nobody waits for, now that it is over.
    pub(super) fn go_on(&mut self, slot: Slot) {
        match self.entries[slot as usize].then {
            Then::Keep => {}
            Then::List => self.list(slot),
            Then::Free => self.release(slot),
        }
    }

    /// Puts a finished operation at the end of the list.
    fn list(&mut self, slot: Slot) {
        self.entries[slot as usize].next = NONE;
        match self.entries.get_mut(self.finished.1 as usize) {
            Some(last) => last.next = slot,
            None => self.finished.0 = slot,
        }
        self.finished.1 = slot;
    }

    /// Has an operation listed under `name` as soon as it is done.
    #[inline]
    pub(crate) fn watch(&mut self, slot: Slot, name: u64) {
        let entry = &mut self.entries[slot as usize];
        let listed = entry.then == Then::List;
        entry.then = Then::List;
        self.rest[slot as usize].name = name;
        if !listed && self.is_done(slot) {
            self.list(slot);
        }
    }

    /// The operation that is watched under `name` and is not done. Linear.
    pub(crate) fn watched(&self, name: u64) -> Option<RequestId> {
        let slot = (0..self.entries.len() as u32).find(|slot| {
            let entry = &self.entries[*slot as usize];
            entry.then == Then::List
                && self.rest[*slot as usize].name == name
                && !matches!(entry.state, State::Free)
                && !self.is_done(*slot)
        });
        slot.map(|slot| self.id(slot))
    }

    /// Takes the oldest finished operation out of the list, and frees its slot.
    #[inline]
    pub(crate) fn next_finished(&mut self) -> Option<(u64, Outcome)> {
        let slot = self.finished.0;
        let next = self.entries.get(slot as usize)?.next;
        self.finished.0 = next;
        if next == NONE {
            self.finished.1 = NONE;
        }
        let name = self.rest[slot as usize].name;
        Some((name, self.take_done(slot)?))
    }
}
