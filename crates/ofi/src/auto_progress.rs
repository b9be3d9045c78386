//! `FI_PROGRESS_AUTO`: a thread that moves messages along while the application does not call.
//!
//! There is one only in domains that were opened for it. It sleeps until an endpoint is wanted, and
//! its turns are those of data calls, which take locks there.

use core::sync::atomic::{AtomicBool, Ordering};

use limic_shm::process::LockHere;

use crate::domain::Domain;
use crate::endpoint::Endpoint;
use crate::ffi_guard;
use crate::threads::{self, Thread};
use crate::wait::{LONGEST, WaitObject};
use limic_ofi_abi::errno::*;

/// The thread of a domain.
pub(crate) struct AutoProgress {
    wait: WaitObject,
    over: AtomicBool,
    thread: LockHere<Option<Thread>>,
}

/// A domain that outlives its thread.
struct Place(*const Domain);

// SAFETY: the thread uses it in turns alone.
unsafe impl Send for Place {}

impl AutoProgress {
    pub(crate) fn new() -> Result<Self, i32> {
        Ok(Self {
            wait: WaitObject::new().map_err(|errno| errno.raw_os_error())?,
            over: AtomicBool::new(false),
            thread: LockHere::default(),
        })
    }

    /// Starts the thread.
    ///
    /// # Safety
    /// `domain` has this one, and stays where it is until [`stop`](Self::stop) returns.
    pub(crate) unsafe fn start(&self, domain: *const Domain) -> Result<(), i32> {
        let place = Place(domain);
        let started = threads::start("limic-fi-moves", move || {
            let place = place;
            // SAFETY: the caller's promise.
            move_along(unsafe { &*place.0 });
        });
        let thread = started.map_err(|error| error.raw_os_error().unwrap_or(FI_ENOMEM))?;
        *self.thread.lock() = Some(thread);
        Ok(())
    }

    /// Ends the thread. A forked child has none.
    pub(crate) fn stop(&self) {
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            thread.end(|| {
                self.over.store(true, Ordering::Relaxed);
                self.wait.call();
            });
        }
    }

    /// An endpoint is enabled, and moved along from now on.
    pub(crate) fn add(&self, endpoint: &Endpoint) -> Result<(), i32> {
        let added = self.wait.add(endpoint.wake_fd(), endpoint.number);
        added.map_err(|errno| errno.raw_os_error())?;
        // It is asleep, and knows nothing of this one.
        self.wait.call();
        Ok(())
    }

    /// An endpoint closes.
    pub(crate) fn remove(&self, endpoint: &Endpoint) {
        self.wait.remove(endpoint.wake_fd());
    }
}

fn move_along(domain: &Domain) {
    let Some(auto) = &domain.auto else { return };
    loop {
        auto.wait.heard();
        // After that: who ends the thread says so before it calls, and calls once.
        if auto.over.load(Ordering::Relaxed) {
            return;
        }
        // A round that panics is not repeated at once.
        let quiet = ffi_guard::cross(true, || move_all(domain));
        if quiet {
            auto.wait.sleep(LONGEST);
        }
    }
}

/// Moves along what the endpoints of the domain have. True if all of them will ring.
fn move_all(domain: &Domain) -> bool {
    let mut quiet = true;
    domain.visit_endpoints(|endpoint| {
        // Changes only while whoever changes it is alone in the domain.
        if !endpoint.enabled.get() {
            return;
        }
        let turn = endpoint.turns.data();
        endpoint.progress();
        quiet &= endpoint.arm();
        turn.found_nothing();
    });
    quiet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_waits_for_no_thread_of_its_parent() {
        let auto = AutoProgress::new().expect("descriptors");
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let body = move || {
            let _ = ends.recv();
        };
        let thread = threads::start("waits", body).expect("a thread");
        *auto.thread.lock() = Some(thread);
        assert!(crate::child::holds_in_child(|| {
            auto.stop();
            true
        }));
        drop(end);
        auto.stop();
        assert!(auto.thread.lock().is_none());
    }
}
