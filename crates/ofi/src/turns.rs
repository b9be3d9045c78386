//! Who may touch an object: one call at a time.
//!
//! Data calls are serialised by the application under `FI_THREAD_DOMAIN`, and take the lock under
//! every other level. Control calls may come from any thread at any time (fi_domain(3)), so they
//! always take it, and keep serialised data calls out as well. Those pay a store and a load for
//! that: they say that they are inside, and look whether somebody wants them outside. The fence
//! that belongs between the two is the control call's to make, for all threads of the process.
//!
//! Serialised objects have their domain's turns. Others have their own, until one is bound to the
//! other: then their turns are joined, since a call about one of them touches both.
//!
//! A forked child finds what another thread of its parent was at halfway, and waits for nobody: the
//! call ends with an error then.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::mem::transmute;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use core::time::Duration;
use std::sync::{Arc, OnceLock, PoisonError, TryLockError};
use std::time::Instant;

use self::sync::{
    AtomicBool, Mutex, MutexGuard, Ordering, Process, has_heavy_fence, heavy_fence, leave,
    light_fence, yield_now,
};
use crate::favour::Favour;

/// Why a call ends in a forked child.
const LEFT: &str = "another thread of the parent was at it when this process was forked";

/// The turns of an object, or of several.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Turns {
    lock: Mutex<()>,
    /// Who of those that wait for the lock is to have it.
    favour: Favour,
    /// Those that are taken instead, from a control call on that had both.
    joined: OnceLock<Arc<Turns>>,
    /// No others that are joined to these are more steps away. Where two are joined, those of the
    /// lower rank lead to the others: ways stay short while objects come and go beside one that
    /// stays. Changes while the lock is held.
    rank: AtomicU32,
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
// SAFETY: they move to another thread only while nobody uses them, so nothing is held.
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
            favour: Favour::new(),
            joined: OnceLock::new(),
            rank: AtomicU32::new(0),
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
        let turns = if self.stops.load(Ordering::Acquire) {
            self.stop()
        } else {
            self
        };
        Turn::of(turns)
    }

    /// Begins a short part of a data call that has a turn already, for which nobody is to wait.
    pub(crate) fn part(&self) -> Turn<'_> {
        if self.serial {
            self.data()
        } else {
            Turn::of(self.take(Self::locked))
        }
    }

    /// Those that are taken instead of these, which may be themselves.
    fn all(&self) -> &Self {
        self.joined.get().map_or(self, |next| next.root())
    }

    /// The same, to be joined to others.
    fn root(self: &Arc<Self>) -> &Arc<Self> {
        let mut turns = self;
        while let Some(next) = turns.joined.get() {
            turns = next;
        }
        turns
    }

    /// Whether others are taken instead.
    pub(crate) fn are_joined(&self) -> bool {
        self.joined.get().is_some()
    }

    /// From now on both are one. The caller has both.
    pub(crate) fn join(self: &Arc<Self>, other: &Arc<Self>) {
        let (one, other) = (self.root(), other.root());
        if Arc::ptr_eq(one, other) {
            return;
        }
        let ranks = (one.rank.load(Relaxed), other.rank.load(Relaxed));
        let (root, below) = if ranks.0 < ranks.1 {
            (other, one)
        } else {
            (one, other)
        };
        if ranks.0 == ranks.1 {
            root.rank.store(ranks.0 + 1, Relaxed);
        }
        // It was not joined, and nobody else joins any meanwhile.
        let _ = below.joined.set(Arc::clone(root));
    }

    /// The lock of these or of those that are taken instead.
    fn locked_all<'a>(
        &'a self,
        lock: impl Fn(&'a Self) -> MutexGuard<'a, ()>,
    ) -> (&'a Self, MutexGuard<'a, ()>) {
        loop {
            let all = self.all();
            let guard = lock(all);
            // They may have been joined to others while this thread waited.
            if !all.are_joined() {
                return (all, guard);
            }
        }
    }

    /// Takes the lock, which [`release`](Self::release) gives back. Gives whose it is.
    pub(crate) fn take<'a>(&'a self, lock: impl Fn(&'a Self) -> MutexGuard<'a, ()>) -> &'a Self {
        let (all, guard) = self.locked_all(lock);
        // SAFETY: this thread has the lock. `release` drops the guard while the turn, and so the
        // lock, is still borrowed, or while `Alone` shares it.
        unsafe {
            let guard = transmute::<MutexGuard<'_, ()>, MutexGuard<'static, ()>>(guard);
            *all.held.get() = Some(guard);
        }
        all
    }

    /// The lock, for a call that waits for nobody who does not have it.
    pub(crate) fn locked(&self) -> MutexGuard<'_, ()> {
        self.favour.ask_at_once(|| self.lock_now())
    }

    /// The lock guards no invariant across a panic: see `ffi_guard`.
    #[inline(always)]
    fn lock_now(&self) -> MutexGuard<'_, ()> {
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

    /// The ordinary way where data calls take the lock, so it is not cold.
    #[inline(never)]
    fn take_in_favour(&self) -> &Self {
        self.take(|all| all.favour.ask(|| all.lock_now()))
    }

    /// Takes the lock, or waits until the control call is over. Gives whose turn it is.
    #[cold]
    fn stop(&self) -> &Self {
        if !self.serial {
            return self.take_in_favour();
        }
        self.inside.store(false, Ordering::Release);
        let _nobody = self.locked();
        // The next control call sees it, since it takes the lock after this.
        self.inside.store(true, Ordering::Relaxed);
        self
    }

    /// Gives the lock back, if data calls take it.
    ///
    /// # Safety
    /// Where they do, this thread has [taken](Self::take) it.
    #[cold]
    pub(crate) unsafe fn release(&self) {
        if !self.serial {
            // SAFETY: the caller's promise: it has the lock until the guard is dropped.
            drop(unsafe { (*self.held.get()).take() });
        }
    }

    /// Begins a control call.
    pub(crate) fn control(&self) -> ControlTurn<'_> {
        let (all, guard) = self.locked_all(Self::locked);
        let turn = all.wants(guard);
        while all.is_used() {
            if !all.process.is_current() {
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
        let attempt = || {
            let all = self.all();
            let guard = try_lock(&all.lock).filter(|_| !all.are_joined())?;
            Some((all, guard))
        };
        let (all, guard) = soon(patience, attempt)?;
        let turn = all.wants(guard);
        while all.is_used() {
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

#[cfg(not(loom))]
#[path = "turns/sync.rs"]
mod sync;

/// The same under loom (`tests/models`), where no model forks.
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

impl<'a> Turn<'a> {
    #[inline(always)]
    fn of(turns: &'a Turns) -> Self {
        Self {
            turns,
            _stays: PhantomData,
        }
    }

    /// The call has found nothing to do: another thread that waits need wait no longer.
    #[inline(always)]
    pub(crate) fn found_nothing(&self) {
        if !self.turns.serial {
            self.turns.favour.end();
        }
    }
}

impl Drop for Turn<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // What the call has changed is there for the control call that waits for this.
        self.turns.inside.store(false, Ordering::Release);
        if self.turns.stops.load(Ordering::Relaxed) {
            // SAFETY: a turn stays with the thread that has taken the lock for it.
            unsafe { self.turns.release() };
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
#[path = "turns/tests.rs"]
mod tests;
