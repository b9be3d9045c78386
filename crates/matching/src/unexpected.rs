//! Messages that wait for a receive.

use super::bins::{self, Bucket, NIL};
use super::key::{Hasher, Key};
use super::label::{Envelope, Selector, Token};
use super::queue::{Queue, SCAN};
use super::storage::{EXTRA_LINKS, UnexpectedMemory};
use super::unexpected_node::{CLASSES, NEAR, Table, link_id, node_of};

const CAPACITY: usize = 1 << 27;
/// Look-ups for which a class must not have been used before another one may take its place (or the
/// length of the queue if that is more, so that making classes is paid for by the look-ups
/// between).
const IDLE: u64 = 1024;

/// A mask, with any source or not, and the messages that are in its bins: the oldest `len` of the
/// queue.
#[derive(Clone, Copy, Debug)]
struct Class {
    mask: u64,
    /// Look-up that used it last.
    used: u64,
    len: u32,
    /// The newest message in its bins.
    last: u32,
    any: bool,
}

/// The unexpected queue without its memory.
#[derive(Debug)]
pub(super) struct Unexpected {
    pub(super) queue: Queue,
    hasher: Hasher,
    /// Far links per node.
    extra: usize,
    /// Look-ups so far.
    clock: u64,
    /// Bit per class in use.
    active: u16,
    classes: [Class; CLASSES],
}

impl Unexpected {
    pub(super) fn new() -> Self {
        Self {
            queue: Queue::new(),
            hasher: Hasher::new(0, 0),
            extra: 0,
            clock: 0,
            active: 0,
            classes: [Class {
                mask: 0,
                used: 0,
                len: 0,
                last: NIL,
                any: false,
            }; CLASSES],
        }
    }

    /// Takes over memory that is new or has grown: all bins are empty again. Linear.
    pub(super) fn attach(&mut self, memory: &mut UnexpectedMemory<'_>, seed: u64) {
        let capacity = if memory.buckets.is_empty() {
            0
        } else {
            memory.nodes.len().min(CAPACITY)
        };
        self.queue.capacity = capacity as u32;
        self.hasher = Hasher::new(seed, memory.buckets.len());
        self.extra = memory
            .links
            .len()
            .checked_div(memory.nodes.len())
            .unwrap_or(0)
            .min(EXTRA_LINKS);
        memory.buckets.fill(Bucket::EMPTY);
        self.active = 0;
        let mut id = self.queue.head;
        while let Some(node) = memory.nodes.get_mut(id as usize) {
            node.indexed = 0;
            id = node.entry.next;
        }
    }

    /// Queues a message. One cache line, no hashing.
    #[inline]
    pub(super) fn push(
        &mut self,
        memory: &mut UnexpectedMemory<'_>,
        envelope: &Envelope,
        token: Token,
    ) -> Option<(u32, u32)> {
        let (id, node) = self.queue.push(memory.nodes, token)?;
        node.tag = envelope.tag;
        node.source = envelope.source;
        node.indexed = 0;
        Some((id, node.entry.generation))
    }

    /// Number of the class in use with this mask and kind of source.
    #[inline]
    fn class(&self, mask: u64, any: bool) -> Option<u8> {
        let mut active = self.active;
        while active != 0 {
            let class = active.trailing_zeros();
            let fits = |known: &Class| known.mask == mask && known.any == any;
            if self.classes.get(class as usize).is_some_and(fits) {
                return Some(class as u8);
            }
            active &= active - 1;
        }
        None
    }

    /// Makes a class, in the place of an idle one if there is no other. `None`: all are in use.
    #[cold]
    fn make_class(
        &mut self,
        memory: &mut UnexpectedMemory<'_>,
        mask: u64,
        any: bool,
    ) -> Option<u8> {
        let count = NEAR + self.extra;
        let mut class = self.active.trailing_ones() as usize;
        if class >= count {
            let classes = self.classes.iter().take(count).enumerate();
            let (idlest, since) = classes
                .map(|(i, class)| (i, class.used))
                .min_by_key(|c| c.1)?;
            if self.clock - since < IDLE.max(u64::from(self.queue.len)) {
                return None;
            }
            self.clear_class(memory, idlest as u8);
            class = idlest;
        }
        let used = self.clock;
        *self.classes.get_mut(class)? = Class {
            mask,
            used,
            len: 0,
            last: NIL,
            any,
        };
        self.active |= 1 << class;
        Some(class as u8)
    }

    /// Takes all messages out of the bins of a class. Linear in their number.
    fn clear_class(&mut self, memory: &mut UnexpectedMemory<'_>, class: u8) {
        let mut id = self.queue.head;
        while let Some(node) = memory.nodes.get_mut(id as usize) {
            let next = node.entry.next;
            if node.indexed & 1 << class == 0 {
                break;
            }
            node.indexed &= !(1 << class);
            self.take_out(memory, class, id);
            id = next;
        }
    }

    /// Takes a message out of its bin of one class.
    #[inline]
    fn take_out(&self, memory: &mut UnexpectedMemory<'_>, class: u8, id: u32) -> Option<()> {
        let envelope = memory.nodes.get(id as usize)?.envelope();
        let key = self.key(class, &envelope)?;
        let (mut table, buckets) = self.table(memory);
        bins::remove(
            &mut table,
            buckets,
            || self.hasher.place(&key),
            link_id(id, class),
        )
    }

    /// The key of a message in a class.
    #[inline]
    fn key(&self, class: u8, envelope: &Envelope) -> Option<Key> {
        let &Class { mask, any, .. } = self.classes.get(usize::from(class))?;
        let source = if any { 0 } else { envelope.source };
        Some(Key {
            tag: envelope.tag & mask,
            mask,
            source,
            class,
            any,
        })
    }

    #[inline]
    fn table<'a>(&self, memory: &'a mut UnexpectedMemory<'_>) -> (Table<'a>, &'a mut [Bucket]) {
        let table = Table {
            nodes: memory.nodes,
            links: memory.links,
            extra: self.extra,
        };
        (table, memory.buckets)
    }

    /// Puts a message, the oldest that is not there yet, into its bin of a class.
    #[inline]
    fn index(&mut self, memory: &mut UnexpectedMemory<'_>, class: u8, id: u32) -> Option<()> {
        let node = memory.nodes.get_mut(id as usize)?;
        node.indexed |= 1 << class;
        let key = self.key(class, &node.envelope())?;
        let slot = self.classes.get_mut(usize::from(class))?;
        slot.len += 1;
        slot.last = id;
        let place = self.hasher.place(&key);
        let (mut table, buckets) = self.table(memory);
        bins::append(&mut table, buckets, place, &key, link_id(id, class))
    }

    /// The oldest message that fits.
    ///
    /// One bucket and, for a hit, one line; without a hit the messages that came since the last
    /// look-up of this class, which go into its bins except for the newest [`SCAN`].
    // In two places, each a function of its own.
    #[inline(always)]
    pub(super) fn find(
        &mut self,
        memory: &mut UnexpectedMemory<'_>,
        selector: &Selector,
    ) -> Option<u32> {
        if self.queue.len == 0 {
            return None;
        }
        self.clock += 1;
        let (mask, any) = (selector.mask, selector.source.is_any());
        let class = match self.class(mask, any) {
            None if self.queue.len > SCAN => self.make_class(memory, mask, any),
            known => known,
        };
        let Some(class) = class else {
            return Self::scan(memory, self.queue.head, selector);
        };
        let slot = self.classes.get_mut(usize::from(class))?;
        slot.used = self.clock;
        let (len, last) = (slot.len, slot.last);
        let mut id = self.queue.head;
        if len > 0 {
            let source = selector.source.number();
            let key = Key {
                tag: selector.tag & mask,
                mask,
                source,
                class,
                any,
            };
            let (table, buckets) = self.table(memory);
            if let Some(link) = bins::find(&table, buckets, self.hasher.place(&key), &key) {
                return Some(node_of(link) as u32);
            }
            id = memory.nodes.get(last as usize)?.entry.next;
        }
        let mut lag = self.queue.len - len;
        while lag > SCAN {
            let node = memory.nodes.get(id as usize)?;
            let next = node.entry.next;
            if selector.fits(&node.envelope()) {
                return Some(id);
            }
            self.index(memory, class, id)?;
            lag -= 1;
            id = next;
        }
        Self::scan(memory, id, selector)
    }

    /// The oldest message from `id` on that fits.
    #[inline]
    fn scan(memory: &UnexpectedMemory<'_>, mut id: u32, selector: &Selector) -> Option<u32> {
        while let Some(node) = memory.nodes.get(id as usize) {
            if selector.fits(&node.envelope()) {
                return Some(id);
            }
            id = node.entry.next;
        }
        None
    }

    /// Takes a message in use out of its bins and the queue.
    #[inline]
    pub(super) fn remove(
        &mut self,
        memory: &mut UnexpectedMemory<'_>,
        id: u32,
    ) -> Option<(Envelope, Token)> {
        let node = memory.nodes.get(id as usize)?;
        let (envelope, prev, mut indexed) = (node.envelope(), node.entry.prev, node.indexed);
        while indexed != 0 {
            let class = indexed.trailing_zeros() as u8;
            self.take_out(memory, class, id)?;
            let slot = self.classes.get_mut(usize::from(class))?;
            slot.len -= 1;
            if slot.last == id {
                // What is older is indexed too.
                slot.last = prev;
            }
            indexed &= indexed - 1;
        }
        Some((envelope, self.queue.unlink(memory.nodes, id)?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::label::Source;
    use super::super::{Bucket, Link, UnexpectedNode};
    use super::*;

    const ROOM: usize = 32;
    const WAITING: u32 = 20;

    /// Each indexed message is in one bin per class, and nothing else is in any.
    fn check(unexpected: &Unexpected, memory: &mut UnexpectedMemory<'_>) {
        let classes = unexpected.classes.iter().enumerate();
        let active = classes.filter(|(class, _)| unexpected.active & 1 << class != 0);
        let indexed: u32 = active.map(|(_, class)| class.len).sum();
        let (table, buckets) = unexpected.table(memory);
        let most = ROOM * CLASSES;
        assert_eq!(bins::count(&table, buckets, most), indexed as usize);
    }

    #[test]
    fn a_class_that_gives_way_leaves_nothing_behind() {
        let mut nodes = [UnexpectedNode::EMPTY; ROOM];
        let mut buckets = [Bucket::EMPTY; ROOM];
        let mut links = [Link::EMPTY; ROOM];
        let mut memory = UnexpectedMemory {
            nodes: &mut nodes,
            buckets: &mut buckets,
            links: &mut links,
        };
        let mut unexpected = Unexpected::new();
        unexpected.attach(&mut memory, 1);
        let message = |n: u32| Envelope {
            source: n % 3,
            tag: u64::from(n),
        };
        for n in 0..WAITING {
            unexpected.push(&mut memory, &message(n), n).expect("room");
        }
        // Links for three classes; each of eight masks is used until the ones before count as idle.
        let idle = if cfg!(miri) { 3 } else { IDLE };
        for mask in 1..9 {
            let nothing = Selector {
                source: Source::Is(7),
                tag: 0,
                mask,
            };
            for _ in 0..idle {
                assert_eq!(unexpected.find(&mut memory, &nothing), None);
            }
            if !cfg!(miri) {
                let class = unexpected
                    .class(mask, false)
                    .expect("a place for the class");
                assert_eq!(unexpected.classes[usize::from(class)].len, WAITING - SCAN);
            }
            check(&unexpected, &mut memory);
            let n = mask as u32;
            let oldest = Selector {
                source: Source::Any,
                tag: 0,
                mask: 0,
            };
            let id = unexpected.find(&mut memory, &oldest).expect("twenty wait");
            let (_, token) = unexpected.remove(&mut memory, id).expect("it is there");
            assert_eq!(token, n - 1, "the oldest");
            check(&unexpected, &mut memory);
            unexpected
                .push(&mut memory, &message(n), n + WAITING - 1)
                .expect("room");
        }
    }
}
