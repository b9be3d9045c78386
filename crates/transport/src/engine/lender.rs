//! Who keeps a peer's arena mapped: the endpoint, and every loan that an application holds, on whatever thread.
//!
//! A shared count whose owner takes shares without an atomic instruction: the count begins with more shares than can
//! ever be taken, the owner notes in private how many it gave away, and returns the rest when it goes. So a loan costs
//! one locked instruction, when it is dropped, where a count that all change alike costs two.

use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering, fence};

/// Shares at the beginning; a process that takes one each nanosecond has them for a hundred years.
const SHARES: u64 = 1 << 62;

struct Shared<T> {
    value: T,
    /// Shares that nobody has returned.
    out: AtomicU64,
}

/// The one who gives shares away.
pub(crate) struct Keeper<T> {
    shared: NonNull<Shared<T>>,
    given: u64,
}

/// One share: the value lives as long.
pub(crate) struct Share<T> {
    shared: NonNull<Shared<T>>,
}

impl<T> Keeper<T> {
    pub(crate) fn new(value: T) -> Self {
        let shared = Box::new(Shared {
            value,
            out: AtomicU64::new(SHARES),
        });
        Self {
            shared: NonNull::from(Box::leak(shared)),
            given: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn share(&mut self) -> Share<T> {
        self.given += 1;
        Share {
            shared: self.shared,
        }
    }
}

/// Returns shares, and ends the value with the last of them.
///
/// # Safety
/// The caller has that many, and uses none of them afterwards.
#[inline(always)]
unsafe fn give_back<T>(shared: NonNull<Shared<T>>, shares: u64) {
    // SAFETY: it lives while shares are out, and the caller's are.
    let out = unsafe { &shared.as_ref().out };
    // Release: pairs with the acquire fence below (pair *last share*): whatever was done with the value comes before its end.
    if out.fetch_sub(shares, Ordering::Release) == shares {
        fence(Ordering::Acquire);
        // SAFETY: it came from a box in `new`, all shares have been returned, and each is returned once.
        drop(unsafe { Box::from_raw(shared.as_ptr()) });
    }
}

impl<T> Drop for Keeper<T> {
    fn drop(&mut self) {
        // SAFETY: of all shares, these were not given away.
        unsafe { give_back(self.shared, SHARES - self.given) }
    }
}

impl<T> Drop for Share<T> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: this is one share.
        unsafe { give_back(self.shared, 1) }
    }
}

impl<T> Deref for Keeper<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: it lives until the keeper has returned its rest.
        unsafe { &self.shared.as_ref().value }
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

// SAFETY: as `Arc`: shares on several threads give `&T`, and the last of them drops the value.
unsafe impl<T: Send + Sync> Send for Keeper<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Keeper<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Send for Share<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Share<T> {}

impl<T: fmt::Debug> fmt::Debug for Keeper<T> {
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

    use super::Keeper;

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
        assert!(!lives());

        let mut keeper = Keeper::new(Arc::clone(&value));
        drop((keeper.share(), keeper.share()));
        assert!(lives());
        drop(keeper);
        assert!(!lives());
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
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
