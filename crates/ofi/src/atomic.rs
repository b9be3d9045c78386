//! Atomic operations on peers' memory (`fi_atomic`, `fi_fetch_atomic`, `fi_compare_atomic`): the
//! table, and what there is. What the calls do is in `asking`, and at the other side in
//! `executing`.

use core::ffi::{c_int, c_void};

use crate::abi::atomic::{fi_atomic_attr, fi_ioc, fi_msg_atomic, fi_ops_atomic, fi_rma_ioc};
use crate::abi::endpoint::fid_ep;
use crate::abi::errno::*;
use crate::abi::objects::fid_domain;
use crate::abi::*;
use crate::atomic_initiator::{Arrays, AtomicArgs, AtomicKind, Elements, LONGEST, call, most};
use crate::call::CallFlags;
use crate::ffi_guard;

pub(crate) static OPS: fi_ops_atomic = fi_ops_atomic {
    size: size_of::<fi_ops_atomic>(),
    write,
    writev,
    writemsg,
    inject,
    readwrite,
    readwritev,
    readwritemsg,
    compwrite,
    compwritev,
    compwritemsg,
    writevalid,
    readwritevalid,
    compwritevalid,
};

/// `fi_query_atomic`.
pub(crate) unsafe extern "C" fn query(
    _: *mut fid_domain,
    datatype: u32,
    op: u32,
    attr: *mut fi_atomic_attr,
    flags: u64,
) -> c_int {
    ffi_guard::status(|| {
        let does = match flags {
            0 => AtomicKind::Change,
            FI_FETCH_ATOMIC => AtomicKind::Fetch,
            FI_COMPARE_ATOMIC => AtomicKind::Compare,
            _ => return Err(FI_EINVAL),
        };
        let most = most(datatype, op, does).ok_or(FI_EOPNOTSUPP)?;
        // SAFETY: C passes attributes or null.
        if let Some(attr) = unsafe { attr.as_mut() } {
            attr.count = most;
            attr.size = LONGEST / most;
        }
        Ok(())
    })
}

/// Says how many elements an operation may have.
fn valid(datatype: u32, op: u32, does: AtomicKind, count: *mut usize) -> c_int {
    ffi_guard::status(|| {
        let most = most(datatype, op, does).ok_or(FI_EOPNOTSUPP)?;
        // SAFETY: C passes a number or null.
        if let Some(count) = unsafe { count.as_mut() } {
            *count = most;
        }
        Ok(())
    })
}

unsafe extern "C" fn writevalid(
    _: *mut fid_ep,
    datatype: u32,
    op: u32,
    count: *mut usize,
) -> c_int {
    valid(datatype, op, AtomicKind::Change, count)
}

unsafe extern "C" fn readwritevalid(
    _: *mut fid_ep,
    datatype: u32,
    op: u32,
    count: *mut usize,
) -> c_int {
    valid(datatype, op, AtomicKind::Fetch, count)
}

unsafe extern "C" fn compwritevalid(
    _: *mut fid_ep,
    datatype: u32,
    op: u32,
    count: *mut usize,
) -> c_int {
    valid(datatype, op, AtomicKind::Compare, count)
}

unsafe extern "C" fn write(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    count: usize,
    _: *mut c_void,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let given = AtomicArgs {
        peer,
        addr,
        count: None,
        key,
        datatype,
        op,
        does: AtomicKind::Change,
        context,
    };
    let arrays = Arrays {
        operand: Elements::of(buffer, count),
        compare: Elements::NONE,
        result: Elements::NONE,
    };
    // SAFETY: C passes what it was given, operands that are valid during the call, and room for
    // results and a context until the operation is over; so in all calls of this file.
    unsafe { call(endpoint, CallFlags::Plain, &given, &arrays) }
}

unsafe extern "C" fn writev(
    endpoint: *mut fid_ep,
    operand: *const fi_ioc,
    _: *mut *mut c_void,
    count: usize,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let given = AtomicArgs {
        peer,
        addr,
        count: None,
        key,
        datatype,
        op,
        does: AtomicKind::Change,
        context,
    };
    let arrays = Arrays {
        operand: Elements::Pieces(operand, count),
        compare: Elements::NONE,
        result: Elements::NONE,
    };
    // SAFETY: as in `write`.
    unsafe { call(endpoint, CallFlags::Plain, &given, &arrays) }
}

unsafe extern "C" fn inject(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    count: usize,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
) -> isize {
    let given = AtomicArgs {
        peer,
        addr,
        count: None,
        key,
        datatype,
        op,
        does: AtomicKind::Change,
        context: core::ptr::null_mut(),
    };
    let arrays = Arrays {
        operand: Elements::of(buffer, count),
        compare: Elements::NONE,
        result: Elements::NONE,
    };
    // SAFETY: as in `write`.
    unsafe { call(endpoint, CallFlags::Inject, &given, &arrays) }
}

unsafe extern "C" fn readwrite(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    count: usize,
    _: *mut c_void,
    result: *mut c_void,
    _: *mut c_void,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let given = AtomicArgs {
        peer,
        addr,
        count: None,
        key,
        datatype,
        op,
        does: AtomicKind::Fetch,
        context,
    };
    let arrays = Arrays {
        operand: Elements::of(buffer, count),
        compare: Elements::NONE,
        result: Elements::One(result, count),
    };
    // SAFETY: as in `write`.
    unsafe { call(endpoint, CallFlags::Plain, &given, &arrays) }
}

unsafe extern "C" fn readwritev(
    endpoint: *mut fid_ep,
    operand: *const fi_ioc,
    _: *mut *mut c_void,
    count: usize,
    result: *mut fi_ioc,
    _: *mut *mut c_void,
    result_count: usize,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let given = AtomicArgs {
        peer,
        addr,
        count: None,
        key,
        datatype,
        op,
        does: AtomicKind::Fetch,
        context,
    };
    let arrays = Arrays {
        operand: Elements::Pieces(operand, count),
        compare: Elements::NONE,
        result: Elements::Pieces(result, result_count),
    };
    // SAFETY: as in `write`.
    unsafe { call(endpoint, CallFlags::Plain, &given, &arrays) }
}

unsafe extern "C" fn compwrite(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    count: usize,
    _: *mut c_void,
    compare: *const c_void,
    _: *mut c_void,
    result: *mut c_void,
    _: *mut c_void,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let given = AtomicArgs {
        peer,
        addr,
        count: None,
        key,
        datatype,
        op,
        does: AtomicKind::Compare,
        context,
    };
    let arrays = Arrays {
        operand: Elements::of(buffer, count),
        compare: Elements::of(compare, count),
        result: Elements::One(result, count),
    };
    // SAFETY: as in `write`.
    unsafe { call(endpoint, CallFlags::Plain, &given, &arrays) }
}

unsafe extern "C" fn compwritev(
    endpoint: *mut fid_ep,
    operand: *const fi_ioc,
    _: *mut *mut c_void,
    count: usize,
    compare: *const fi_ioc,
    _: *mut *mut c_void,
    compare_count: usize,
    result: *mut fi_ioc,
    _: *mut *mut c_void,
    result_count: usize,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let given = AtomicArgs {
        peer,
        addr,
        count: None,
        key,
        datatype,
        op,
        does: AtomicKind::Compare,
        context,
    };
    let arrays = Arrays {
        operand: Elements::Pieces(operand, count),
        compare: Elements::Pieces(compare, compare_count),
        result: Elements::Pieces(result, result_count),
    };
    // SAFETY: as in `write`.
    unsafe { call(endpoint, CallFlags::Plain, &given, &arrays) }
}

/// A call with a message.
///
/// # Safety
/// As `write`.
unsafe fn with_message(
    endpoint: *mut fid_ep,
    message: *const fi_msg_atomic,
    flags: u64,
    does: AtomicKind,
    compare: Elements,
    result: Elements,
) -> isize {
    // SAFETY: the message is valid during the call.
    let Some(message) = (unsafe { message.as_ref() }) else {
        return -(FI_EINVAL as isize);
    };
    let form = match CallFlags::starting(flags) {
        Ok(form) => form,
        Err(errno) => return -(errno as isize),
    };
    // Several pieces of remote memory are not offered (`iov_limit` of atomics is 1).
    if message.rma_iov_count != 1 || message.rma_iov.is_null() {
        return -(FI_EINVAL as isize);
    }
    // SAFETY: one entry, as was just checked.
    let &fi_rma_ioc { addr, count, key } = unsafe { &*message.rma_iov };
    let given = AtomicArgs {
        peer: message.addr,
        addr,
        count: Some(count),
        key,
        datatype: message.datatype,
        op: message.op,
        does,
        context: message.context,
    };
    let arrays = Arrays {
        operand: Elements::Pieces(message.msg_iov, message.iov_count),
        compare,
        result,
    };
    // SAFETY: the caller's promise.
    unsafe { call(endpoint, form, &given, &arrays) }
}

unsafe extern "C" fn writemsg(
    endpoint: *mut fid_ep,
    message: *const fi_msg_atomic,
    flags: u64,
) -> isize {
    let none = Elements::NONE;
    // SAFETY: as in `write`.
    unsafe { with_message(endpoint, message, flags, AtomicKind::Change, none, none) }
}

unsafe extern "C" fn readwritemsg(
    endpoint: *mut fid_ep,
    message: *const fi_msg_atomic,
    result: *mut fi_ioc,
    _: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    let (none, result) = (Elements::NONE, Elements::Pieces(result, result_count));
    // SAFETY: as in `write`.
    unsafe { with_message(endpoint, message, flags, AtomicKind::Fetch, none, result) }
}

unsafe extern "C" fn compwritemsg(
    endpoint: *mut fid_ep,
    message: *const fi_msg_atomic,
    compare: *const fi_ioc,
    _: *mut *mut c_void,
    compare_count: usize,
    result: *mut fi_ioc,
    _: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    let compare = Elements::Pieces(compare, compare_count);
    let result = Elements::Pieces(result, result_count);
    // SAFETY: as in `write`.
    unsafe {
        with_message(
            endpoint,
            message,
            flags,
            AtomicKind::Compare,
            compare,
            result,
        )
    }
}
