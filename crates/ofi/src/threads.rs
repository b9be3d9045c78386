//! Threads of the provider: none unless the application asks for what needs one.

use std::io;
use std::thread::JoinHandle;

use limic_shm::process::{Process, start_thread};

/// A thread of one process: children that are forked from it have none.
#[derive(Debug)]
pub(crate) struct Thread {
    handle: JoinHandle<()>,
    process: Process,
}

/// Starts a thread, which takes no signals.
pub(crate) fn start(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
    Ok(Thread {
        handle: start_thread(name, None, body)?,
        process: Process::current(),
    })
}

impl Thread {
    /// Waits until it has ended, which `wake` tells it to do. In a forked child there is nobody to
    /// tell and to wait for.
    pub(crate) fn end(self, wake: impl FnOnce()) {
        if !self.process.is_current() {
            return core::mem::forget(self.handle);
        }
        wake();
        // It gives nothing.
        let _ = self.handle.join();
    }
}
