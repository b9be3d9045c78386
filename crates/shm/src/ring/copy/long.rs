//! The loops for what is longer than 256 bytes.

use super::{Vector, instructions};
use crate::ring::prefetch;

/// More than 256 bytes.
///
/// # Safety
///
/// As [`copy_bytes`](super::copy_bytes), and `len > 256`.
#[inline(never)]
pub(super) unsafe fn copy_long<const AHEAD: usize, const TO_AHEAD: usize>(
    from: *const u8,
    to: *mut u8,
    len: usize,
) {
    if instructions::rep_movsb_is_for(from, to, len) {
        // SAFETY: the caller's promise.
        unsafe { rep_movsb(from, to, len) }
    } else {
        // SAFETY: the caller's promise.
        unsafe { copy_by_vectors::<AHEAD, TO_AHEAD>(from, to, len) }
    }
}

/// The same by one instruction, whose stores fetch no line that they overwrite whole.
///
/// # Safety
///
/// As [`copy_bytes`](super::copy_bytes).
#[inline(always)]
pub(super) unsafe fn rep_movsb(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: `len` bytes from each side, which the caller vouches for. The calling convention
    // keeps the direction flag clear.
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rcx") len => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags),
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    // SAFETY: the caller's promise.
    unsafe {
        core::ptr::copy_nonoverlapping(from, to, len);
    }
}

/// More than 256 bytes by the widest registers that are worth it.
///
/// # Safety
///
/// As [`copy_long`].
#[inline(always)]
pub(super) unsafe fn copy_by_vectors<const AHEAD: usize, const TO_AHEAD: usize>(
    from: *const u8,
    to: *mut u8,
    len: usize,
) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the processor has AVX; the rest is the caller's promise.
        return unsafe { copy_long_avx::<AHEAD, TO_AHEAD>(from, to, len) };
    }
    // SAFETY: the caller's promise.
    unsafe { blocks::<[Vector; 4], AHEAD, TO_AHEAD>(from, to, len) }
}

/// The same with registers of 32 bytes.
///
/// # Safety
///
/// As [`copy_long`], and the processor has AVX.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn copy_long_avx<const AHEAD: usize, const TO_AHEAD: usize>(
    from: *const u8,
    to: *mut u8,
    len: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { blocks::<[[u8; 32]; 4], AHEAD, TO_AHEAD>(from, to, len) }
}

/// Whole blocks of `T`, with the target on cache lines: an unaligned store that crosses a line
/// costs two, an unaligned load hardly anything. First and last block may overlap the others.
///
/// # Safety
///
/// As [`copy_bytes`](super::copy_bytes), and `len >= 2 * size_of::<T>()`, at least 64 + size;
/// `T` is an array of bytes.
#[inline(always)]
unsafe fn blocks<T: Copy, const AHEAD: usize, const TO_AHEAD: usize>(
    from: *const u8,
    to: *mut u8,
    len: usize,
) {
    let size = size_of::<T>();
    // SAFETY: the first and the last block are within 0..len. The loop starts at most 63 bytes
    // behind the start, which the first block has covered, and ends before `last`; so each of its
    // blocks is within, and together all bytes are copied.
    unsafe {
        let last = len - size;
        to.cast::<T>()
            .write_unaligned(from.cast::<T>().read_unaligned());
        let mut at = to.align_offset(64).min(size);
        // Of the block there, or of the last one: behind the end the peer may write meanwhile.
        let lines = |start: *const u8, at: usize| {
            let block = start.wrapping_add(at.min(last));
            (0..size)
                .step_by(64)
                .map(move |line| block.wrapping_add(line))
        };
        while at < last {
            if AHEAD > 0 {
                lines(from, at + AHEAD).for_each(prefetch::read_to_second);
            }
            if TO_AHEAD > 0 {
                lines(to, at + TO_AHEAD).for_each(prefetch::write);
            }
            to.add(at)
                .cast::<T>()
                .write_unaligned(from.add(at).cast::<T>().read_unaligned());
            at += size;
        }
        // Not loaded before the others: what fetches lines ahead follows a cursor.
        let tail = from.add(last).cast::<T>().read_unaligned();
        to.add(last).cast::<T>().write_unaligned(tail);
    }
}
