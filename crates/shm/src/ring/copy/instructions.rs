//! Which instructions copy what is long: vector loads and stores, or `rep movsb`.
//!
//! Between two cores `rep movsb` is the faster one on some processors, from some KiB on: its stores
//! fetch no line that they overwrite whole. On others it is the slower one. On some it is many
//! times slower where the target lies a few bytes behind the source modulo 4096, which shows within
//! one core too: [`choose`] tries that out once, in some microseconds.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::long::{copy_by_vectors, rep_movsb};
use super::{NOT_AHEAD, SOURCE_AHEAD, copy_bytes};
use crate::process::ValueHere;
use crate::processor::family_of_amd;

/// Instructions that copy what is long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LongCopy {
    /// Loads and stores of the widest registers that are worth it.
    Vector,
    /// One instruction for the whole copy.
    RepMovsb,
}

/// What [`choose`] has chosen, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// What copies from now on.
    pub instructions: LongCopy,
    /// Why, but for what `slow` adds to that.
    why: &'static str,
    /// Distances modulo [`PAGE`] that are left to vectors.
    slow: usize,
}

impl Chosen {
    /// Why, in a few words.
    #[must_use]
    pub fn reason(&self) -> String {
        let but = match self.slow {
            BEHIND => {
                "; but vector for a target just behind its source modulo 4096, where rep movsb is \
                 slow"
            }
            _ => "",
        };
        format!("{}{but}", self.why)
    }
}

/// Shorter copies than this are not worth the start of `rep movsb`.
const LEAST: usize = 8 << 10;

/// The distance between addresses that processors take for the same at first.
const PAGE: usize = 4096;

/// Distances that are left to vectors where `rep movsb` is slow for a target just behind its
/// source: those within a cache line.
const BEHIND: usize = 64;

/// The first family of AMD between whose cores `rep movsb` was measured to be faster.
const ZEN_5: u32 = 0x1a;

/// Where source and target begin behind a page: as most memory for messages does, and as the worst
/// does.
const ON_PAGES: [usize; 2] = [0, 0];
const JUST_BEHIND: [usize; 2] = [0, 8];

/// How many distances of the target behind the source, from one byte on and modulo [`PAGE`], are
/// left to vectors: all of them until something is chosen. A hint alone, whatever its value; so
/// relaxed.
static SLOW_DISTANCES: AtomicUsize = AtomicUsize::new(PAGE);

/// Whether this copy is one for `rep movsb`.
#[inline(always)]
pub(super) fn rep_movsb_is_for(from: *const u8, to: *mut u8, len: usize) -> bool {
    let behind = to.addr().wrapping_sub(from.addr());
    len >= LEAST && behind.wrapping_sub(1) % PAGE >= SLOW_DISTANCES.load(Relaxed)
}

/// Chooses the instructions for all long copies of this process from now on: those that are wanted,
/// or with `None` those that suit this processor.
pub fn choose(wanted: Option<LongCopy>) -> Chosen {
    const ASKED: &str = "asked for by LIMIC_COPY, a settings file or the profile";
    let chosen = match wanted {
        None => suitable(),
        Some(LongCopy::Vector) => vector(ASKED),
        Some(LongCopy::RepMovsb) if has_rep_movsb() => rep_movsb_where_fast(ASKED),
        Some(LongCopy::RepMovsb) => vector("the architecture lacks rep movsb, which is asked for"),
    };
    SLOW_DISTANCES.store(chosen.slow, Relaxed);
    chosen
}

/// Copies `len` bytes by these instructions, whatever was chosen: to measure them.
///
/// # Safety
///
/// As [`core::ptr::copy_nonoverlapping`] for `u8`.
pub unsafe fn copy_by(instructions: LongCopy, from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy_ahead_by::<NOT_AHEAD>(instructions, from, to, len) }
}

/// The same for bytes that another core has written.
///
/// # Safety
///
/// As [`core::ptr::copy_nonoverlapping`] for `u8`.
pub unsafe fn copy_from_peer_by(instructions: LongCopy, from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy_ahead_by::<SOURCE_AHEAD>(instructions, from, to, len) }
}

/// # Safety
///
/// As [`core::ptr::copy_nonoverlapping`] for `u8`.
unsafe fn copy_ahead_by<const AHEAD: usize>(
    instructions: LongCopy,
    from: *const u8,
    to: *mut u8,
    len: usize,
) {
    // SAFETY: the caller's promise; vectors copy more than 256 bytes.
    unsafe {
        match instructions {
            LongCopy::RepMovsb => rep_movsb(from, to, len),
            LongCopy::Vector if len > 256 => copy_by_vectors::<AHEAD, NOT_AHEAD>(from, to, len),
            LongCopy::Vector => copy_bytes(from, to, len),
        }
    }
}

/// Whether `rep movsb` exists here.
#[must_use]
pub const fn has_rep_movsb() -> bool {
    cfg!(all(target_arch = "x86_64", not(miri)))
}

/// What suits this processor.
fn suitable() -> Chosen {
    if !has_rep_movsb() {
        return vector("the architecture has no rep movsb");
    }
    if family_of_amd() < Some(ZEN_5) {
        return vector(
            "rep movsb is not known to be faster between the cores of this processor: limic tune \
             measures it",
        );
    }
    rep_movsb_where_fast("it is faster between cores from AMD's Zen 5 on")
}

/// Vectors for everything.
fn vector(why: &'static str) -> Chosen {
    Chosen {
        instructions: LongCopy::Vector,
        why,
        slow: PAGE,
    }
}

/// `rep movsb`, but for targets just behind their sources if it turns out to be slow there.
fn rep_movsb_where_fast(why: &'static str) -> Chosen {
    static SLOW: ValueHere<usize> = ValueHere::new();
    let is_slow_behind = || fastest(JUST_BEHIND) > fastest(ON_PAGES) * 3;
    Chosen {
        instructions: LongCopy::RepMovsb,
        why,
        slow: *SLOW.get_or_make(|| if is_slow_behind() { BEHIND } else { 0 }),
    }
}

/// The least time of several copies by `rep movsb` from so far behind a page to so far behind
/// another one.
fn fastest([from, to]: [usize; 2]) -> Duration {
    const TIMES: usize = 7;
    let area = LEAST + PAGE;
    let mut memory = vec![1_u8; 2 * area + PAGE];
    let pages = memory.as_mut_ptr();
    let pages = pages.wrapping_add(pages.align_offset(PAGE) % PAGE);
    let (from, to) = (pages.wrapping_add(from), pages.wrapping_add(area + to));
    let time = |_| {
        let begin = Instant::now();
        // SAFETY: both areas lie in `memory` behind its first page boundary, one after the other:
        // each has a page more than is copied, and offsets are shorter than a page.
        unsafe { rep_movsb(from, to, LEAST) };
        begin.elapsed()
    };
    (0..TIMES).map(time).min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_chosen() {
        assert_eq!(
            choose(Some(LongCopy::Vector)).instructions,
            LongCopy::Vector
        );
        let string = choose(Some(LongCopy::RepMovsb));
        assert_eq!(string.instructions == LongCopy::RepMovsb, has_rep_movsb());
        // The measurement decides once; whatever it says, it says so again.
        assert_eq!(choose(None), choose(None));
    }

    #[test]
    fn both_kinds_of_instructions_copy_every_length_and_nothing_beyond() {
        let source: Vec<u8> = (0..9000_u32).map(|i| (i * 31 % 251) as u8 + 1).collect();
        for instructions in [LongCopy::Vector, LongCopy::RepMovsb] {
            for len in [0, 1, 64, 65, 256, 257, 4096, 8999] {
                let mut target = vec![0_u8; 9 + len + 11];
                // SAFETY: len + 1 <= 9000 bytes of the source, 9 + len of the target; two
                // allocations never overlap.
                unsafe {
                    copy_by(
                        instructions,
                        source.as_ptr().add(1),
                        target.as_mut_ptr().add(9),
                        len,
                    );
                }
                assert_eq!(target[9..9 + len], source[1..=len]);
                let beside = (&target[..9], &target[9 + len..]);
                assert_eq!(
                    beside,
                    (&[0; 9][..], &[0; 11][..]),
                    "{instructions:?} {len}"
                );
            }
        }
    }
}
