//! What is asked of queue pairs of both kinds, and of shared receive queues.

use std::ptr::NonNull;

use sys::ibv_qp_attr_mask as mask;

use super::work::LocalSlice;
use crate::{VerbsError, sys};

/// Adds a receive to the own queue of a queue pair, of either kind.
///
/// # Safety
/// The queue pair is alive. The slice's memory stays registered and is left alone until the receive
/// completes, or the queue pair is destroyed.
pub(super) unsafe fn receive(
    pair: NonNull<sys::ibv_qp>,
    id: u64,
    slice: LocalSlice,
) -> Result<(), VerbsError> {
    post_receive("ibv_post_recv", id, slice, |work, bad| {
        // SAFETY: a live queue pair; the request and its list live during the call.
        unsafe { sys::ibv_post_recv(pair.as_ptr(), work, bad) }
    })
}

/// Hands a receive to the call that adds it to some queue. It lives during the call, which is as
/// long as it is needed.
pub(super) fn post_receive(
    call: &'static str,
    id: u64,
    slice: LocalSlice,
    post: impl FnOnce(*mut sys::ibv_recv_wr, *mut *mut sys::ibv_recv_wr) -> i32,
) -> Result<(), VerbsError> {
    let mut slice = slice.raw();
    let mut work = sys::ibv_recv_wr {
        wr_id: id,
        next: std::ptr::null_mut(),
        sg_list: &raw mut slice,
        num_sge: 1,
    };
    let mut bad = std::ptr::null_mut();
    VerbsError::check(call, post(&raw mut work, &raw mut bad))
}

/// Moves a queue pair that is alive, of either kind, to what the fields named by the mask say.
pub(super) fn modify(
    pair: NonNull<sys::ibv_qp>,
    attr: &mut sys::ibv_qp_attr,
    which: mask,
) -> Result<(), VerbsError> {
    // SAFETY: callers own the queue pair, which is alive; the mask says which fields are read.
    let returned = unsafe { sys::ibv_modify_qp(pair.as_ptr(), &raw mut *attr, which.0 as i32) };
    VerbsError::check("ibv_modify_qp", returned)
}

pub(super) fn blank() -> sys::ibv_qp_attr {
    // SAFETY: all-zero bytes are a value of this plain C struct.
    unsafe { std::mem::zeroed() }
}
