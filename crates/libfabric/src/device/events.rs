//! What a provider says that belongs to no operation. Some need somebody to say it to: efa ends the
//! process where nobody listens.

use core::ffi::{CStr, c_void};
use core::mem::zeroed;
use core::ptr::null_mut;

use limic_ofi_abi::FI_WAIT_NONE;
use limic_ofi_abi::entries::{fi_eq_attr, fi_eq_err_entry};
use limic_ofi_abi::errno::FI_EAVAIL;

use super::{Device, opening};

/// What is read at once.
const MOST: usize = 16;
/// Words of the longest event that is read.
const LONGEST: usize = 64;

impl Device {
    /// Opens a queue for what the endpoint says, and binds it. Some providers have none.
    ///
    /// # Safety
    /// The fabric is open, and the endpoint is so and not enabled.
    pub(super) unsafe fn listen(&mut self) {
        // SAFETY: the caller's promise. The place of a call may be empty, so it is looked at as the
        // pointer that it is in C before it is called.
        unsafe {
            let ops = (*self.fabric).ops;
            let place = &raw const (*ops).eq_open;
            if (*place.cast::<*const c_void>()).is_null() {
                return;
            }
            let mut attributes: fi_eq_attr = zeroed();
            attributes.wait_obj = FI_WAIT_NONE;
            let (with, into) = (&raw mut attributes, &raw mut self.events);
            if (*place)(self.fabric, with, into, null_mut()) != 0 {
                self.events = null_mut();
                return;
            }
            let own = &raw mut (*self.endpoint).fid;
            let bound = ((*(*own).ops).bind)(own, &raw mut (*self.events).fid, 0) == 0;
            if !bound && opening::close(self.events) {
                self.events = null_mut();
            }
        }
    }

    /// Says on what the provider has said.
    pub(crate) fn hear(&self) {
        for _ in 0..MOST {
            match self.next_event() {
                Some(Ok(number)) => tracing::debug!("event {number} of libfabric"),
                Some(Err(why)) => {
                    let provider = self.info.provider();
                    tracing::error!("{provider} of libfabric: {why}");
                }
                None => return,
            }
        }
    }

    /// The number of an event, or what is wrong.
    fn next_event(&self) -> Option<Result<u32, String>> {
        if self.events.is_null() {
            return None;
        }
        let (mut number, mut about) = (0, [0_u64; LONGEST]);
        // SAFETY: the queue is open, and there is room for what is asked for. An error's fields are
        // numbers and pointers, and its text is a string or null, and lasts until the next call.
        unsafe {
            let ops = (*self.events).ops;
            let (room, len) = (about.as_mut_ptr().cast(), size_of_val(&about));
            let read = ((*ops).read)(self.events, &raw mut number, room, len, 0);
            if read >= 0 {
                return Some(Ok(number));
            }
            if read != -(FI_EAVAIL as isize) {
                return None;
            }
            let mut error: fi_eq_err_entry = zeroed();
            if ((*ops).readerr)(self.events, &raw mut error, 0) <= 0 {
                return None;
            }
            let why = self.functions.text(error.err);
            let (code, about) = (error.prov_errno, error.err_data);
            let text = ((*ops).strerror)(self.events, code, about, null_mut(), 0);
            Some(Err(match text.is_null() {
                true => why,
                false => format!("{why}: {}", CStr::from_ptr(text).to_string_lossy()),
            }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_has_somebody_to_talk_to() {
        for _ in 0..3 {
            let Some(mut device) = Device::over_tcp() else {
                return;
            };
            assert!(!device.events.is_null(), "tcp listens");
            assert_eq!(device.next_event(), None);
            let about = [0_u64; 2];
            // SAFETY: the queue is open, and reads no more bytes than there are.
            let written = unsafe {
                let write = (*(*device.events).ops).write;
                let len = size_of_val(&about);
                write(device.events, 7, about.as_ptr().cast(), len, 0)
            };
            assert_eq!(written, size_of_val(&about) as isize);
            assert_eq!(device.next_event(), Some(Ok(7)));
            device.hear();
            assert!(device.close_endpoint());
            assert!(device.events.is_null(), "it is closed with the endpoint");
            device.hear();
        }
    }
}
