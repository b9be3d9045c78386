//! Which arena an address lies in: asked at every long message, without a lock.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU64, AtomicUsize};

use limic_shm::process::Process;

use crate::Place;

/// The most arenas at a time: each has a descriptor, of which a program needs others too.
pub(crate) const MOST: usize = 256;

/// Where the arena of a place in the table lies. Written under the heap's lock.
struct Entry {
    /// The arena's number; 0 while the entry is empty or changes. `enter` and `leave` store all
    /// fields with release, and `find` loads them with acquire, this one before and after the
    /// others: if it is the same both times, they are those of one arena.
    id: AtomicU64,
    start: AtomicUsize,
    len: AtomicUsize,
    process: AtomicU64,
}

static ENTRIES: [Entry; MOST] = [const {
    Entry {
        id: AtomicU64::new(0),
        start: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        process: AtomicU64::new(0),
    }
}; MOST];

/// Entries that were ever used.
static USED: AtomicUsize = AtomicUsize::new(0);

/// An address in an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The place in the table.
    pub(crate) index: usize,
    pub(crate) id: u64,
    pub(crate) offset: usize,
    /// Bytes of the arena from there on.
    pub(crate) behind: usize,
    /// Peers can map the arena: it was not copied into this process by a fork.
    pub(crate) is_shared: bool,
}

/// All arenas that ever were lie between these two addresses. Relaxed: whoever asks for a block
/// has learned of it after its arena was entered.
static LOWEST: AtomicUsize = AtomicUsize::new(usize::MAX);
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

/// How many arenas have ended.
static ENDED: AtomicU64 = AtomicU64::new(0);

/// What the table has of an arena.
pub(crate) struct Entered {
    pub(crate) id: u64,
    pub(crate) start: usize,
    pub(crate) len: usize,
    pub(crate) process: Process,
}

/// Enters an arena.
pub(crate) fn enter(index: usize, arena: &Entered) {
    let entry = &ENTRIES[index];
    entry.start.store(arena.start, Release);
    entry.len.store(arena.len, Release);
    entry.process.store(arena.process.to_bits(), Release);
    entry.id.store(arena.id, Release);
    LOWEST.fetch_min(arena.start, Relaxed);
    HIGHEST.fetch_max(arena.start + arena.len, Relaxed);
    USED.fetch_max(index + 1, Release);
}

/// Takes an arena out. Nobody has a block of it any more.
pub(crate) fn leave(index: usize) {
    ENTRIES[index].id.store(0, Release);
    ENDED.fetch_add(1, Release);
}

/// How many arenas have ended: while that is the same, all are there that were.
#[inline]
pub(crate) fn ended() -> u64 {
    ENDED.load(Acquire)
}

/// The arena in which an address lies. Whoever asks has the block there, or it is no block.
#[inline]
pub(crate) fn find(address: usize) -> Option<Found> {
    if address < LOWEST.load(Relaxed) || address >= HIGHEST.load(Relaxed) {
        return None;
    }
    let entries = &ENTRIES[..USED.load(Acquire)];
    entries.iter().enumerate().find_map(|(index, entry)| {
        let id = entry.id.load(Acquire);
        let offset = address.wrapping_sub(entry.start.load(Acquire));
        let len = entry.len.load(Acquire);
        if id == 0 || offset >= len {
            return None;
        }
        let process = Process::from_bits(entry.process.load(Acquire));
        // Else the entry changed meanwhile. The arena of a block that is in use stays, so this
        // address is not in that entry's.
        (entry.id.load(Relaxed) == id).then(|| Found {
            index,
            id,
            offset,
            behind: len - offset,
            is_shared: process.is_current(),
        })
    })
}

/// Where bytes lie that peers may read.
#[inline]
pub(crate) fn place(address: usize, len: usize) -> Option<Place> {
    let found = find(address)?;
    (found.is_shared && len <= found.behind).then_some(Place {
        arena: found.id,
        offset: found.offset as u64,
    })
}

/// Whether an arena with this number is there.
pub(crate) fn contains(id: u64) -> bool {
    let entries = &ENTRIES[..USED.load(Acquire)];
    id != 0 && entries.iter().any(|entry| entry.id.load(Acquire) == id)
}
