//! One unexpected message, its links, and how the bins see them.

use super::bins::{Link, Links};
use super::key::Key;
use super::label::{Envelope, Token};
use super::queue::{Entry, Slot};
use super::storage::EXTRA_LINKS;

/// Links in the node itself, so that two classes need no other line.
pub(super) const NEAR: usize = 2;
/// Classes that are indexed at most.
pub(super) const CLASSES: usize = NEAR + EXTRA_LINKS;
/// Bits of a link id that are its class; the others are the node.
const CLASS_BITS: u32 = 4;
const _: () = assert!(CLASSES == 1 << CLASS_BITS);

/// An unexpected message, with its place in the bins of two classes: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct UnexpectedNode {
    pub(super) tag: u64,
    pub(super) entry: Entry,
    pub(super) source: u32,
    /// Bit per class in which it is indexed.
    pub(super) indexed: u16,
    near: [Link; NEAR],
}

const _: () = assert!(size_of::<UnexpectedNode>() == 64);

impl UnexpectedNode {
    /// A slot that was never used.
    pub const EMPTY: Self = Self {
        tag: 0,
        entry: Entry::EMPTY,
        source: 0,
        indexed: 0,
        near: [Link::EMPTY; NEAR],
    };

    pub(super) fn envelope(&self) -> Envelope {
        Envelope {
            source: self.source,
            tag: self.tag,
        }
    }

    pub(super) fn token(&self) -> Token {
        self.entry.token
    }
}

impl Slot for UnexpectedNode {
    #[inline]
    fn entry(&self) -> &Entry {
        &self.entry
    }
    #[inline]
    fn entry_mut(&mut self) -> &mut Entry {
        &mut self.entry
    }
}

pub(super) const fn link_id(node: u32, class: u8) -> u32 {
    node << CLASS_BITS | class as u32
}

pub(super) const fn node_of(link: u32) -> usize {
    (link >> CLASS_BITS) as usize
}

const fn class_of(link: u32) -> usize {
    (link & ((1 << CLASS_BITS) - 1)) as usize
}

/// Nodes and far links as the bins see them.
pub(super) struct Table<'a> {
    pub(super) nodes: &'a mut [UnexpectedNode],
    pub(super) links: &'a mut [Link],
    pub(super) extra: usize,
}

impl Links for Table<'_> {
    #[inline]
    fn link(&self, id: u32) -> Option<&Link> {
        let (node, class) = (node_of(id), class_of(id));
        match class.checked_sub(NEAR) {
            None => self.nodes.get(node)?.near.get(class),
            Some(far) => self.links.get(node * self.extra + far),
        }
    }
    #[inline]
    fn link_mut(&mut self, id: u32) -> Option<&mut Link> {
        let (node, class) = (node_of(id), class_of(id));
        match class.checked_sub(NEAR) {
            None => self.nodes.get_mut(node)?.near.get_mut(class),
            Some(far) => self.links.get_mut(node * self.extra + far),
        }
    }
    #[inline]
    fn has_key(&self, id: u32, key: &Key) -> bool {
        class_of(id) == usize::from(key.class)
            && self.nodes.get(node_of(id)).is_some_and(|node| {
                (node.tag ^ key.tag) & key.mask == 0 && (key.any || node.source == key.source)
            })
    }
}
