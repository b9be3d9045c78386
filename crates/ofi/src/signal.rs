//! Signals to all threads that wait for one object, and which of them have still to be woken: the
//! descriptor that they sleep on stays readable until the last one has looked.
//!
//! `fi_cq_signal` gives one to a queue: every thread that waits in `fi_cq_sread` returns; if there
//! is none, the next one does. A counter gives one when it changes while a thread sleeps.

use core::cell::Cell;

/// Signals of an object. Touched in its turns alone.
#[derive(Default)]
pub(crate) struct Signals {
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
    pub(crate) fn give(&self) {
        let waiting = self.waiting.get();
        if waiting == 0 {
            self.early.set(true);
            return;
        }
        self.count.set(self.count.get().wrapping_add(1));
        self.deaf.set(waiting);
    }

    /// Takes a signal that nobody has waited for.
    pub(crate) fn take(&self) -> bool {
        self.early.take()
    }

    /// A thread begins to wait. Gives what it passes to the other functions.
    pub(crate) fn begin(&self) -> u32 {
        self.waiting.set(self.waiting.get() + 1);
        self.count.get()
    }

    /// Whether there was a signal for a thread that waits.
    pub(crate) fn heard(&self, since: u32) -> bool {
        self.count.get() != since || self.take()
    }

    /// A thread has waited.
    pub(crate) fn end(&self, since: u32) {
        self.waiting.set(self.waiting.get() - 1);
        if self.count.get() != since {
            self.deaf.set(self.deaf.get() - 1);
        }
    }

    /// A thread looks, and waits on for the next signal. Gives what it passes from now on.
    pub(crate) fn look(&self, since: u32) -> u32 {
        self.end(since);
        self.begin()
    }

    /// Whether nobody has still to be woken by the last signal.
    pub(crate) fn all_have_heard(&self) -> bool {
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
    fn one_that_waits_on_keeps_nobody_from_hearing() {
        let signals = Signals::default();
        let (asleep, mut awake) = (signals.begin(), signals.begin());
        for _ in 0..2 {
            signals.give();
            awake = signals.look(signals.look(awake));
            assert!(!signals.heard(awake) && !signals.all_have_heard());
        }
        let asleep = signals.look(asleep);
        assert!(signals.all_have_heard());
        signals.end(awake);
        signals.end(asleep);
        assert!(signals.all_have_heard());
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
