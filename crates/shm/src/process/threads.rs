//! Threads of limic's own: none unless something asks for what needs one.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a thread, with a stack of so many bytes, or of the usual size. It takes no signals, which
/// are for the application's threads.
///
/// # Errors
/// The system starts none.
pub fn start_thread(
    name: &str,
    stack: Option<usize>,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let mut builder = Builder::new().name(name.to_owned());
    if let Some(bytes) = stack {
        builder = builder.stack_size(bytes);
    }
    // SAFETY: sets are plain memory, filled in before they are used; a new thread inherits what is
    // blocked in this one.
    unsafe {
        let [mut all, mut before] = [core::mem::zeroed(), core::mem::zeroed()];
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let started = builder.spawn(body);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, core::ptr::null_mut());
        started
    }
}
