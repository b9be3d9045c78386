//! Event queues. Endpoints without connections report nothing there; what the application writes
//! can be read.

use core::ffi::{c_char, c_int, c_void};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::time::Instant;

use limic_shm::process::LockHere;

use crate::fabric::Fabric;
use crate::ffi_guard;
use crate::object::{self, Head, Object};
use crate::wait::{self, WaitObject};
use limic_ofi_abi::entries::{fi_eq_attr, fi_eq_err_entry};
use limic_ofi_abi::errno::*;
use limic_ofi_abi::objects::{fi_ops_eq, fid_eq, fid_fabric};
use limic_ofi_abi::*;

/// An event queue.
#[repr(C)]
pub(crate) struct EventQueue {
    head: Head<fid_eq>,
    _fabric: Arc<Fabric>,
    /// Numbers of events, with what they carry.
    events: LockHere<VecDeque<(u32, Vec<u8>)>>,
    written: Condvar,
    /// Readable while there are any.
    wait: Option<WaitObject>,
    wait_kind: u32,
    /// The application may write (`FI_WRITE`).
    writable: bool,
}

// SAFETY: `repr(C)`, and the head comes first.
unsafe impl Object for EventQueue {
    const CLASS: usize = class::EQ;
}

// SAFETY: what changes is behind a lock.
unsafe impl Send for EventQueue {}
// SAFETY: as above.
unsafe impl Sync for EventQueue {}

static OPS: fi_ops = fi_ops {
    control,
    ..object::ops::<EventQueue>()
};

static EQ_OPS: fi_ops_eq = fi_ops_eq {
    size: size_of::<fi_ops_eq>(),
    read,
    readerr,
    write,
    sread,
    strerror,
};

impl EventQueue {
    fn events(&self) -> MutexGuard<'_, VecDeque<(u32, Vec<u8>)>> {
        // Events go in and out whole.
        self.events.lock()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events().is_empty()
    }

    /// # Safety
    /// `event` is valid, and there is room for `len` bytes at `buffer`.
    unsafe fn take(
        &self,
        events: &mut VecDeque<(u32, Vec<u8>)>,
        event: *mut u32,
        buffer: *mut c_void,
        len: usize,
        flags: u64,
    ) -> Result<usize, i32> {
        let (number, bytes) = events.front().ok_or(FI_EAGAIN)?;
        if bytes.len() > len {
            return Err(FI_ETOOSMALL);
        }
        // SAFETY: the caller's promise.
        unsafe {
            *event = *number;
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.cast(), bytes.len());
        }
        let count = bytes.len();
        if flags & FI_PEEK == 0 {
            events.pop_front();
        }
        if let (true, Some(wait)) = (events.is_empty(), &self.wait) {
            wait.heard();
        }
        Ok(count)
    }
}

/// `fi_eq_open`.
pub(crate) unsafe extern "C" fn open(
    fabric: *mut fid_fabric,
    attr: *mut fi_eq_attr,
    queue: *mut *mut fid_eq,
    context: *mut c_void,
) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C passes attributes or null.
        let asked = unsafe { attr.as_ref() };
        let waits = asked.map_or(FI_WAIT_UNSPEC, |attr| attr.wait_obj);
        let flags = asked.map_or(0, |attr| attr.flags);
        // Which processor is interrupted is a wish.
        if flags & !(FI_WRITE | FI_AFFINITY) != 0 {
            return Err(FI_EBADFLAGS);
        }
        if queue.is_null() {
            return Err(FI_EINVAL);
        }
        let wait = WaitObject::asked(waits)?;
        let object = Arc::new(EventQueue {
            head: Head::new(fid_eq {
                fid: object::fid_of::<EventQueue>(context, &OPS),
                ops: &EQ_OPS,
            }),
            // SAFETY: a fabric of this provider.
            _fabric: unsafe { object::share(fabric) },
            events: LockHere::default(),
            written: Condvar::new(),
            wait,
            wait_kind: waits,
            writable: flags & FI_WRITE != 0,
        });
        // SAFETY: checked.
        unsafe { *queue = object::hand_out(object) };
        Ok(())
    })
}

unsafe extern "C" fn read(
    queue: *mut fid_eq,
    event: *mut u32,
    buffer: *mut c_void,
    len: usize,
    flags: u64,
) -> isize {
    ffi_guard::size(|| {
        // SAFETY: C passes what it was given, and room.
        unsafe {
            let queue: &EventQueue = object::object(queue);
            queue.take(&mut queue.events(), event, buffer, len, flags)
        }
    })
}

/// There are no errors.
unsafe extern "C" fn readerr(_: *mut fid_eq, _: *mut fi_eq_err_entry, _: u64) -> isize {
    -(FI_EAGAIN as isize)
}

unsafe extern "C" fn write(
    queue: *mut fid_eq,
    event: u32,
    buffer: *const c_void,
    len: usize,
    _: u64,
) -> isize {
    ffi_guard::size(|| {
        // SAFETY: C passes what it was given.
        let queue: &EventQueue = unsafe { object::object(queue) };
        if !queue.writable {
            return Err(FI_EINVAL);
        }
        let bytes = match len {
            0 => Vec::new(),
            // SAFETY: C passes `len` bytes.
            len => unsafe { core::slice::from_raw_parts(buffer.cast::<u8>(), len) }.to_vec(),
        };
        let mut events = queue.events();
        events.push_back((event, bytes));
        if let Some(wait) = &queue.wait {
            wait.call();
        }
        drop(events);
        // All: one that only looks leaves the event to the others.
        queue.written.notify_all();
        Ok(len)
    })
}

unsafe extern "C" fn sread(
    queue: *mut fid_eq,
    event: *mut u32,
    buffer: *mut c_void,
    len: usize,
    timeout: c_int,
    flags: u64,
) -> isize {
    ffi_guard::size(|| {
        // SAFETY: C passes what it was given.
        let queue: &EventQueue = unsafe { object::object(queue) };
        if queue.wait_kind == FI_WAIT_NONE {
            return Err(FI_ENOSYS);
        }
        let deadline = wait::deadline(timeout);
        let mut events = queue.events();
        while events.is_empty() {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(FI_EAGAIN);
            }
            let left = left.unwrap_or(Duration::from_secs(3600));
            events = queue
                .written
                .wait_timeout(events, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        // SAFETY: C passes room.
        unsafe { queue.take(&mut events, event, buffer, len, flags) }
    })
}

unsafe extern "C" fn control(fid: *mut fid, what: c_int, argument: *mut c_void) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C passes what it was given, and room for what the command gives.
        unsafe {
            let queue: &EventQueue = object::object(fid);
            wait::control(queue.wait.as_ref(), queue.wait_kind, what, argument)
        }
    })
}

unsafe extern "C" fn strerror(
    _: *mut fid_eq,
    _: c_int,
    _: *const c_void,
    _: *mut c_char,
    _: usize,
) -> *const c_char {
    c"event queues report no errors".as_ptr()
}
