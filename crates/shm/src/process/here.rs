//! What is done once, kept and locked in a process, so that a forked child waits for nobody.
//!
//! A child has the thread alone that forked. What another thread was at stays as it was at that
//! moment: a lock of the standard library that it held is never given back, and a value that it was
//! about to make never comes. These know which process they are in, and such things begin anew.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::Process;

/// Does something once in a process. A child that was forked while another thread was at it does it
/// again.
#[derive(Debug)]
pub struct OnceHere(AtomicU64);

impl OnceHere {
    const FRESH: u64 = 0;
    const DONE: u64 = 2;

    /// Nothing is done.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(Self::FRESH))
    }

    /// Does it, or waits until another thread of this process has.
    #[inline]
    pub fn call(&self, work: impl FnOnce()) {
        // Pairs with the release in `Attempt::drop`.
        if self.0.load(Acquire) != Self::DONE {
            self.call_slow(Process::current().to_bits(), work);
        }
    }

    /// As [`call`](Self::call), for what draws the number of the process: only the pid is known
    /// before. Where parent and child are both the first processes of their PID namespaces, they
    /// have one pid, and a child that is forked at this moment waits for ever.
    pub(super) fn call_by_pid(&self, work: impl FnOnce()) {
        // Pairs with the release in `Attempt::drop`.
        if self.0.load(Acquire) != Self::DONE {
            self.call_slow(std::process::id().into(), work);
        }
    }

    #[cold]
    fn call_slow(&self, process: u64, work: impl FnOnce()) {
        // Odd: neither of the two above.
        if begin(&self.0, process << 1 | 1, Self::DONE) {
            let mut attempt = Attempt(self, Self::FRESH);
            work();
            attempt.1 = Self::DONE;
        }
    }
}

/// Waits until something is done. True if this thread is to do it: the state is `busy` then.
fn begin(state: &AtomicU64, busy: u64, done: u64) -> bool {
    loop {
        // Pairs with the release of whoever has done it.
        let before = state.load(Acquire);
        if before == done {
            return false;
        }
        if before == busy {
            std::thread::yield_now();
        } else if state
            .compare_exchange(before, busy, Acquire, Relaxed)
            .is_ok()
        {
            return true;
        }
    }
}

/// Somebody is at it. After a panic the next one tries.
struct Attempt<'a>(&'a OnceHere, u64);

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.0.0.store(self.1, Release);
    }
}

impl Default for OnceHere {
    fn default() -> Self {
        Self::new()
    }
}

/// A value that is made when it is first wanted, and stays: for statics, since it is never dropped.
/// A child keeps it; if another thread was about to make it, the child makes one of its own.
#[derive(Debug)]
pub struct ValueHere<T> {
    made: OnceHere,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: threads get `&T`, and one of them writes the value, before anybody gets it.
unsafe impl<T: Send + Sync> Sync for ValueHere<T> {}

impl<T> ValueHere<T> {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            made: OnceHere::new(),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// The value. `make` must not ask for it.
    #[inline]
    pub fn get_or_make(&self, make: impl FnOnce() -> T) -> &T {
        self.made.call(|| {
            let value = make();
            // SAFETY: one thread is here at a time, and nobody has a reference before it is made.
            unsafe { (*self.value.get()).write(value) };
        });
        // SAFETY: `made` is done, and nothing writes the value after that.
        unsafe { (*self.value.get()).assume_init_ref() }
    }
}

impl<T> Default for ValueHere<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// A value behind a lock. A child has what the parent had, but the default where another thread
/// held the lock, and may have left the value halfway: what was there is forgotten.
///
/// Nobody forks with the lock in hand: who holds it calls nothing of a program's.
#[derive(Debug)]
pub struct LockHere<T> {
    /// The process that has looked whether somebody absent holds the lock; 0: none. The lowest bit
    /// is 0 while it looks.
    process: AtomicU64,
    lock: UnsafeCell<Mutex<T>>,
}

// SAFETY: the lock is shared as it is, and replaced by one thread, before any other one of its
// process gets it.
unsafe impl<T: Send> Sync for LockHere<T> {}

impl<T: Default> LockHere<T> {
    /// A lock with a value.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self {
            process: AtomicU64::new(0),
            lock: UnsafeCell::new(Mutex::new(value)),
        }
    }

    /// Waits for other threads of this process alone. A panic of one that had the lock does not
    /// matter: values are such that they are whole after it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.here().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for nobody.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        try_lock(self.here())
    }

    #[inline]
    fn here(&self) -> &Mutex<T> {
        let me = Process::current().to_bits() | 1;
        // Pairs with the release in `look`.
        if self.process.load(Acquire) != me {
            self.look(me);
        }
        // SAFETY: nobody replaces it any more in this process.
        unsafe { &*self.lock.get() }
    }

    /// Replaces the lock if nobody here can give it back.
    #[cold]
    fn look(&self, me: u64) {
        if begin(&self.process, me & !1, me) {
            let lock = self.lock.get();
            // SAFETY: threads of this process wait in `begin`, and have no guard: the one that
            // forked had none. What is overwritten is not dropped.
            unsafe {
                if try_lock(&*lock).is_none() {
                    lock.write(Mutex::new(T::default()));
                }
            }
            self.process.store(me, Release);
        }
    }
}

impl<T: Default> Default for LockHere<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

fn try_lock<T>(lock: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match lock.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[cfg(all(test, not(miri), not(loom)))]
mod tests {
    use super::super::child::{beside, holds_in_child};
    use super::*;

    #[test]
    fn a_child_does_itself_what_another_thread_was_at() {
        static ONCE: OnceHere = OnceHere::new();
        static VALUE: ValueHere<u32> = ValueHere::new();
        let well = beside(
            |stay| {
                ONCE.call(|| {
                    VALUE.get_or_make(|| {
                        stay();
                        2
                    });
                });
            },
            || {
                holds_in_child(|| {
                    let mut done = false;
                    ONCE.call(|| done = true);
                    done && *VALUE.get_or_make(|| 7) == 7
                })
            },
        );
        assert!(well);
        ONCE.call(|| unreachable!("it is done"));
        assert_eq!(*VALUE.get_or_make(|| 7), 2);
    }

    /// Both are the first of their namespaces: they have one pid.
    #[test]
    fn a_child_with_its_parents_pid_does_not_wait_for_itself() {
        static ONCE: OnceHere = OnceHere::new();
        // SAFETY: children of this process get a namespace of processes.
        let new_namespace = || unsafe { libc::unshare(libc::CLONE_NEWPID) == 0 };
        let in_child = || {
            let mut done = false;
            std::thread::spawn(|| {
                // No alarm ends the first process of a namespace.
                std::thread::sleep(core::time::Duration::from_secs(20));
                std::process::abort();
            });
            ONCE.call(|| done = true);
            done
        };
        let parent = || {
            beside(
                |stay| ONCE.call(stay),
                || !new_namespace() || holds_in_child(in_child),
            )
        };
        assert!(holds_in_child(|| !new_namespace() || holds_in_child(parent)));
    }

    #[test]
    fn what_has_panicked_is_done_by_the_next_one() {
        let once = OnceHere::new();
        let panics = core::panic::AssertUnwindSafe(|| once.call(|| panic!("as wanted")));
        std::panic::catch_unwind(panics).expect_err("it panics");
        let mut done = false;
        once.call(|| done = true);
        assert!(done);
    }

    #[test]
    fn a_child_waits_for_no_lock_that_another_thread_held() {
        static HELD: LockHere<Vec<u32>> = LockHere::new(Vec::new());
        HELD.lock().push(1);
        let well = beside(
            |stay| {
                let _held = HELD.lock();
                stay();
            },
            || {
                holds_in_child(|| {
                    HELD.lock().is_empty() && holds_in_child(|| HELD.try_lock().is_some())
                })
            },
        );
        assert!(well);
        assert_eq!(*HELD.lock(), [1]);
    }

    #[test]
    fn a_child_has_what_nobody_held() {
        static FREE: LockHere<Vec<u32>> = LockHere::new(Vec::new());
        FREE.lock().push(1);
        assert!(holds_in_child(|| {
            FREE.lock().push(2);
            holds_in_child(|| *FREE.lock() == [1, 2])
        }));
        assert_eq!(*FREE.lock(), [1]);
    }

    #[test]
    fn threads_of_one_process_wait_for_each_other() {
        const EACH: u32 = 10_000;
        static SUM: LockHere<u32> = LockHere::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..EACH).for_each(|_| *SUM.lock() += 1));
            }
        });
        assert_eq!(*SUM.lock(), 4 * EACH);
    }
}
