//! Bytes of a mapping, kept alive by whatever owns it.

use core::any::Any;
use core::ptr::NonNull;
use std::sync::Arc;

use super::{Memory, check_sub};
use crate::processor;
use crate::ring::copy::{
    StoreMode, copy_bytes, copy_from_peer, copy_from_peer_to, copy_short, copy_to_far,
};
use crate::ring::prefetch;
use crate::sync::{AtomicU32, AtomicU64};
use crate::system;

/// A range of mapped memory. Clones are cheap, and each of them keeps the mapping.
#[derive(Debug, Clone)]
pub struct Mapped {
    /// Start of the range, aligned to 64 bytes; typed as words so that the
    /// alignment shows in the type.
    base: NonNull<u64>,
    len: usize,
    /// Owner of the mapping; dropped with the last view.
    keep_alive: Arc<dyn Any + Send + Sync>,
}

// SAFETY: `Mapped` hands out atomics, which threads may share, and raw accesses
// whose callers promise to order them; the keep-alive is Send and Sync itself.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// A view of `len` bytes at `base`.
    ///
    /// # Safety
    ///
    /// `base` is aligned to 64 bytes; its `len` bytes are valid for reads and
    /// writes until the last clone of `keep_alive` is dropped, even if a peer
    /// truncates or closes the file beneath; no Rust reference to these bytes
    /// exists meanwhile, except to atomics.
    #[must_use]
    pub unsafe fn new(
        base: NonNull<u8>,
        len: usize,
        keep_alive: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        debug_assert!(base.cast::<[u8; 64]>().addr().get() % 64 == 0);
        Self {
            base: base.cast::<u64>(),
            len,
            keep_alive,
        }
    }

    /// Address of the byte at `offset`.
    ///
    /// # Safety
    ///
    /// `offset <= len`.
    #[inline(always)]
    unsafe fn at(&self, offset: usize) -> NonNull<u64> {
        debug_assert!(offset <= self.len);
        // SAFETY: the result is within the mapping or one past it (the caller's
        // promise), and the mapping is one allocation (promised in `new`).
        unsafe { self.base.byte_add(offset) }
    }

    /// As [`read`](Memory::read), to memory that is written as `how` says.
    ///
    /// # Safety
    ///
    /// As [`read`](Memory::read).
    #[inline]
    pub unsafe fn read_to(&self, how: StoreMode, offset: usize, to: *mut u8, len: usize) {
        system::access();
        debug_assert!(offset <= self.len && len <= self.len - offset);
        // SAFETY: in range, valid and apart by the caller's promise.
        unsafe { copy_from_peer_to(how, self.at(offset).cast::<u8>().as_ptr(), to, len) }
    }
}

// SAFETY: `new` asks its caller for exactly what the trait promises; `keep_alive`
// makes it last until the last clone; `check_sub` keeps sub-ranges aligned.
unsafe impl Memory for Mapped {
    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[cfg_attr(limic_sim, track_caller)]
    #[inline(always)]
    unsafe fn word64_unchecked(&self, offset: usize) -> &AtomicU64 {
        system::access();
        debug_assert!(offset % 8 == 0 && offset + 8 <= self.len);
        // SAFETY: in range and aligned by the caller's promise; the bytes live as
        // long as `self`; nobody holds plain references to them.
        unsafe { self.at(offset).cast::<AtomicU64>().as_ref() }
    }

    #[cfg_attr(limic_sim, track_caller)]
    #[inline(always)]
    unsafe fn word32_unchecked(&self, offset: usize) -> &AtomicU32 {
        system::access();
        debug_assert!(offset % 4 == 0 && offset + 4 <= self.len);
        // SAFETY: as for `word64_unchecked`.
        unsafe { self.at(offset).cast::<AtomicU32>().as_ref() }
    }

    #[cfg_attr(limic_sim, track_caller)]
    #[inline(always)]
    unsafe fn write(&self, offset: usize, from: *const u8, len: usize) {
        system::access();
        debug_assert!(offset <= self.len && len <= self.len - offset);
        // SAFETY: in range, valid and apart by the caller's promise.
        unsafe { copy_bytes(from, self.at(offset).cast::<u8>().as_ptr(), len) }
    }

    #[cfg_attr(limic_sim, track_caller)]
    #[inline(always)]
    unsafe fn write_short(&self, offset: usize, from: *const u8, len: usize) -> bool {
        system::access();
        debug_assert!(offset <= self.len && len <= self.len - offset);
        // SAFETY: in range, valid and apart by the caller's promise.
        unsafe { copy_short(from, self.at(offset).cast::<u8>().as_ptr(), len) }
    }

    #[cfg_attr(limic_sim, track_caller)]
    #[inline]
    unsafe fn write_to_far(&self, offset: usize, from: *const u8, len: usize) {
        system::access();
        debug_assert!(offset <= self.len && len <= self.len - offset);
        // SAFETY: in range, valid and apart by the caller's promise.
        unsafe { copy_to_far(from, self.at(offset).cast::<u8>().as_ptr(), len) }
    }

    #[cfg_attr(limic_sim, track_caller)]
    #[inline(always)]
    unsafe fn read(&self, offset: usize, to: *mut u8, len: usize) {
        system::access();
        debug_assert!(offset <= self.len && len <= self.len - offset);
        // SAFETY: in range, valid and apart by the caller's promise.
        unsafe { copy_from_peer(self.at(offset).cast::<u8>().as_ptr(), to, len) }
    }

    #[cfg_attr(limic_sim, track_caller)]
    #[inline(always)]
    unsafe fn read_short(&self, offset: usize, to: *mut u8, len: usize) -> bool {
        system::access();
        debug_assert!(offset <= self.len && len <= self.len - offset);
        // SAFETY: in range, valid and apart by the caller's promise.
        unsafe { copy_short(self.at(offset).cast::<u8>().as_ptr(), to, len) }
    }

    #[inline(always)]
    fn pointer(&self, offset: usize) -> *mut u8 {
        self.base.cast::<u8>().as_ptr().wrapping_add(offset)
    }

    #[inline(always)]
    fn prefetch_write(&self, offset: usize) {
        prefetch::write(self.pointer(offset));
    }

    #[inline(always)]
    fn demote(&self, offset: usize) {
        prefetch::demote(self.pointer(offset));
    }

    #[inline(always)]
    fn stores_wait_in_turn(&self) -> bool {
        processor::stores_wait_in_turn()
    }

    #[inline(always)]
    fn prefetch_read(&self, offset: usize) {
        prefetch::read(self.pointer(offset));
    }

    fn sub(&self, offset: usize, len: usize) -> Self {
        check_sub(self.len, offset, len);
        // SAFETY: `check_sub` saw that offset <= self.len.
        let base = unsafe { self.at(offset) };
        Self {
            base,
            len,
            keep_alive: Arc::clone(&self.keep_alive),
        }
    }
}
