//! Memory of this process that its peers may read: buffers, and an allocator for the whole program.
//!
//! A message out of such memory is copied once: by its receiver, which maps the memory too. No call
//! of the kernel and no permission is needed. Peers can read it, all of it, and cannot write it:
//! the kernel refuses (F_SEAL_FUTURE_WRITE).
//!
//! The memory is that of arenas: memfds that grow page by page as they are touched. Blocks begin on
//! a page of 4096 bytes and have whole ones, so this is memory for long blocks.
//!
//! - **No memory, no descriptor, or a stricter system:** ordinary memory takes its place, and
//!   messages go as from there.
//! - **fork:** the child has a copy of its own, which no peer can read; the parent's call waits
//!   until the copy is made. What the child allocates later can be read by its peers. A child that
//!   was made by a raw system call, or by `_Fork`, shares the memory with its parent, and must not
//!   write it. While a thread forks, the others get ordinary memory.
//! - **exec, posix_spawn:** nothing is left of it, and no descriptor is inherited.
//! - Do not call **mremap** on a block, as on any allocator's.
//! - **Memory that is given back** stays with the process for the next blocks. Blocks of more than
//!   32 MiB go back to the system; where peers have mapped them, at the next progress of both
//!   sides.

/// The programs of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

mod allocator;
mod buffer;
mod heap;
mod known;
mod later;
mod lock;
mod preloaded;
pub mod raw;
mod runs;
mod table;
mod uncancelled;

use std::os::fd::OwnedFd;

pub use allocator::PeerReadable;
pub use buffer::Buffer;
pub use known::{HeapArenas, HeapPlace, place_of};
pub use preloaded::{INTERFACE, Interface};

/// Where bytes lie that peers may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The arena's number, which no other one of this process ever has.
    pub arena: u64,
    /// Where they begin in it.
    pub offset: u64,
}

/// Where these bytes lie, if peers may read them.
///
/// ```
/// let buffer = limic_heap::Buffer::new(100_000).ok_or("no memory")?;
/// let place = limic_heap::place(buffer.as_ptr(), 100_000);
/// let inside = limic_heap::place(buffer[5000..].as_ptr(), 100);
/// assert_eq!(inside.map(|inside| inside.offset), place.map(|place| place.offset + 5000));
/// assert!(limic_heap::place([0_u8; 100].as_ptr(), 100).is_none());
/// # Ok::<(), &str>(())
/// ```
#[inline]
#[must_use]
pub fn place(start: *const u8, len: usize) -> Option<Place> {
    table::place(start.addr(), len).or_else(|| preloaded::place(start, len))
}

/// A descriptor of an arena, which a peer may map for reading, and its size in bytes. `None`: there
/// is no such arena (any more), the program has closed its descriptor, or no other one is free.
#[must_use]
pub fn descriptor(arena: u64) -> Option<(OwnedFd, usize)> {
    if preloaded::has(arena) {
        return preloaded::descriptor(arena);
    }
    heap::descriptor(arena)
}

/// How many arenas were given back to the system: while that is the same, all are there that were.
#[inline]
#[must_use]
pub fn ended_arenas() -> u64 {
    table::ended().wrapping_add(preloaded::ended())
}

/// Whether an arena is still there.
#[must_use]
pub fn is_there(arena: u64) -> bool {
    if preloaded::has(arena) {
        return preloaded::is_there(arena);
    }
    table::contains(arena)
}
