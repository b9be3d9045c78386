//! What a queue does before it says that it is empty.
//!
//! Applications read in a loop, with work of their own between two looks: MPICH gives its CPU away after each look
//! (0.4 us, several times a short message), Open MPI asks all of its components. What comes meanwhile is seen late. So a queue
//! looks some more times before it gives up, as long as that pays. And after many looks in vain it gives way to others.

use core::cell::Cell;

use super::Queue;

/// Further looks before a queue is called empty: some 3 us, in which a peer answers that gives its CPU away before.
const LOOKS: u32 = 96;
/// Times that looking longer may be in vain before it is left out.
const LUCK: u32 = 4;
/// Looks in vain after which it is tried again then.
const SECOND_CHANCE: u32 = 64;

/// How a queue has fared lately.
#[derive(Debug)]
pub(super) struct Idle {
    /// Looks in vain, in a row.
    looks: Cell<u32>,
    /// Times left for looking longer.
    luck: Cell<u32>,
    /// Looks since there are none left.
    unlucky: Cell<u32>,
}

impl Idle {
    pub(super) const fn new() -> Self {
        Self {
            looks: Cell::new(0),
            luck: Cell::new(LUCK),
            unlucky: Cell::new(0),
        }
    }

    /// Something was there.
    #[inline(always)]
    pub(super) fn reset(&self) {
        self.looks.set(0);
    }

    /// Whether looking longer is worth it.
    #[inline(always)]
    fn tries_longer(&self) -> bool {
        if self.luck.get() > 0 {
            return true;
        }
        let looks = self.unlucky.get() + 1;
        let again = looks == SECOND_CHANCE;
        self.unlucky.set(if again { 0 } else { looks });
        again
    }

    /// What came of it.
    fn note(&self, found: bool) {
        let luck = self.luck.get();
        self.luck
            .set(if found { LUCK } else { luck.saturating_sub(1) });
    }

    /// One more look in vain. Whether it is time to give way, after so many.
    #[inline(always)]
    fn is_over(&self, patience: u32) -> bool {
        let looks = self.looks.get() + 1;
        let over = looks >= patience;
        self.looks.set(if over { 0 } else { looks });
        over
    }
}

impl Queue {
    /// Looks some more times, if that has paid lately. Not under a lock, for which other threads would wait, and not
    /// where the one that is waited for may need this CPU.
    #[inline(always)]
    pub(super) fn look_longer(&self) {
        if !self.domain.is_crowded() && self.domain.lock().is_none() && self.idle.tries_longer() {
            self.keep_looking();
        }
    }

    #[inline(never)]
    fn keep_looking(&self) {
        let mut looks = 0;
        while looks < LOOKS {
            // What moved is a part of something longer.
            looks = if self.progress() { 0 } else { looks + 1 };
            if self.has_any() {
                return self.idle.note(true);
            }
        }
        self.idle.note(false);
    }

    /// An empty look. True if it is time to give way: who is waited for may wait for this very CPU.
    #[inline(always)]
    pub(super) fn was_empty(&self) -> bool {
        self.idle.is_over(self.domain.patience())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_longer_is_left_out_when_it_never_pays() {
        let idle = Idle::new();
        for _ in 0..LUCK {
            assert!(idle.tries_longer());
            idle.note(false);
        }
        let tries = (0..4 * SECOND_CHANCE).filter(|_| idle.tries_longer());
        assert_eq!(tries.count(), 4, "one in {SECOND_CHANCE}");
        idle.note(true);
        assert!(idle.tries_longer() && idle.tries_longer());
    }

    #[test]
    fn it_is_over_after_so_many_looks_in_a_row() {
        let idle = Idle::new();
        let over = |idle: &Idle| (1..=20).position(|_| idle.is_over(8));
        assert_eq!(over(&idle), Some(7));
        assert!(!idle.is_over(8));
        idle.reset();
        assert_eq!(over(&idle), Some(7));
    }
}
