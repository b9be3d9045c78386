//! Where the regions lie that an endpoint exposes, and which region of a peer it accesses.
//!
//! A region may not be taken back while a peer copies. So whoever accesses a region first says so,
//! by its key, in a word of its own segment ([`Accessing`]), and then looks whether the region is
//! still in its owner's table ([`RegionTable`]). The owner first removes the region, and then waits
//! until no peer says that it accesses it (hazard pointers, Michael 2004).
//!
//! # Invariants
//! - A key is in one place of the table only.
//! - Memory that an access was allowed to is freed only when the word of the access is another one.

use super::Words;
use crate::ring::{LINE, Memory};
use crate::sync::{AtomicU64, Ordering, fence};

/// Bytes of a place in the table of exposed regions.
pub const REGION_BYTES: usize = LINE;

/// Words of a place in the table: the key, which is 0 where there is no region, and the rest.
const KEY: usize = 0;
const ADDRESS: usize = 8;
const LEN: usize = 16;
const ACCESS: usize = 24;
const ORIGIN: usize = 32;

/// What is to be known of a region beside its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionTerms {
    /// The first byte.
    pub address: u64,
    /// Bytes.
    pub len: u64,
    /// Bits of what peers may do.
    pub access: u64,
    /// The offset by which peers name the first byte.
    pub origin: u64,
}

/// The regions that this endpoint exposes.
#[derive(Debug)]
pub struct RegionTable<M> {
    places: M,
    count: u32,
}

impl<M: Memory> RegionTable<M> {
    /// Of an area of `count` places.
    pub const fn new(places: M, count: u32) -> Self {
        Self { places, count }
    }

    /// Enters a region, if there is such a place. It is free: nobody says that it accesses the
    /// region before.
    pub fn publish(&self, place: u32, key: u64, terms: &RegionTerms) {
        if place >= self.count {
            return;
        }
        let word = |at| self.word(place, at);
        word(ADDRESS).store(terms.address, Ordering::Relaxed);
        word(LEN).store(terms.len, Ordering::Relaxed);
        word(ACCESS).store(terms.access, Ordering::Relaxed);
        word(ORIGIN).store(terms.origin, Ordering::Relaxed);
        // Release: pairs with the acquire in `PeerRegionTable::look`: a peer that sees the key sees
        // the rest.
        word(KEY).store(key, Ordering::Release);
    }

    /// Removes a region, if it has a place here. Its memory is free when no peer says that it
    /// accesses it.
    pub fn remove(&self, place: u32) {
        if place < self.count {
            self.word(place, KEY).store(0, Ordering::Relaxed);
        }
        // Pairs with the fence in `Accessing::begin`: either this side sees what the accessor says,
        // or the accessor sees that the key is gone.
        fence(Ordering::SeqCst);
    }

    fn word(&self, place: u32, at: usize) -> &AtomicU64 {
        self.places.word64(place as usize * REGION_BYTES + at)
    }
}

/// The regions that a peer exposes.
#[derive(Debug)]
pub struct PeerRegionTable<W> {
    places: W,
    count: u32,
}

impl<W: Words> PeerRegionTable<W> {
    /// Of an area of `count` places.
    pub const fn new(places: W, count: u32) -> Self {
        Self { places, count }
    }

    /// Places for regions.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The region under this key, which is not 0, if it is in this place. It may be accessed until
    /// the access ends that has begun before.
    pub fn look(&self, place: u32, key: u64) -> Option<RegionTerms> {
        if place >= self.count {
            return None;
        }
        let at = place as usize * REGION_BYTES;
        // Acquire: pairs with the release in `RegionTable::publish`.
        if self.places.load_acquire(at + KEY) != key {
            return None;
        }
        Some(RegionTerms {
            address: self.places.load(at + ADDRESS),
            len: self.places.load(at + LEN),
            access: self.places.load(at + ACCESS),
            origin: self.places.load(at + ORIGIN),
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
