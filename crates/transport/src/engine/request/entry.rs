//! What the table holds of one operation: an entry of one cache line, and what only some need.

use std::any::Any;

use limic_matching::PostedId;
use limic_shm::bytes::{ReceiveBuffer, SingleSlice};

use super::operation::{Operation, ReceiveStage, Receiving};
use super::posted_fifo::FifoReceive;
use crate::{Error, Status};

/// What an entry is now.
#[derive(Clone, Copy)]
pub(super) enum State {
    Free,
    /// Completed, and in the completion list: well, or with [`ColdEntry::error`].
    Listed(Option<Status>),
    /// A receive in the posted fifo.
    InFifo(FifoReceive),
    /// A receive into one slice in the posted queue; or one that left the fifo and is not queued
    /// yet.
    Posted {
        /// Its position in the queue.
        id: PostedId,
        room: SingleSlice,
    },
    /// Any other operation: see [`ColdEntry::operation`].
    Other,
    /// Completed well; the owner has not asked for the status yet.
    Done(Status),
    /// Completed with [`ColdEntry::error`].
    Failed,
}

/// What happens when an operation completes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OnCompletion {
    /// It waits for its owner to ask.
    Keep,
    /// Nobody asks: the slot is freed, and then [`ColdEntry::buffers`].
    Free,
    /// It goes to the end of the completion list, under [`ColdEntry::name`].
    List,
}

/// What each operation has.
#[repr(align(64))]
pub(super) struct Entry {
    pub(super) generation: u32,
    /// The next entry of the list that this one is in.
    pub(super) next: u32,
    /// The scope that the operation belongs to; 0 for none.
    pub(super) owner: u32,
    pub(super) on_completion: OnCompletion,
    pub(super) state: State,
}

const _: () = assert!(size_of::<Entry>() == 64, "one cache line");

impl Entry {
    /// Makes the entry a free one under another id. Its state is free already.
    #[inline(always)]
    pub(super) fn release(&mut self, next: u32) {
        self.generation = self.generation.wrapping_add(1).max(1);
        self.owner = 0;
        self.next = next;
        self.on_completion = OnCompletion::Keep;
    }

    /// Whether there is an operation that an id can mean.
    #[inline(always)]
    pub(super) fn is_known(&self) -> bool {
        !matches!(self.state, State::Free | State::Listed(_))
    }
}

/// Copies a status field by field. It may have been stored in such parts a moment ago, and one wide
/// load of two of them would wait until all stores before them are done.
#[inline(always)]
pub(super) fn copy_by_words(status: &Status) -> Status {
    /// Volatile, so that the compiler does not merge two loads.
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

/// What kinds of operations an engine has.
pub(crate) trait OperationKind: Sized {
    /// No operation, or a completed one.
    const OVER: Self;

    /// A receive at this position of the posted queue, as an operation of its own.
    fn posted(id: PostedId, into: ReceiveBuffer) -> Self;
}

impl OperationKind for Operation {
    const OVER: Self = Self::Over;

    fn posted(id: PostedId, into: ReceiveBuffer) -> Self {
        let stage = ReceiveStage::Posted { id };
        Self::Receive(Receiving { into, stage })
    }
}

/// What only some operations have.
pub(super) struct ColdEntry<O> {
    pub(super) operation: O,
    pub(super) error: Option<Error>,
    pub(super) name: u64,
    /// What is dropped when the operation is over.
    pub(super) buffers: Vec<Box<dyn Any + Send>>,
}

impl<O: OperationKind> ColdEntry<O> {
    pub(super) const NOTHING: Self = Self {
        operation: O::OVER,
        error: None,
        name: 0,
        buffers: Vec::new(),
    };
}
