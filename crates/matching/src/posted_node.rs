//! One posted receive, and how the bins see it.

use super::bins::{Link, Links};
use super::key::Key;
use super::label::{Envelope, Selector, Source};
use super::queue::{Entry, Slot};

/// Class of receives beyond those that are indexed: one bin that is scanned.
pub(super) const LOOSE: u8 = 64;
/// Class of receives that are not in a bin yet: among the newest.
pub(super) const UNINDEXED: u8 = 65;

/// A posted receive: all that matching touches of it, in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct PostedNode {
    /// Tag under the mask.
    pub(super) tag: u64,
    pub(super) mask: u64,
    /// Decides between receives of different classes which is older.
    pub(super) sequence: u64,
    pub(super) entry: Entry,
    pub(super) link: Link,
    /// 0 if any.
    pub(super) source: u32,
    pub(super) any: bool,
    pub(super) class: u8,
    /// It stays queued when a message finds it. Always in a bin.
    pub(super) stays: bool,
}

const _: () = assert!(size_of::<PostedNode>() == 64);

impl PostedNode {
    /// A slot that was never used.
    pub const EMPTY: Self = Self {
        tag: 0,
        mask: 0,
        sequence: 0,
        entry: Entry::EMPTY,
        link: Link::EMPTY,
        source: 0,
        any: false,
        class: UNINDEXED,
        stays: false,
    };

    #[inline]
    pub(super) fn fits(&self, envelope: &Envelope) -> bool {
        (self.any || self.source == envelope.source) && (self.tag ^ envelope.tag) & self.mask == 0
    }

    pub(super) fn key(&self) -> Key {
        if self.class == LOOSE {
            LOOSE_KEY
        } else {
            Key {
                tag: self.tag,
                mask: self.mask,
                source: self.source,
                class: self.class,
                any: self.any,
            }
        }
    }

    pub(super) fn selector(&self) -> Selector {
        let source = if self.any {
            Source::Any
        } else {
            Source::Is(self.source)
        };
        Selector {
            source,
            tag: self.tag,
            mask: self.mask,
        }
    }
}

/// The one bin of all receives without a class.
pub(super) const LOOSE_KEY: Key = Key {
    tag: 0,
    mask: 0,
    source: 0,
    class: LOOSE,
    any: false,
};

impl Slot for PostedNode {
    #[inline]
    fn entry(&self) -> &Entry {
        &self.entry
    }
    #[inline]
    fn entry_mut(&mut self) -> &mut Entry {
        &mut self.entry
    }
}

impl Links for [PostedNode] {
    #[inline]
    fn link(&self, id: u32) -> Option<&Link> {
        self.get(id as usize).map(|node| &node.link)
    }
    #[inline]
    fn link_mut(&mut self, id: u32) -> Option<&mut Link> {
        self.get_mut(id as usize).map(|node| &mut node.link)
    }
    #[inline]
    fn has_key(&self, id: u32, key: &Key) -> bool {
        self.get(id as usize).is_some_and(|node| {
            node.class == key.class
                && ((node.tag == key.tag && node.source == key.source) || key.class == LOOSE)
        })
    }
}
