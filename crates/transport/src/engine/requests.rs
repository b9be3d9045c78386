//! The table of operations under way.
//!
//! A request has an entry of one cache line, which is all that a short message touches of it: the receive that is posted,
//! which may wait for its message right there (`line`), and later its status. What other operations need to know lies in a
//! second table.

mod finished;
mod line;

use std::any::Any;

use limic_matching::PostedId;

use self::line::{InLine, Line};
pub(crate) use super::operations::{
    Incoming, Operation, ReceiveStage, Receiving, SendStage, Sending, receive_outcome,
};
use crate::buffer::{ReceiveBuffer, Room, Source};
use crate::error::Outcome;
use crate::raw::RequestId;
use crate::{Error, Status};

/// Position in the table; also the token in the posted queue.
pub(crate) type Slot = u32;

const NONE: u32 = u32::MAX;

/// What a request is now.
#[derive(Clone, Copy)]
enum State {
    Free,
    /// A receive that waits in line for its message.
    InLine(InLine),
    /// A receive into one piece in the posted queue; or one that was taken out of line, which has no place there.
    Posted {
        /// Its place there.
        id: PostedId,
        room: Room,
    },
    /// Another operation: see [`Rest::operation`].
    Other,
    /// Done, and waits to be asked for.
    Done(Status),
    /// Done, with [`Rest::error`].
    Failed,
}

/// What happens when an operation ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// It waits to be asked for.
    Keep,
    /// Nobody asks: the slot is freed, and then [`Rest::buffer`].
    Free,
    /// It goes to the end of the list of finished operations, under [`Rest::name`].
    List,
}

/// A request: what each has.
#[repr(align(64))]
struct Entry {
    generation: u32,
    /// The next free slot, the next receive in line, or the next finished operation of the list.
    next: u32,
    owner: u32,
    then: Then,
    state: State,
}

impl Entry {
    /// Makes it one of the free ones, under another name. Its state is free already.
    #[inline(always)]
    fn vacate(&mut self, next: u32) {
        self.generation = self.generation.wrapping_add(1).max(1);
        self.owner = 0;
        self.next = next;
        self.then = Then::Keep;
    }
}

const _: () = assert!(size_of::<Entry>() == 64, "one cache line");

/// Copies a status field by field. It may have been stored in such parts a moment ago, and one load of two of them would wait until both
/// stores are done, and all stores before them, of which some wait for lines that another core has.
#[inline(always)]
fn by_word(status: &Status) -> Status {
    /// Volatile, so that the compiler does not make one load of two.
    #[inline(always)]
    fn load<T: Copy>(word: &T) -> T {
        // SAFETY: a reference is valid, aligned and initialised.
        unsafe { core::ptr::from_ref(word).read_volatile() }
    }
    Status {
        peer: load(&status.peer),
        tag: load(&status.tag),
        len: load(&status.len),
        immediate: status.immediate.as_ref().map(load),
    }
}

/// What an endpoint can have under way.
pub(crate) trait Kind: Sized {
    /// None, or it is done.
    const OVER: Self;

    /// The operation that is a receive at this place of a posted queue, for one who wants to see it whole.
    fn posted(id: PostedId, into: ReceiveBuffer) -> Self;
}

impl Kind for Operation {
    const OVER: Self = Self::Over;

    fn posted(id: PostedId, into: ReceiveBuffer) -> Self {
        let stage = ReceiveStage::Posted { id };
        Self::Receive(Receiving { into, stage })
    }
}

/// What only some requests have.
struct Rest<O> {
    operation: O,
    error: Option<Error>,
    name: u64,
    buffer: Option<Box<dyn Any + Send>>,
}

impl<O: Kind> Rest<O> {
    const NOTHING: Self = Self {
        operation: O::OVER,
        error: None,
        name: 0,
        buffer: None,
    };
}

/// The table. Slots are reused last-in first-out, so that a steady state stays in the cache.
pub(crate) struct Requests<O = Operation> {
    entries: Vec<Entry>,
    /// As long as `entries`.
    rest: Vec<Rest<O>>,
    free: u32,
    /// Operations that belong to a scope.
    owned: usize,
    /// The scope of which one was asked for last, and where that was.
    found: (u32, usize),
    /// Receives that wait in line.
    line: Line,
    /// First and last of the list of finished operations, through `Entry::next`.
    finished: (u32, u32),
    /// Operations that were completed so far: tells whether anybody has something to look at.
    pub(crate) completed: u64,
}

impl<O: Kind> Requests<O> {
    pub(crate) fn new() -> Self {
        Self {
            entries: Vec::with_capacity(256),
            rest: Vec::with_capacity(256),
            free: NONE,
            owned: 0,
            found: (0, 0),
            line: Line::EMPTY,
            finished: (NONE, NONE),
            completed: 0,
        }
    }

    /// Takes a slot, still free to be filled. Allocates only when more are pending than ever before.
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
            generation: 1,
            next: NONE,
            owner: 0,
            then: Then::Keep,
            state: State::Free,
        });
        self.rest.push(Rest::NOTHING);
        (self.entries.len() - 1) as u32
    }

    /// Enters an operation.
    pub(crate) fn insert(&mut self, operation: O) -> Slot {
        let slot = self.take_slot();
        self.entries[slot as usize].state = State::Other;
        self.rest[slot as usize].operation = operation;
        slot
    }

    /// Enters an operation that is over, of a scope if `owner` is not 0.
    pub(crate) fn insert_done(&mut self, outcome: Outcome, owner: u32) -> RequestId {
        let slot = self.insert(O::OVER);
        self.complete(slot, outcome);
        self.set_owner(slot, owner);
        self.id(slot)
    }

    /// Enters a posted receive in a slot that was taken for it.
    pub(crate) fn post(
        &mut self,
        slot: Slot,
        id: PostedId,
        into: ReceiveBuffer,
        owner: u32,
    ) -> RequestId {
        self.owned += usize::from(owner != 0);
        let entry = &mut self.entries[slot as usize];
        entry.owner = owner;
        entry.state = match into.room() {
            Some(room) => State::Posted { id, room },
            None => {
                self.rest[slot as usize].operation = O::posted(id, into);
                State::Other
            }
        };
        name(entry.generation, slot)
    }

    /// Delivers a whole message to the posted receive that it matched. False if it does not fit, or if the receive is not just
    /// posted any more: it goes on then.
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

    /// The name of a slot's current operation.
    #[inline]
    pub(crate) fn id(&self, slot: Slot) -> RequestId {
        name(self.entries[slot as usize].generation, slot)
    }

    /// The slot that a name means, if its operation still exists. Names may come from peers.
    #[inline(always)]
    pub(crate) fn find(&self, id: RequestId) -> Option<Slot> {
        let slot = id.0 as u32;
        let entry = self.entries.get(slot as usize)?;
        (entry.generation == (id.0 >> 32) as u32 && !matches!(entry.state, State::Free))
            .then_some(slot)
    }

    /// The operation of a slot, whatever it is; of a receive that is in line, nothing.
    pub(crate) fn get(&mut self, slot: Slot) -> &mut O {
        let entry = &mut self.entries[slot as usize];
        let rest = &mut self.rest[slot as usize];
        if let State::Posted { id, room } = entry.state {
            entry.state = State::Other;
            rest.operation = O::posted(id, room.into());
        }
        &mut rest.operation
    }

    /// The operation of a slot, unless it is over, or a receive that only waits for its message.
    pub(crate) fn under_way(&self, slot: Slot) -> Option<&O> {
        let other = matches!(self.entries[slot as usize].state, State::Other);
        other.then(|| &self.rest[slot as usize].operation)
    }

    #[inline]
    pub(crate) fn is_done(&self, slot: Slot) -> bool {
        matches!(
            self.entries[slot as usize].state,
            State::Done(_) | State::Failed
        )
    }

    /// Ends a posted receive well. Its buffer is the owner's from here on.
    #[inline(always)]
    pub(crate) fn deliver(&mut self, slot: Slot, status: Status) {
        self.completed += 1;
        let entry = &mut self.entries[slot as usize];
        entry.state = State::Done(status);
        if entry.then != Then::Keep {
            self.go_on(slot);
        }
    }

    /// Ends an operation. Its buffer is the owner's from here on; an abandoned one is freed.
    pub(crate) fn complete(&mut self, slot: Slot, outcome: Outcome) {
        let entry = &mut self.entries[slot as usize];
        let rest = &mut self.rest[slot as usize];
        rest.operation = O::OVER;
        match outcome {
            Ok(status) => return self.deliver(slot, status),
            Err(error) => rest.error = Some(error),
        }
        self.completed += 1;
        entry.state = State::Failed;
        if entry.then != Then::Keep {
            self.go_on(slot);
        }
    }

    /// Takes the outcome of a finished operation and frees the slot.
    #[inline(always)]
    pub(crate) fn take_done(&mut self, slot: Slot) -> Option<Outcome> {
        let entry = &mut self.entries[slot as usize];
        match &entry.state {
            State::Done(status) => {
                let status = by_word(status);
                entry.state = State::Free;
                self.free_entry(slot);
                Some(Ok(status))
            }
            State::Failed => self.take_failed(slot),
            _ => None,
        }
    }

    /// The status of an operation that went well and is over; frees the slot. `None` in all other cases.
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
        let status = by_word(status);
        entry.state = State::Free;
        self.owned -= usize::from(entry.owner != 0);
        entry.vacate(self.free);
        self.free = slot;
        Some(status)
    }

    #[cold]
    fn take_failed(&mut self, slot: Slot) -> Option<Outcome> {
        let error = self.rest[slot as usize].error.take();
        self.entries[slot as usize].state = State::Free;
        self.free_entry(slot);
        error.map(Err)
    }

    /// Enters a slot, whose state is free already, in the list of free ones.
    #[inline(always)]
    fn free_entry(&mut self, slot: Slot) {
        let entry = &mut self.entries[slot as usize];
        self.owned -= usize::from(entry.owner != 0);
        entry.vacate(self.free);
        self.free = slot;
    }

    /// Frees a slot whatever is in it.
    pub(crate) fn release(&mut self, slot: Slot) {
        self.entries[slot as usize].state = State::Free;
        self.free_entry(slot);
        let rest = core::mem::replace(&mut self.rest[slot as usize], Rest::NOTHING);
        // The buffer of an abandoned operation must outlive the operation.
        drop(rest.operation);
        drop(rest.buffer);
    }

    #[inline]
    pub(crate) fn set_owner(&mut self, slot: Slot, owner: u32) {
        let entry = &mut self.entries[slot as usize];
        self.owned += usize::from(owner != 0);
        self.owned -= usize::from(entry.owner != 0);
        entry.owner = owner;
    }

    /// Some operation of a scope. Linear in the table, also for all of a scope together if it starts none meanwhile; unless no scope
    /// has any: a scope whose handles were all waited for ends at once.
    pub(crate) fn owned_by(&mut self, owner: u32) -> Option<RequestId> {
        if self.owned == 0 {
            return None;
        }
        let (last, from) = self.found;
        let from = if last == owner { from } else { 0 };
        let its = |entry: &Entry| entry.owner == owner;
        let slot = match self.entries.iter().skip(from).position(its) {
            Some(at) => from + at,
            None => self.entries.iter().position(its)?,
        };
        self.found = (owner, slot);
        Some(self.id(slot as u32))
    }

    /// Leaves an operation to itself; `buffer` is dropped when it is done. So is one of an earlier call, which the operation may
    /// still use.
    pub(crate) fn abandon(&mut self, slot: Slot, buffer: Box<dyn Any + Send>) {
        self.entries[slot as usize].then = Then::Free;
        let kept = &mut self.rest[slot as usize].buffer;
        *kept = Some(match kept.take() {
            Some(earlier) => Box::new((earlier, buffer)),
            None => buffer,
        });
        if self.is_done(slot) {
            self.release(slot);
        }
    }

    /// Slots in use, for a walk over all operations (failures only).
    pub(crate) fn slots(&self) -> Vec<Slot> {
        (0..self.entries.len() as u32)
            .filter(|slot| !matches!(self.entries[*slot as usize].state, State::Free))
            .collect()
    }

    /// Forgets the buffers of abandoned operations instead of freeing them: the last resort when an
    /// endpoint closes while a peer may still be copying.
    pub(crate) fn leak_abandoned(&mut self) {
        for rest in &mut self.rest {
            core::mem::forget(rest.buffer.take());
        }
    }
}

impl Requests {
    pub(crate) fn sending(&mut self, slot: Slot) -> Option<&mut Sending> {
        match &mut self.rest[slot as usize].operation {
            Operation::Send(sending) => Some(sending),
            _ => None,
        }
    }

    /// The place of a receive in the posted queue.
    pub(crate) fn posted_as(&mut self, slot: Slot) -> Option<PostedId> {
        match self.receiving(slot)?.stage {
            ReceiveStage::Posted { id } => Some(id),
            _ => None,
        }
    }

    pub(crate) fn receiving(&mut self, slot: Slot) -> Option<&mut Receiving> {
        match self.get(slot) {
            Operation::Receive(receiving) => Some(receiving),
            _ => None,
        }
    }
}

/// The name of a request.
#[inline(always)]
fn name(generation: u32, slot: Slot) -> RequestId {
    RequestId(u64::from(generation) << 32 | u64::from(slot))
}

impl<O> Requests<O> {
    /// Operations that there are.
    fn live(&self) -> usize {
        let used = |entry: &&Entry| !matches!(entry.state, State::Free);
        self.entries.iter().filter(used).count()
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
mod tests;
