//! The table of operations under way.

use std::any::Any;

use limic_matching::PostedId;

use crate::buffer::{ReceiveBuffer, SendBuffer};
use crate::error::Outcome;
use crate::policy::Path;
use crate::raw::RequestId;
use crate::{Peer, Status, Tag};

/// Position in the table; also the token in the posted queue.
pub(crate) type Slot = u32;

const NONE: u32 = u32::MAX;

/// One operation.
pub(crate) enum Operation {
    /// The slot is free.
    Free,
    /// Done; its outcome waits beside it to be asked for.
    Done,
    /// A send, or a one-sided write.
    Send(Sending),
    /// A receive, or a one-sided read.
    Receive(Receiving),
}

/// A send under way.
pub(crate) struct Sending {
    pub(crate) to: u32,
    pub(crate) tag: u64,
    pub(crate) immediate: Option<u64>,
    pub(crate) data: SendBuffer,
    pub(crate) stage: SendStage,
}

/// What a table holds: operations that pass through two states alike.
pub(crate) trait Kind {
    /// The slot is free.
    const FREE: Self;
    /// Over; its outcome waits beside it.
    const DONE: Self;
    /// Whether the slot is free.
    fn is_free(&self) -> bool;
    /// Whether it is over.
    fn is_done(&self) -> bool;
}

impl Kind for Operation {
    const FREE: Self = Self::Free;
    const DONE: Self = Self::Done;
    #[inline(always)]
    fn is_free(&self) -> bool {
        matches!(self, Self::Free)
    }
    #[inline(always)]
    fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }
}

/// Where a send stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendStage {
    /// Waits for the peer to be attached, or for room in its ring.
    Queued,
    /// Offered; the receiver has not answered.
    Offered {
        /// Cancellation was asked for.
        retracting: bool,
    },
    /// Goes through chunks.
    Streaming {
        /// The receiver's request.
        remote: u64,
        /// Next byte.
        at: u64,
        /// First byte that is not wanted.
        end: u64,
        /// A one-sided write: done only when the owner says so.
        confirm: bool,
    },
    /// A one-sided write whose bytes are on their way.
    Confirming,
    /// Writes from the back while the receiver reads from the front.
    #[cfg_attr(not(feature = "cma"), expect(dead_code, reason = "single copy only"))]
    Back(Halves),
    /// Writes into the receiver's room through the kernel module.
    Writing {
        /// The receiver's request.
        remote: u64,
        /// The handle of its room.
        handle: u64,
        /// Next byte.
        at: u64,
        /// First byte that is not wanted.
        end: u64,
    },
    /// Lies in this endpoint's own unexpected queue.
    Local,
    /// A one-sided write, waits for the owner of the region.
    Put {
        /// The key of the region.
        key: u64,
        /// Where in the region.
        offset: u64,
    },
}

/// A receive under way.
pub(crate) struct Receiving {
    pub(crate) into: ReceiveBuffer,
    pub(crate) stage: ReceiveStage,
}

/// Where a receive stands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReceiveStage {
    /// In the posted queue.
    Posted {
        /// Its place there.
        id: PostedId,
    },
    /// Comes through chunks.
    Assembling(Incoming),
    /// Is being read out of the sender's memory.
    Reading(Incoming),
    /// Is read from the front while the sender writes from the back.
    #[cfg_attr(not(feature = "cma"), expect(dead_code, reason = "single copy only"))]
    Front(Incoming, Halves),
    /// The sender writes into its room, which is exposed under this handle of the kernel module.
    Exposed(Incoming, u64),
    /// A one-sided read, waits for the owner of the region.
    Get {
        /// The region's owner.
        from: u32,
        /// Where in the region.
        offset: u64,
        /// Bytes that have come.
        got: u64,
    },
}

/// A long message on its way in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming {
    pub(crate) from: u32,
    pub(crate) tag: u64,
    pub(crate) immediate: Option<u64>,
    /// Length of the message in bytes.
    pub(crate) sent: u64,
    /// Bytes of it that are wanted.
    pub(crate) wanted: u64,
    /// Bytes that have come.
    pub(crate) got: u64,
    /// The sender's request.
    pub(crate) remote: u64,
    /// Where the bytes lie in the sender (single copy).
    pub(crate) address: u64,
    /// Under which handle (single copy by an engine that has handles).
    pub(crate) key: u64,
    /// How it comes.
    pub(crate) path: Path,
    /// For a write into a region of this endpoint: its slot.
    pub(crate) region: Option<u32>,
    /// The spell in which it is measured, if it is; see `policy::adapt`.
    pub(crate) spell: Option<u32>,
}

/// A copy made by both sides: one side's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Halves {
    /// The meet word, in the receiver's segment.
    pub(crate) meet: u32,
    /// Bytes to copy in all.
    pub(crate) total: u64,
    /// Blocks that this side has copied.
    pub(crate) mine: u32,
    /// Blocks that the sender says it has copied (the receiver's view).
    pub(crate) theirs: Option<u32>,
    /// This side found no block left, or failed.
    pub(crate) finished: bool,
    /// The receiver's request (the sender's view).
    pub(crate) remote: u64,
    /// The receiver's room (the sender's view).
    pub(crate) address: u64,
    /// Its handle.
    pub(crate) key: u64,
}

impl Incoming {
    /// What the receive reports when all wanted bytes are there.
    pub(crate) fn outcome(&self) -> Outcome {
        receive_outcome(self.from, self.tag, self.immediate, self.sent, self.wanted)
    }
}

/// The outcome of a receive that delivered the first `room` bytes, or all, of a message.
#[inline]
pub(crate) fn receive_outcome(
    from: u32,
    tag: u64,
    immediate: Option<u64>,
    sent: u64,
    room: u64,
) -> Outcome {
    if sent > room {
        return Err(crate::Error::Truncated {
            peer: Peer(from),
            tag: Tag(tag),
            sent,
            buffer: room,
            immediate,
        });
    }
    Ok(Status {
        peer: Peer(from),
        tag: Tag(tag),
        len: sent,
        immediate,
    })
}

/// What happens when an operation ends.
enum Then {
    /// It waits to be asked for.
    Keep,
    /// Nobody asks: the slot is freed, and then the buffer.
    Free(Box<dyn Any + Send>),
    /// It goes to the end of the list of finished operations, under this name.
    List(u64),
}

struct Entry<O> {
    generation: u32,
    /// The next free slot, or the next finished operation of the list.
    next: u32,
    owner: u32,
    then: Then,
    /// Of a finished operation. Beside the operation and not in it, so that completing and asking move
    /// 40 bytes and not the whole of it.
    outcome: Outcome,
    operation: O,
}

/// What stands in the place of an outcome while there is none; of the kind that owns nothing, so that
/// nothing is dropped when it goes.
const NO_OUTCOME: Outcome = Ok(Status {
    peer: Peer(u32::MAX),
    tag: Tag(0),
    len: 0,
    immediate: None,
});

/// The table. Slots are reused last-in first-out, so that a steady state stays in the cache.
pub(crate) struct Requests<O = Operation> {
    entries: Vec<Entry<O>>,
    free: u32,
    live: usize,
    /// Operations that belong to a scope.
    owned: usize,
    /// First and last of the list of finished operations, through `Entry::next`.
    finished: (u32, u32),
    /// Operations that were completed so far: tells whether anybody has something to look at.
    pub(crate) completed: u64,
}

impl<O: Kind> Requests<O> {
    pub(crate) fn new() -> Self {
        Self {
            entries: Vec::with_capacity(256),
            free: NONE,
            live: 0,
            owned: 0,
            finished: (NONE, NONE),
            completed: 0,
        }
    }

    /// Takes a slot, still free to be filled. Allocates only when more are pending than ever before.
    #[inline]
    pub(crate) fn take_slot(&mut self) -> Slot {
        self.live += 1;
        if self.free != NONE {
            let slot = self.free;
            self.free = self.entries[slot as usize].next;
            return slot;
        }
        let slot = self.entries.len() as u32;
        self.entries.push(Entry {
            generation: 1,
            next: NONE,
            owner: 0,
            then: Then::Keep,
            outcome: NO_OUTCOME,
            operation: O::FREE,
        });
        slot
    }

    /// Enters an operation.
    pub(crate) fn insert(&mut self, operation: O) -> Slot {
        let slot = self.take_slot();
        *self.get(slot) = operation;
        slot
    }

    /// The name of a slot's current operation.
    #[inline]
    pub(crate) fn id(&self, slot: Slot) -> RequestId {
        RequestId(u64::from(self.entries[slot as usize].generation) << 32 | u64::from(slot))
    }

    /// The slot that a name means, if its operation still exists. Names may come from peers.
    #[inline]
    pub(crate) fn find(&self, id: RequestId) -> Option<Slot> {
        let slot = id.0 as u32;
        let entry = self.entries.get(slot as usize)?;
        (entry.generation == (id.0 >> 32) as u32 && !entry.operation.is_free()).then_some(slot)
    }

    #[inline]
    pub(crate) fn get(&mut self, slot: Slot) -> &mut O {
        &mut self.entries[slot as usize].operation
    }

    #[inline]
    pub(crate) fn is_done(&self, slot: Slot) -> bool {
        self.entries[slot as usize].operation.is_done()
    }

    /// Ends an operation. Its buffer is the owner's from here on; an abandoned one is freed.
    #[inline]
    pub(crate) fn complete(&mut self, slot: Slot, outcome: Outcome) {
        self.completed += 1;
        let entry = &mut self.entries[slot as usize];
        entry.outcome = outcome;
        entry.operation = O::DONE;
        match entry.then {
            Then::Keep => {}
            Then::List(_) => self.list(slot),
            Then::Free(_) => self.release(slot),
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
        let listed = matches!(entry.then, Then::List(_));
        entry.then = Then::List(name);
        if !listed && self.is_done(slot) {
            self.list(slot);
        }
    }

    /// Takes the oldest finished operation out of the list, and frees its slot.
    #[inline]
    pub(crate) fn next_finished(&mut self) -> Option<(u64, Outcome)> {
        let slot = self.finished.0;
        let entry = self.entries.get_mut(slot as usize)?;
        self.finished.0 = entry.next;
        if entry.next == NONE {
            self.finished.1 = NONE;
        }
        let name = match entry.then {
            Then::List(name) => name,
            _ => 0,
        };
        let outcome = core::mem::replace(&mut entry.outcome, NO_OUTCOME);
        self.release(slot);
        Some((name, outcome))
    }

    /// Takes the outcome of a finished operation and frees the slot.
    #[inline]
    pub(crate) fn take_done(&mut self, slot: Slot) -> Option<Outcome> {
        if !self.is_done(slot) {
            return None;
        }
        let outcome = core::mem::replace(&mut self.entries[slot as usize].outcome, NO_OUTCOME);
        self.release(slot);
        Some(outcome)
    }

    /// Frees a slot whatever is in it.
    #[inline]
    pub(crate) fn release(&mut self, slot: Slot) {
        let entry = &mut self.entries[slot as usize];
        entry.generation = entry.generation.wrapping_add(1).max(1);
        self.owned -= usize::from(entry.owner != 0);
        entry.owner = 0;
        entry.next = self.free;
        self.free = slot;
        self.live -= 1;
        entry.operation = O::FREE;
        // Only now: the buffer of an abandoned operation must outlive the operation.
        entry.then = Then::Keep;
    }

    pub(crate) fn set_owner(&mut self, slot: Slot, owner: u32) {
        let entry = &mut self.entries[slot as usize];
        self.owned += usize::from(owner != 0);
        self.owned -= usize::from(entry.owner != 0);
        entry.owner = owner;
    }

    /// Some operation of a scope. Linear in the table, unless no scope has any: a scope whose handles
    /// were all waited for ends at once.
    pub(crate) fn owned_by(&self, owner: u32) -> Option<RequestId> {
        if self.owned == 0 {
            return None;
        }
        let slot = self.entries.iter().position(|entry| entry.owner == owner)?;
        Some(self.id(slot as u32))
    }

    /// Leaves an operation to itself; `buffer` is dropped when it is done.
    pub(crate) fn abandon(&mut self, slot: Slot, buffer: Box<dyn Any + Send>) {
        self.entries[slot as usize].then = Then::Free(buffer);
        if self.is_done(slot) {
            self.release(slot);
        }
    }

    /// Slots in use, for a walk over all operations (failures only).
    pub(crate) fn slots(&self) -> Vec<Slot> {
        (0..self.entries.len() as u32)
            .filter(|slot| !self.entries[*slot as usize].operation.is_free())
            .collect()
    }

    /// Forgets the buffers of abandoned operations instead of freeing them: the last resort when an
    /// endpoint closes while a peer may still be copying.
    pub(crate) fn leak_abandoned(&mut self) {
        for entry in &mut self.entries {
            if let Then::Free(buffer) = core::mem::replace(&mut entry.then, Then::Keep) {
                core::mem::forget(buffer);
            }
        }
    }
}

impl Requests {
    pub(crate) fn sending(&mut self, slot: Slot) -> Option<&mut Sending> {
        match self.get(slot) {
            Operation::Send(sending) => Some(sending),
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

impl<O> core::fmt::Debug for Requests<O> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Requests")
            .field("live", &self.live)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn stale_names_mean_nothing() {
        let mut requests = Requests::<Operation>::new();
        let slot = requests.take_slot();
        requests.complete(slot, Err(Error::Cancelled));
        let id = requests.id(slot);
        assert_eq!(requests.find(id), Some(slot));
        assert_eq!(requests.take_done(slot), Some(Err(Error::Cancelled)));
        assert_eq!(requests.find(id), None);
        assert_eq!(requests.take_slot(), slot);
        assert_eq!(requests.find(id), None);
        assert_eq!(requests.find(RequestId(u64::MAX)), None);
    }

    #[test]
    fn watched_operations_are_listed_in_the_order_of_their_ends() {
        let mut requests = Requests::<Operation>::new();
        let slots: Vec<Slot> = (0..4).map(|_| requests.take_slot()).collect();
        requests.complete(slots[3], Err(Error::Cancelled));
        for slot in &slots {
            requests.watch(*slot, u64::from(*slot) + 10);
        }
        for slot in [2, 0, 1] {
            requests.complete(slots[slot], Err(Error::Cancelled));
        }
        let names: Vec<u64> =
            core::iter::from_fn(|| requests.next_finished().map(|(name, _)| name)).collect();
        assert_eq!(names, [13, 12, 10, 11]);
        assert!(requests.next_finished().is_none());
        assert_eq!(requests.live, 0);
    }

    #[test]
    fn abandoned_operations_free_themselves() {
        let mut requests = Requests::<Operation>::new();
        let slot = requests.take_slot();
        let buffer = std::sync::Arc::new(());
        requests.abandon(slot, Box::new(buffer.clone()));
        assert_eq!(std::sync::Arc::strong_count(&buffer), 2);
        requests.complete(slot, Err(Error::Cancelled));
        assert_eq!(std::sync::Arc::strong_count(&buffer), 1);
        assert_eq!(requests.live, 0);
    }
}
