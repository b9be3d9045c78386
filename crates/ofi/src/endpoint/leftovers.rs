//! Endpoints that an application leaves open: closed in good order when libfabric is unloaded, so
//! that peers take them for closed and not for dead.
//!
//! That happens where the process ends, which can be anywhere: in a signal handler that interrupts
//! a call of this very endpoint, beside threads that are inside of calls, or in a forked child.
//! What cannot be closed there without disturbing somebody is left: the process ends anyway, and
//! peers get to know that as soon as it has.

use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

use limic::Endpoint as _;
use limic::raw::Runtime;

use super::Endpoint;

/// How long a call of another thread is waited for. One that this thread itself is inside of never
/// ends.
const PATIENCE: Duration = Duration::from_millis(50);

/// Endpoints that are open, and the process that opened them.
static OPEN: Mutex<Vec<(u32, usize)>> = Mutex::new(Vec::new());

pub(super) fn add(endpoint: *const Endpoint) {
    let entry = (std::process::id(), endpoint.expose_provenance());
    // A list of numbers: whole after a panic too. So below.
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.push(entry);
}

pub(super) fn remove(endpoint: *const Endpoint) {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|(_, known)| *known != endpoint.addr());
}

/// Closes what the application left open.
pub(crate) fn close_all() {
    let Some(mut open) = lock_soon(&OPEN) else {
        return;
    };
    let open = core::mem::take(&mut *open);
    for (process, endpoint) in open {
        // A forked child has its parent's list, and must not touch what is in it.
        if process == std::process::id() {
            let endpoint = core::ptr::with_exposed_provenance::<Endpoint>(endpoint);
            // SAFETY: an endpoint takes itself out of the list before it goes.
            close(unsafe { &*endpoint });
        }
    }
}

fn close(endpoint: &Endpoint) {
    let lock = endpoint.domain.lock();
    // Without a lock nothing keeps out a thread that goes on using the endpoint while this one ends
    // the process.
    if lock.is_none() && !endpoint.domain.is_this_threads() {
        return;
    }
    let turn = lock.map(lock_soon);
    // The application serialises its calls then, but a signal handler can be inside of one.
    if matches!(turn, Some(None)) || endpoint.limic.is_busy() {
        return;
    }
    endpoint.tally.print(endpoint);
    endpoint.limic.close();
}

/// The lock, unless it stays taken.
fn lock_soon<T>(lock: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    let begin = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if begin.elapsed() > PATIENCE => return None,
            Err(TryLockError::WouldBlock) => rustix::thread::sched_yield(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_stays_taken_is_not_waited_for() {
        let lock = Mutex::new(1);
        let held = lock.lock().expect("nobody has it");
        assert!(lock_soon(&lock).is_none());
        drop(held);
        assert_eq!(lock_soon(&lock).as_deref(), Some(&1));
    }
}
