//! What a device tells of its queue pairs unasked.

use std::ffi::c_void;
use std::os::fd::BorrowedFd;

use super::device::Context;
use crate::{VerbsError, sys};

/// `ibv_async_event`. The kind is a number, since later libraries have further kinds.
#[repr(C)]
struct Told {
    element: *mut c_void,
    kind: u32,
}

/// `IBV_EVENT_QP_LAST_WQE_REACHED`.
const LAST_RECEIVE: u32 = 16;

impl Context {
    /// From now on nobody waits in [`take_events`](Self::take_events).
    pub(super) fn unblock_events(&self) -> Result<(), VerbsError> {
        // SAFETY: the descriptor is the context's, and open as long as it.
        let fd = unsafe { BorrowedFd::borrow_raw((*self.raw()).async_fd) };
        rustix::io::ioctl_fionbio(fd, true).map_err(|errno| VerbsError::Call {
            call: "ioctl FIONBIO on the events of a device",
            errno,
        })
    }

    /// Takes all that the device has told. `last_receive` gets the numbers of queue pairs that are
    /// in their error state and take nothing more out of a shared receive queue: what they took has
    /// its completions.
    pub fn take_events(&self, mut last_receive: impl FnMut(u32)) {
        let mut told = Told {
            element: std::ptr::null_mut(),
            kind: 0,
        };
        let event = (&raw mut told).cast::<sys::ibv_async_event>();
        // SAFETY: an open context whose descriptor does not block; `Told` has the layout of what
        // the call fills.
        while unsafe { sys::ibv_get_async_event(self.raw(), event) } == 0 {
            if told.kind == LAST_RECEIVE {
                // SAFETY: an event of this kind names a queue pair. A queue pair whose event was
                // taken is not destroyed before the event is acknowledged.
                last_receive(unsafe { (*told.element.cast::<sys::ibv_qp>()).qp_num });
            }
            // SAFETY: each event that was taken is acknowledged once.
            unsafe { sys::ibv_ack_async_event(event) };
        }
    }
}
