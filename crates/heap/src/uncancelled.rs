//! malloc and free are no cancellation points, but files that are opened, read or closed are.

use core::ffi::c_int;
use core::ptr::null_mut;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE` of all C libraries of Linux.
const DISABLE: c_int = 1;

/// This thread is not cancelled before this is dropped.
pub(crate) struct Uncancelled(c_int);

impl Uncancelled {
    pub(crate) fn new() -> Self {
        let mut before = 0;
        // SAFETY: sets a flag of this thread; a place for what it was.
        unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
        Self(before)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: as above. Nobody asks what it was.
        unsafe { pthread_setcancelstate(self.0, null_mut()) };
    }
}
