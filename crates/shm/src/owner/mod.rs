//! What an endpoint says in the part of its segment that nobody else can write, and how its peers
//! read that.
//!
//! - [`split`]: how far the two ends of a split copy are.
//! - [`region`]: where exposed regions lie, and which region of a peer an endpoint accesses.
//! - [`status`]: how an endpoint is.

#[cfg(all(test, loom))]
mod interleavings;
#[cfg(not(loom))]
mod own_splits;
pub mod region;
pub mod split;
pub mod status;

#[cfg(not(loom))]
pub use own_splits::OwnSplits;

use crate::sync::{Ordering, fence};

/// Words that their owner alone writes, as a peer sees them.
pub trait Words {
    /// The word of 8 bytes at `offset`, loaded without an order.
    ///
    /// # Panics
    /// Unless `offset` is a multiple of 8 and the word is within the range.
    #[must_use]
    fn load(&self, offset: usize) -> u64;

    /// As [`load`](Self::load); what the owner stored before a store with release that this sees is
    /// seen afterwards.
    ///
    /// # Panics
    /// As [`load`](Self::load).
    #[inline]
    #[must_use]
    fn load_acquire(&self, offset: usize) -> u64 {
        let word = self.load(offset);
        // In place of an acquire load, which read-only memory need not allow.
        fence(Ordering::Acquire);
        word
    }
}
