//! Tables on the heap, which grow when asked to.

extern crate alloc;

use self::alloc::vec::Vec;
use super::bins::{Bucket, Link};
use super::error::Full;
use super::matcher::Matcher;
use super::posted_node::PostedNode;
use super::storage::{EXTRA_LINKS, PostedMemory, Storage, UnexpectedMemory};
use super::unexpected_node::UnexpectedNode;

/// Tables on the heap. They start empty, grow in [`Matcher::reserve`] only, at least twofold, and
/// never shrink.
#[derive(Debug, Default)]
pub struct HeapStorage {
    posted: Vec<PostedNode>,
    posted_buckets: Vec<Bucket>,
    unexpected: Vec<UnexpectedNode>,
    unexpected_buckets: Vec<Bucket>,
    links: Vec<Link>,
}

/// A matcher with tables on the heap.
pub type HeapMatcher = Matcher<HeapStorage>;

impl Matcher<HeapStorage> {
    /// A matcher with room for this many posted receives and unexpected messages.
    ///
    /// # Errors
    /// [`Full`] if there is no memory.
    pub fn with_capacity(posted: usize, unexpected: usize) -> Result<Self, Full> {
        let mut matcher = Self::default();
        matcher.reserve(posted, unexpected)?;
        Ok(matcher)
    }
}

/// Makes room for `len` elements; nothing is written yet. False if there is no memory.
fn room<T>(vec: &mut Vec<T>, len: usize) -> bool {
    vec.try_reserve_exact(len.saturating_sub(vec.len())).is_ok()
}

/// The number of entries to grow to, and of buckets for them.
fn sizes(old: usize, wanted: usize) -> Option<(usize, usize)> {
    let len = wanted.max(old.saturating_mul(2)).max(16);
    // Load between 1/4 and 1/2: a look-up that hits mostly finds its bin first in the chain.
    Some((len, len.checked_mul(2)?.checked_next_power_of_two()?))
}

impl HeapStorage {
    fn grow_posted(&mut self, wanted: usize) -> Option<()> {
        let (len, buckets) = sizes(self.posted.len(), wanted)?;
        if !(room(&mut self.posted, len) && room(&mut self.posted_buckets, buckets)) {
            return None;
        }
        self.posted.resize(len, PostedNode::EMPTY);
        self.posted_buckets.resize(buckets, Bucket::EMPTY);
        Some(())
    }

    fn grow_unexpected(&mut self, wanted: usize) -> Option<()> {
        let (len, buckets) = sizes(self.unexpected.len(), wanted)?;
        let links = len.checked_mul(EXTRA_LINKS)?;
        if !(room(&mut self.unexpected, len)
            && room(&mut self.unexpected_buckets, buckets)
            && room(&mut self.links, links))
        {
            return None;
        }
        self.unexpected.resize(len, UnexpectedNode::EMPTY);
        self.unexpected_buckets.resize(buckets, Bucket::EMPTY);
        self.links.resize(links, Link::EMPTY);
        Some(())
    }
}

impl Storage for HeapStorage {
    #[inline]
    fn posted(&mut self) -> PostedMemory<'_> {
        PostedMemory {
            nodes: &mut self.posted,
            buckets: &mut self.posted_buckets,
        }
    }

    #[inline]
    fn unexpected(&mut self) -> UnexpectedMemory<'_> {
        UnexpectedMemory {
            nodes: &mut self.unexpected,
            buckets: &mut self.unexpected_buckets,
            links: &mut self.links,
        }
    }

    fn grow(&mut self, posted: usize, unexpected: usize) -> Result<(), Full> {
        if posted > self.posted.len() && self.grow_posted(posted).is_none() {
            return Err(Full::Posted {
                capacity: self.posted.len(),
            });
        }
        if unexpected > self.unexpected.len() && self.grow_unexpected(unexpected).is_none() {
            return Err(Full::Unexpected {
                capacity: self.unexpected.len(),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Full, HeapMatcher};

    #[test]
    fn impossible_sizes_are_errors_and_change_nothing() {
        let mut matcher = HeapMatcher::with_capacity(3, 0).expect("memory");
        let capacity = matcher.posted_capacity();
        assert_eq!(
            matcher.reserve(usize::MAX, 0),
            Err(Full::Posted { capacity })
        );
        assert_eq!(
            matcher.reserve(0, usize::MAX),
            Err(Full::Unexpected { capacity: 0 })
        );
        assert_eq!(
            matcher.reserve(usize::MAX / 64, 0),
            Err(Full::Posted { capacity })
        );
        assert_eq!(matcher.posted_capacity(), capacity);
        assert_eq!(matcher.unexpected_capacity(), 0);
    }
}
