//! Who keeps a peer's arena mapped: the endpoint, and every loan that an application holds, on whatever thread.
//!
//! A shared count without a locked instruction on the thread that takes the shares: such an instruction waits until all stores before it
//! are done, here one to a line that the peer has. Mostly one thread gives a share and returns it, so it counts by
//! itself, and only what other threads return is counted atomically. The keeper compares both when it goes; what is still
//! shared then is ended by who returns the last share, or makes or ends another keeper.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

struct Shared<T> {
    value: T,
    /// Whose returns are counted by `here`; see [`this_thread`]. Changes only while no share is out.
    thread: AtomicUsize,
    /// Shares returned by that thread, which alone writes it.
    here: AtomicU64,
    /// Shares returned by others.
    elsewhere: AtomicU64,
    /// The keeper is gone: who returns a share looks whether it was the last.
    left: AtomicBool,
}

/// What was shared, and how often. Ends the value when it is dropped: only once all shares are back.
struct Given<T> {
    shared: NonNull<Shared<T>>,
    shares: u64,
}

/// The one who gives shares away.
pub(crate) struct Keeper<T: Send + Sync + 'static>(ManuallyDrop<Given<T>>);

/// One share: the value lives as long.
pub(crate) struct Share<T> {
    shared: NonNull<Shared<T>>,
}

/// What keepers left behind that are gone: some of their shares are out, or were when that was looked at last.
static LEFT: Mutex<Vec<Box<dyn Left>>> = Mutex::new(Vec::new());
/// Whether there is any.
static ANY_LEFT: AtomicBool = AtomicBool::new(false);

trait Left: Send {
    fn is_over(&self) -> bool;
}

/// A number that no other thread has which lives now. One that gets the number of an ended thread began after its end.
#[inline(always)]
fn this_thread() -> usize {
    thread_local! {
        static PLACE: u8 = const { 0 };
    }
    PLACE.with(|place| core::ptr::from_ref(place).addr())
}

impl<T> Given<T> {
    #[inline(always)]
    fn shared(&self) -> &Shared<T> {
        // SAFETY: it lives as long as this value.
        unsafe { self.shared.as_ref() }
    }

    fn all_back(&self) -> bool {
        let shared = self.shared();
        // Acquire: pairs with the releases in `Share::drop` (pair *share returned*): whatever was done with the value comes before
        // its end, and a thread reads `thread` before that changes.
        let back = shared.here.load(Ordering::Acquire) + shared.elsewhere.load(Ordering::Acquire);
        back == self.shares
    }
}

impl<T: Send + Sync> Left for Given<T> {
    fn is_over(&self) -> bool {
        self.all_back()
    }
}

impl<T> Drop for Given<T> {
    fn drop(&mut self) {
        debug_assert!(self.all_back(), "somebody uses the value");
        // SAFETY: it came from a box in `Keeper::new`, and nobody has a share any more.
        drop(unsafe { Box::from_raw(self.shared.as_ptr()) });
    }
}

impl<T: Send + Sync + 'static> Keeper<T> {
    pub(crate) fn new(value: T) -> Self {
        end_what_is_over();
        let shared = Box::new(Shared {
            value,
            thread: AtomicUsize::new(this_thread()),
            here: AtomicU64::new(0),
            elsewhere: AtomicU64::new(0),
            left: AtomicBool::new(false),
        });
        Self(ManuallyDrop::new(Given {
            shared: NonNull::from(Box::leak(shared)),
            shares: 0,
        }))
    }

    #[inline(always)]
    pub(crate) fn share(&mut self) -> Share<T> {
        if self.0.shared().thread.load(Ordering::Relaxed) != this_thread() {
            self.count_here();
        }
        self.0.shares += 1;
        Share {
            shared: self.0.shared,
        }
    }

    /// The endpoint has moved to another thread: that one counts from now on, once nobody has a share.
    #[cold]
    fn count_here(&self) {
        if self.0.all_back() {
            let thread = &self.0.shared().thread;
            thread.store(this_thread(), Ordering::Relaxed);
        }
    }
}

impl<T: Send + Sync + 'static> Drop for Keeper<T> {
    fn drop(&mut self) {
        // SAFETY: this is the end of the value; nobody takes it again.
        let given = unsafe { ManuallyDrop::take(&mut self.0) };
        if !given.all_back() {
            given.shared().left.store(true, Ordering::Relaxed);
            let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
            left.push(Box::new(given));
            ANY_LEFT.store(true, Ordering::Relaxed);
        }
        // Also what was returned between the look at the counts and the entry in the list.
        end_what_is_over();
    }
}

/// Ends what keepers left behind and nobody shares any more. Where the last share is returned by another thread at the very moment when
/// the keeper goes, neither may see the other: then the next one who comes here ends that value.
#[cold]
fn end_what_is_over() {
    if !ANY_LEFT.load(Ordering::Relaxed) {
        return;
    }
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    let over: Vec<_> = left.extract_if(.., |given| given.is_over()).collect();
    ANY_LEFT.store(!left.is_empty(), Ordering::Relaxed);
    drop(left);
    // Without the lock: the end of a value may end shares of others.
    drop(over);
}

impl<T> Drop for Share<T> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: it lives until this share is returned, which is the last access below.
        let shared = unsafe { self.shared.as_ref() };
        let left = shared.left.load(Ordering::Relaxed);
        // Release, twice: pair with the acquire in `Given::all_back` (pair *share returned*).
        if shared.thread.load(Ordering::Relaxed) == this_thread() {
            let back = shared.here.load(Ordering::Relaxed) + 1;
            shared.here.store(back, Ordering::Release);
        } else {
            shared.elsewhere.fetch_add(1, Ordering::Release);
        }
        if left {
            end_what_is_over();
        }
    }
}

impl<T: Send + Sync + 'static> Deref for Keeper<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0.shared().value
    }
}

impl<T> Deref for Share<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: it lives until this share is returned.
        unsafe { &self.shared.as_ref().value }
    }
}

// SAFETY: it is a keeper's, or of the list, which one thread uses at a time; the value may be used and dropped on any thread.
unsafe impl<T: Send + Sync> Send for Given<T> {}
// SAFETY: shared, it gives `&T` alone.
unsafe impl<T: Send + Sync> Sync for Given<T> {}
// SAFETY: as `Arc`: shares on several threads give `&T`, and the value may be dropped on any thread.
unsafe impl<T: Send + Sync> Send for Share<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Share<T> {}

impl<T: fmt::Debug + Send + Sync> fmt::Debug for Keeper<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: fmt::Debug> fmt::Debug for Share<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::Keeper;

    /// Waits until nobody has the value any more: another test may be about to end it.
    fn ends(value: &Arc<()>) {
        let begin = Instant::now();
        while Arc::strong_count(value) > 1 {
            assert!(begin.elapsed() < Duration::from_secs(60), "it lives on");
            drop(Keeper::new(()));
            thread::yield_now();
        }
    }

    #[test]
    fn the_value_lives_as_long_as_the_keeper_or_a_share() {
        let value = Arc::new(());
        let lives = || Arc::strong_count(&value) == 2;
        let mut keeper = Keeper::new(Arc::clone(&value));
        drop(keeper.share());
        let share = keeper.share();
        assert!(lives());
        drop(keeper);
        assert!(lives());
        drop(share);
        ends(&value);

        let mut keeper = Keeper::new(Arc::clone(&value));
        drop((keeper.share(), keeper.share()));
        assert!(lives());
        drop(keeper);
        ends(&value);
    }

    #[test]
    fn shares_are_returned_on_any_thread() {
        let value = Arc::new(());
        let mut keeper = Keeper::new(Arc::clone(&value));
        let shares: Vec<_> = (0..8).map(|_| keeper.share()).collect();
        let threads: Vec<_> = shares
            .into_iter()
            .map(|share| thread::spawn(move || drop(share)))
            .collect();
        drop(keeper);
        for thread in threads {
            thread.join().expect("a thread that drops a share");
        }
        ends(&value);
    }

    #[test]
    fn a_keeper_moves_to_another_thread_while_shares_are_out() {
        let value = Arc::new(());
        let mut keeper = Keeper::new(Arc::clone(&value));
        let share = keeper.share();
        let keeper = thread::spawn(move || {
            drop(keeper.share());
            keeper
        });
        let mut keeper = keeper.join().expect("the thread that has the keeper");
        drop(share);
        // Nobody has a share: the thread that asks next counts.
        let shares = thread::spawn(move || {
            let first = keeper.share();
            drop(keeper.share());
            drop(keeper);
            first
        });
        let share = shares.join().expect("the thread that has the keeper");
        assert_eq!(Arc::strong_count(&value), 2);
        drop(share);
        ends(&value);
    }
}
