//! The heap's lock, which no thread holds while one forks.
//!
//! A fork needs the value as no call has left it halfway. But a thread that forks must not have
//! others wait for it until there is a child: they may hold locks that the C library takes on the
//! way, as those of its open files. So while a thread forks, nobody has the lock: the value stays
//! as it is, those who would change it hear so at once, and all may read it.

use core::cell::UnsafeCell;
use core::hint::spin_loop;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use rustix::thread::futex::{self, Flags};

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and threads wait for it in the kernel.
const AWAITED: u32 = 2;
/// A thread forks. Above it: so many others read the value at the moment.
const FORKING: u32 = 3;

/// The kernel takes a signed number: a greater one would be negative.
const EVERYBODY: u32 = i32::MAX as u32;

/// Looks at a lock that is held for a moment, before the kernel is asked to wait.
const LOOKS: u32 = 100;

/// # Invariants
/// Whoever has a [`Guard`] has the value alone. From [`Guard::fork`] on until the end of that fork
/// nobody has one, and nobody writes the value.
#[derive(Debug)]
pub(crate) struct ForkLock<T> {
    state: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: by the invariants a thread has the value alone, or all of them read it.
unsafe impl<T: Send + Sync> Sync for ForkLock<T> {}

impl<T> ForkLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            state: AtomicU32::new(FREE),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for other threads that hold it. `None`: one forks.
    pub(crate) fn lock(&self) -> Option<Guard<'_, T>> {
        let mut wanted = HELD;
        let mut looks = 0;
        loop {
            // Acquire pairs with the releases of `Guard::drop` and `end_fork`.
            match self
                .state
                .compare_exchange_weak(FREE, wanted, Acquire, Relaxed)
            {
                Ok(_) => return Some(Guard(self)),
                Err(FREE) => {}
                Err(HELD) if looks < LOOKS => {
                    looks += 1;
                    spin_loop();
                }
                Err(HELD | AWAITED) => {
                    let marked = self.state.compare_exchange(HELD, AWAITED, Relaxed, Relaxed);
                    if marked.is_ok() || marked == Err(AWAITED) {
                        self.wait(AWAITED);
                    }
                    // Others may wait as well.
                    wanted = AWAITED;
                }
                Err(_) => return None,
            }
        }
    }

    /// Reads the value, alone or while a thread forks. It must be brief: a fork waits for it.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        loop {
            if let Some(guard) = self.lock() {
                return read(&guard);
            }
            let state = self.state.load(Relaxed);
            // Acquire pairs with the release of `Guard::fork`.
            if state >= FORKING
                && self
                    .state
                    .compare_exchange(state, state + 1, Acquire, Relaxed)
                    .is_ok()
            {
                let _reader = Reader(&self.state);
                // SAFETY: nobody writes it before the fork ends, which waits for this reader.
                return read(unsafe { &*self.value.get() });
            }
        }
    }

    /// Waits until no thread forks any more.
    pub(crate) fn wait_for_fork(&self) {
        let state = self.state.load(Relaxed);
        if state >= FORKING {
            self.wait(state);
        }
    }

    /// The parent has its child, or there will be none.
    pub(crate) fn end_fork(&self) {
        // Acquire pairs with the release of `Reader::drop`, release with the acquire of `lock`.
        while self
            .state
            .compare_exchange_weak(FORKING, FREE, AcqRel, Relaxed)
            .is_err()
        {
            std::thread::yield_now();
        }
        self.wake(EVERYBODY);
    }

    /// The same in the child, where nobody else is who reads.
    pub(crate) fn end_fork_in_child(&self) {
        self.state.store(FREE, Release);
    }

    /// Waits for another state. It may end before.
    fn wait(&self, state: u32) {
        // It fails where the state has changed already, or a signal comes.
        let _ = futex::wait(&self.state, Flags::PRIVATE, state, None);
    }

    fn wake(&self, threads: u32) {
        // It fails for no futex that can be read.
        let _ = futex::wake(&self.state, Flags::PRIVATE, threads);
    }
}

/// The lock is held.
pub(crate) struct Guard<'a, T>(&'a ForkLock<T>);

impl<T> Guard<'_, T> {
    /// This thread forks: nobody changes the value from now on, and nobody waits to do so.
    pub(crate) fn fork(self) {
        let lock = self.0;
        core::mem::forget(self);
        // Release pairs with the acquire of `ForkLock::read`.
        lock.state.swap(FORKING, Release);
        // Some may sleep though the state does not say so: one was woken, and has not run since.
        lock.wake(EVERYBODY);
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        // Pairs with the acquire of `ForkLock::lock`.
        if self.0.state.swap(FREE, Release) == AWAITED {
            self.0.wake(1);
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: whoever has the guard has the value alone.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.0.value.get() }
    }
}

/// Reads the value while another thread forks.
struct Reader<'a>(&'a AtomicU32);

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        // Pairs with the acquire of `ForkLock::end_fork`.
        self.0.fetch_sub(1, Release);
    }
}

#[cfg(test)]
mod tests {
    use std::thread::{scope, yield_now};

    use super::*;

    /// Ends tests that wait for ever.
    fn watch() {
        // SAFETY: a signal that ends this process, unless it ends before.
        unsafe { libc::alarm(100) };
    }

    #[test]
    fn threads_have_the_value_one_after_the_other() {
        watch();
        const EACH: u64 = 20_000;
        let sum = ForkLock::new(0);
        scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..EACH).for_each(|_| *sum.lock().expect("no fork") += 1));
            }
        });
        assert_eq!(sum.read(|sum| *sum), 4 * EACH);
    }

    #[test]
    fn a_fork_sends_all_away_who_wait() {
        watch();
        let lock = ForkLock::new(7);
        let there = AtomicU32::new(0);
        scope(|scope| {
            let held = lock.lock().expect("no fork");
            let waits = [0; 4].map(|_| {
                scope.spawn(|| {
                    there.fetch_add(1, Relaxed);
                    lock.lock().is_none()
                })
            });
            while lock.state.load(Relaxed) != AWAITED || there.load(Relaxed) < 4 {
                yield_now();
            }
            // Until they are in the kernel.
            (0..1000).for_each(|_| yield_now());
            held.fork();
            let sent_away = waits.map(|waits| waits.join().expect("an answer"));
            assert_eq!(sent_away, [true; 4]);
            assert_eq!(lock.read(|value| *value), 7);
        });
        lock.end_fork();
        *lock.lock().expect("no fork any more") += 1;
        assert_eq!(lock.read(|value| *value), 8);
    }

    /// One sleeper was woken and comes too late: the fork wakes the others.
    #[test]
    fn a_fork_sends_all_away_though_one_was_woken_before() {
        const SLEEPERS: usize = 4;
        watch();
        for _ in 0..100 {
            let lock = ForkLock::new(7);
            let asleep = AtomicU32::new(0);
            scope(|scope| {
                let held = lock.lock().expect("no fork");
                let sleepers = [(); SLEEPERS].map(|()| {
                    scope.spawn(|| {
                        asleep.fetch_add(1, Relaxed);
                        while lock.lock().is_some() {}
                    })
                });
                while asleep.load(Relaxed) < SLEEPERS as u32 || lock.state.load(Relaxed) != AWAITED
                {
                    yield_now();
                }
                drop(held);
                lock.lock().expect("no fork").fork();
                for sleeper in sleepers {
                    sleeper.join().expect("it was sent away");
                }
            });
            lock.end_fork();
        }
    }

    #[test]
    fn the_end_of_a_fork_waits_for_those_who_read_and_wakes_the_next_one() {
        watch();
        let lock = ForkLock::new(7);
        lock.lock().expect("no fork").fork();
        let (there, is_there) = std::sync::mpsc::channel();
        scope(|scope| {
            let next = scope.spawn(|| {
                while lock.lock().is_none() {
                    lock.wait_for_fork();
                }
            });
            let reads = scope.spawn(|| {
                lock.read(|value| {
                    there.send(()).expect("it is waited for");
                    // The fork cannot end before this does.
                    (0..1000).for_each(|_| yield_now());
                    lock.state.load(Relaxed) > FORKING && *value == 7
                })
            });
            is_there.recv().expect("it reads");
            lock.end_fork();
            assert!(reads.join().expect("an answer"));
            next.join().expect("it has its turn");
        });
    }
}
