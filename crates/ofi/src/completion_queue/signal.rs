//! `fi_cq_signal`: every thread that waits in `fi_cq_sread` returns; if there is none, the next one
//! does.

use core::cell::Cell;

/// Signals of a queue. Touched in its turns alone.
#[derive(Default)]
pub(super) struct Signals {
    /// Threads that wait.
    waiting: Cell<u32>,
    /// Those of them that have not heard the last signal yet.
    deaf: Cell<u32>,
    /// Signals so far that somebody waited for.
    count: Cell<u32>,
    /// One that nobody waited for.
    early: Cell<bool>,
}

impl Signals {
    pub(super) fn give(&self) {
        let waiting = self.waiting.get();
        if waiting == 0 {
            self.early.set(true);
            return;
        }
        self.count.set(self.count.get().wrapping_add(1));
        self.deaf.set(waiting);
    }

    /// Takes a signal that nobody has waited for.
    pub(super) fn take(&self) -> bool {
        self.early.take()
    }

    /// A thread begins to wait. Gives what it passes to the other functions.
    pub(super) fn begin(&self) -> u32 {
        self.waiting.set(self.waiting.get() + 1);
        self.count.get()
    }

    /// Whether there was a signal for a thread that waits.
    pub(super) fn heard(&self, since: u32) -> bool {
        self.count.get() != since || self.take()
    }

    /// A thread has waited.
    pub(super) fn end(&self, since: u32) {
        self.waiting.set(self.waiting.get() - 1);
        if self.count.get() != since {
            self.deaf.set(self.deaf.get() - 1);
        }
    }

    /// Whether nobody has still to be woken by the last signal.
    pub(super) fn all_have_heard(&self) -> bool {
        self.deaf.get() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_reaches_all_that_wait_and_nobody_else() {
        let signals = Signals::default();
        let (one, other) = (signals.begin(), signals.begin());
        assert!(!signals.heard(one) && signals.all_have_heard());
        signals.give();
        let late = signals.begin();
        assert!(signals.heard(one) && signals.heard(other) && !signals.heard(late));
        signals.end(one);
        assert!(!signals.all_have_heard());
        signals.end(other);
        assert!(signals.all_have_heard());
        signals.end(late);
        assert!(!signals.take());
    }

    #[test]
    fn one_that_nobody_waits_for_is_kept_for_the_next() {
        let signals = Signals::default();
        signals.give();
        let next = signals.begin();
        assert!(signals.heard(next) && !signals.heard(next));
        signals.end(next);
    }
}
