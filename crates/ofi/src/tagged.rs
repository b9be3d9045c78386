//! Tagged messages (`fi_tsend`, `fi_trecv`): the table. What the calls do is in `send` and
//! `receive`.

use core::ffi::c_void;

use crate::abi::endpoint::{fi_msg_tagged, fi_ops_tagged, fid_ep};
use crate::abi::errno::*;
use crate::abi::fi_addr_t;
use crate::call::{Bytes, CallFlags, TagSpace, with};
use crate::receive::{self, RecvArgs};
use crate::send::{self, SendArgs};

pub(crate) static OPS: fi_ops_tagged = fi_ops_tagged {
    size: size_of::<fi_ops_tagged>(),
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

#[inline(always)]
fn asked(from: fi_addr_t, tag: u64, ignore: u64, context: *mut c_void) -> RecvArgs {
    RecvArgs {
        from,
        // Bits that are ignored may be anything.
        sort: TagSpace::Tagged(tag & !ignore),
        ignore,
        context,
    }
}

#[inline(always)]
fn given(to: fi_addr_t, tag: u64, data: Option<u64>, context: *mut c_void) -> SendArgs {
    SendArgs {
        to,
        sort: TagSpace::Tagged(tag),
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
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    let (asked, room) = (asked(from, tag, ignore, context), Bytes::One(buffer, len));
    // SAFETY: C passes what it was given, and lends buffer and context until the operation is over;
    // so in all calls of this file.
    unsafe {
        with(endpoint, |endpoint| {
            receive::call(endpoint, CallFlags::Plain, &asked, room)
        })
    }
}

unsafe extern "C" fn recvv(
    endpoint: *mut fid_ep,
    iov: *const libc::iovec,
    _: *mut *mut c_void,
    count: usize,
    from: fi_addr_t,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    let (asked, room) = (asked(from, tag, ignore, context), Bytes::Pieces(iov, count));
    // SAFETY: as in `recv`.
    unsafe {
        with(endpoint, |endpoint| {
            receive::call(endpoint, CallFlags::Plain, &asked, room)
        })
    }
}

unsafe extern "C" fn recvmsg(
    endpoint: *mut fid_ep,
    message: *const fi_msg_tagged,
    flags: u64,
) -> isize {
    // SAFETY: the message is valid during the call.
    let Some(message) = (unsafe { message.as_ref() }) else {
        return -(FI_EINVAL as isize);
    };
    let asked = asked(message.addr, message.tag, message.ignore, message.context);
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
    tag: u64,
    context: *mut c_void,
) -> isize {
    let (given, bytes) = (given(to, tag, None, context), Bytes::of(buffer, len));
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
    tag: u64,
    context: *mut c_void,
) -> isize {
    let (given, bytes) = (given(to, tag, None, context), Bytes::Pieces(iov, count));
    // SAFETY: as in `recv`.
    unsafe {
        with(endpoint, |endpoint| {
            send::call(endpoint, CallFlags::Plain, &given, bytes)
        })
    }
}

unsafe extern "C" fn sendmsg(
    endpoint: *mut fid_ep,
    message: *const fi_msg_tagged,
    flags: u64,
) -> isize {
    // SAFETY: the message is valid during the call.
    let Some(message) = (unsafe { message.as_ref() }) else {
        return -(FI_EINVAL as isize);
    };
    let form = match CallFlags::starting(flags) {
        Ok(form) => form,
        Err(errno) => return -(errno as isize),
    };
    let data = form.data(message.data);
    let given = given(message.addr, message.tag, data, message.context);
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
    tag: u64,
) -> isize {
    let given = given(to, tag, None, core::ptr::null_mut());
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
    tag: u64,
    context: *mut c_void,
) -> isize {
    let (given, bytes) = (given(to, tag, Some(data), context), Bytes::of(buffer, len));
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
    tag: u64,
) -> isize {
    let given = given(to, tag, Some(data), core::ptr::null_mut());
    // SAFETY: as in `inject`.
    unsafe {
        with(endpoint, |endpoint| {
            send::call(endpoint, CallFlags::Inject, &given, Bytes::of(buffer, len))
        })
    }
}
