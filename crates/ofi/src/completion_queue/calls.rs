//! What libfabric calls: queues are opened, read, signalled and closed.

use core::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use super::Queue;
use super::idle::Idle;
use super::list::List;
use super::owned::OWNED_OPS;
use crate::bound::Bound;
use crate::domain::Domain;
use crate::errors::text_of;
use crate::object::{self, Head};
use crate::peer::OwnersQueue;
use crate::wait::WaitObject;
use crate::{ffi_guard, log};
use limic_ofi_abi::entries::{fi_cq_attr, fi_cq_err_entry};
use limic_ofi_abi::errno::*;
use limic_ofi_abi::objects::{fi_ops_cq, fid_cq, fid_domain};
use limic_ofi_abi::*;

static OPS: fi_ops = fi_ops {
    control,
    ..object::ops::<Queue>()
};

static CQ_OPS: fi_ops_cq = fi_ops_cq {
    size: size_of::<fi_ops_cq>(),
    read,
    readfrom,
    readerr,
    sread,
    sreadfrom,
    signal,
    strerror,
};

/// `fi_cq_open`.
pub(crate) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_cq_attr,
    queue: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C passes attributes or null.
        let attr = unsafe { attr.as_mut() }.ok_or(FI_EINVAL)?;
        if queue.is_null() {
            return Err(FI_EINVAL);
        }
        // Which processor is interrupted is a wish.
        if attr.flags & !(FI_AFFINITY | FI_PEER) != 0 {
            return Err(FI_EBADFLAGS);
        }
        // SAFETY: with this flag the context says whose queue it is.
        let owner = (attr.flags & FI_PEER != 0)
            .then(|| unsafe { OwnersQueue::new(context) })
            .transpose()?;
        // Whoever leaves the choice to the provider learns it here; a short entry fits any room.
        if attr.format == FI_CQ_FORMAT_UNSPEC {
            attr.format = FI_CQ_FORMAT_CONTEXT;
        }
        let entry = match attr.format {
            FI_CQ_FORMAT_TAGGED => 48,
            FI_CQ_FORMAT_CONTEXT => 8,
            FI_CQ_FORMAT_MSG => 24,
            FI_CQ_FORMAT_DATA => 40,
            _ => return Err(FI_EINVAL),
        };
        let wait = match attr.wait_obj {
            FI_WAIT_NONE | FI_WAIT_YIELD => None,
            FI_WAIT_UNSPEC | FI_WAIT_FD => {
                Some(WaitObject::new().map_err(|errno| errno.raw_os_error())?)
            }
            other => {
                log::info(&format_args!(
                    "wait object {other} is not known; FI_WAIT_FD is"
                ));
                return Err(FI_ENOSYS);
            }
        };
        if !matches!(attr.wait_cond, FI_CQ_COND_NONE | FI_CQ_COND_THRESHOLD) {
            return Err(FI_EINVAL);
        }
        // SAFETY: a domain of this provider.
        let domain: Arc<Domain> = unsafe { object::share(domain) };
        let object = Arc::new(Queue {
            head: Head::new(fid_cq {
                fid: object::fid_of::<Queue>(context, &OPS),
                ops: if owner.is_some() { &OWNED_OPS } else { &CQ_OPS },
            }),
            turns: domain.new_turns(),
            domain,
            list: List::new(),
            entry,
            idle: Idle::new(),
            bound: Bound::new(wait, attr.wait_obj),
            threshold: attr.wait_cond == FI_CQ_COND_THRESHOLD,
            signals: Default::default(),
            owner,
        });
        // SAFETY: checked.
        unsafe { *queue = object::hand_out(object) };
        Ok(())
    })
}

unsafe extern "C" fn control(fid: *mut fid, what: c_int, argument: *mut c_void) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C passes what it was given, and room for what the command gives.
        unsafe {
            let queue: &Queue = object::object(fid);
            queue.bound.control(what, argument)
        }
    })
}

unsafe extern "C" fn read(queue: *mut fid_cq, buffer: *mut c_void, count: usize) -> isize {
    ffi_guard::size(|| {
        // SAFETY: C passes what it was given, and room for `count` entries; so below.
        unsafe {
            let queue: &Queue = object::object(queue);
            queue.read_now(buffer, count, core::ptr::null_mut())
        }
    })
}

unsafe extern "C" fn readfrom(
    queue: *mut fid_cq,
    buffer: *mut c_void,
    count: usize,
    sources: *mut fi_addr_t,
) -> isize {
    ffi_guard::size(|| {
        // SAFETY: as above.
        unsafe {
            let queue: &Queue = object::object(queue);
            queue.read_now(buffer, count, sources)
        }
    })
}

unsafe extern "C" fn sread(
    queue: *mut fid_cq,
    buffer: *mut c_void,
    count: usize,
    condition: *const c_void,
    timeout: c_int,
) -> isize {
    // SAFETY: as above.
    unsafe {
        sreadfrom(
            queue,
            buffer,
            count,
            core::ptr::null_mut(),
            condition,
            timeout,
        )
    }
}

unsafe extern "C" fn sreadfrom(
    queue: *mut fid_cq,
    buffer: *mut c_void,
    count: usize,
    sources: *mut fi_addr_t,
    condition: *const c_void,
    timeout: c_int,
) -> isize {
    ffi_guard::size(|| {
        // SAFETY: as above.
        unsafe {
            let queue: &Queue = object::object(queue);
            queue.read_waiting(buffer, count, sources, condition, timeout)
        }
    })
}

/// `fi_cq_readerr`: the oldest completion, which is one of a failed operation.
unsafe extern "C" fn readerr(queue: *mut fid_cq, entry: *mut fi_cq_err_entry, _: u64) -> isize {
    ffi_guard::size(|| {
        // SAFETY: C passes what it was given.
        let queue: &Queue = unsafe { object::object(queue) };
        let _turn = queue.turns.data();
        // SAFETY: as above; so with the room for an entry.
        unsafe { queue.read_error(entry) }
    })
}

/// `fi_cq_signal`: whoever waits in `fi_cq_sread` returns, and the descriptor becomes readable.
unsafe extern "C" fn signal(queue: *mut fid_cq) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C passes what it was given.
        let queue: &Queue = unsafe { object::object(queue) };
        // Its caller is hardly ever the thread that waits.
        let _turn = queue.turns.control();
        queue.signals.give();
        queue.bound.call();
        Ok(())
    })
}

pub(super) unsafe extern "C" fn strerror(
    _: *mut fid_cq,
    errno: c_int,
    _: *const c_void,
    buffer: *mut c_char,
    len: usize,
) -> *const c_char {
    let text = text_of(errno);
    if !buffer.is_null() && len > 0 {
        let count = text.count_bytes().min(len - 1);
        // SAFETY: C passes room for `len` bytes.
        unsafe {
            core::ptr::copy_nonoverlapping(text.as_ptr(), buffer, count);
            *buffer.add(count) = 0;
        }
    }
    text.as_ptr()
}
