//! Receives that wait for their messages in the entries of their requests, in the order of their posting.
//!
//! Mostly messages come in the order in which receives were posted for them. Then the oldest receive is the one that matches,
//! and needs no queue beside the table of requests: its line holds what it asks for, then its status. `engine/posted.rs`
//! decides who waits here and who in the posted queue.

use limic_matching::{PostedId, Selector, Source as From};

use super::{Kind, NONE, Requests, Slot, State, Then, name};
use crate::buffer::{Room, Source};
use crate::raw::RequestId;
use crate::{Peer, Status, Tag};

/// What a receive asks for, and where its message goes.
#[derive(Clone, Copy)]
pub(super) struct InLine {
    tag: u64,
    mask: u64,
    source: u32,
    /// All bits if the source counts, none if any will do.
    source_mask: u32,
    room: Room,
}

impl InLine {
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

/// First and last of them, through `Entry::next`; both `NONE` if there are none.
#[derive(Clone, Copy)]
pub(super) struct Line {
    first: Slot,
    last: Slot,
}

impl Line {
    pub(super) const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
    };
}

impl<O: Kind> Requests<O> {
    /// Whether any receive waits in line.
    #[inline(always)]
    pub(crate) fn has_line(&self) -> bool {
        self.line.first != NONE
    }

    /// Receives that wait in line. Linear.
    pub(crate) fn line_len(&self) -> usize {
        let mut slot = self.line.first;
        core::iter::from_fn(|| {
            slot = self.entries.get(slot as usize)?.next;
            Some(())
        })
        .count()
    }

    /// Enters a receive, behind all that wait. Lines: the one of its entry, and that of the one before it.
    #[inline(always)]
    pub(crate) fn stand_in_line(
        &mut self,
        selector: &Selector,
        room: Room,
        owner: u32,
    ) -> RequestId {
        let mut slot = self.free;
        if slot == NONE {
            slot = self.add_slot();
        }
        let entry = &mut self.entries[slot as usize];
        self.free = core::mem::replace(&mut entry.next, NONE);
        entry.owner = owner;
        let (source, source_mask) = match selector.source {
            From::Is(source) => (source, !0),
            From::Any => (0, 0),
        };
        entry.state = State::InLine(InLine {
            tag: selector.tag,
            mask: selector.mask,
            source,
            source_mask,
            room,
        });
        let id = name(entry.generation, slot);
        self.owned += usize::from(owner != 0);
        match self.entries.get_mut(self.line.last as usize) {
            Some(last) => last.next = slot,
            None => self.line.first = slot,
        }
        self.line.last = slot;
        id
    }

    /// Delivers a whole message to the first receive in line, if it fits that, and its room. Lines: the one of its entry, and of
    /// its room.
    #[inline(always)]
    pub(crate) fn deliver_to_first(
        &mut self,
        from: u32,
        tag: u64,
        immediate: Option<u64>,
        source: &(impl Source + ?Sized),
    ) -> bool {
        let slot = self.line.first;
        let Some(entry) = self.entries.get_mut(slot as usize) else {
            return false;
        };
        let State::InLine(first) = entry.state else {
            return false;
        };
        if !first.fits(from, tag) || !first.room.fill(source) {
            return false;
        }
        entry.state = State::Done(Status {
            peer: Peer(from),
            tag: Tag(tag),
            len: source.len(),
            immediate,
        });
        self.line.first = entry.next;
        if entry.next == NONE {
            self.line.last = NONE;
        }
        self.completed += 1;
        if entry.then != Then::Keep {
            self.go_on(slot);
        }
        true
    }

    /// Takes the oldest one out of line, among the first `most`, that the message fits.
    pub(crate) fn take_out_of_line(&mut self, from: u32, tag: u64, most: usize) -> Option<Slot> {
        let (mut before, mut slot) = (NONE, self.line.first);
        for _ in 0..most {
            let (receive, next) = self.in_line(slot)?;
            if receive.fits(from, tag) {
                self.part(before, slot);
                return Some(slot);
            }
            (before, slot) = (slot, next);
        }
        None
    }

    /// Takes the first one out of line, to be queued elsewhere.
    pub(crate) fn next_in_line(&mut self) -> Option<(Slot, Selector)> {
        let slot = self.line.first;
        let (receive, _) = self.in_line(slot)?;
        self.part(NONE, slot);
        Some((slot, receive.selector()))
    }

    /// A receive that was taken out of line has this place in the posted queue.
    pub(crate) fn queued(&mut self, slot: Slot, place: PostedId) {
        if let State::Posted { id, .. } = &mut self.entries[slot as usize].state {
            *id = place;
        }
    }

    /// Takes those out of line that `which` picks, in the order of their posting. Linear.
    pub(crate) fn drain_line(&mut self, which: impl Fn(Slot, &Selector) -> bool) -> Vec<Slot> {
        let mut slots = Vec::new();
        let (mut before, mut slot) = (NONE, self.line.first);
        while let Some((receive, next)) = self.in_line(slot) {
            if which(slot, &receive.selector()) {
                self.part(before, slot);
                slots.push(slot);
            } else {
                before = slot;
            }
            slot = next;
        }
        slots
    }

    /// What waits in line there, and who comes next.
    fn in_line(&self, slot: Slot) -> Option<(InLine, Slot)> {
        let entry = self.entries.get(slot as usize)?;
        match entry.state {
            State::InLine(receive) => Some((receive, entry.next)),
            _ => None,
        }
    }

    /// Takes one out of line; `before` it stands that one, or nobody.
    fn part(&mut self, before: Slot, slot: Slot) {
        let entry = &mut self.entries[slot as usize];
        let next = entry.next;
        if let State::InLine(InLine { room, .. }) = entry.state {
            let id = PostedId::NONE;
            entry.state = State::Posted { id, room };
        }
        match self.entries.get_mut(before as usize) {
            Some(before) => before.next = next,
            None => self.line.first = next,
        }
        if next == NONE {
            self.line.last = before;
        }
    }
}
