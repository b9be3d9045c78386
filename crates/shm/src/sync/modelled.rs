//! The barrier that one thread runs on all processors, as loom sees it.
//!
//! Each thread has a word. Its light fence changes that word, and a heavy fence changes all of
//! them, one after the other. So of two fences that meet in a word, one comes first, and who comes
//! second sees what the other one did before. The kernel's barrier orders more, and never less. Two
//! light fences share no word: between them there is no order here, as there is none in fact.

use std::sync::atomic::AtomicUsize;

use super::{AtomicU32, Ordering, fence};

/// Threads of a model that use fences.
const THREADS: usize = 3;

struct Words {
    of_threads: [AtomicU32; THREADS],
    /// Words that a thread has. Not loom's: it is no part of what is checked.
    taken: AtomicUsize,
}

loom::lazy_static! {
    static ref WORDS: Words = Words {
        of_threads: std::array::from_fn(|_| AtomicU32::new(0)),
        taken: AtomicUsize::new(0),
    };
}

loom::thread_local! {
    static OWN: usize = WORDS.taken.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
}

/// Makes the words. A thread that finds them later is ordered after this, so it comes before all of
/// them.
pub fn prepare() {
    let _made = &WORDS.taken;
}

/// The barrier of those who pay little for it.
pub fn light_fence() {
    let own = OWN.with(|own| *own);
    // Acquire and release: pairs with `heavy_fence`.
    WORDS.of_threads[own].fetch_add(1, Ordering::AcqRel);
}

/// The barrier that one thread runs for all.
pub fn heavy_fence() -> bool {
    for word in &WORDS.of_threads {
        // Acquire and release: pairs with `light_fence`.
        word.fetch_add(1, Ordering::AcqRel);
    }
    fence(Ordering::SeqCst);
    true
}
