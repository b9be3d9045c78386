//! Loops whose times depend on the core alone.

use std::hint::black_box;

/// Steps of one run of [`wait`].
pub(crate) const STEPS: usize = 1024;
/// Turns of one run of [`work`].
pub(crate) const TURNS: usize = 256;

const WORDS: usize = 64;
const LANES: usize = 4;

/// Each step waits for the one before, so that nobody who shares the core slows it down: the unit
/// of all times.
#[inline(never)]
pub(crate) fn wait() {
    let factor = black_box(0x9E37_79B9_7F4A_7C15_u64);
    let mut word = black_box(1_u64);
    for _ in 0..STEPS {
        word = word.wrapping_mul(factor) ^ 1;
    }
    black_box(word);
}

/// As many instructions at once as the core takes: slower, if somebody else has a part of it.
#[inline(never)]
pub(crate) fn work(words: &mut [u64; WORDS]) {
    let mut sums = [1_u64; LANES];
    for turn in 0..TURNS {
        for (lane, sum) in sums.iter_mut().enumerate() {
            let word = &mut words[(turn + lane * WORDS / LANES) % WORDS];
            *sum = (*sum ^ *word).rotate_left(5).wrapping_add(turn as u64);
            *word = *sum;
        }
    }
    black_box(sums);
}
