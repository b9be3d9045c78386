// SPDX-License-Identifier: GPL-2.0

//! The gate in front of pinned memory: peers pass it for one burst of copying, the owner shuts it.

use crate::ffi;
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed, Release};

/// Set in the counter once the gate is shut.
const SHUT: i32 = i32::MIN;

/// Counts who is inside, and can be shut for good.
///
/// Nobody waits, sleeps or takes a page fault inside, so whoever shuts the gate waits for a bounded time.
///
/// # Invariants
/// The lower 31 bits of `users` are the number of [`Inside`]s; once the top bit is set it stays so, and no further one
/// begins.
pub(crate) struct Gate {
    users: Atomic<i32>,
}

impl Gate {
    pub(crate) const fn open() -> Self {
        Self {
            users: Atomic::new(0),
        }
    }

    /// Goes in. `None` if the gate is shut.
    pub(crate) fn enter(&self) -> Option<Inside<'_>> {
        // Acquire: no byte is copied before. A closer that comes later sees the count.
        let before = self.users.fetch_add(1, Acquire);
        let inside = Inside { gate: self };
        (before >= 0).then_some(inside)
    }

    /// Shuts the gate and waits until all have left. May be called again.
    pub(crate) fn shut(&self) {
        let mut seen = self.users.load(Relaxed);
        while seen >= 0 {
            match self.users.cmpxchg(seen, seen | SHUT, Full) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        // Reads with acquire, which pairs with the release in `Inside::drop`: all bytes are there.
        ffi::wait_until(&self.users, SHUT);
    }
}

/// Somebody who is inside; leaves when dropped.
pub(crate) struct Inside<'a> {
    gate: &'a Gate,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let key = self.gate.users.as_ptr();
        // Release: pairs with the acquire in `Gate::shut`. The gate may be gone as soon as this is done.
        if self.gate.users.fetch_sub(1, Release) == SHUT + 1 {
            ffi::wake(key);
        }
    }
}
