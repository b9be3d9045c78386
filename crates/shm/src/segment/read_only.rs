//! Words of a peer's memory that this process can only read.

use std::ptr::NonNull;
use std::sync::Arc;

use super::mapping::Mapping;
use crate::owner::Words;
use crate::sync::{AtomicU64, Ordering};
use crate::system;

/// A range of the part of a segment that only its owner writes, mapped here for reading. Clones are
/// cheap, and each of them keeps the mapping. No other peer can write there either: what is read
/// was written by the owner.
#[derive(Debug, Clone)]
pub struct ReadOnly {
    /// Start of the range, aligned to 64 bytes.
    base: NonNull<u64>,
    len: usize,
    mapping: Arc<Mapping>,
}

// SAFETY: only atomic loads go through it, and the mapping is Send and Sync itself.
unsafe impl Send for ReadOnly {}
// SAFETY: as above.
unsafe impl Sync for ReadOnly {}

impl ReadOnly {
    pub(super) fn new(mapping: Mapping) -> Self {
        Self {
            base: mapping.base().cast(),
            len: mapping.len(),
            mapping: Arc::new(mapping),
        }
    }

    /// The `len` bytes at `offset`, a multiple of 64, which are within this range.
    pub(super) fn sub(&self, offset: usize, len: usize) -> Self {
        assert!(
            offset % 64 == 0 && offset <= self.len && len <= self.len - offset,
            "no part at {offset} of {len} bytes in {} bytes",
            self.len
        );
        Self {
            // SAFETY: within the mapping, or one past its end: just checked.
            base: unsafe { self.base.byte_add(offset) },
            len,
            mapping: Arc::clone(&self.mapping),
        }
    }

    #[inline(always)]
    fn check<const BYTES: usize>(&self, offset: usize) {
        assert!(
            offset % BYTES == 0 && self.len >= BYTES && offset <= self.len - BYTES,
            "no word of {BYTES} bytes at offset {offset} of {} bytes",
            self.len
        );
    }
}

impl Words for ReadOnly {
    #[cfg_attr(limic_sim, track_caller)]
    #[inline(always)]
    fn load(&self, offset: usize) -> u64 {
        self.check::<8>(offset);
        system::access();
        // SAFETY: in range and aligned: just checked. The mapping is kept by `self` and has the
        // bytes for as long as it lives, since a sealed tmpfs file cannot shrink. A relaxed load of
        // 8 bytes is one that read-only memory allows.
        unsafe { self.base.byte_add(offset).cast::<AtomicU64>().as_ref() }.load(Ordering::Relaxed)
    }
}
