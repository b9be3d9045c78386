//! Operations that are not waited for one by one by whoever posted them: those of a scope, and
//! those that were left to themselves.

use std::any::Any;

use super::entry::{Entry, OnCompletion};
use super::{OperationKind, RequestId, Requests, Slot};
use crate::engine_cell::Freed;
use crate::raw::Owner;

impl<O: OperationKind> Requests<O> {
    /// Whether buffers of abandoned operations are to be dropped.
    #[inline(always)]
    pub(crate) fn has_freed(&self) -> bool {
        !self.freed.is_empty()
    }

    /// The buffers of abandoned operations that are over.
    pub(crate) fn take_freed(&mut self) -> Freed {
        core::mem::take(&mut self.freed)
    }

    /// A number for a new scope, which no operation has.
    pub(crate) fn new_owner(&mut self) -> u32 {
        loop {
            self.last_owner = self.last_owner.wrapping_add(1).max(1);
            if self.owned_by(self.last_owner).is_none() {
                return self.last_owner;
            }
        }
    }

    #[inline(always)]
    pub(crate) fn set_owner(&mut self, slot: Slot, owner: Owner) {
        let entry = &mut self.entries[slot as usize];
        match owner {
            Owner::Caller => {}
            Owner::Scope(scope) => {
                self.owned += usize::from(scope != 0);
                self.owned -= usize::from(entry.owner != 0);
                entry.owner = scope;
            }
            Owner::List(name) => {
                entry.on_completion = OnCompletion::List;
                self.cold[slot as usize].name = name;
            }
        }
    }

    /// Some operation of a scope. Linear in the table, also for all of a scope together if it
    /// starts none meanwhile; constant if no scope has any. What is in the list of completions, or
    /// is the engine's own, has owner 0, which is no scope.
    pub(crate) fn owned_by(&mut self, owner: u32) -> Option<RequestId> {
        if self.owned == 0 || owner == 0 {
            return None;
        }
        let (last, from) = self.found;
        let from = if last == owner { from } else { 0 };
        let is_owned = |entry: &Entry| entry.owner == owner;
        let slot = match self.entries.iter().skip(from).position(is_owned) {
            Some(at) => from + at,
            None => self.entries.iter().position(is_owned)?,
        };
        self.found = (owner, slot);
        Some(self.id(slot as u32))
    }

    /// Leaves an operation to itself; `buffer` is dropped when the operation completes. So is a
    /// buffer of an earlier call, which the operation may still use.
    pub(crate) fn abandon(&mut self, slot: Slot, buffer: Box<dyn Any + Send>) {
        self.cold[slot as usize].buffers.push(buffer);
        self.leave_alone(slot);
    }

    /// Leaves an operation to itself: its slot is freed when it completes.
    pub(crate) fn leave_alone(&mut self, slot: Slot) {
        self.entries[slot as usize].on_completion = OnCompletion::Free;
        if self.is_done(slot) {
            self.release(slot);
        }
    }

    /// Forgets the buffers of abandoned operations instead of freeing them: the last resort when an
    /// endpoint closes while a peer may still be copying.
    pub(crate) fn leak_abandoned(&mut self) {
        for cold in &mut self.cold {
            core::mem::forget(core::mem::take(&mut cold.buffers));
        }
    }
}
