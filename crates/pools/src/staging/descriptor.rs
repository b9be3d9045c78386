//! What a record says of bytes in a staging pool.

use limic_shm::bytes::halves;

/// How a staging buffer is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Lease {
    /// It is the sender's, and goes back by its release flag.
    Borrowed = 0,
    /// It is the sender's; its reader may keep all of its pages, and answer in them.
    Transferred = 1,
    /// It is the reader's own again.
    Returned = 2,
}

impl Lease {
    #[inline(always)]
    fn from_bits(bits: u64) -> Option<Self> {
        match bits {
            0 => Some(Self::Borrowed),
            1 => Some(Self::Transferred),
            2 => Some(Self::Returned),
            _ => None,
        }
    }
}

/// Bytes in a staging pool, in two words: so the records of a message in two fragments fit one
/// cache line, if its tag is that of the record before them.
///
/// | word | bits | |
/// |---|---|---|
/// | page word | 0 to 31 | the first page |
/// | | 32 to 63 | its generation |
/// | extent | 0 to 31 | length in bytes |
/// | | 32 to 39 | the lease |
/// | | 40 to 63 | pages of the buffer; its reader looks at them if it may keep the buffer |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferDescriptor {
    page_word: u64,
    extent: u64,
}

impl From<[u64; 2]> for BufferDescriptor {
    #[inline(always)]
    fn from([page_word, extent]: [u64; 2]) -> Self {
        Self { page_word, extent }
    }
}

const LEASE_AT: u32 = 32;
const LEASE_MASK: u64 = 0xFF;
const PAGES_AT: u32 = 40;

#[expect(clippy::len_without_is_empty, reason = "nobody asks whether it is")]
impl BufferDescriptor {
    /// The first `len` bytes of a buffer that begins with `page`.
    #[inline(always)]
    #[must_use]
    pub fn new(page: u32, generation: u32, pages: u32, len: u64, lease: Lease) -> Self {
        // A staging buffer, which holds the longest fragment, has a `u32` of bytes.
        debug_assert!(
            len <= u32::MAX.into() && pages < 1 << 24,
            "a staging buffer"
        );
        Self {
            page_word: halves(page, generation),
            extent: u64::from(pages) << PAGES_AT | (lease as u64) << LEASE_AT | len,
        }
    }

    /// What is written to a record.
    #[inline(always)]
    #[must_use]
    pub fn words(self) -> [u64; 2] {
        [self.page_word, self.extent]
    }

    /// Bytes.
    #[inline(always)]
    #[must_use]
    pub fn len(&self) -> u64 {
        self.extent & u64::from(u32::MAX)
    }

    /// The first page.
    #[inline(always)]
    #[must_use]
    pub fn page(&self) -> u32 {
        self.page_word as u32
    }

    /// The generation under which the buffer is lent.
    #[inline(always)]
    #[must_use]
    pub fn generation(&self) -> u32 {
        (self.page_word >> 32) as u32
    }

    /// `None`: one that does not exist.
    #[inline(always)]
    #[must_use]
    pub fn lease(&self) -> Option<Lease> {
        Lease::from_bits(self.extent >> LEASE_AT & LEASE_MASK)
    }

    /// Pages that the reader may keep.
    #[inline(always)]
    #[must_use]
    pub fn pages(&self) -> u32 {
        (self.extent >> PAGES_AT) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_come_back() {
        let (most, pages) = (u32::MAX, (1 << 24) - 1);
        for (page, generation, pages, len, lease) in [
            (most, most, pages, most.into(), Lease::Returned),
            (most, 0, 0, 0, Lease::Borrowed),
            (0, most, pages, 0, Lease::Transferred),
            (0, 0, 0, most.into(), Lease::Borrowed),
        ] {
            let given = BufferDescriptor::new(page, generation, pages, len, lease);
            let read = BufferDescriptor::from(given.words());
            assert_eq!((read.page(), read.generation()), (page, generation));
            assert_eq!((read.pages(), read.len()), (pages, len));
            assert_eq!(read.lease(), Some(lease));
        }
    }

    #[test]
    fn there_are_three_leases() {
        let known = (0..=LEASE_MASK).filter(|bits| Lease::from_bits(*bits).is_some());
        assert_eq!(known.count(), 3);
    }
}
