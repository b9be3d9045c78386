//! Where the bytes of a ring live, and whose atomics reach them.
//!
//! The rings are written once, against [`Memory`]. In a job the bytes are in a
//! mapped segment ([`Mapped`]), under Miri and in tests in the heap ([`heap`]),
//! under loom in a model that knows about races.

use crate::sync::{AtomicU32, AtomicU64};

#[cfg(not(loom))]
mod heap;
#[cfg(not(loom))]
mod mapped;
#[cfg(all(test, loom))]
pub(crate) mod modelled;

#[cfg(not(loom))]
pub use self::{heap::heap, mapped::Mapped};

/// A range of bytes that other processes may read and write at the same time.
///
/// # Safety
///
/// For every value, and until the last of its clones and sub-ranges is dropped,
/// an implementation guarantees that
///
/// - its `len()` bytes stay valid for reads and writes at one address, whatever
///   happens to the process on the other side;
/// - the first byte is aligned to 64 bytes;
/// - `word64` at a multiple of 8 and `word32` at a multiple of 4 refer to exactly
///   those bytes, `read` and `write` too;
/// - `len()` never changes, and clones mean the same bytes.
pub unsafe trait Memory: Clone {
    /// Bytes in this range.
    fn len(&self) -> usize;

    /// Whether the range has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The word of 8 bytes at `offset`, unchecked.
    ///
    /// # Safety
    ///
    /// `offset` is a multiple of 8 and `offset + 8 <= len()`.
    unsafe fn word64_unchecked(&self, offset: usize) -> &AtomicU64;

    /// The word of 4 bytes at `offset`, unchecked.
    ///
    /// # Safety
    ///
    /// `offset` is a multiple of 4 and `offset + 4 <= len()`.
    unsafe fn word32_unchecked(&self, offset: usize) -> &AtomicU32;

    /// The word of 8 bytes at `offset`.
    ///
    /// # Panics
    ///
    /// Unless `offset` is a multiple of 8 and the word is within the range.
    #[cfg_attr(limic_sim, track_caller)]
    #[inline]
    fn word64(&self, offset: usize) -> &AtomicU64 {
        assert!(
            offset % 8 == 0 && self.len() >= 8 && offset <= self.len() - 8,
            "no 64-bit word at offset {offset} of {} bytes",
            self.len()
        );
        // SAFETY: just checked.
        unsafe { self.word64_unchecked(offset) }
    }

    /// The word of 4 bytes at `offset`.
    ///
    /// # Panics
    ///
    /// Unless `offset` is a multiple of 4 and the word is within the range.
    #[cfg_attr(limic_sim, track_caller)]
    #[inline(always)]
    fn word32(&self, offset: usize) -> &AtomicU32 {
        assert!(
            offset % 4 == 0 && self.len() >= 4 && offset <= self.len() - 4,
            "no 32-bit word at offset {offset} of {} bytes",
            self.len()
        );
        // SAFETY: just checked.
        unsafe { self.word32_unchecked(offset) }
    }

    /// Copies `len` bytes from private memory to `offset`.
    ///
    /// # Safety
    ///
    /// `offset + len <= len()`; `from` is valid for `len` bytes outside of this
    /// range; an acquire/release pair orders the copy against honest users of the
    /// same bytes.
    unsafe fn write(&self, offset: usize, from: *const u8, len: usize);

    /// As [`write`](Self::write), if `len` is at most 64; if not, copies nothing and says so by
    /// `false`.
    ///
    /// # Safety
    ///
    /// As [`write`](Self::write).
    unsafe fn write_short(&self, offset: usize, from: *const u8, len: usize) -> bool {
        if len > 64 {
            return false;
        }
        // SAFETY: the caller's promise.
        unsafe { self.write(offset, from, len) };
        true
    }

    /// As [`write`](Self::write), for a core far away that reads the bytes. What is written
    /// afterwards is seen after them.
    ///
    /// # Safety
    ///
    /// As [`write`](Self::write).
    unsafe fn write_to_far(&self, offset: usize, from: *const u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.write(offset, from, len) };
    }

    /// Copies `len` bytes at `offset` to private memory.
    ///
    /// # Safety
    ///
    /// As [`write`](Self::write), with `to` valid for writes.
    unsafe fn read(&self, offset: usize, to: *mut u8, len: usize);

    /// As [`read`](Self::read), if `len` is at most 64; if not, copies nothing and says so by
    /// `false`.
    ///
    /// # Safety
    ///
    /// As [`read`](Self::read).
    unsafe fn read_short(&self, offset: usize, to: *mut u8, len: usize) -> bool {
        if len > 64 {
            return false;
        }
        // SAFETY: the caller's promise.
        unsafe { self.read(offset, to, len) };
        true
    }

    /// Address of the byte at `offset`. Only an address: whoever uses it obeys the
    /// conditions of [`read`](Self::read) and [`write`](Self::write).
    #[cfg(not(loom))]
    fn pointer(&self, offset: usize) -> *mut u8;

    /// Asks for ownership of the cache line at `offset`, and does not wait for it.
    fn prefetch_write(&self, offset: usize);

    /// Whether stores to several lines wait for one line after the other, unless all of them are
    /// asked for before.
    fn stores_wait_in_turn(&self) -> bool;

    /// Moves the cache line at `offset` to where another core finds it sooner, if the processor
    /// can, and does not wait for that.
    fn demote(&self, offset: usize) {
        let _ = offset;
    }

    /// Asks for the cache line at `offset`, and does not wait for it.
    fn prefetch_read(&self, offset: usize);

    /// The `len` bytes from `offset` on.
    ///
    /// # Panics
    ///
    /// Unless `offset` is a multiple of 64 and the bytes are within the range.
    /// Offsets that come from a peer are to be checked before.
    #[must_use]
    fn sub(&self, offset: usize, len: usize) -> Self;
}

/// Panics unless `offset..offset + len` is a legal sub-range of `whole` bytes.
#[cfg(any(not(loom), test))]
fn check_sub(whole: usize, offset: usize, len: usize) {
    assert!(
        offset % super::LINE == 0 && offset.checked_add(len).is_some_and(|end| end <= whole),
        "no sub-range of {len} bytes at offset {offset} of {whole} bytes"
    );
}
