//! Who keeps a peer's arena mapped: the endpoint, and every loan that an application holds, on
//! whatever thread.
//!
//! A shared count without a locked instruction on the thread that takes the shares: such an
//! instruction waits until all stores before it are done, here one to a line that the peer has.
//! Mostly one thread gives a share and returns it, so it counts by itself, and only what other
//! threads return is counted atomically. The keeper compares both when it goes; what is still
//! shared then is ended by who returns the last share, or makes or ends another keeper.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;

use self::sync::{ANY_ORPHANS, AtomicBool, AtomicU64, AtomicUsize, Ordering, orphans, this_thread};

struct Shared<T> {
    value: T,
    /// The thread whose returns `local` counts: a number of [`this_thread`]. It changes only while
    /// no share is out.
    thread: AtomicUsize,
    /// Shares that came back on that thread, which alone writes it.
    local: AtomicU64,
    /// Shares that came back on others.
    remote: AtomicU64,
    /// The keeper is gone: who returns a share looks whether it was the last.
    orphaned: AtomicBool,
}

/// What was shared, and how often. Ends the value when it is dropped: only once all shares are
/// back.
struct RcBox<T> {
    shared: NonNull<Shared<T>>,
    shares: u64,
}

/// The one who gives shares away.
pub(crate) struct ThreadRc<T: Send + Sync + 'static>(ManuallyDrop<RcBox<T>>);

/// One share: the value lives as long.
pub(crate) struct ThreadRef<T> {
    shared: NonNull<Shared<T>>,
}

trait Orphan: Send {
    fn is_over(&self) -> bool;
}

/// Real atomics and threads, or loom's.
#[cfg(not(loom))]
mod sync {
    pub(super) use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    use std::sync::MutexGuard;

    use limic_shm::process::LockHere;

    use super::Orphan;

    static ORPHANS: LockHere<Vec<Box<dyn Orphan>>> = LockHere::new(Vec::new());
    /// Whether there is any orphan.
    pub(super) static ANY_ORPHANS: AtomicBool = AtomicBool::new(false);

    /// What keepers left behind that are gone: some of their shares are out, or were when that was
    /// looked at last.
    pub(super) fn orphans() -> MutexGuard<'static, Vec<Box<dyn Orphan>>> {
        ORPHANS.lock()
    }

    /// A number that no other thread has which lives now. One that gets the number of an ended
    /// thread began after its end.
    #[inline(always)]
    pub(super) fn this_thread() -> usize {
        thread_local! {
            static PLACE: u8 = const { 0 };
        }
        PLACE.with(|place| core::ptr::from_ref(place).addr())
    }
}

/// The same under loom: `tests/models`.
#[cfg(loom)]
mod sync {
    use std::sync::PoisonError;

    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    use loom::sync::{Mutex, MutexGuard};

    use super::Orphan;

    loom::lazy_static! {
        static ref ORPHANS: Mutex<Vec<Box<dyn Orphan>>> = Mutex::new(Vec::new());
        pub(super) static ref ANY_ORPHANS: AtomicBool = AtomicBool::new(false);
    }

    pub(super) fn orphans() -> MutexGuard<'static, Vec<Box<dyn Orphan>>> {
        ORPHANS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn this_thread() -> usize {
        // Not loom's: it is no part of what is checked.
        static NEXT: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(1);
        loom::thread_local! {
            static NUMBER: usize = NEXT.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        }
        NUMBER.with(|number| *number)
    }
}

impl<T> RcBox<T> {
    #[inline(always)]
    fn shared(&self) -> &Shared<T> {
        // SAFETY: it lives as long as this value.
        unsafe { self.shared.as_ref() }
    }

    fn all_returned(&self) -> bool {
        let shared = self.shared();
        // Acquire: pairs with the releases in `ThreadRef::drop` (pair *share returned*): whatever
        // was done with the value comes before its end, and a thread reads `thread` before
        // that changes.
        let back = shared.local.load(Ordering::Acquire) + shared.remote.load(Ordering::Acquire);
        back == self.shares
    }
}

impl<T: Send + Sync> Orphan for RcBox<T> {
    fn is_over(&self) -> bool {
        self.all_returned()
    }
}

impl<T> Drop for RcBox<T> {
    fn drop(&mut self) {
        debug_assert!(self.all_returned(), "somebody uses the value");
        // SAFETY: it came from a box in `ThreadRc::new`, and nobody has a share any more.
        drop(unsafe { Box::from_raw(self.shared.as_ptr()) });
    }
}

impl<T: Send + Sync + 'static> ThreadRc<T> {
    pub(crate) fn new(value: T) -> Self {
        drop_finished_orphans();
        let shared = Box::new(Shared {
            value,
            thread: AtomicUsize::new(this_thread()),
            local: AtomicU64::new(0),
            remote: AtomicU64::new(0),
            orphaned: AtomicBool::new(false),
        });
        Self(ManuallyDrop::new(RcBox {
            shared: NonNull::from(Box::leak(shared)),
            shares: 0,
        }))
    }

    #[inline(always)]
    pub(crate) fn share(&mut self) -> ThreadRef<T> {
        if self.0.shared().thread.load(Ordering::Relaxed) != this_thread() {
            self.adopt_thread();
        }
        self.0.shares += 1;
        ThreadRef {
            shared: self.0.shared,
        }
    }

    /// The endpoint has moved to another thread: that one counts from now on, once nobody has a
    /// share.
    #[cold]
    fn adopt_thread(&self) {
        if self.0.all_returned() {
            let thread = &self.0.shared().thread;
            thread.store(this_thread(), Ordering::Relaxed);
        }
    }
}

impl<T: Send + Sync + 'static> Drop for ThreadRc<T> {
    fn drop(&mut self) {
        // SAFETY: this is the end of the value; nobody takes it again.
        let rc = unsafe { ManuallyDrop::take(&mut self.0) };
        if !rc.all_returned() {
            rc.shared().orphaned.store(true, Ordering::Relaxed);
            let mut orphaned = orphans();
            orphaned.push(Box::new(rc));
            ANY_ORPHANS.store(true, Ordering::Relaxed);
        }
        // Also what was returned between the look at the counts and the entry in the list.
        drop_finished_orphans();
    }
}

/// Ends what keepers left behind and nobody shares any more. Where the last share is returned by
/// another thread at the very moment when the keeper goes, neither may see the other: then the next
/// one who comes here ends that value.
#[cold]
fn drop_finished_orphans() {
    if !ANY_ORPHANS.load(Ordering::Relaxed) {
        return;
    }
    let mut orphaned = orphans();
    let all = core::mem::take(&mut *orphaned);
    let (over, shared): (Vec<_>, _) = all.into_iter().partition(|rc| rc.is_over());
    *orphaned = shared;
    ANY_ORPHANS.store(!orphaned.is_empty(), Ordering::Relaxed);
    drop(orphaned);
    // Without the lock: the end of a value may end shares of others.
    drop(over);
}

impl<T> Drop for ThreadRef<T> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: it lives until this share is returned, which is the last access below.
        let shared = unsafe { self.shared.as_ref() };
        let orphaned = shared.orphaned.load(Ordering::Relaxed);
        // Release, twice: pair with the acquires in `RcBox::all_returned` (pair *share returned*).
        if shared.thread.load(Ordering::Relaxed) == this_thread() {
            let back = shared.local.load(Ordering::Relaxed) + 1;
            shared.local.store(back, Ordering::Release);
        } else {
            shared.remote.fetch_add(1, Ordering::Release);
        }
        if orphaned {
            drop_finished_orphans();
        }
    }
}

impl<T: Send + Sync + 'static> Deref for ThreadRc<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0.shared().value
    }
}

impl<T> Deref for ThreadRef<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: it lives until this share is returned.
        unsafe { &self.shared.as_ref().value }
    }
}

// SAFETY: it is a keeper's, or of the list, which one thread uses at a time; the value may be used
// and dropped on any thread.
unsafe impl<T: Send + Sync> Send for RcBox<T> {}
// SAFETY: shared, it gives `&T` alone.
unsafe impl<T: Send + Sync> Sync for RcBox<T> {}
// SAFETY: as `Arc`: shares on several threads give `&T`, and the value may be dropped on any
// thread.
unsafe impl<T: Send + Sync> Send for ThreadRef<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for ThreadRef<T> {}

impl<T: fmt::Debug + Send + Sync> fmt::Debug for ThreadRc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: fmt::Debug> fmt::Debug for ThreadRef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::ThreadRc;

    /// Waits until nobody has the value any more: another test may be about to end it.
    fn ends(value: &Arc<()>) {
        let begin = Instant::now();
        while Arc::strong_count(value) > 1 {
            assert!(begin.elapsed() < Duration::from_secs(60), "it lives on");
            drop(ThreadRc::new(()));
            thread::yield_now();
        }
    }

    #[test]
    fn the_value_lives_as_long_as_the_keeper_or_a_share() {
        let value = Arc::new(());
        let lives = || Arc::strong_count(&value) == 2;
        let mut owner = ThreadRc::new(Arc::clone(&value));
        drop(owner.share());
        let share = owner.share();
        assert!(lives());
        drop(owner);
        assert!(lives());
        drop(share);
        ends(&value);

        let mut owner = ThreadRc::new(Arc::clone(&value));
        drop((owner.share(), owner.share()));
        assert!(lives());
        drop(owner);
        ends(&value);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no fork")]
    fn a_forked_child_returns_shares_though_another_thread_looks_at_them() {
        use crate::child::{beside, holds_in_child};
        let value = Arc::new(());
        let mut owner = ThreadRc::new(Arc::clone(&value));
        let mut share = Some(owner.share());
        drop(owner);
        let looking = |stay: &dyn Fn()| {
            let _list = super::orphans();
            stay();
        };
        assert!(beside(looking, || holds_in_child(|| share
            .take()
            .is_some())));
        drop(share);
        ends(&value);
    }

    #[test]
    fn shares_are_returned_on_any_thread() {
        let value = Arc::new(());
        let mut owner = ThreadRc::new(Arc::clone(&value));
        let shares: Vec<_> = (0..8).map(|_| owner.share()).collect();
        let threads: Vec<_> = shares
            .into_iter()
            .map(|share| thread::spawn(move || drop(share)))
            .collect();
        drop(owner);
        for thread in threads {
            thread.join().expect("a thread that drops a share");
        }
        ends(&value);
    }

    #[test]
    fn a_keeper_moves_to_another_thread_while_shares_are_out() {
        let value = Arc::new(());
        let mut owner = ThreadRc::new(Arc::clone(&value));
        let share = owner.share();
        let owner = thread::spawn(move || {
            drop(owner.share());
            owner
        });
        let mut owner = owner.join().expect("the thread that has the keeper");
        drop(share);
        // Nobody has a share: the thread that asks next counts.
        let shares = thread::spawn(move || {
            let first = owner.share();
            drop(owner.share());
            drop(owner);
            first
        });
        let share = shares.join().expect("the thread that has the keeper");
        assert_eq!(Arc::strong_count(&value), 2);
        drop(share);
        ends(&value);
    }
}
