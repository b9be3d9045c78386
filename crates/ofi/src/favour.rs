//! Which of the threads that want a lock is to have it: for some time, the one that had it last.
//!
//! What the lock protects lies in that thread's caches, and takes longer to move than a call takes.
//! So a thread that finds another one at it stays away, but not for long: it comes when the other
//! one has stopped calling, has found nothing to do, or had its time. Then the other one keeps back
//! until it has come, or for a moment if it is late.
//!
//! All this is about time, and each wait here ends by the clock. The lock alone says who is inside,
//! and who is next of those that wait for it.

use core::time::Duration;

use self::sync::{AtomicU32, AtomicUsize, Instant, Ordering::Relaxed, pause, this_thread};

/// How long a thread stays away from one that goes on calling.
const TIME: Duration = Duration::from_micros(10);
/// A thread that has not called for so long has stopped.
const GAP: Duration = Duration::from_micros(1);
/// How long a thread keeps back for another one that comes: if it is late, it may wait for this
/// very processor.
const LATE: Duration = Duration::from_micros(4);

/// Who had the lock last, and who wants it.
#[derive(Debug)]
pub(crate) struct Favour {
    /// The thread that had it last.
    thread: AtomicUsize,
    /// How often that thread had it, twice; the lowest bit is set if it found nothing to do.
    uses: AtomicU32,
    /// Threads that do not stay away any more.
    coming: AtomicU32,
    /// So many of them were waited for in vain.
    late: AtomicU32,
}

impl Favour {
    pub(crate) const fn new() -> Self {
        Self {
            thread: AtomicUsize::new(0),
            uses: AtomicU32::new(0),
            coming: AtomicU32::new(0),
            late: AtomicU32::new(0),
        }
    }

    /// The lock, by `lock`, when this thread's time has come.
    #[inline]
    pub(crate) fn ask<G>(&self, lock: impl Fn() -> G) -> G {
        let me = this_thread();
        let coming = self.coming.load(Relaxed);
        if self.thread.load(Relaxed) != me || coming != self.late.load(Relaxed) {
            return self.ask_late(me, lock);
        }
        let guard = lock();
        self.used(me);
        guard
    }

    #[cold]
    fn ask_late<G>(&self, me: usize, lock: impl Fn() -> G) -> G {
        if self.thread.load(Relaxed) == me {
            self.keep_back(me);
        }
        self.stay_away(me);
        self.ask_at_once(lock)
    }

    /// The lock, by `lock`, as soon as nobody is inside.
    pub(crate) fn ask_at_once<G>(&self, lock: impl Fn() -> G) -> G {
        let _coming = Coming::new(&self.coming);
        let guard = lock();
        self.used(this_thread());
        guard
    }

    /// This thread has the lock.
    #[inline(always)]
    fn used(&self, me: usize) {
        if self.thread.load(Relaxed) != me {
            self.thread.store(me, Relaxed);
            self.late.store(0, Relaxed);
        }
        let uses = self.uses.load(Relaxed);
        self.uses.store((uses | 1).wrapping_add(1), Relaxed);
    }

    /// The thread that has the lock does not need it again soon.
    #[inline(always)]
    pub(crate) fn end(&self) {
        self.uses.store(self.uses.load(Relaxed) | 1, Relaxed);
    }

    /// Lets a thread that comes have the lock.
    fn keep_back(&self, me: usize) {
        let begin = Instant::now();
        loop {
            if self.thread.load(Relaxed) != me {
                return;
            }
            let coming = self.coming.load(Relaxed);
            // Where none comes this notes that none is late: those that were have come since.
            if coming == 0 || begin.elapsed() > LATE {
                return self.late.store(coming, Relaxed);
            }
            pause();
        }
    }

    /// Waits while another thread goes on using the lock, and has not had its time.
    fn stay_away(&self, me: usize) {
        let begin = Instant::now();
        let (mut since, mut seen) = (begin, self.uses.load(Relaxed));
        while seen & 1 == 0 && self.thread.load(Relaxed) != me {
            pause();
            let (now, uses) = (Instant::now(), self.uses.load(Relaxed));
            if uses != seen {
                (since, seen) = (now, uses);
            }
            if now - since > GAP || now - begin > TIME {
                return;
            }
        }
    }
}

/// A thread comes, until this is dropped.
struct Coming<'a>(&'a AtomicU32);

impl<'a> Coming<'a> {
    fn new(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count)
    }
}

impl Drop for Coming<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

mod sync {
    pub(super) use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
    pub(super) use std::time::Instant;

    /// Looks at the other thread's line are rare: each takes the line from it.
    pub(super) fn pause() {
        for _ in 0..16 {
            core::hint::spin_loop();
        }
    }

    /// Tells this thread from all others.
    #[inline(always)]
    pub(super) fn this_thread() -> usize {
        thread_local! {
            static PLACE: u8 = const { 0 };
        }
        PLACE.with(|place| core::ptr::from_ref(place).addr())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn a_thread_that_goes_on_calling_keeps_nobody_out() {
        let (favour, lock, over) = (Favour::new(), Mutex::new(0), AtomicBool::new(false));
        let call = || *favour.ask(|| lock.lock().expect("no panic")) += 1;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    call();
                }
            });
            (0..1000).for_each(|_| call());
            over.store(true, Relaxed);
        });
        assert!(*lock.lock().expect("no panic") >= 1000);
        assert_eq!(favour.coming.load(Relaxed), 0);
    }

    #[test]
    fn one_that_never_comes_is_waited_for_once() {
        let favour = Favour::new();
        let (me, absent) = (this_thread(), Coming::new(&favour.coming));
        favour.ask(|| ());
        favour.keep_back(me);
        assert_eq!(favour.late.load(Relaxed), 1, "it is late");
        favour.ask(|| ());
        assert_eq!(favour.late.load(Relaxed), 1, "and nobody else came");
        drop(absent);
        favour.ask(|| ());
        assert_eq!(favour.late.load(Relaxed), 0, "it is forgotten");
    }
}
