//! Atomic operations on peers' memory (`fi_atomic`, `fi_fetch_atomic`, `fi_compare_atomic`): the
//! table, and what there is. How they travel is in `remote`, what they do to memory in
//! `reduction`.

pub(crate) mod reduction;
mod remote;

use core::ffi::{c_int, c_void};
use core::mem::offset_of;

use crate::call::{Bytes, CallFlags, NO_CONTEXT, c_call, with};
use crate::endpoint::Endpoint;
use crate::ffi_guard;
use limic_ofi_abi::atomic::{fi_atomic_attr, fi_ioc, fi_msg_atomic, fi_ops_atomic, fi_rma_ioc};
use limic_ofi_abi::endpoint::fid_ep;
use limic_ofi_abi::errno::*;
use limic_ofi_abi::objects::fid_domain;
use limic_ofi_abi::*;

use self::remote::{Arrays, AtomicArgs, AtomicKind, LONGEST, call, most};

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

macro_rules! valid {
    ($name:ident, $does:ident) => {
        unsafe extern "C" fn $name(
            _: *mut fid_ep,
            datatype: u32,
            op: u32,
            count: *mut usize,
        ) -> c_int {
            valid(datatype, op, AtomicKind::$does, count)
        }
    };
}

valid!(writevalid, Change);
valid!(readwritevalid, Fetch);
valid!(compwritevalid, Compare);

/// Elements as bytes that are not counted yet: `remote` knows their type.
fn pieces(elements: *const fi_ioc, count: usize) -> Bytes {
    const {
        assert!(size_of::<fi_ioc>() == size_of::<libc::iovec>());
        assert!(offset_of!(fi_ioc, addr) == offset_of!(libc::iovec, iov_base));
        assert!(offset_of!(fi_ioc, count) == offset_of!(libc::iovec, iov_len));
    }
    Bytes::Pieces(elements.cast(), count)
}

/// A call without a message: its arrays, and what all of these calls end with.
macro_rules! atomic {
    ($name:ident($($argument:tt: $of:ty),*) = $arrays:expr) => {
        c_call! { call: $name(
            $($argument: $of,)* peer: fi_addr_t, addr: u64, key: u64, datatype: u32, op: u32,
            context: *mut c_void
        ) = CallFlags::Plain,
            AtomicArgs { peer, addr, key, datatype, op, count: None, context }, $arrays }
    };
}

atomic! { write(buffer: *const c_void, count: usize, _: *mut c_void)
= Arrays::change(Bytes::of(buffer, count)) }

atomic! { writev(operand: *const fi_ioc, _: *mut *mut c_void, count: usize)
= Arrays::change(pieces(operand, count)) }

atomic! { readwrite(
    buffer: *const c_void, count: usize, _: *mut c_void, result: *mut c_void, _: *mut c_void
) = Arrays::fetch(Bytes::of(buffer, count), Bytes::One(result, count)) }

atomic! { readwritev(
    operand: *const fi_ioc, _: *mut *mut c_void, count: usize,
    result: *mut fi_ioc, _: *mut *mut c_void, result_count: usize
) = Arrays::fetch(pieces(operand, count), pieces(result, result_count)) }

atomic! { compwrite(
    buffer: *const c_void, count: usize, _: *mut c_void, compare: *const c_void, _: *mut c_void,
    result: *mut c_void, _: *mut c_void
) = Arrays::compare(
    Bytes::of(buffer, count), Bytes::of(compare, count), Bytes::One(result, count)
) }

atomic! { compwritev(
    operand: *const fi_ioc, _: *mut *mut c_void, count: usize,
    compare: *const fi_ioc, _: *mut *mut c_void, compare_count: usize,
    result: *mut fi_ioc, _: *mut *mut c_void, result_count: usize
) = Arrays::compare(
    pieces(operand, count), pieces(compare, compare_count), pieces(result, result_count)
) }

c_call! { call: inject(
    buffer: *const c_void, count: usize, peer: fi_addr_t, addr: u64, key: u64, datatype: u32,
    op: u32
) = CallFlags::Inject,
    AtomicArgs { peer, addr, key, datatype, op, count: None, context: NO_CONTEXT },
    Arrays::change(Bytes::of(buffer, count)) }

/// What a message says, beside its elements.
fn said(message: &fi_msg_atomic) -> Result<AtomicArgs, i32> {
    // Several pieces of remote memory are not offered (`iov_limit` of atomics is 1).
    if message.rma_iov_count != 1 || message.rma_iov.is_null() {
        return Err(FI_EINVAL);
    }
    // SAFETY: C passes as many entries as it says: one.
    let &fi_rma_ioc { addr, count, key } = unsafe { &*message.rma_iov };
    Ok(AtomicArgs {
        peer: message.addr,
        addr,
        count: Some(count),
        key,
        datatype: message.datatype,
        op: message.op,
        context: message.context,
    })
}

fn operand(message: &fi_msg_atomic) -> Bytes {
    pieces(message.msg_iov, message.iov_count)
}

c_call! { call: writemsg(message: &fi_msg_atomic, flags: u64)
= CallFlags::operating(flags)?, said(message)?, Arrays::change(operand(message)) }

c_call! { call: readwritemsg(
    message: &fi_msg_atomic, result: *mut fi_ioc, _: *mut *mut c_void, result_count: usize,
    flags: u64
) = CallFlags::operating(flags)?, said(message)?,
    Arrays::fetch(operand(message), pieces(result, result_count)) }

c_call! { call: compwritemsg(
    message: &fi_msg_atomic, compare: *const fi_ioc, _: *mut *mut c_void, compare_count: usize,
    result: *mut fi_ioc, _: *mut *mut c_void, result_count: usize, flags: u64
) = CallFlags::operating(flags)?, said(message)?, Arrays::compare(
    operand(message), pieces(compare, compare_count), pieces(result, result_count)
) }
