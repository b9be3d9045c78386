//! A queue that another provider owns: completions go on to that one's queue.

use core::ffi::{c_int, c_void};

use limic_ofi_abi::entries::fi_cq_err_entry;
use limic_ofi_abi::errno::*;
use limic_ofi_abi::fi_addr_t;
use limic_ofi_abi::objects::{fi_ops_cq, fid_cq};

use super::Queue;
use super::calls::strerror;
use crate::peer::{Asking, OwnersQueue, not_asking};
use crate::{ffi_guard, object};

/// Completions are read at the owner. Here it makes progress, by a read without room.
pub(super) static OWNED_OPS: fi_ops_cq = fi_ops_cq {
    size: size_of::<fi_ops_cq>(),
    read,
    readfrom,
    readerr,
    sread,
    sreadfrom,
    signal,
    strerror,
};

impl Queue {
    /// Moves messages along, shows the owner what has come, and passes on what has ended. Gives way
    /// to nobody: the owner may have a lock for which others wait.
    fn pass_on(&self, owner: &OwnersQueue) -> Result<usize, i32> {
        let mut moved = self.progress();
        moved |= self.bound.show_arrived();
        while let Some(completion) = self.list.get(0) {
            let source = self.source_of(&completion);
            let _asking = Asking::within(&self.domain);
            let written = if completion.has_failed() {
                owner.write_error(completion.error(), source)
            } else {
                owner.write(&completion.entry(), source)
            };
            if !written {
                break;
            }
            // SAFETY: there is one, and no other thread has this turn.
            unsafe { self.list.drop_oldest() };
            moved = true;
        }
        if moved { Ok(0) } else { Err(FI_EAGAIN) }
    }
}

unsafe extern "C" fn read(queue: *mut fid_cq, _: *mut c_void, count: usize) -> isize {
    ffi_guard::size(|| {
        // SAFETY: C passes what it was given.
        let queue: &Queue = unsafe { object::object(queue) };
        let owner = queue.owner.as_ref().filter(|_| count == 0);
        let owner = owner.ok_or(FI_ENOSYS)?;
        not_asking(&queue.domain)?;
        let turn = queue.turns.data();
        let passed = queue.pass_on(owner);
        if passed.is_err() {
            turn.found_nothing();
        }
        passed
    })
}

unsafe extern "C" fn readfrom(
    _: *mut fid_cq,
    _: *mut c_void,
    _: usize,
    _: *mut fi_addr_t,
) -> isize {
    -(FI_ENOSYS as isize)
}

unsafe extern "C" fn readerr(_: *mut fid_cq, _: *mut fi_cq_err_entry, _: u64) -> isize {
    -(FI_ENOSYS as isize)
}

unsafe extern "C" fn sread(
    _: *mut fid_cq,
    _: *mut c_void,
    _: usize,
    _: *const c_void,
    _: c_int,
) -> isize {
    -(FI_ENOSYS as isize)
}

unsafe extern "C" fn sreadfrom(
    _: *mut fid_cq,
    _: *mut c_void,
    _: usize,
    _: *mut fi_addr_t,
    _: *const c_void,
    _: c_int,
) -> isize {
    -(FI_ENOSYS as isize)
}

unsafe extern "C" fn signal(_: *mut fid_cq) -> c_int {
    -FI_ENOSYS
}
