//! Reads and writes of peers' memory (`fi_read`, `fi_write`): the table. What the calls do is in
//! `access`.

use core::ffi::c_void;

use crate::abi::endpoint::{fi_msg_rma, fi_ops_rma, fid_ep};
use crate::abi::errno::*;
use crate::abi::fi_addr_t;
use crate::access::{self, Remote, RmaArgs};
use crate::call::{Bytes, CallFlags};

pub(crate) static OPS: fi_ops_rma = fi_ops_rma {
    size: size_of::<fi_ops_rma>(),
    read,
    readv,
    readmsg,
    write,
    writev,
    writemsg,
    inject,
    writedata,
    injectdata,
};

fn reading(peer: fi_addr_t, context: *mut c_void) -> RmaArgs {
    RmaArgs {
        peer,
        write: false,
        data: None,
        context,
    }
}

fn writing(peer: fi_addr_t, data: Option<u64>, context: *mut c_void) -> RmaArgs {
    RmaArgs {
        peer,
        write: true,
        data,
        context,
    }
}

unsafe extern "C" fn read(
    endpoint: *mut fid_ep,
    buffer: *mut c_void,
    len: usize,
    _: *mut c_void,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let (given, local) = (reading(peer, context), Bytes::One(buffer, len));
    // SAFETY: C passes what it was given, and lends buffer and context until the operation is over;
    // so in all calls of this file.
    unsafe {
        access::call(
            endpoint,
            CallFlags::Plain,
            &given,
            local,
            Remote::At(addr, key),
        )
    }
}

unsafe extern "C" fn readv(
    endpoint: *mut fid_ep,
    iov: *const libc::iovec,
    _: *mut *mut c_void,
    count: usize,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let (given, local) = (reading(peer, context), Bytes::Pieces(iov, count));
    // SAFETY: as in `read`.
    unsafe {
        access::call(
            endpoint,
            CallFlags::Plain,
            &given,
            local,
            Remote::At(addr, key),
        )
    }
}

unsafe extern "C" fn readmsg(
    endpoint: *mut fid_ep,
    message: *const fi_msg_rma,
    flags: u64,
) -> isize {
    // SAFETY: as in `read`.
    unsafe { with_message(endpoint, message, flags, false) }
}

/// # Safety
/// As the calls of the table.
unsafe fn with_message(
    endpoint: *mut fid_ep,
    message: *const fi_msg_rma,
    flags: u64,
    write: bool,
) -> isize {
    // SAFETY: the message is valid during the call.
    let Some(message) = (unsafe { message.as_ref() }) else {
        return -(FI_EINVAL as isize);
    };
    let form = match CallFlags::starting(flags) {
        Ok(form) => form,
        Err(errno) => return -(errno as isize),
    };
    let given = if write {
        writing(message.addr, form.data(message.data), message.context)
    } else {
        reading(message.addr, message.context)
    };
    let local = Bytes::Pieces(message.msg_iov, message.iov_count);
    let remote = Remote::Pieces(message.rma_iov, message.rma_iov_count);
    // SAFETY: the caller's promise.
    unsafe { access::call(endpoint, form, &given, local, remote) }
}

unsafe extern "C" fn write(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    len: usize,
    _: *mut c_void,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let (given, local) = (writing(peer, None, context), Bytes::of(buffer, len));
    // SAFETY: as in `read`.
    unsafe {
        access::call(
            endpoint,
            CallFlags::Plain,
            &given,
            local,
            Remote::At(addr, key),
        )
    }
}

unsafe extern "C" fn writev(
    endpoint: *mut fid_ep,
    iov: *const libc::iovec,
    _: *mut *mut c_void,
    count: usize,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let (given, local) = (writing(peer, None, context), Bytes::Pieces(iov, count));
    // SAFETY: as in `read`.
    unsafe {
        access::call(
            endpoint,
            CallFlags::Plain,
            &given,
            local,
            Remote::At(addr, key),
        )
    }
}

unsafe extern "C" fn writemsg(
    endpoint: *mut fid_ep,
    message: *const fi_msg_rma,
    flags: u64,
) -> isize {
    // SAFETY: as in `read`.
    unsafe { with_message(endpoint, message, flags, true) }
}

unsafe extern "C" fn inject(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    len: usize,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
) -> isize {
    let given = writing(peer, None, core::ptr::null_mut());
    let local = Bytes::of(buffer, len);
    // SAFETY: as in `read`; the buffer is lent for the time of the call.
    unsafe {
        access::call(
            endpoint,
            CallFlags::Inject,
            &given,
            local,
            Remote::At(addr, key),
        )
    }
}

unsafe extern "C" fn writedata(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    len: usize,
    _: *mut c_void,
    data: u64,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let (given, local) = (writing(peer, Some(data), context), Bytes::of(buffer, len));
    // SAFETY: as in `read`.
    unsafe {
        access::call(
            endpoint,
            CallFlags::Plain,
            &given,
            local,
            Remote::At(addr, key),
        )
    }
}

unsafe extern "C" fn injectdata(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    len: usize,
    data: u64,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
) -> isize {
    let given = writing(peer, Some(data), core::ptr::null_mut());
    let local = Bytes::of(buffer, len);
    // SAFETY: as in `inject`.
    unsafe {
        access::call(
            endpoint,
            CallFlags::Inject,
            &given,
            local,
            Remote::At(addr, key),
        )
    }
}
