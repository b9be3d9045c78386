//! Slots of a table, and the list of those in use in order of age.

use super::bins::NIL;
use super::label::Token;

/// Entries outside of the bins that a look-up scans before it hashes anything.
///
/// Comparing two lines that are in the first-level cache costs less than a hash look-up, so short
/// queues, and long ones that are used in order, need no hash work at all. It bounds what a look-up
/// adds on deep queues.
pub(super) const SCAN: u32 = 2;

/// What each slot has, whatever it holds. 16 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The next younger entry; in a free slot, the next free one.
    pub(super) next: u32,
    pub(super) prev: u32,
    /// Odd while the slot is in use. An id is stale if this has moved on (it wraps after 2^31 uses
    /// of one slot).
    pub(super) generation: u32,
    pub(super) token: Token,
}

impl Entry {
    pub(super) const EMPTY: Self = Self {
        next: NIL,
        prev: NIL,
        generation: 0,
        token: 0,
    };
}

pub(super) trait Slot {
    fn entry(&self) -> &Entry;
    fn entry_mut(&mut self) -> &mut Entry;
}

/// A doubly linked list over slots, oldest first, and the list of free slots.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) head: u32,
    tail: u32,
    pub(super) len: u32,
    pub(super) capacity: u32,
    free: u32,
    /// Slots from here on were never used.
    fresh: u32,
}

impl Queue {
    pub(super) const fn new() -> Self {
        Self {
            head: NIL,
            tail: NIL,
            len: 0,
            capacity: 0,
            free: NIL,
            fresh: 0,
        }
    }

    /// Takes a slot and puts it at the end, to be filled. `None` if all are in use.
    #[inline(always)]
    pub(super) fn push<'n, N: Slot>(
        &mut self,
        nodes: &'n mut [N],
        token: Token,
    ) -> Option<(u32, &'n mut N)> {
        let id = if self.free == NIL {
            self.fresh
        } else {
            self.free
        };
        if self.len >= self.capacity || id as usize >= nodes.len() {
            return None;
        }
        let prev = self.tail;
        match nodes.get_mut(prev as usize) {
            Some(tail) => tail.entry_mut().next = id,
            None => self.head = id,
        }
        let node = nodes.get_mut(id as usize)?;
        let entry = node.entry_mut();
        if self.free == NIL {
            self.fresh += 1;
        } else {
            self.free = entry.next;
        }
        *entry = Entry {
            next: NIL,
            prev,
            generation: entry.generation.wrapping_add(1) | 1,
            token,
        };
        self.tail = id;
        self.len += 1;
        Some((id, node))
    }

    /// Takes the oldest entry out of the list and frees its slot.
    #[inline(always)]
    pub(super) fn pop<N: Slot>(&mut self, nodes: &mut [N]) -> Option<Token> {
        let id = self.head;
        let entry = nodes.get_mut(id as usize)?.entry_mut();
        let Entry { next, token, .. } = *entry;
        entry.generation = entry.generation.wrapping_add(1);
        entry.next = self.free;
        self.free = id;
        self.len -= 1;
        self.head = next;
        match nodes.get_mut(next as usize) {
            Some(next) => next.entry_mut().prev = NIL,
            None => self.tail = NIL,
        }
        Some(token)
    }

    /// Takes an entry in use out of the list and frees its slot. Its neighbours' lines are written,
    /// not waited for.
    #[inline]
    pub(super) fn unlink<N: Slot>(&mut self, nodes: &mut [N], id: u32) -> Option<Token> {
        let entry = nodes.get_mut(id as usize)?.entry_mut();
        let Entry {
            next, prev, token, ..
        } = *entry;
        entry.generation = entry.generation.wrapping_add(1);
        entry.next = self.free;
        self.free = id;
        self.len -= 1;
        match nodes.get_mut(prev as usize) {
            Some(prev) => prev.entry_mut().next = next,
            None => self.head = next,
        }
        match nodes.get_mut(next as usize) {
            Some(next) => next.entry_mut().prev = prev,
            None => self.tail = prev,
        }
        Some(token)
    }

    /// Whether the id was given out and its entry is still here.
    pub(super) fn holds<N: Slot>(nodes: &[N], id: u32, generation: u32) -> bool {
        let entry = nodes.get(id as usize).map(Slot::entry);
        generation % 2 == 1 && entry.is_some_and(|entry| entry.generation == generation)
    }
}
