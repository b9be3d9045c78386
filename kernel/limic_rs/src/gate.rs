// SPDX-License-Identifier: GPL-2.0

//! The gate in front of pinned memory: peers pass it for one burst of copying, the owner shuts it.

use crate::ffi;
use core::cell::UnsafeCell;
use core::ptr::NonNull;
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed, Release};

/// Set in the counter once the gate is shut.
const SHUT: i32 = i32::MIN;

/// Counts who is inside, where `T` is, and can be shut for good.
///
/// Nobody waits, sleeps or takes a page fault inside, so whoever shuts the gate waits for a bounded
/// time.
///
/// # Invariants
/// - The lower 31 bits of `users` are the number of [`Inside`]s, and for a moment of those that
///   found it shut; once the top bit is set it stays so, and no further [`Inside`] begins.
/// - `guarded` is `Some` until the one that set the top bit takes it, when no [`Inside`] is left.
pub(crate) struct Gate<T> {
    users: Atomic<i32>,
    guarded: UnsafeCell<Option<T>>,
}

// SAFETY: by the invariants, `guarded` is read through shared references by those inside
// (`T: Sync`), and taken out by one task alone when there are none and will be none (`T: Send`).
unsafe impl<T: Send + Sync> Sync for Gate<T> {}

impl<T> Gate<T> {
    pub(crate) const fn open(guarded: T) -> Self {
        // INVARIANT: open, with something inside.
        Self {
            users: Atomic::new(0),
            guarded: UnsafeCell::new(Some(guarded)),
        }
    }

    /// What is behind a gate that nobody else knows yet, and nobody has shut.
    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        self.guarded.get_mut().as_mut()
    }

    /// Goes in. `None` if the gate is shut.
    pub(crate) fn enter(&self) -> Option<Inside<'_, T>> {
        // Acquire: no byte is copied before. A closer that comes later sees the count.
        let before = self.users.fetch_add(1, Acquire);
        if before < 0 {
            self.leave();
            return None;
        }
        // SAFETY: the gate was open when this was counted, so by the invariants nothing is taken
        // out until it is counted out again; all other references to it are shared ones.
        let guarded = unsafe { (*self.guarded.get()).as_ref() };
        // INVARIANT: counted just now.
        let inside = guarded.map(|guarded| Inside {
            gate: self,
            guarded: NonNull::from(guarded),
        });
        if inside.is_none() {
            // Not reached, by the invariants.
            self.leave();
        }
        inside
    }

    fn leave(&self) {
        let key = self.users.as_ptr();
        // Release: pairs with the acquire in `shut`. The gate may be gone as soon as this is done.
        if self.users.fetch_sub(1, Release) == SHUT + 1 {
            ffi::wake(key);
        }
    }

    /// Shuts the gate and waits until all have left. Gives what was behind it to the first that
    /// calls this.
    pub(crate) fn shut(&self) -> Option<T> {
        let mut seen = self.users.load(Relaxed);
        let mut first = false;
        while seen >= 0 {
            match self.users.cmpxchg(seen, seen | SHUT, Full) {
                Ok(_) => {
                    first = true;
                    break;
                }
                Err(now) => seen = now,
            }
        }
        // Reads with acquire, which pairs with the release in `leave`: all bytes are there.
        ffi::wait_until(&self.users, SHUT);
        if !first {
            return None;
        }
        // SAFETY: the gate is shut and was empty after that, so by the invariants no `Inside` is
        // left and none begins. Only one call sets the bit, and it comes here once.
        unsafe { (*self.guarded.get()).take() }
    }
}

/// Somebody who is inside; leaves when dropped.
///
/// # Invariants
/// It is counted in `gate.users`, and `guarded` points to what is in `gate.guarded`.
pub(crate) struct Inside<'a, T> {
    gate: &'a Gate<T>,
    guarded: NonNull<T>,
}

impl<T> core::ops::Deref for Inside<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: by the invariants it is there, and not taken out before this is dropped.
        unsafe { self.guarded.as_ref() }
    }
}

impl<T> Drop for Inside<'_, T> {
    fn drop(&mut self) {
        self.gate.leave();
    }
}
