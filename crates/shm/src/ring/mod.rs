//! Rings, release flags and the wake-up flag: what a message crosses on its way
//! from one process to another.
//!
//! - [`mod@line`]: private ring of one sender and one receiver, cut into cache lines.
//! - [`shared`]: one ring per receiver that every other sender may use.
//! - [`release`]: how a borrower gives a buffer of the owner's staging pool back.
//! - [`wakeup`]: how a sender learns, for the price of one cached load, that its
//!   receiver sleeps.
//! - [`memory`]: where the bytes of all these live: a mapping, the heap, or a
//!   model for loom.
//!
//! # Who is trusted
//!
//! Each side keeps its own positions in private memory. What it reads from shared
//! memory is read once, checked against the ring's geometry, and only then used.
//! A hostile peer can lose its own messages, or make them look damaged
//! ([`Corrupt`]); it cannot lead the other side out of the ring's memory, into a
//! panic, or into an endless loop. Payload bytes are plain memory: the
//! acquire/release pairs named at each ring order them between honest peers; a
//! peer that breaks the protocol changes only which bytes arrive.

#[cfg(not(loom))]
mod copy;
#[cfg(all(test, loom))]
mod interleavings;
pub mod line;
pub mod memory;
#[cfg(not(loom))]
mod prefetch;
mod record;
pub mod release;
pub mod shared;
pub mod wakeup;

#[cfg(all(test, not(loom)))]
mod watchdog;

#[cfg(not(loom))]
pub use copy::instructions;
#[cfg(not(loom))]
pub use copy::{NON_TEMPORAL, StoreMode, copy_bytes, copy_from_peer, copy_from_peer_to};
pub use line::{LineConsumer, LineProducer};
pub use memory::Memory;
#[cfg(not(loom))]
pub use memory::{Mapped, heap};
pub use record::Record;
pub use release::{FlagsEvery, PackedFlags, ReleaseFlags};
pub use shared::{SharedConsumer, SharedProducer};
pub use wakeup::{AsymmetricFence, Sleeper, Waker};

/// Bytes of a cache line, the unit in which the rings are cut.
pub const LINE: usize = 64;

/// A structure cannot be laid over the given memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// The number of lines or slots is not a power of two within the limits.
    #[error(
        "{what} must be a power of two from {least} to {most}, and is {given}: \
         check the layout of the segment"
    )]
    Count {
        /// What is counted.
        what: &'static str,
        /// Smallest number allowed.
        least: u32,
        /// Greatest number allowed.
        most: u32,
        /// The number that was given.
        given: u32,
    },
    /// The memory is smaller than the structure.
    #[error("the area has {given} bytes and needs {needed}: check the layout of the segment")]
    TooSmall {
        /// Bytes that there are.
        given: usize,
        /// Bytes that it takes.
        needed: usize,
    },
    /// The sender's number does not fit in a slot's state word.
    #[error("sender {given} is out of range: senders of a shared ring are numbered below {limit}")]
    Sender {
        /// The number that was given.
        given: u32,
        /// First number that is too great.
        limit: u32,
    },
}

/// A word of a ring is not one that an honest peer can have written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "corrupt ring: word {word:#018x} at position {position}: {what}; \
     give this peer up, its memory cannot be trusted"
)]
pub struct Corrupt {
    /// Line or slot, counted from the start of the ring's life.
    pub position: u64,
    /// The offending word as it was read.
    pub word: u64,
    /// Which check failed.
    pub what: &'static str,
}

/// Checks a count of lines or slots, and that `needed` bytes are there.
fn check_geometry(
    what: &'static str,
    given: u32,
    limits: core::ops::RangeInclusive<u32>,
    area: usize,
    needed: usize,
) -> Result<(), GeometryError> {
    if !given.is_power_of_two() || !limits.contains(&given) {
        return Err(GeometryError::Count {
            what,
            least: *limits.start(),
            most: *limits.end(),
            given,
        });
    }
    check_area(area, needed)
}

/// Checks that `needed` bytes are there.
fn check_area(area: usize, needed: usize) -> Result<(), GeometryError> {
    if area < needed {
        return Err(GeometryError::TooSmall {
            given: area,
            needed,
        });
    }
    Ok(())
}
