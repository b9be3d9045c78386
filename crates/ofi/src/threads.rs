//! Threads of the provider: none unless the application asks for what needs one.

use std::thread::{Builder, JoinHandle};

/// Starts a thread. It takes no signals, which are for the application's threads.
pub(crate) fn start(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    // SAFETY: sets are plain memory, filled in before they are used; a new thread inherits what is
    // blocked in this one.
    unsafe {
        let mut all = core::mem::zeroed();
        let mut before = core::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let started = Builder::new().name(name.to_owned()).spawn(body);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, core::ptr::null_mut());
        started
    }
}
