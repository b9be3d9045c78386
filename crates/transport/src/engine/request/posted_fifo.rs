//! Receives that wait for their messages in the entries of their operations, in the order of
//! posting.
//!
//! Mostly messages come in the order in which receives were posted for them. Then the oldest
//! receive is the one that matches, and needs no queue beside the table: its cache line holds what
//! it asks for, then its status. `matching::posted` decides which receives wait here, and which in
//! the posted queue.

use limic_matching::{PostedId, Selector, Source as From};
use limic_shm::bytes::{SingleSlice, Source};

use super::{NONE, OnCompletion, OperationKind, Requests, Slot, State, request_id};
use crate::engine::envelope::{Envelope, Told};
use crate::raw::{Owner, RequestId};

/// What a receive asks for, and where its message goes.
#[derive(Clone, Copy)]
pub(super) struct FifoReceive {
    tag: u64,
    mask: u64,
    source: u32,
    /// All bits if the source counts, none if any source will do.
    source_mask: u32,
    room: SingleSlice,
}

impl FifoReceive {
    #[inline(always)]
    fn fits(&self, from: u32, tag: u64) -> bool {
        let source = (self.source ^ from) & self.source_mask;
        u64::from(source) | (self.tag ^ tag) & self.mask == 0
    }

    fn selector(&self) -> Selector {
        let source = match self.source_mask {
            0 => From::Any,
            _ => From::Is(self.source),
        };
        Selector {
            source,
            tag: self.tag,
            mask: self.mask,
        }
    }
}

/// First and last receive, through `Entry::next`; both `NONE` if there is none.
#[derive(Clone, Copy)]
pub(super) struct PostedFifo {
    first: Slot,
    last: Slot,
}

impl PostedFifo {
    pub(super) const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
    };
}

impl<O: OperationKind> Requests<O> {
    /// Whether any receive is in the fifo.
    #[inline(always)]
    pub(crate) fn has_fifo(&self) -> bool {
        self.fifo.first != NONE
    }

    /// Receives in the fifo. Linear.
    pub(crate) fn fifo_len(&self) -> usize {
        let mut slot = self.fifo.first;
        core::iter::from_fn(|| {
            slot = self.entries.get(slot as usize)?.next;
            Some(())
        })
        .count()
    }

    /// Enters a receive behind all others. Cache lines: the one of its entry, and that of the
    /// receive before it.
    #[inline(always)]
    pub(crate) fn enqueue_posted(
        &mut self,
        selector: &Selector,
        room: SingleSlice,
        owner: Owner,
    ) -> RequestId {
        let mut slot = self.free;
        if slot == NONE {
            slot = self.add_slot();
        }
        let entry = &mut self.entries[slot as usize];
        self.free = core::mem::replace(&mut entry.next, NONE);
        let (source, source_mask) = match selector.source {
            From::Is(source) => (source, !0),
            From::Any => (0, 0),
        };
        entry.state = State::InFifo(FifoReceive {
            tag: selector.tag,
            mask: selector.mask,
            source,
            source_mask,
            room,
        });
        let id = request_id(entry.generation, slot);
        match owner {
            Owner::Caller => {}
            Owner::Scope(scope) => {
                entry.owner = scope;
                self.owned += usize::from(scope != 0);
            }
            Owner::List(name) => {
                entry.on_completion = OnCompletion::List;
                self.cold[slot as usize].name = name;
            }
        }
        match self.entries.get_mut(self.fifo.last as usize) {
            Some(last) => last.next = slot,
            None => self.fifo.first = slot,
        }
        self.fifo.last = slot;
        id
    }

    /// Delivers a whole message to the first receive, if the message matches and fits. Cache lines:
    /// the one of the entry, and those of the receive's buffer.
    #[inline(always)]
    pub(crate) fn deliver_to_head(
        &mut self,
        envelope: Envelope,
        source: &(impl Source + ?Sized),
    ) -> bool {
        let slot = self.fifo.first;
        let Some(entry) = self.entries.get_mut(slot as usize) else {
            return false;
        };
        let State::InFifo(first) = entry.state else {
            return false;
        };
        if !first.fits(envelope.from, envelope.tag) || !first.room.fill(source) {
            return false;
        }
        entry.state = State::Done(envelope.status(source.len()));
        self.fifo.first = entry.next;
        if entry.next == NONE {
            self.fifo.last = NONE;
        }
        self.completed += 1;
        if entry.on_completion != OnCompletion::Keep {
            self.after_completion(slot);
        }
        true
    }

    /// Takes the oldest receive that the message matches out of the fifo, among the first `most`.
    pub(crate) fn take_from_fifo(&mut self, from: u32, tag: u64, most: usize) -> Option<Slot> {
        let (mut before, mut slot) = (NONE, self.fifo.first);
        for _ in 0..most {
            let (receive, next) = self.fifo_entry(slot)?;
            if receive.fits(from, tag) {
                self.unlink(before, slot);
                return Some(slot);
            }
            (before, slot) = (slot, next);
        }
        None
    }

    /// Takes the first receive out of the fifo, to be queued elsewhere.
    pub(crate) fn pop_fifo(&mut self) -> Option<(Slot, Selector)> {
        let slot = self.fifo.first;
        let (receive, _) = self.fifo_entry(slot)?;
        self.unlink(NONE, slot);
        Some((slot, receive.selector()))
    }

    /// A receive that left the fifo has this position in the posted queue.
    pub(crate) fn moved_to_matcher(&mut self, slot: Slot, position: PostedId) {
        if let State::Posted { id, .. } = &mut self.entries[slot as usize].state {
            *id = position;
        }
    }

    /// The receives in the fifo, in the order of posting.
    pub(crate) fn fifo(&self) -> impl Iterator<Item = (Slot, Selector)> {
        let mut slot = self.fifo.first;
        core::iter::from_fn(move || {
            let (receive, next) = self.fifo_entry(slot)?;
            let at = core::mem::replace(&mut slot, next);
            Some((at, receive.selector()))
        })
    }

    /// Takes the receives out of the fifo that `which` picks, in the order of posting. Linear.
    pub(crate) fn drain_fifo(&mut self, which: impl Fn(Slot, &Selector) -> bool) -> Vec<Slot> {
        let mut slots = Vec::new();
        let (mut before, mut slot) = (NONE, self.fifo.first);
        while let Some((receive, next)) = self.fifo_entry(slot) {
            if which(slot, &receive.selector()) {
                self.unlink(before, slot);
                slots.push(slot);
            } else {
                before = slot;
            }
            slot = next;
        }
        slots
    }

    /// The receive in a slot, and the slot of the next one.
    fn fifo_entry(&self, slot: Slot) -> Option<(FifoReceive, Slot)> {
        let entry = self.entries.get(slot as usize)?;
        match entry.state {
            State::InFifo(receive) => Some((receive, entry.next)),
            _ => None,
        }
    }

    /// Takes a receive out of the list; `before` is the one before it, or `NONE`.
    fn unlink(&mut self, before: Slot, slot: Slot) {
        let entry = &mut self.entries[slot as usize];
        let next = entry.next;
        if let State::InFifo(FifoReceive { room, .. }) = entry.state {
            let id = PostedId::NONE;
            entry.state = State::Posted { id, room };
        }
        match self.entries.get_mut(before as usize) {
            Some(before) => before.next = next,
            None => self.fifo.first = next,
        }
        if next == NONE {
            self.fifo.last = before;
        }
    }
}
