//! Completions and counts that go to an owner.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr::NonNull;

use limic_ofi_abi::entries::{fi_cq_err_entry, fi_cq_tagged_entry};
use limic_ofi_abi::errno::*;
use limic_ofi_abi::fi_addr_t;
use limic_ofi_abi::peer::*;

use crate::log;

/// The completion queue of an owner.
pub(crate) struct OwnersQueue {
    owner: NonNull<fid_peer_cq>,
    ops: *const fi_ops_cq_owner,
}

impl OwnersQueue {
    /// # Safety
    /// `context` is null or such a structure, and what it points to stays until the queue is
    /// closed that is opened with it.
    pub(crate) unsafe fn new(context: *mut c_void) -> Result<Self, i32> {
        // SAFETY: the caller's promise.
        let (owner, ops) = unsafe {
            let object = |given: *const fi_peer_cq_context| (*given).cq;
            super::given("completion queue", context, object, |owner| {
                (*owner).owner_ops
            })?
        };
        Ok(Self { owner, ops })
    }

    /// Writes a completion. False: the owner has no room now.
    pub(crate) fn write(&self, entry: &fi_cq_tagged_entry, source: fi_addr_t) -> bool {
        let fi_cq_tagged_entry {
            op_context,
            flags,
            len,
            buf,
            data,
            tag,
        } = *entry;
        // SAFETY: a function of the owner, about what it has given.
        taken(unsafe {
            ((*self.ops).write)(
                self.owner.as_ptr(),
                op_context,
                flags,
                len,
                buf,
                data,
                tag,
                source,
            )
        })
    }

    /// Writes the completion of an operation that failed. False: the owner has no room now.
    pub(crate) fn write_error(&self, entry: fi_cq_err_entry, src_addr: fi_addr_t) -> bool {
        let entry = fi_peer_cq_err_entry { entry, src_addr };
        // SAFETY: as above.
        taken(unsafe { ((*self.ops).writeerr)(self.owner.as_ptr(), &entry) })
    }
}

fn taken(code: isize) -> bool {
    if code == -(FI_EAGAIN as isize) {
        return false;
    }
    if code != 0 {
        log::warn(&format_args!(
            "the owner of the queue refuses a completion ({code})"
        ));
    }
    true
}

/// The counter of an owner.
pub(crate) struct OwnersCounter {
    owner: NonNull<fid_peer_cntr>,
    ops: *const fi_ops_cntr_owner,
    /// What it was told so far.
    told: Cell<(u64, u64)>,
}

impl OwnersCounter {
    /// # Safety
    /// As [`OwnersQueue::new`].
    pub(crate) unsafe fn new(context: *mut c_void) -> Result<Self, i32> {
        // SAFETY: the caller's promise.
        let (owner, ops) = unsafe {
            let object = |given: *const fi_peer_cntr_context| (*given).cntr;
            super::given("counter", context, object, |owner| (*owner).owner_ops)?
        };
        let told = Cell::new((0, 0));
        Ok(Self { owner, ops, told })
    }

    /// Tells it of operations that were counted since.
    pub(crate) fn tell(&self, (good, bad): (u64, u64)) {
        let (told_good, told_bad) = self.told.replace((good, bad));
        // SAFETY: functions of the owner, about what it has given.
        unsafe {
            for _ in told_good..good {
                ((*self.ops).inc)(self.owner.as_ptr());
            }
            for _ in told_bad..bad {
                ((*self.ops).incerr)(self.owner.as_ptr());
            }
        }
    }
}
