//! What a device tells unasked.

use std::ffi::c_int;
use std::os::fd::BorrowedFd;

use super::device::Context;
use crate::{VerbsError, sys};

/// `ibv_async_event`. The kind is a number, since later libraries have further kinds.
#[repr(C)]
struct Told {
    element: Element,
    kind: u32,
}

/// What an event is about, by its kind.
#[repr(C)]
union Element {
    queue_pair: *mut sys::ibv_qp,
    port: c_int,
}

/// `IBV_EVENT_CQ_ERR`, `IBV_EVENT_DEVICE_FATAL` and `IBV_EVENT_SRQ_ERR`.
const FAILED: [u32; 3] = [0, 8, 14];
/// `IBV_EVENT_QP_LAST_WQE_REACHED`.
const LAST_RECEIVE: u32 = 16;
/// `IBV_EVENT_PORT_ACTIVE` and `IBV_EVENT_PORT_ERR`.
const PORT_UP: u32 = 9;
const PORT_DOWN: u32 = 10;

/// What a device has told, as far as this crate looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceEvent {
    /// The queue pair of this number is in its error state and takes nothing more out of a shared
    /// receive queue: what it took has its completions.
    LastReceive(u32),
    /// The device has failed or is gone, or a queue has failed that queue pairs share.
    Failed,
    /// The port of this number has come up, or gone down.
    Port(u8, bool),
}

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

    /// Takes all that the device has told.
    pub fn take_events(&self, mut take: impl FnMut(DeviceEvent)) {
        let mut told = Told {
            element: Element {
                queue_pair: std::ptr::null_mut(),
            },
            kind: 0,
        };
        let event = (&raw mut told).cast::<sys::ibv_async_event>();
        // SAFETY: an open context whose descriptor does not block; `Told` has the layout of what
        // the call fills.
        while unsafe { sys::ibv_get_async_event(self.raw(), event) } == 0 {
            if told.kind == LAST_RECEIVE {
                // SAFETY: an event of this kind names a queue pair. A queue pair whose event was
                // taken is not destroyed before the event is acknowledged.
                let number = unsafe { (*told.element.queue_pair).qp_num };
                take(DeviceEvent::LastReceive(number));
            } else if FAILED.contains(&told.kind) {
                take(DeviceEvent::Failed);
            } else if [PORT_UP, PORT_DOWN].contains(&told.kind) {
                // SAFETY: an event of these kinds names a port, by a number of one byte.
                let number = unsafe { told.element.port } as u8;
                take(DeviceEvent::Port(number, told.kind == PORT_UP));
            }
            // SAFETY: each event that was taken is acknowledged once.
            unsafe { sys::ibv_ack_async_event(event) };
        }
    }
}
