//! Who may touch what is in a domain: one call at a time.
//!
//! Data calls are serialised by the application under `FI_THREAD_DOMAIN`, and take the lock under
//! every other level. Control calls may come from any thread at any time (fi_domain(3)), so they
//! always take it, and keep serialised data calls out as well. Those pay a store and a load for
//! that: they say that they are inside, and look whether somebody wants them outside. The fence
//! that belongs between the two is the control call's to make, for all threads of the process.
//!
//! A forked child finds what another thread of its parent was at halfway, and waits for nobody: the
//! call ends with an error then.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::mem::transmute;
use core::time::Duration;
use std::sync::{PoisonError, TryLockError};
use std::time::Instant;

use self::sync::{
    AtomicBool, Mutex, MutexGuard, Ordering, Process, has_heavy_fence, heavy_fence, leave,
    light_fence, yield_now,
};

/// Why a call ends in a forked child.
const LEFT: &str = "another thread of the parent was at it when this process was forked";

/// The turns of a domain.
#[derive(Debug)]
pub(crate) struct Turns {
    lock: Mutex<()>,
    /// The application serialises data calls.
    serial: bool,
    /// The process whose domain it is.
    process: Process,
    /// Of the data call that has the lock: not in its turn, which is to need one register.
    held: UnsafeCell<Option<MutexGuard<'static, ()>>>,
    /// A serialised data call is under way.
    inside: AtomicBool,
    /// Data calls do not just go on: a control call wants to be alone, or they take the lock.
    /// Changes under the lock.
    stops: AtomicBool,
}

// SAFETY: `held` is touched by the thread alone that has the lock.
unsafe impl Sync for Turns {}
// SAFETY: a domain moves to another thread only while nobody uses it, so nothing is held.
unsafe impl Send for Turns {}

/// The turn of a data call.
#[must_use]
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    /// The thread that has entered has to leave, so the turn stays with it.
    _stays: PhantomData<*const ()>,
}

/// The turn of a control call.
#[must_use]
pub(crate) struct ControlTurn<'a> {
    turns: &'a Turns,
    _guard: MutexGuard<'a, ()>,
}

impl Turns {
    /// `serial`: the application serialises data calls. Where the system has no fence for all
    /// threads they take the lock all the same.
    pub(crate) fn new(serial: bool) -> Self {
        let serial = serial && has_heavy_fence();
        Self {
            lock: Mutex::new(()),
            held: UnsafeCell::new(None),
            serial,
            process: Process::current(),
            inside: AtomicBool::new(false),
            stops: AtomicBool::new(!serial),
        }
    }

    /// Whether data calls take no lock.
    #[inline(always)]
    pub(crate) fn is_serial(&self) -> bool {
        self.serial
    }

    /// Begins a data call.
    #[inline(always)]
    pub(crate) fn data(&self) -> Turn<'_> {
        self.inside.store(true, Ordering::Relaxed);
        // The control call's fence falls before this store or after this load.
        light_fence();
        if self.stops.load(Ordering::Acquire) {
            self.stop();
        }
        Turn {
            turns: self,
            _stays: PhantomData,
        }
    }

    /// The lock guards no invariant across a panic: see `ffi_guard`.
    #[inline(always)]
    fn locked(&self) -> MutexGuard<'_, ()> {
        if !self.process.is_current() {
            return self.locked_in_child();
        }
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody gives back what another thread of the parent had. What that one was at is halfway, so
    /// nothing of the domain is touched.
    #[cold]
    fn locked_in_child(&self) -> MutexGuard<'_, ()> {
        try_lock(&self.lock).unwrap_or_else(|| leave(LEFT))
    }

    /// Takes the lock, or waits until the control call is over.
    #[cold]
    fn stop(&self) {
        if !self.serial {
            let guard = self.locked();
            // SAFETY: this thread has the lock. `release` drops the guard while the turn, and so
            // the lock, is still borrowed.
            unsafe {
                let guard = transmute::<MutexGuard<'_, ()>, MutexGuard<'static, ()>>(guard);
                *self.held.get() = Some(guard);
            }
            return;
        }
        self.inside.store(false, Ordering::Release);
        let _nobody = self.locked();
        // The next control call sees it, since it takes the lock after this.
        self.inside.store(true, Ordering::Relaxed);
    }

    /// Gives the lock back, if data calls take it.
    #[cold]
    fn release(&self) {
        if !self.serial {
            // SAFETY: this thread has the lock until the guard is dropped.
            drop(unsafe { (*self.held.get()).take() });
        }
    }

    /// Begins a control call.
    pub(crate) fn control(&self) -> ControlTurn<'_> {
        let turn = self.wants(self.locked());
        while self.is_used() {
            if !self.process.is_current() {
                leave(LEFT);
            }
            yield_now();
        }
        turn
    }

    /// A serialised data call is under way. Where they take the lock none is, beside who has it.
    fn is_used(&self) -> bool {
        self.serial && self.inside.load(Ordering::Acquire)
    }

    /// The same, unless other calls stay for so long; this thread may be inside of one itself.
    pub(crate) fn control_soon(&self, patience: Duration) -> Option<ControlTurn<'_>> {
        let begin = Instant::now();
        let turn = self.wants(soon(patience, || try_lock(&self.lock))?);
        while self.is_used() {
            if begin.elapsed() > patience {
                return None;
            }
            yield_now();
        }
        Some(turn)
    }

    fn wants<'a>(&'a self, guard: MutexGuard<'a, ()>) -> ControlTurn<'a> {
        if self.serial {
            self.stops.store(true, Ordering::Relaxed);
            heavy_fence();
        }
        ControlTurn {
            turns: self,
            _guard: guard,
        }
    }
}

/// Real atomics, locks and fences, or loom's; and the process, which no model forks.
#[cfg(not(loom))]
mod sync {
    pub(super) use core::sync::atomic::{AtomicBool, Ordering};
    pub(super) use std::sync::{Mutex, MutexGuard};

    pub(super) use limic_shm::process::Process;
    pub(super) use rustix::thread::sched_yield as yield_now;
    use rustix::thread::{MembarrierCommand, membarrier};

    pub(super) use crate::ffi_guard::leave;

    /// Whether there is a heavy fence, from now on.
    pub(super) fn has_heavy_fence() -> bool {
        membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
    }

    /// A full barrier against the heavy fence of another thread alone.
    #[inline(always)]
    pub(super) fn light_fence() {
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
    }

    /// A full barrier on each processor that runs a thread of this process.
    pub(super) fn heavy_fence() {
        // Cannot fail: it was registered when the domain was opened.
        let _ = membarrier(MembarrierCommand::PrivateExpedited);
    }
}

/// The same under loom: `tests/models`.
#[cfg(loom)]
mod sync {
    pub(super) use limic_shm::sync::modelled::light_fence;
    pub(super) use loom::sync::atomic::{AtomicBool, Ordering};
    pub(super) use loom::sync::{Mutex, MutexGuard};
    pub(super) use loom::thread::yield_now;

    pub(super) fn has_heavy_fence() -> bool {
        true
    }

    pub(super) fn heavy_fence() {
        limic_shm::sync::modelled::heavy_fence();
    }

    #[derive(Clone, Copy, Debug)]
    pub(super) struct Process;

    impl Process {
        pub(super) fn current() -> Self {
            Self
        }

        pub(super) fn is_current(self) -> bool {
            true
        }
    }

    pub(super) fn leave(why: &str) -> ! {
        unreachable!("no model forks: {why}")
    }
}

/// The lock, unless it is taken.
fn try_lock<T>(lock: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match lock.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// What `attempt` gets, unless it stays without for so long.
pub(crate) fn soon<T>(patience: Duration, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let begin = Instant::now();
    loop {
        let got = attempt();
        if got.is_some() || begin.elapsed() > patience {
            return got;
        }
        yield_now();
    }
}

impl Drop for Turn<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // What the call has changed is there for the control call that waits for this.
        self.turns.inside.store(false, Ordering::Release);
        if self.turns.stops.load(Ordering::Relaxed) {
            self.turns.release();
        }
    }
}

impl Drop for ControlTurn<'_> {
    fn drop(&mut self) {
        // What the call has changed is there for the data call that sees this.
        self.turns
            .stops
            .store(!self.turns.serial, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use core::cell::Cell;

    use super::*;
    use crate::child::{beside, holds_in_child};

    /// A number that only turns protect.
    struct Shared {
        turns: Turns,
        number: Cell<u64>,
    }

    // SAFETY: the number is touched in turns alone.
    unsafe impl Sync for Shared {}

    fn add(number: &Cell<u64>) {
        let before = number.get();
        std::hint::black_box(&number);
        number.set(before + 1);
    }

    #[test]
    fn control_calls_of_any_thread_and_data_calls_exclude_each_other() {
        const EACH: u64 = 20_000;
        for serial in [true, false] {
            let shared = Shared {
                turns: Turns::new(serial),
                number: Cell::new(0),
            };
            // What threads share.
            let shared = &shared;
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(move || {
                        for _ in 0..EACH {
                            let _turn = shared.turns.control();
                            add(&shared.number);
                        }
                    });
                }
                // Data calls of one thread alone, which is what serialised ones are like.
                for _ in 0..100 * EACH {
                    let _turn = shared.turns.data();
                    add(&shared.number);
                }
            });
            assert_eq!(shared.number.get(), 102 * EACH);
        }
    }

    /// In each of them the call ends, and not by waiting.
    #[test]
    fn a_forked_child_waits_for_no_call_of_another_thread() {
        let ends = |call: &dyn Fn()| limic_ffi::guard(call).is_err();
        for serial in [true, false] {
            let turns = &Turns::new(serial);
            let data = || drop(turns.data());
            let control = || drop(turns.control());
            let in_data = |stay: &dyn Fn()| {
                let _turn = turns.data();
                stay();
            };
            let in_control = |stay: &dyn Fn()| {
                let _turn = turns.control();
                stay();
            };
            assert!(beside(in_data, || holds_in_child(|| ends(&control))));
            assert!(beside(in_control, || {
                holds_in_child(|| ends(&control) && ends(&data))
            }));
            assert!(holds_in_child(|| !ends(&control) && !ends(&data)));
        }
    }

    #[test]
    fn a_call_that_stays_is_not_waited_for() {
        const PATIENCE: Duration = Duration::from_millis(10);
        for serial in [true, false] {
            let turns = Turns::new(serial);
            let inside = turns.data();
            assert!(turns.control_soon(PATIENCE).is_none());
            drop(inside);
            let alone = turns.control_soon(PATIENCE).expect("nobody is inside");
            assert!(turns.control_soon(PATIENCE).is_none());
            drop(alone);
            drop(turns.data());
        }
    }
}
