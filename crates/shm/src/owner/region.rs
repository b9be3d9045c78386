//! Where the regions lie that an endpoint exposes, and which region of a peer it accesses.
//!
//! A region may not be taken back while a peer copies. So whoever accesses a region first says so,
//! by its key, in a word of its own segment ([`Accessing`]), and then looks whether the region is
//! still in its owner's table ([`RegionTable`]). The owner first removes the region, and then waits
//! until no peer says that it accesses it (hazard pointers, Michael 2004).
//!
//! # Invariants
//! - A key is in one entry of the table only.
//! - Memory that an access was allowed to is freed only when the word of the access is another one.

use super::Words;
use crate::ring::{LINE, Memory};
use crate::sync::{AtomicU64, Ordering, fence};

/// Bytes of an entry in the table of exposed regions.
pub const REGION_BYTES: usize = LINE;

/// Words of an entry of the table: the key, which is 0 where there is no region, and the rest.
const KEY: usize = 0;
const ADDRESS: usize = 8;
const LEN: usize = 16;
const ACCESS: usize = 24;
const ORIGIN: usize = 32;
const SERIAL: usize = 40;

/// What is to be known of a region beside its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionTerms {
    /// The first byte.
    pub address: u64,
    /// Bytes.
    pub len: u64,
    /// Bits of what peers may do, and of what they tell the owner of.
    pub access: u64,
    /// The offset by which peers name the first byte.
    pub origin: u64,
    /// A number that no other region of this owner has, whatever its key, nor had in its last 2^32
    /// exposures.
    pub serial: u64,
}

/// The regions that this endpoint exposes.
#[derive(Debug)]
pub struct RegionTable<M> {
    entries: M,
    count: u32,
}

impl<M: Memory> RegionTable<M> {
    /// Of an area of `count` entries.
    pub const fn new(entries: M, count: u32) -> Self {
        Self { entries, count }
    }

    /// Enters a region, if there is an entry of this index. The entry is free: nobody says that it
    /// accesses the region before.
    pub fn publish(&self, index: u32, key: u64, terms: &RegionTerms) {
        if index >= self.count {
            return;
        }
        let word = |at| self.word(index, at);
        word(ADDRESS).store(terms.address, Ordering::Relaxed);
        word(LEN).store(terms.len, Ordering::Relaxed);
        word(ACCESS).store(terms.access, Ordering::Relaxed);
        word(ORIGIN).store(terms.origin, Ordering::Relaxed);
        word(SERIAL).store(terms.serial, Ordering::Relaxed);
        // Release: pairs with the acquire in `PeerRegionTable::look`: a peer that sees the key sees
        // the rest.
        word(KEY).store(key, Ordering::Release);
    }

    /// Changes the bits of a region that has an entry here. A peer that hears of the change by a
    /// message sees it in its next access; others see it some time later.
    pub fn set_access(&self, index: u32, access: u64) {
        if index < self.count {
            self.word(index, ACCESS).store(access, Ordering::Relaxed);
        }
    }

    /// Removes a region, if it has an entry here. Its memory is free when no peer says that it
    /// accesses it.
    pub fn remove(&self, index: u32) {
        if index < self.count {
            self.word(index, KEY).store(0, Ordering::Relaxed);
        }
        // Pairs with the fence in `Accessing::begin`: either this side sees what the accessor says,
        // or the accessor sees that the key is gone.
        fence(Ordering::SeqCst);
    }

    fn word(&self, index: u32, at: usize) -> &AtomicU64 {
        self.entries.word64(index as usize * REGION_BYTES + at)
    }
}

/// The regions that a peer exposes.
#[derive(Debug)]
pub struct PeerRegionTable<W> {
    entries: W,
    count: u32,
}

impl<W: Words> PeerRegionTable<W> {
    /// Of an area of `count` entries.
    pub const fn new(entries: W, count: u32) -> Self {
        Self { entries, count }
    }

    /// Entries for regions.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The region under this key, which is not 0, if it is in the entry of this index. It may
    /// be accessed until the access ends that has begun before.
    pub fn look(&self, index: u32, key: u64) -> Option<RegionTerms> {
        if index >= self.count {
            return None;
        }
        let at = index as usize * REGION_BYTES;
        // Acquire: pairs with the release in `RegionTable::publish`.
        if self.entries.load_acquire(at + KEY) != key {
            return None;
        }
        Some(RegionTerms {
            address: self.entries.load(at + ADDRESS),
            len: self.entries.load(at + LEN),
            access: self.entries.load(at + ACCESS),
            origin: self.entries.load(at + ORIGIN),
            serial: self.entries.load(at + SERIAL),
        })
    }
}

/// The word in which this endpoint says which region of a peer it accesses.
#[derive(Debug)]
pub struct Accessing<M>(M);

impl<M: Memory> Accessing<M> {
    /// In a line of its own.
    pub const fn new(line: M) -> Self {
        Self(line)
    }

    /// An access begins, if the region is still in its owner's table. That is to be looked at next.
    pub fn begin(&self, key: u64) {
        // Release: as in `end`, for who finds this word and not the one that ended the last access.
        self.0.word64(0).store(key, Ordering::Release);
        // Pairs with the fence in `RegionTable::remove`.
        fence(Ordering::SeqCst);
    }

    /// The access is over, or there was none.
    pub fn end(&self) {
        // Release: pairs with the acquire in `PeerAccess::key`: the copy came before.
        self.0.word64(0).store(0, Ordering::Release);
    }
}

/// The word in which a peer says which region it accesses.
#[derive(Debug)]
pub struct PeerAccess<W>(W);

impl<W: Words> PeerAccess<W> {
    /// In a line of its own.
    pub const fn new(line: W) -> Self {
        Self(line)
    }

    /// The region's key; 0 for none.
    pub fn key(&self) -> u64 {
        // Acquire: pairs with the releases in `Accessing::end` and `begin`: the copy of the access
        // before is over.
        self.0.load_acquire(0)
    }
}
