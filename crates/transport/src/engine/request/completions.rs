//! Operations that nobody waits for one by one: the list of those that have completed, in the order
//! of their completion.

use super::{NONE, OnCompletion, OperationKind, RequestId, Requests, Slot, State};
use crate::error::Outcome;
use crate::{Error, Result};

impl<O: OperationKind> Requests<O> {
    /// An operation that nobody waits for has completed.
    #[inline(always)]
    pub(super) fn after_completion(&mut self, slot: Slot) {
        match self.entries[slot as usize].on_completion {
            OnCompletion::Keep => {}
            OnCompletion::List => self.list(slot),
            OnCompletion::Free => self.release(slot),
        }
    }

    /// Puts a completed operation at the end of the list. From then on no id means it, and no scope
    /// owns it.
    #[inline(always)]
    fn list(&mut self, slot: Slot) {
        let entry = &mut self.entries[slot as usize];
        entry.next = NONE;
        entry.state = State::Listed(match entry.state {
            State::Done(status) => Some(status),
            _ => None,
        });
        self.owned -= usize::from(entry.owner != 0);
        entry.owner = 0;
        match self.entries.get_mut(self.completions.1 as usize) {
            Some(last) => last.next = slot,
            None => self.completions.0 = slot,
        }
        self.completions.1 = slot;
    }

    /// Has an operation listed under `name` as soon as it completes. One that was abandoned is not
    /// to be: it frees itself, with the buffers that it keeps.
    #[inline]
    pub(crate) fn watch(&mut self, id: RequestId, name: u64) -> Result<()> {
        let slot = self.find(id).ok_or(Error::UnknownRequest)?;
        let entry = &mut self.entries[slot as usize];
        if entry.on_completion == OnCompletion::Free {
            return Err(Error::UnknownRequest);
        }
        entry.on_completion = OnCompletion::List;
        self.cold[slot as usize].name = name;
        if self.is_done(slot) {
            self.list_late(slot);
        }
        Ok(())
    }

    /// An operation had completed when it was watched.
    #[cold]
    #[inline(never)]
    fn list_late(&mut self, slot: Slot) {
        self.list(slot);
    }

    /// The operation that is watched under `name` and has not completed. Linear.
    pub(crate) fn watched(&self, name: u64) -> Option<RequestId> {
        let slot = (0..self.entries.len() as u32).find(|slot| {
            let entry = &self.entries[*slot as usize];
            entry.on_completion == OnCompletion::List
                && self.cold[*slot as usize].name == name
                && entry.is_known()
                && !self.is_done(*slot)
        });
        slot.map(|slot| self.id(slot))
    }

    /// Takes the oldest operation out of the list, and frees its slot.
    #[inline]
    pub(crate) fn next_completed(&mut self) -> Option<(u64, Outcome)> {
        let slot = self.completions.0;
        let next = self.entries.get(slot as usize)?.next;
        self.completions.0 = next;
        if next == NONE {
            self.completions.1 = NONE;
        }
        let name = self.cold[slot as usize].name;
        Some((name, self.take_done(slot)?))
    }
}
