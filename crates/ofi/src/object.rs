//! Objects that C holds by the address of their head.

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int, c_void};
use core::mem::ManuallyDrop;
use std::sync::Arc;

use crate::ffi_guard;
use limic_ofi_abi::errno::*;
use limic_ofi_abi::{fi_ops, fid};

/// A type whose first field is a `fid` structure of libfabric.
///
/// # Safety
/// `repr(C)`, and the first field is a [`Head`] of a structure that begins with a `fid`.
pub(crate) unsafe trait Object: Sized {
    const CLASS: usize;
}

/// The structure that C sees, which C may write to.
#[repr(transparent)]
pub(crate) struct Head<T>(UnsafeCell<T>);

impl<T> Head<T> {
    pub(crate) fn new(head: T) -> Self {
        Self(UnsafeCell::new(head))
    }
}

/// The head of an object of class `O`.
pub(crate) fn fid_of<O: Object>(context: *mut c_void, ops: &'static fi_ops) -> fid {
    fid {
        fclass: O::CLASS,
        context,
        ops,
    }
}

/// What objects of class `O` can do if they are closed with nothing to take down, and are neither
/// bound nor controlled.
pub(crate) const fn ops<O: Object>() -> fi_ops {
    fi_ops {
        size: size_of::<fi_ops>(),
        close: close::<O>,
        bind: no_bind,
        control: no_control,
        ops_open: no_ops_open,
        tostr: None,
        ops_set: None,
    }
}

unsafe extern "C" fn close<O: Object>(fid: *mut fid) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C closes what it was given, once.
        let closed = unsafe { take_back::<O>(fid) };
        closed.map(drop).ok_or(FI_EBUSY)
    })
}

unsafe extern "C" fn no_bind(_: *mut fid, _: *mut fid, _: u64) -> c_int {
    -FI_ENOSYS
}

unsafe extern "C" fn no_control(_: *mut fid, _: c_int, _: *mut c_void) -> c_int {
    -FI_ENOSYS
}

/// There are no operations beyond libfabric's.
unsafe extern "C" fn no_ops_open(
    _: *mut fid,
    _: *const c_char,
    _: u64,
    _: *mut *mut c_void,
    _: *mut c_void,
) -> c_int {
    -FI_ENOSYS
}

/// Gives an object to C, which gives it back with [`take_back`].
pub(crate) fn hand_out<O: Object, F>(object: Arc<O>) -> *mut F {
    Arc::into_raw(object).cast_mut().cast()
}

/// The object behind a head.
///
/// # Safety
/// `head` is the head of a living `O` that [`hand_out`] gave to C.
#[inline(always)]
pub(crate) unsafe fn object<'a, O: Object, F>(head: *mut F) -> &'a O {
    // SAFETY: the caller's promise; the head is the first field.
    unsafe { &*head.cast_const().cast::<O>() }
}

/// One more owner of the object behind a head.
///
/// # Safety
/// As [`object`].
pub(crate) unsafe fn share<O: Object, F>(head: *mut F) -> Arc<O> {
    let raw = head.cast_const().cast::<O>();
    // SAFETY: the caller's promise: it came from `Arc::into_raw`.
    unsafe {
        Arc::increment_strong_count(raw);
        Arc::from_raw(raw)
    }
}

/// The object behind a head if it is one of class `O`.
///
/// # Safety
/// `head` is null or the head of a living object of this provider.
pub(crate) unsafe fn share_if<O: Object>(head: *mut fid) -> Option<Arc<O>> {
    // SAFETY: the caller's promise.
    unsafe {
        if head.is_null() || (*head).fclass != O::CLASS {
            return None;
        }
        Some(share(head))
    }
}

/// Whether something that was opened from an object, or bound to it, is still open.
///
/// # Safety
/// As [`object`].
pub(crate) unsafe fn is_shared<O: Object>(head: *mut fid) -> bool {
    // SAFETY: the caller's promise: it came from `Arc::into_raw`, and goes on belonging to C.
    let object = ManuallyDrop::new(unsafe { Arc::from_raw(head.cast_const().cast::<O>()) });
    Arc::strong_count(&object) > 1
}

/// Takes an object back that nobody else uses. `None`: something that was opened from it, or bound
/// to it, is still open.
///
/// # Safety
/// As [`object`]; if it gives the object, C does not use the head any more.
pub(crate) unsafe fn take_back<O: Object>(head: *mut fid) -> Option<O> {
    let raw = head.cast_const().cast::<O>();
    // SAFETY: the caller's promise: it came from `Arc::into_raw`, and has not been taken back.
    let object = unsafe { Arc::from_raw(raw) };
    match Arc::try_unwrap(object) {
        Ok(object) => Some(object),
        Err(object) => {
            core::mem::forget(object);
            None
        }
    }
}
