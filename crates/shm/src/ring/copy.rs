//! Copies of message size, none of them through libc.
//!
//! libc's `memcpy` turns to `rep movsb` for long copies where the processor says that this is fast.
//! On some it is many times slower when the target lies a few bytes behind the source modulo 4096
//! (glibc bug 30994), and message buffers lie like that all the time. Here [`instructions`] finds
//! out what holds for this processor, and [`long`] copies accordingly.
//!
//! Each size class moves its head and its tail with loads of fixed width that may
//! overlap, so that a class has no loop, and no branch on the low bits of the
//! length. Source and destination never overlap, so each part is stored before the next one is
//! loaded: the compiler would keep it on the stack in between.

pub mod instructions;
mod long;

use super::prefetch;
use crate::processor;
use long::copy_long;

/// Whether there are stores that go past the caches here.
pub const NON_TEMPORAL: bool = cfg!(all(target_arch = "x86_64", not(miri)));

/// 16 bytes, one vector register on every 64-bit machine.
type Vector = [u8; 16];

/// How many bytes ahead a copy asks for the lines of its source, if another core wrote them. What
/// is closer than that is on its way already by the copy's own loads, of which a core has a few
/// dozen under way.
const SOURCE_AHEAD: usize = 2048;
/// How far ahead the target's lines are asked for where they are in no cache of this core, in
/// bytes.
const TARGET_AHEAD: usize = 1024;
/// Where nothing is asked for ahead: the lines are most likely near, and the processor fetches
/// others by itself.
const NOT_AHEAD: usize = 0;

/// Copies `len` bytes.
///
/// # Safety
///
/// As [`core::ptr::copy_nonoverlapping`] for `u8`.
#[inline(always)]
pub unsafe fn copy_bytes(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy::<NOT_AHEAD, NOT_AHEAD>(from, to, len) }
}

/// How the memory that a peer's bytes are copied to is written, if not as [`copy_from_peer`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMode {
    /// With ordinary stores to lines that are asked for ahead: it is in no cache of this core, most
    /// likely.
    Prefetched,
    /// With stores past the caches, where there are such ([`NON_TEMPORAL`]).
    NonTemporal,
}

/// Copies `len` bytes that another core has written to memory that is written as `how` says.
///
/// # Safety
///
/// As [`core::ptr::copy_nonoverlapping`] for `u8`.
#[inline(always)]
pub unsafe fn copy_from_peer_to(how: StoreMode, from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match how {
            StoreMode::Prefetched => copy_from_peer_prefetched(from, to, len),
            StoreMode::NonTemporal => copy_from_peer_non_temporal(from, to, len),
        }
    }
}

/// Copies `len` bytes that another core has written, and that lie in its cache: asked for ahead,
/// into the second-level cache (docs/decisions/0011).
///
/// # Safety
///
/// As [`core::ptr::copy_nonoverlapping`] for `u8`.
#[inline(always)]
pub unsafe fn copy_from_peer(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy::<SOURCE_AHEAD, NOT_AHEAD>(from, to, len) }
}

/// The same to memory that is in no cache of this core, most likely: its lines are asked for ahead
/// too. Messages for which there is room in the cache become slower by it (docs/decisions/0011).
///
/// # Safety
///
/// As [`core::ptr::copy_nonoverlapping`] for `u8`.
#[inline(always)]
unsafe fn copy_from_peer_prefetched(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy::<SOURCE_AHEAD, TARGET_AHEAD>(from, to, len) }
}

/// The same with stores that go past this core's caches, where the processor has such: what is in
/// them stays there, and no line is fetched only to be overwritten. Whoever reads the bytes has to
/// fetch them from memory.
///
/// # Safety
///
/// As [`core::ptr::copy_nonoverlapping`] for `u8`.
unsafe fn copy_from_peer_non_temporal(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { non_temporal::<SOURCE_AHEAD>(from, to, len) }
}

/// # Safety
///
/// As [`core::ptr::copy_nonoverlapping`] for `u8`.
#[inline(always)]
unsafe fn copy<const AHEAD: usize, const TO_AHEAD: usize>(
    from: *const u8,
    to: *mut u8,
    len: usize,
) {
    // SAFETY: the caller's promise; beyond 64 bytes nothing was copied yet.
    unsafe {
        if !copy_short(from, to, len) {
            if len <= 256 {
                copy_medium(from, to, len);
            } else if len > AHEAD {
                copy_long::<AHEAD, TO_AHEAD>(from, to, len);
            } else {
                copy_long::<NOT_AHEAD, NOT_AHEAD>(from, to, len);
            }
        }
    }
}

/// Copies `len` bytes if they are at most 64; says whether it did.
///
/// # Safety
///
/// As [`core::ptr::copy_nonoverlapping`] for `u8`.
#[inline(always)]
pub(super) unsafe fn copy_short(from: *const u8, to: *mut u8, len: usize) -> bool {
    // SAFETY: each branch touches only bytes 0..len of both sides (the tail of a
    // class starts at len - width, and len >= width there), which the caller
    // vouches for; accesses are unaligned ones.
    unsafe {
        if len <= 16 {
            if len >= 8 {
                ends::<[u8; 8]>(from, to, len);
            } else if len >= 4 {
                ends::<[u8; 4]>(from, to, len);
            } else if len > 0 {
                // 1, 2 or 3 bytes: the first, the middle and the last one.
                let (first, middle, last) = (
                    from.read(),
                    from.add(len / 2).read(),
                    from.add(len - 1).read(),
                );
                to.write(first);
                to.add(len / 2).write(middle);
                to.add(len - 1).write(last);
            }
        } else if len <= 32 {
            ends::<Vector>(from, to, len);
        } else if len <= 64 {
            ends::<[Vector; 2]>(from, to, len);
        } else {
            return false;
        }
    }
    true
}

/// Copies `len` bytes for a core far away: past this core's caches, where the other one fetches
/// them sooner from memory than out of this core's. What this thread stores afterwards is seen
/// after them.
///
/// # Safety
///
/// As [`core::ptr::copy_nonoverlapping`] for `u8`.
pub(super) unsafe fn copy_to_far(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if processor::far_by_memory() {
            non_temporal::<NOT_AHEAD>(from, to, len);
        } else {
            copy_bytes(from, to, len);
        }
    }
}

/// The same, with the lines of the source asked for so many bytes ahead.
///
/// # Safety
///
/// As [`core::ptr::copy_nonoverlapping`] for `u8`.
#[cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(
        clippy::cast_ptr_alignment,
        reason = "the load needs no alignment, and the stores begin at a line"
    )
)]
unsafe fn non_temporal<const AHEAD: usize>(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the caller's promise. Whole lines of the target lie between `head` and
    // `head + lines`, which are at most `len`; the rest is copied as usual. SSE2 is part of the
    // architecture.
    unsafe {
        use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
        const LINE: usize = 64;
        let head = to.align_offset(LINE).min(len);
        let lines = (len - head) / LINE * LINE;
        copy_bytes(from, to, head);
        for line in (head..head + lines).step_by(LINE) {
            if AHEAD > 0 {
                // Of the line there, or of the last one: behind the end the peer may write
                // meanwhile.
                prefetch::read_to_second(from.add((line + AHEAD).min(len - 1)));
            }
            for at in (line..line + LINE).step_by(size_of::<Vector>()) {
                let chunk = _mm_loadu_si128(from.add(at).cast::<__m128i>());
                _mm_stream_si128(to.add(at).cast::<__m128i>(), chunk);
            }
        }
        let tail = head + lines;
        copy_bytes(from.add(tail), to.add(tail), len - tail);
        // Stores of this kind are not ordered with others: a release store alone would not do.
        _mm_sfence();
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    // SAFETY: the caller's promise.
    unsafe {
        copy_bytes(from, to, len);
    }
}

/// 65 to 256 bytes, out of line to keep callers small.
///
/// The last ones first, for payloads of a ring, whose first line is here already. Those of 113 to
/// 128, of which 16 or fewer lie in a third line, have an order of their own (decision 0014).
///
/// # Safety
///
/// As [`copy_bytes`], and `len` is in 65..=256.
#[inline(never)]
unsafe fn copy_medium(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: all parts are within 0..len: 64 < len in the first branch, 112 < len in the second,
    // and 128 < len in the third; and in each of them together they are all of it.
    unsafe {
        if len <= 112 {
            part::<[Vector; 4]>(from, to, len - 64);
            part::<[Vector; 4]>(from, to, 0);
        } else if len <= 128 {
            part::<[Vector; 2]>(from, to, 48);
            part::<[Vector; 2]>(from, to, len - 32);
            part::<[Vector; 4]>(from, to, 0);
            part::<Vector>(from, to, 80);
        } else {
            part::<[Vector; 4]>(from, to, len - 64);
            part::<[Vector; 4]>(from, to, len - 128);
            part::<[Vector; 4]>(from, to, 64);
            part::<[Vector; 4]>(from, to, 0);
        }
    }
}

/// Copies the `size_of::<T>()` bytes from `at` on.
///
/// # Safety
///
/// As [`copy_bytes`], and `at + size_of::<T>() <= len`; `T` is an array of bytes.
#[inline(always)]
unsafe fn part<T: Copy>(from: *const u8, to: *mut u8, at: usize) {
    // SAFETY: within 0..len by the caller's promise; unaligned accesses need no alignment, and
    // every byte pattern is a `T`.
    unsafe {
        let part = from.add(at).cast::<T>().read_unaligned();
        to.add(at).cast::<T>().write_unaligned(part);
    }
}

/// Copies the first and the last `size_of::<T>()` bytes of `len`.
///
/// # Safety
///
/// As [`copy_bytes`], and `size_of::<T>() <= len`; `T` is an array of bytes.
#[inline(always)]
unsafe fn ends<T: Copy>(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: 0..size_of::<T>() and the last bytes of that number are within 0..len.
    unsafe {
        part::<T>(from, to, 0);
        part::<T>(from, to, len - size_of::<T>());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{
        NOT_AHEAD, copy_bytes, copy_from_peer, copy_from_peer_non_temporal,
        copy_from_peer_prefetched, copy_to_far, non_temporal,
    };

    #[test]
    fn ring_copy_moves_every_length_and_nothing_beyond() {
        let source: Vec<u8> = (0..5000_u32).map(|i| (i * 31 % 251) as u8 + 1).collect();
        // Under Miri the edges of the size classes only.
        let lengths: Vec<usize> = if cfg!(miri) {
            vec![
                0, 1, 2, 3, 4, 7, 8, 9, 16, 17, 32, 33, 64, 65, 112, 113, 128, 129, 256, 257, 2049,
            ]
        } else {
            (0..=300)
                .chain([511, 512, 600, 2048, 2049, 2050, 2400, 4999])
                .collect()
        };
        for len in lengths {
            for shift in [0, 1, 7] {
                let len = len.min(source.len() - shift);
                for copy in [
                    copy_bytes,
                    copy_from_peer,
                    copy_from_peer_prefetched,
                    copy_from_peer_non_temporal,
                    copy_to_far,
                    // Also where `copy_to_far` does not take it.
                    non_temporal::<NOT_AHEAD>,
                ] {
                    let mut target = vec![0_u8; 9 + len + 11];
                    // SAFETY: shift + len <= 5000 bytes of the source, 9 + len of the target;
                    // two allocations never overlap.
                    unsafe { copy(source.as_ptr().add(shift), target.as_mut_ptr().add(9), len) };
                    assert_eq!(&target[9..9 + len], &source[shift..shift + len]);
                    assert_eq!(
                        (&target[..9], &target[9 + len..]),
                        (&[0; 9][..], &[0; 11][..])
                    );
                }
            }
        }
    }
}
