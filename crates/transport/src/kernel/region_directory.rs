//! The entry of a region in the list that peers read.

use crate::raw::Access;
use crate::{Error, Result};

/// Words of an entry: key, handle, length, origin, access, and the sum that makes it whole.
pub(super) const WORDS: usize = 6;

/// A region as its owner lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirectoryEntry {
    pub(super) key: u64,
    /// 0 for a region of no bytes.
    pub(super) handle: u64,
    pub(super) len: u64,
    /// The offset by which its first byte is named.
    pub(super) origin: u64,
    pub(super) access: Access,
}

impl DirectoryEntry {
    pub(super) fn words(&self) -> [u64; WORDS] {
        let words = [
            self.key,
            self.handle,
            self.len,
            self.origin,
            self.access.bits(),
        ];
        let [key, handle, len, origin, access] = words;
        [key, handle, len, origin, access, sum(&words)]
    }

    /// `None` for an entry that is empty, or being written.
    pub(super) fn of_words(words: &[u64; WORDS]) -> Option<Self> {
        let [key, handle, len, origin, access, found] = *words;
        let whole = key != 0 && sum(&[key, handle, len, origin, access]) == found;
        whole.then(|| Self {
            key,
            handle,
            len,
            origin,
            access: Access::from_bits(access),
        })
    }

    /// Where an access begins in the exposure.
    pub(super) fn place(&self, offset: u64, len: u64) -> Result<u64> {
        let start = offset.checked_sub(self.origin);
        let within = start.filter(|start| {
            let end = start.checked_add(len);
            end.is_some_and(|end| end <= self.len)
        });
        within.ok_or(Error::OutOfRegion {
            offset,
            len,
            region: self.len,
        })
    }
}

fn sum(words: &[u64; WORDS - 1]) -> u64 {
    words.iter().fold(0x6c69_6d69_6331_u64, |sum, word| {
        (sum.rotate_left(13) ^ word).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_whole_or_nothing() {
        let listed = DirectoryEntry {
            key: 7,
            handle: u64::MAX,
            len: 1000,
            origin: 1 << 40,
            access: Access::READ,
        };
        let words = listed.words();
        assert_eq!(DirectoryEntry::of_words(&words), Some(listed));
        for at in 0..WORDS {
            let mut torn = words;
            torn[at] ^= 1 << at;
            assert_eq!(DirectoryEntry::of_words(&torn), None);
        }
        assert_eq!(DirectoryEntry::of_words(&[0; WORDS]), None);
        assert_eq!(listed.place((1 << 40) + 990, 10), Ok(990));
        for (offset, len) in [(0, 1), ((1 << 40) + 991, 10), (u64::MAX, 1)] {
            assert!(listed.place(offset, len).is_err());
        }
    }
}
