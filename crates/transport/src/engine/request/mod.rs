//! The table of operations under way.
//!
//! An operation has an entry of one cache line, which is all that a short message touches of it:
//! the posted receive, which may wait for its message right there ([`posted_fifo`]), and later its
//! status. What other operations need lies in a second table.
//!
//! # Invariants
//! - An entry is in at most one list: the free entries, the posted fifo, or the completion list.
//!   All three go through `Entry::next`.
//! - No id means an operation in the completion list, and no scope owns it: only
//!   [`next_completed`](Requests::next_completed) takes it from there.
//! - An id is a slot and its generation. A slot that is freed gets another generation. Ids can be
//!   made up, so that no other invariant rests on who may know one.

mod by_kind;
pub(crate) mod completions;
mod entry;
pub(crate) mod operation;
mod owners;
pub(crate) mod posted_fifo;

use limic_matching::PostedId;
use limic_shm::bytes::{ReceiveBuffer, Source};
use limic_shm::system::FIRST_GENERATION;

pub(crate) use self::entry::OperationKind;
use self::entry::{ColdEntry, Entry, OnCompletion, State, copy_by_words};
use self::posted_fifo::PostedFifo;
use crate::engine_cell::Freed;
use crate::error::Outcome;
use crate::raw::{Owner, RequestId};
use crate::{Error, Status};
pub(crate) use operation::{
    Destination, EagerAssembly, Fragments, Incoming, Operation, ReceiveStage, Receiving, SendStage,
    Sending, sent,
};

/// Position in the table; also the token in the posted queue.
pub(crate) type Slot = u32;

const NONE: u32 = u32::MAX;

/// The table. Slots are reused last in, first out, so that a steady state stays in the cache.
pub(crate) struct Requests<O = Operation> {
    entries: Vec<Entry>,
    /// As long as `entries`.
    cold: Vec<ColdEntry<O>>,
    free: u32,
    /// Operations that belong to a scope.
    owned: usize,
    /// The scope of which an operation was asked for last, and where that operation was.
    found: (u32, usize),
    /// The scope that was made last.
    last_owner: u32,
    fifo: PostedFifo,
    /// First and last entry of the completion list.
    completions: (u32, u32),
    /// Operations that have completed so far.
    completed: u64,
    /// Buffers of abandoned operations that are over. Their `Drop` is the user's, and runs outside.
    freed: Freed,
}

impl<O: OperationKind> Requests<O> {
    pub(crate) fn new() -> Self {
        Self {
            entries: Vec::with_capacity(256),
            cold: Vec::with_capacity(256),
            free: NONE,
            owned: 0,
            found: (0, 0),
            last_owner: FIRST_GENERATION - 1,
            fifo: PostedFifo::EMPTY,
            completions: (NONE, NONE),
            completed: 0,
            freed: Freed::default(),
        }
    }

    /// Operations that have completed so far: a change says that somebody has something to look at.
    #[inline(always)]
    pub(crate) fn completed(&self) -> u64 {
        self.completed
    }

    /// Takes a slot, still free to be filled. Allocates only when more operations are pending than
    /// ever before.
    #[inline(always)]
    pub(crate) fn take_slot(&mut self) -> Slot {
        let slot = self.free;
        match self.entries.get(slot as usize) {
            Some(entry) => {
                self.free = entry.next;
                slot
            }
            None => self.add_slot(),
        }
    }

    #[cold]
    fn add_slot(&mut self) -> Slot {
        self.entries.push(Entry {
            generation: FIRST_GENERATION,
            next: NONE,
            owner: 0,
            on_completion: OnCompletion::Keep,
            state: State::Free,
        });
        self.cold.push(ColdEntry::NOTHING);
        (self.entries.len() - 1) as u32
    }

    /// Enters an operation.
    pub(crate) fn insert(&mut self, operation: O) -> Slot {
        let slot = self.take_slot();
        self.entries[slot as usize].state = State::Other;
        self.cold[slot as usize].operation = operation;
        slot
    }

    /// Enters an operation that is complete, of a scope if `owner` is not 0.
    pub(crate) fn insert_done(&mut self, outcome: Outcome, owner: u32) -> RequestId {
        let slot = self.insert(O::OVER);
        self.complete(slot, outcome);
        self.set_owner(slot, Owner::Scope(owner));
        self.id(slot)
    }

    /// Enters a receive of the posted queue in a slot that was taken for it.
    pub(crate) fn post(
        &mut self,
        slot: Slot,
        id: PostedId,
        into: ReceiveBuffer,
        owner: Owner,
    ) -> RequestId {
        self.set_owner(slot, owner);
        let entry = &mut self.entries[slot as usize];
        entry.state = match into.single_slice() {
            Some(room) => State::Posted { id, room },
            None => {
                self.cold[slot as usize].operation = O::posted(id, into);
                State::Other
            }
        };
        request_id(entry.generation, slot)
    }

    /// Delivers a whole message to the posted receive that it matched. False if the message does
    /// not fit, or if the receive is not in one slice any more: the receive goes on then.
    #[inline]
    pub(crate) fn deliver_posted(
        &mut self,
        slot: Slot,
        status: Status,
        source: &impl Source,
    ) -> bool {
        let Some(entry) = self.entries.get_mut(slot as usize) else {
            return false;
        };
        let State::Posted { room, .. } = entry.state else {
            return false;
        };
        if !room.fill(source) {
            return false;
        }
        self.deliver(slot, status);
        true
    }

    /// The id of a slot's current operation.
    #[inline]
    pub(crate) fn id(&self, slot: Slot) -> RequestId {
        request_id(self.entries[slot as usize].generation, slot)
    }

    /// The slot that an id means, if its operation still exists. Ids may come from peers.
    #[inline(always)]
    pub(crate) fn find(&self, id: RequestId) -> Option<Slot> {
        let slot = id.0 as u32;
        let entry = self.entries.get(slot as usize)?;
        (entry.generation == (id.0 >> 32) as u32 && entry.is_known()).then_some(slot)
    }

    /// The operation of a slot, whatever it is; nothing for a receive in the posted fifo.
    pub(crate) fn get(&mut self, slot: Slot) -> &mut O {
        let entry = &mut self.entries[slot as usize];
        let cold = &mut self.cold[slot as usize];
        if let State::Posted { id, room } = entry.state {
            entry.state = State::Other;
            cold.operation = O::posted(id, room.into());
        }
        &mut cold.operation
    }

    /// The operation of a slot, unless it is complete or only waits for its message.
    pub(crate) fn under_way(&self, slot: Slot) -> Option<&O> {
        let other = matches!(self.entries[slot as usize].state, State::Other);
        other.then(|| &self.cold[slot as usize].operation)
    }

    #[inline]
    pub(crate) fn is_done(&self, slot: Slot) -> bool {
        matches!(
            self.entries[slot as usize].state,
            State::Done(_) | State::Failed
        )
    }

    /// Whether an operation is complete, or was and is gone.
    #[inline]
    pub(crate) fn is_over(&self, id: RequestId) -> bool {
        self.find(id).is_none_or(|slot| self.is_done(slot))
    }

    /// Completes a receive well. Its buffer is the owner's from here on.
    #[inline(always)]
    fn deliver(&mut self, slot: Slot, status: Status) {
        self.completed += 1;
        let entry = &mut self.entries[slot as usize];
        entry.state = State::Done(status);
        if entry.on_completion != OnCompletion::Keep {
            self.after_completion(slot);
        }
    }

    /// Completes an operation. Its buffer is the owner's from here on; an abandoned one is to be
    /// dropped.
    pub(crate) fn complete(&mut self, slot: Slot, outcome: Outcome) {
        let entry = &mut self.entries[slot as usize];
        let cold = &mut self.cold[slot as usize];
        cold.operation = O::OVER;
        match outcome {
            Ok(status) => return self.deliver(slot, copy_by_words(&status)),
            Err(error) => cold.error = Some(error),
        }
        self.completed += 1;
        entry.state = State::Failed;
        if entry.on_completion != OnCompletion::Keep {
            self.after_completion(slot);
        }
    }

    /// Takes the outcome of a completed operation, in the completion list or not, and frees the
    /// slot.
    #[inline(always)]
    pub(crate) fn take_done(&mut self, slot: Slot) -> Option<Outcome> {
        let entry = &mut self.entries[slot as usize];
        match &entry.state {
            State::Done(status) | State::Listed(Some(status)) => {
                let status = copy_by_words(status);
                self.free_entry(slot);
                Some(Ok(status))
            }
            State::Failed | State::Listed(None) => self.take_failed(slot),
            _ => None,
        }
    }

    /// The status of an operation that has completed well; frees the slot. `None` in all other
    /// cases.
    #[inline(always)]
    pub(crate) fn take_status(&mut self, id: RequestId) -> Option<Status> {
        let slot = id.0 as u32;
        let entry = self.entries.get_mut(slot as usize)?;
        if entry.generation != (id.0 >> 32) as u32 {
            return None;
        }
        let State::Done(status) = &entry.state else {
            return None;
        };
        let status = copy_by_words(status);
        entry.state = State::Free;
        self.owned -= usize::from(entry.owner != 0);
        entry.release(self.free);
        self.free = slot;
        Some(status)
    }

    /// The outcome of an operation if it is over, which frees its slot. One that was abandoned may
    /// have freed itself, and its slot be another's: who waits asks by the id each time.
    #[inline(always)]
    pub(crate) fn take_outcome(&mut self, id: RequestId) -> Option<Outcome> {
        match self.find(id) {
            None => Some(Err(Error::UnknownRequest)),
            Some(slot) => self.take_done(slot),
        }
    }

    /// The same of the first of several that is over, and its place.
    pub(crate) fn take_any(&mut self, ids: &[RequestId]) -> Option<(usize, Outcome)> {
        let mut ids = ids.iter().enumerate();
        ids.find_map(|(at, id)| Some((at, self.take_outcome(*id)?)))
    }

    #[cold]
    fn take_failed(&mut self, slot: Slot) -> Option<Outcome> {
        let error = self.cold[slot as usize].error.take();
        self.free_entry(slot);
        error.map(Err)
    }

    /// Puts a slot into the list of free ones.
    #[inline(always)]
    fn free_entry(&mut self, slot: Slot) {
        let entry = &mut self.entries[slot as usize];
        entry.state = State::Free;
        self.owned -= usize::from(entry.owner != 0);
        entry.release(self.free);
        self.free = slot;
    }

    /// Frees a slot whatever is in it, unless it is in the completion list.
    pub(crate) fn release(&mut self, slot: Slot) {
        self.free_entry(slot);
        let cold = core::mem::replace(&mut self.cold[slot as usize], ColdEntry::NOTHING);
        // The buffers of an abandoned operation must outlive the operation.
        drop(cold.operation);
        self.freed.add(cold.buffers);
    }

    /// The ids of these operations.
    pub(crate) fn ids(&self) -> Vec<RequestId> {
        let slots = self.slots().into_iter();
        slots.map(|slot| self.id(slot)).collect()
    }

    /// Slots of operations that ids mean, for a walk over all of them. Linear: failures only.
    pub(crate) fn slots(&self) -> Vec<Slot> {
        (0..self.entries.len() as u32)
            .filter(|slot| self.entries[*slot as usize].is_known())
            .collect()
    }
}

#[inline(always)]
fn request_id(generation: u32, slot: Slot) -> RequestId {
    RequestId(u64::from(generation) << 32 | u64::from(slot))
}

impl<O> Requests<O> {
    /// Whether no operation is in the table, completed ones included. Linear.
    pub(crate) fn is_empty(&self) -> bool {
        self.live() == 0
    }

    /// Operations in the table, completed ones included.
    fn live(&self) -> usize {
        let free = |entry: &&Entry| matches!(entry.state, State::Free);
        self.entries.len() - self.entries.iter().filter(free).count()
    }
}

impl<O> core::fmt::Debug for Requests<O> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Requests")
            .field("live", &self.live())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod any_ids;
#[cfg(test)]
mod tests;
