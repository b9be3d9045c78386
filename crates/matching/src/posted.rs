//! Receives that wait for a message.

use super::bins::{self, Bucket, NIL};
use super::key::{Hasher, Key, Place};
use super::label::{Envelope, Selector, Token};
use super::posted_node::{LOOSE, LOOSE_KEY, UNINDEXED};
use super::queue::{Queue, SCAN};
use super::storage::PostedMemory;

/// Classes that are indexed at a time.
const CLASSES: usize = 64;
const CAPACITY: usize = 1 << 30;

/// A mask, with any source or not, and how many indexed receives have it.
#[derive(Clone, Copy, Debug)]
struct Class {
    mask: u64,
    any: bool,
    len: u32,
}

/// The posted queue without its memory.
///
/// All receives are in `queue` in order of age. The oldest of them are in bins, the newest `lag`
/// are not: an arrival that finds its receive among the first [`SCAN`] of those leaves them so, and
/// the first one that has to pass over them puts all into their bins. So receives that are matched
/// in the order of their posting are never hashed.
#[derive(Debug)]
pub(super) struct Posted {
    pub(super) queue: Queue,
    hasher: Hasher,
    sequence: u64,
    /// First receive that is not in a bin.
    unindexed: u32,
    lag: u32,
    loose: u32,
    /// Receives that stay queued when a message finds them.
    staying: u32,
    /// Bit per class that has receives.
    active: u64,
    classes: [Class; CLASSES],
}

impl Posted {
    pub(super) fn new() -> Self {
        Self {
            queue: Queue::new(),
            hasher: Hasher::new(0, 0),
            sequence: 0,
            unindexed: NIL,
            lag: 0,
            loose: 0,
            staying: 0,
            active: 0,
            classes: [Class {
                mask: 0,
                any: false,
                len: 0,
            }; CLASSES],
        }
    }

    /// Takes over memory that is new or has grown: every receive is put into its bin again. Linear.
    pub(super) fn attach(&mut self, memory: &mut PostedMemory<'_>, seed: u64) {
        let capacity = if memory.buckets.is_empty() {
            0
        } else {
            memory.nodes.len().min(CAPACITY)
        };
        self.queue.capacity = capacity as u32;
        self.hasher = Hasher::new(seed, memory.buckets.len());
        memory.buckets.fill(Bucket::EMPTY);
        self.active = 0;
        self.loose = 0;
        self.lag = self.queue.len;
        self.unindexed = self.queue.head;
        let mut id = self.queue.head;
        while let Some(node) = memory.nodes.get_mut(id as usize) {
            node.class = UNINDEXED;
            id = node.entry.next;
        }
        if self.staying > 0 {
            self.index_all(memory);
        }
    }

    /// Puts all receives into their bins.
    fn index_all(&mut self, memory: &mut PostedMemory<'_>) {
        while self.lag > 0 && self.index_oldest(memory).is_some() {}
    }

    /// Queues a receive that stays when a message finds it. It goes into its bin, and with it all
    /// older ones, so that those which are matched without bins know nothing of it.
    pub(super) fn push_staying(
        &mut self,
        memory: &mut PostedMemory<'_>,
        selector: &Selector,
        token: Token,
    ) -> Option<(u32, u32)> {
        let (id, generation) = self.push(memory, selector, token)?;
        self.staying += 1;
        memory.nodes.get_mut(id as usize)?.stays = true;
        self.index_all(memory);
        Some((id, generation))
    }

    /// Queues a receive. One cache line, no hashing.
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        memory: &mut PostedMemory<'_>,
        selector: &Selector,
        token: Token,
    ) -> Option<(u32, u32)> {
        let (id, node) = self.queue.push(memory.nodes, token)?;
        node.tag = selector.tag & selector.mask;
        node.mask = selector.mask;
        node.source = selector.source.number();
        node.any = selector.source.is_any();
        node.class = UNINDEXED;
        node.stays = false;
        node.sequence = self.sequence;
        let generation = node.entry.generation;
        self.sequence += 1;
        self.lag += 1;
        if self.unindexed == NIL {
            self.unindexed = id;
        }
        Some((id, generation))
    }

    /// Number of the class, made if there is room for it, else [`LOOSE`].
    #[inline]
    fn class(&mut self, mask: u64, any: bool) -> u8 {
        let mut active = self.active;
        while active != 0 {
            let class = active.trailing_zeros();
            let fits = |known: &Class| known.mask == mask && known.any == any;
            if self.classes.get(class as usize).is_some_and(fits) {
                return class as u8;
            }
            active &= active - 1;
        }
        let class = self.active.trailing_ones();
        match self.classes.get_mut(class as usize) {
            Some(slot) => {
                *slot = Class { mask, any, len: 0 };
                self.active |= 1 << class;
                class as u8
            }
            None => LOOSE,
        }
    }

    /// Puts the oldest receive that is not in a bin into its bin.
    #[inline]
    fn index_oldest(&mut self, memory: &mut PostedMemory<'_>) -> Option<()> {
        let id = self.unindexed;
        let node = memory.nodes.get_mut(id as usize)?;
        node.class = self.class(node.mask, node.any);
        match self.classes.get_mut(usize::from(node.class)) {
            Some(class) => class.len += 1,
            None => self.loose += 1,
        }
        let key = node.key();
        self.unindexed = node.entry.next;
        self.lag -= 1;
        bins::append(
            memory.nodes,
            memory.buckets,
            self.hasher.place(&key),
            &key,
            id,
        )
    }

    /// Removes the oldest receive that the message fits, unless that one stays.
    ///
    /// One line for the oldest receive of all. Else, per class with receives in bins, one bucket,
    /// and one line for a hit; then at most [`SCAN`] lines; then, once for each receive that is
    /// passed over, its line and its bucket.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        memory: &mut PostedMemory<'_>,
        envelope: &Envelope,
    ) -> Option<Token> {
        // The oldest of all, and none is in a bin.
        let oldest = memory.nodes.get(self.queue.head as usize);
        let oldest = oldest.filter(|node| node.class == UNINDEXED && node.fits(envelope));
        if let Some(node) = oldest {
            self.lag -= 1;
            self.unindexed = node.entry.next;
            return self.queue.pop(memory.nodes);
        }
        self.take_behind(memory, envelope)
    }

    /// The same for one that is not the oldest, or where some are in bins.
    #[inline(never)]
    fn take_behind(&mut self, memory: &mut PostedMemory<'_>, envelope: &Envelope) -> Option<Token> {
        // All in bins are older than all that are not.
        if self.queue.len > self.lag {
            let oldest = self.find(memory, envelope);
            if let Some((id, place)) = oldest {
                return self.found(memory, id, place);
            }
        }
        let mut id = self.unindexed;
        for _ in 0..SCAN {
            let node = memory.nodes.get(id as usize)?;
            if node.fits(envelope) {
                return self.remove(memory, id);
            }
            id = node.entry.next;
        }
        self.take_passing_over(memory, envelope)
    }

    /// Puts all receives into their bins, and looks there.
    #[cold]
    fn take_passing_over(
        &mut self,
        memory: &mut PostedMemory<'_>,
        envelope: &Envelope,
    ) -> Option<Token> {
        self.index_all(memory);
        let (id, place) = self.find(memory, envelope)?;
        self.found(memory, id, place)
    }

    /// A message has found a receive in its bin.
    #[inline]
    fn found(&mut self, memory: &mut PostedMemory<'_>, id: u32, place: Place) -> Option<Token> {
        let node = memory.nodes.get(id as usize)?;
        if node.stays {
            return Some(node.entry.token);
        }
        self.remove_at(memory, id, Some(place))
    }

    /// The oldest receive in any bin that the message fits.
    #[inline]
    fn find(&self, memory: &PostedMemory<'_>, envelope: &Envelope) -> Option<(u32, Place)> {
        if self.loose == 0 && self.active.is_power_of_two() {
            self.first(memory, self.active.trailing_zeros(), envelope)
        } else {
            self.oldest(memory, envelope)
        }
    }

    /// The oldest receive of one class that the message fits.
    #[inline]
    fn first(
        &self,
        memory: &PostedMemory<'_>,
        class: u32,
        envelope: &Envelope,
    ) -> Option<(u32, Place)> {
        let &Class { mask, any, .. } = self.classes.get(class as usize)?;
        let source = if any { 0 } else { envelope.source };
        let key = Key {
            tag: envelope.tag & mask,
            mask,
            source,
            class: class as u8,
            any,
        };
        let place = self.hasher.place(&key);
        Some((
            bins::find(memory.nodes, memory.buckets, place, &key)?,
            place,
        ))
    }

    /// The same with several classes.
    fn oldest(&self, memory: &PostedMemory<'_>, envelope: &Envelope) -> Option<(u32, Place)> {
        let mut oldest = None;
        let mut consider = |id: u32, place: Place| {
            let sequence = memory.nodes.get(id as usize)?.sequence;
            if oldest.is_none_or(|(best, _)| sequence < best) {
                oldest = Some((sequence, (id, place)));
            }
            Some(())
        };
        let mut active = self.active;
        while active != 0 {
            if let Some((id, place)) = self.first(memory, active.trailing_zeros(), envelope) {
                consider(id, place);
            }
            active &= active - 1;
        }
        if self.loose > 0 {
            let place = self.hasher.place(&LOOSE_KEY);
            let mut id = bins::find(memory.nodes, memory.buckets, place, &LOOSE_KEY).unwrap_or(NIL);
            while let Some(node) = memory.nodes.get(id as usize) {
                if node.fits(envelope) {
                    consider(id, place);
                    break;
                }
                id = node.link.next();
            }
        }
        oldest.map(|(_, found)| found)
    }

    /// Takes a receive in use out of its bin and the queue.
    #[inline]
    pub(super) fn remove(&mut self, memory: &mut PostedMemory<'_>, id: u32) -> Option<Token> {
        self.remove_at(memory, id, None)
    }

    /// The same; whoever has just found it knows its place and saves the hash.
    #[inline]
    fn remove_at(
        &mut self,
        memory: &mut PostedMemory<'_>,
        id: u32,
        place: Option<Place>,
    ) -> Option<Token> {
        let node = memory.nodes.get(id as usize)?;
        if node.class == UNINDEXED {
            self.lag -= 1;
            if self.unindexed == id {
                self.unindexed = node.entry.next;
            }
        } else {
            let (key, class) = (node.key(), node.class);
            let place = || place.unwrap_or_else(|| self.hasher.place(&key));
            self.staying -= u32::from(node.stays);
            bins::remove(memory.nodes, memory.buckets, place, id)?;
            match self.classes.get_mut(usize::from(class)) {
                Some(slot) => {
                    slot.len -= 1;
                    if slot.len == 0 {
                        self.active &= !(1 << class);
                    }
                }
                None => self.loose -= 1,
            }
        }
        self.queue.unlink(memory.nodes, id)
    }

    /// Removes every receive that `which` picks, in the order of posting. Linear.
    pub(super) fn drain(
        &mut self,
        memory: &mut PostedMemory<'_>,
        mut which: impl FnMut(&Selector) -> bool,
        mut each: impl FnMut(Selector, Token),
    ) {
        let mut id = self.queue.head;
        while let Some(node) = memory.nodes.get(id as usize) {
            let (selector, next) = (node.selector(), node.entry.next);
            let removed = if which(&selector) {
                self.remove(memory, id)
            } else {
                None
            };
            if let Some(token) = removed {
                each(selector, token);
            }
            id = next;
        }
    }
}
