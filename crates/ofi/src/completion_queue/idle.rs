//! What a queue does before it says that it is empty.
//!
//! Applications read in a loop, with work of their own between two looks. MPICH gives its CPU away
//! after each look, which takes longer than a short message does: what comes meanwhile is seen
//! late. So a queue looks some more times before it says that nothing is there, as long as that
//! pays. Whether it does is learned apart for the first empty look after one that found something,
//! and for later ones: some applications (Open MPI) read until a queue is empty, and want nothing
//! more then. After many empty looks a queue gives way to others.

use core::cell::Cell;

use super::Queue;

/// Further looks before a queue is called empty: in that time a peer answers that gave its CPU away
/// before. Of 16, 24, 32 and 64 looks, more were better for MPICH at 8 bytes and at 1 KiB.
const LOOKS: u32 = 64;
/// Times that looking longer may find nothing before it is left out.
const LUCK: u32 = 4;
/// Empty looks after which it is tried again then: at first, and after many that found
/// nothing.
const PAUSE: u32 = 64;
const LONGEST_PAUSE: u32 = 4096;

/// How a queue has fared lately.
#[derive(Debug)]
pub(super) struct Idle {
    /// Empty looks, in a row.
    looks: Cell<u32>,
    /// For the first empty look after one that found something, and for later ones.
    first: Luck,
    later: Luck,
}

/// Whether looking longer pays.
#[derive(Debug)]
struct Luck {
    /// Times left for it.
    left: Cell<u32>,
    /// Looks to go until it is tried again, when none are left.
    pause: Cell<u32>,
    /// How many they are after the next try that finds nothing.
    next_pause: Cell<u32>,
}

impl Luck {
    const fn new() -> Self {
        Self {
            left: Cell::new(LUCK),
            pause: Cell::new(0),
            next_pause: Cell::new(PAUSE),
        }
    }

    #[inline(always)]
    fn tries(&self) -> bool {
        if self.left.get() > 0 {
            return true;
        }
        let pause = self.pause.get();
        self.pause.set(pause.wrapping_sub(1));
        pause == 0
    }

    /// What came of a try.
    fn note(&self, found: bool) {
        if found {
            self.left.set(LUCK);
            self.next_pause.set(PAUSE);
            return;
        }
        self.left.set(self.left.get().saturating_sub(1));
        if self.left.get() == 0 {
            let pause = self.next_pause.get();
            self.pause.set(pause);
            self.next_pause.set((pause * 2).min(LONGEST_PAUSE));
        }
    }
}

impl Idle {
    pub(super) const fn new() -> Self {
        Self {
            looks: Cell::new(0),
            first: Luck::new(),
            later: Luck::new(),
        }
    }

    /// Something was there.
    #[inline(always)]
    pub(super) fn reset(&self) {
        self.looks.set(0);
    }

    #[inline(always)]
    fn luck(&self) -> &Luck {
        if self.looks.get() == 0 {
            &self.first
        } else {
            &self.later
        }
    }

    /// One more empty look. Whether it is time to give way, after so many.
    #[inline(always)]
    fn is_over(&self, patience: u32) -> bool {
        let looks = self.looks.get() + 1;
        let over = looks >= patience;
        // Not 0, which would be the first one.
        self.looks.set(if over { 1 } else { looks });
        over
    }
}

impl Queue {
    /// Looks some more times, if that has paid lately. Not under a lock, for which other threads
    /// would wait, and not where the one that is waited for may need this CPU.
    #[inline(always)]
    pub(super) fn look_longer(&self) {
        let may = self.turns.is_serial() && !self.domain.is_crowded();
        if may && self.idle.luck().tries() {
            self.keep_looking();
        }
    }

    #[inline(never)]
    fn keep_looking(&self) {
        let luck = self.idle.luck();
        for _ in 0..LOOKS {
            let moved = self.progress();
            if self.has_any() {
                return luck.note(true);
            }
            if moved {
                // A part of something, or what nobody waits for: there may be much of that, and the
                // application has work of its own.
                return;
            }
        }
        luck.note(false);
    }

    /// An empty look. True if it is time to give way: who is waited for may wait for this very CPU.
    #[inline(always)]
    pub(super) fn gives_way(&self) -> bool {
        self.idle.is_over(self.domain.patience())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_longer_is_left_out_where_it_never_pays() {
        let luck = Luck::new();
        for _ in 0..LUCK {
            assert!(luck.tries());
            luck.note(false);
        }
        // Each pause is twice as long as the one before.
        let mut tried = Vec::new();
        for look in 0..8 * PAUSE {
            if luck.tries() {
                tried.push(look);
                luck.note(false);
            }
        }
        assert_eq!(tried, [PAUSE, 3 * PAUSE + 1, 7 * PAUSE + 2]);
        luck.note(true);
        assert!((0..2 * LUCK).all(|_| luck.tries()));
    }

    #[test]
    fn a_pause_does_not_grow_without_end() {
        let luck = Luck::new();
        for _ in 0..100 {
            luck.note(false);
        }
        let tried = (0..=2 * LONGEST_PAUSE).find(|_| luck.tries());
        assert_eq!(tried, Some(LONGEST_PAUSE));
    }

    #[test]
    fn the_first_empty_look_is_judged_apart() {
        let idle = Idle::new();
        for _ in 0..LUCK {
            idle.luck().note(false);
        }
        assert!(!idle.luck().tries(), "the first one never paid");
        assert!(!idle.is_over(8));
        assert!(idle.luck().tries(), "later ones were not tried yet");
        idle.reset();
        assert!(!idle.luck().tries());
    }

    #[test]
    fn it_is_over_after_so_many_looks_in_a_row() {
        let idle = Idle::new();
        let over = |idle: &Idle| (1..=20).find(|_| idle.is_over(8));
        assert_eq!(over(&idle), Some(8));
        assert!(!idle.is_over(8));
        idle.reset();
        assert_eq!(over(&idle), Some(8));
    }
}
