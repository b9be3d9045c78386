//! Regions: their names, and what peers may do with them.

use limic_shm::bytes::{LooseMemory, RawSliceMut};

use crate::{Error, Result};

/// Names a region that an endpoint exposed, for itself, as long as it is exposed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RegionId(pub u64);

/// What peers may do with a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// They may read it.
    pub read: bool,
    /// They may write it.
    pub write: bool,
}

impl Access {
    /// Reading alone.
    pub const READ: Self = Self {
        read: true,
        write: false,
    };
    /// Writing alone.
    pub const WRITE: Self = Self {
        read: false,
        write: true,
    };
    /// Reading and writing.
    pub const BOTH: Self = Self {
        read: true,
        write: true,
    };
    /// Neither.
    pub const NONE: Self = Self {
        read: false,
        write: false,
    };

    pub(crate) fn bits(self) -> u64 {
        u64::from(self.read) | u64::from(self.write) << 1
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self {
            read: bits & 1 != 0,
            write: bits & 2 != 0,
        }
    }

    /// The word that peers find of a region: what they may do, and what they tell its owner of.
    pub(crate) fn published(self, reported: Self) -> u64 {
        self.bits() | reported.bits() << 2
    }

    /// What such a word says that the owner is told of.
    pub(crate) fn reported_from(word: u64) -> Self {
        Self::from_bits(word >> 2)
    }

    pub(crate) fn contains(self, other: Self) -> bool {
        (self.read || !other.read) && (self.write || !other.write)
    }
}

/// Some bytes of a region.
///
/// # Errors
/// [`Error::OutOfRegion`].
pub(crate) fn part(memory: &LooseMemory, offset: u64, len: usize) -> Result<RawSliceMut> {
    let (len, region) = (len as u64, memory.len());
    memory.get(offset, len).ok_or(Error::OutOfRegion {
        offset,
        len,
        region,
    })
}
