//! Untagged messages (`fi_send`, `fi_recv`): the table. What the calls do is in `send` and
//! `receive`.

use core::ffi::c_void;

use crate::abi::endpoint::{fi_msg, fi_ops_msg, fid_ep};
use crate::abi::errno::*;
use crate::abi::fi_addr_t;
use crate::call::{Bytes, CallFlags, TagSpace, with};
use crate::receive::{self, RecvArgs};
use crate::send::{self, SendArgs};

pub(crate) static OPS: fi_ops_msg = fi_ops_msg {
    size: size_of::<fi_ops_msg>(),
    recv,
    recvv,
    recvmsg,
    send,
    sendv,
    sendmsg,
    inject,
    senddata,
    injectdata,
};

fn asked(from: fi_addr_t, context: *mut c_void) -> RecvArgs {
    RecvArgs {
        from,
        sort: TagSpace::Untagged,
        ignore: 0,
        context,
    }
}

fn given(to: fi_addr_t, data: Option<u64>, context: *mut c_void) -> SendArgs {
    SendArgs {
        to,
        sort: TagSpace::Untagged,
        data,
        context,
    }
}

unsafe extern "C" fn recv(
    endpoint: *mut fid_ep,
    buffer: *mut c_void,
    len: usize,
    _: *mut c_void,
    from: fi_addr_t,
    context: *mut c_void,
) -> isize {
    let room = Bytes::One(buffer, len);
    // SAFETY: C passes what it was given, and lends buffer and context until the operation is over;
    // so in all calls of this file.
    unsafe {
        with(endpoint, |endpoint| {
            receive::call(endpoint, CallFlags::Plain, &asked(from, context), room)
        })
    }
}

unsafe extern "C" fn recvv(
    endpoint: *mut fid_ep,
    iov: *const libc::iovec,
    _: *mut *mut c_void,
    count: usize,
    from: fi_addr_t,
    context: *mut c_void,
) -> isize {
    let room = Bytes::Pieces(iov, count);
    // SAFETY: as in `recv`.
    unsafe {
        with(endpoint, |endpoint| {
            receive::call(endpoint, CallFlags::Plain, &asked(from, context), room)
        })
    }
}

unsafe extern "C" fn recvmsg(endpoint: *mut fid_ep, message: *const fi_msg, flags: u64) -> isize {
    // SAFETY: the message is valid during the call.
    let Some(message) = (unsafe { message.as_ref() }) else {
        return -(FI_EINVAL as isize);
    };
    let asked = asked(message.addr, message.context);
    let room = Bytes::Pieces(message.msg_iov, message.iov_count);
    // SAFETY: as in `recv`.
    unsafe {
        with(endpoint, |endpoint| {
            receive::call(endpoint, CallFlags::receiving(flags)?, &asked, room)
        })
    }
}

unsafe extern "C" fn send(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    len: usize,
    _: *mut c_void,
    to: fi_addr_t,
    context: *mut c_void,
) -> isize {
    let (given, bytes) = (given(to, None, context), Bytes::of(buffer, len));
    // SAFETY: as in `recv`.
    unsafe {
        with(endpoint, |endpoint| {
            send::call(endpoint, CallFlags::Plain, &given, bytes)
        })
    }
}

unsafe extern "C" fn sendv(
    endpoint: *mut fid_ep,
    iov: *const libc::iovec,
    _: *mut *mut c_void,
    count: usize,
    to: fi_addr_t,
    context: *mut c_void,
) -> isize {
    let (given, bytes) = (given(to, None, context), Bytes::Pieces(iov, count));
    // SAFETY: as in `recv`.
    unsafe {
        with(endpoint, |endpoint| {
            send::call(endpoint, CallFlags::Plain, &given, bytes)
        })
    }
}

unsafe extern "C" fn sendmsg(endpoint: *mut fid_ep, message: *const fi_msg, flags: u64) -> isize {
    // SAFETY: the message is valid during the call.
    let Some(message) = (unsafe { message.as_ref() }) else {
        return -(FI_EINVAL as isize);
    };
    let form = match CallFlags::starting(flags) {
        Ok(form) => form,
        Err(errno) => return -(errno as isize),
    };
    let given = given(message.addr, form.data(message.data), message.context);
    let bytes = Bytes::Pieces(message.msg_iov, message.iov_count);
    // SAFETY: as in `recv`.
    unsafe {
        with(endpoint, |endpoint| {
            send::call(endpoint, form, &given, bytes)
        })
    }
}

unsafe extern "C" fn inject(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    len: usize,
    to: fi_addr_t,
) -> isize {
    let given = given(to, None, core::ptr::null_mut());
    // SAFETY: as in `recv`; the buffer is lent for the time of the call.
    unsafe {
        with(endpoint, |endpoint| {
            send::call(endpoint, CallFlags::Inject, &given, Bytes::of(buffer, len))
        })
    }
}

unsafe extern "C" fn senddata(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    len: usize,
    _: *mut c_void,
    data: u64,
    to: fi_addr_t,
    context: *mut c_void,
) -> isize {
    let (given, bytes) = (given(to, Some(data), context), Bytes::of(buffer, len));
    // SAFETY: as in `recv`.
    unsafe {
        with(endpoint, |endpoint| {
            send::call(endpoint, CallFlags::Plain, &given, bytes)
        })
    }
}

unsafe extern "C" fn injectdata(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    len: usize,
    data: u64,
    to: fi_addr_t,
) -> isize {
    let given = given(to, Some(data), core::ptr::null_mut());
    // SAFETY: as in `inject`.
    unsafe {
        with(endpoint, |endpoint| {
            send::call(endpoint, CallFlags::Inject, &given, Bytes::of(buffer, len))
        })
    }
}
