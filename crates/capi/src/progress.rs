//! Moving messages along, and fitting into a program's own loop.

use core::ffi::c_int;
use std::os::fd::AsRawFd;

use crate::arguments::output;
use crate::ffi_guard::inside;
use crate::handles::limic_endpoint;
use crate::turns::sleep_outside;
use crate::waiting::Patience;

/// Moves messages along once, without waiting. There are no hidden threads: messages move only
/// while some call of the endpoint runs.
///
/// - `moved`: set to 1 if anything moved, else 0; may be NULL.
///
/// # Safety
/// `moved` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_progress(endpoint: limic_endpoint, moved: *mut c_int) -> c_int {
    inside(endpoint, |held| {
        let any = held.raw().progress();
        // SAFETY: the caller's promise.
        if let Some(moved) = unsafe { moved.as_mut() } {
            *moved = c_int::from(any);
        }
        Ok(())
    })
}

/// Sleeps until something may have happened, at most `timeout_ns` nanoseconds, and at most a
/// quarter of a second: call it in a loop. Returns at once if there is work already.
#[unsafe(no_mangle)]
pub extern "C" fn limic_sleep(endpoint: limic_endpoint, timeout_ns: i64) -> c_int {
    inside(endpoint, |held| {
        let timeout = core::time::Duration::from_nanos(timeout_ns.unsigned_abs());
        match Patience::of(timeout_ns) {
            Patience::Look => {}
            Patience::Forever if held.is_shared() => sleep_outside(held, core::time::Duration::MAX),
            Patience::Until(_) if held.is_shared() => sleep_outside(held, timeout),
            Patience::Forever => held.raw().sleep(None),
            Patience::Until(_) => held.raw().sleep(Some(timeout)),
        }
        Ok(())
    })
}

/// A file descriptor that becomes readable when the endpoint is wanted, for `poll`, `select` or
/// `epoll`.
///
/// - `fd`: set to the descriptor. It is the library's, the same for the life of the endpoint: do
///   not read from it or close it.
///
/// The loop: `limic_arm`; if that says that there is work, `limic_progress` and tests until nothing
/// moves, and again; else poll, then `limic_progress`.
///
/// # Safety
/// `fd` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_wake_fd(endpoint: limic_endpoint, fd: *mut c_int) -> c_int {
    inside(endpoint, |held| {
        // SAFETY: the caller's promise.
        let fd = unsafe { output(fd, "fd") }?;
        fd.write(held.raw().wake_fd().as_raw_fd());
        Ok(())
    })
}

/// Asks senders to ring from now on, before the descriptor of `limic_wake_fd` is polled.
///
/// - `armed`: set to 1: poll now. Set to 0: there is work already, do not poll.
///
/// With `LIMIC_THREADS_SERIALIZED` and `LIMIC_THREADS_MULTIPLE` one thread at a time polls. Calls
/// of other threads make the descriptor readable if they see to what senders rang for, or end the
/// ringing; arm and look again then.
///
/// # Safety
/// `armed` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_arm(endpoint: limic_endpoint, armed: *mut c_int) -> c_int {
    inside(endpoint, |held| {
        // SAFETY: the caller's promise.
        let armed = unsafe { output(armed, "armed") }?;
        armed.write(c_int::from(held.raw().arm()));
        Ok(())
    })
}
