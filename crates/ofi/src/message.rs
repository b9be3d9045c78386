//! Untagged messages, and room for many of them (`FI_MULTI_RECV`).

use core::ffi::c_void;

use limic::{Selector, Tag};

use crate::abi::endpoint::{fi_msg, fi_ops_msg, fid_ep};
use crate::abi::errno::*;
use crate::abi::*;
use crate::endpoint::{Endpoint, sort};
use crate::receive::{self, Wanted, room};
use crate::send::{self, Sent, pieces};
use crate::tagged::with;

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

const RECEIVED: u64 = FI_MSG | FI_RECV;

/// What the receives of this file have in common.
#[inline(always)]
fn wanted(
    endpoint: &Endpoint,
    source: fi_addr_t,
    context: *mut c_void,
    reported: bool,
) -> Result<Wanted, i32> {
    Ok(Wanted {
        selector: Selector {
            source: endpoint.source(source)?,
            tag: Tag(sort::UNTAGGED),
            mask: sort::MASK,
        },
        context,
        flags: RECEIVED,
        reported,
    })
}

/// What the sends of this file have in common.
#[inline(always)]
fn sent(to: fi_addr_t, data: Option<u64>, context: *mut c_void, reported: bool) -> Sent {
    Sent {
        to,
        tag: sort::UNTAGGED,
        data,
        context,
        flags: FI_MSG | FI_SEND,
        reported,
    }
}

unsafe extern "C" fn recv(
    endpoint: *mut fid_ep,
    buffer: *mut c_void,
    len: usize,
    _: *mut c_void,
    source: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: C passes what it was given, and lends buffer and context until the operation is over; so in all calls
    // of this file.
    unsafe {
        with(endpoint, |endpoint| {
            let many = endpoint.receives.flags.get() & FI_MULTI_RECV != 0;
            let wanted = wanted(endpoint, source, context, endpoint.receives.reports())?;
            let room = receive::one(buffer, len);
            if many {
                endpoint.receive_many(&wanted, room[0])
            } else {
                endpoint.receive(&wanted, &room)
            }
        })
    }
}

unsafe extern "C" fn recvv(
    endpoint: *mut fid_ep,
    iov: *const libc::iovec,
    _: *mut *mut c_void,
    count: usize,
    source: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: as in `recv`.
    unsafe {
        with(endpoint, |endpoint| {
            let wanted = wanted(endpoint, source, context, endpoint.receives.reports())?;
            endpoint.receive(&wanted, room(iov, count)?.as_slice())
        })
    }
}

unsafe extern "C" fn recvmsg(endpoint: *mut fid_ep, message: *const fi_msg, flags: u64) -> isize {
    // SAFETY: as in `recv`; the message is valid during the call.
    unsafe {
        with(endpoint, |endpoint| {
            let message = message.as_ref().ok_or(FI_EINVAL)?;
            let asks = flags & (FI_PEEK | FI_CLAIM) != 0;
            let reported = asks || endpoint.receives.reports_with(flags);
            let wanted = wanted(endpoint, message.addr, message.context, reported)?;
            if flags & FI_PEEK != 0 {
                return endpoint.peek(&wanted, flags);
            }
            let room = room(message.msg_iov, message.iov_count)?;
            if flags & FI_CLAIM != 0 {
                return endpoint.receive_claimed(&wanted, room.as_slice(), flags);
            }
            if flags & FI_DISCARD != 0 {
                return Err(FI_EBADFLAGS);
            }
            match (flags & FI_MULTI_RECV, room.as_slice()) {
                (0, pieces) => endpoint.receive(&wanted, pieces),
                (_, [whole]) => endpoint.receive_many(&wanted, *whole),
                _ => Err(FI_EINVAL),
            }
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
    // SAFETY: as in `recv`.
    unsafe {
        with(endpoint, |endpoint| {
            let sent = sent(to, None, context, endpoint.sends.reports());
            endpoint.send(&sent, &send::one(buffer, len))
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
    // SAFETY: as in `recv`.
    unsafe {
        with(endpoint, |endpoint| {
            let sent = sent(to, None, context, endpoint.sends.reports());
            endpoint.send(&sent, pieces(iov, count)?.as_slice())
        })
    }
}

unsafe extern "C" fn sendmsg(endpoint: *mut fid_ep, message: *const fi_msg, flags: u64) -> isize {
    // SAFETY: as in `recv`; the message is valid during the call.
    unsafe {
        with(endpoint, |endpoint| {
            let message = message.as_ref().ok_or(FI_EINVAL)?;
            let data = Endpoint::data_of(flags, message.data);
            let reported = endpoint.sends.reports_with(flags);
            let sent = sent(message.addr, data, message.context, reported);
            let pieces = pieces(message.msg_iov, message.iov_count)?;
            if flags & FI_INJECT != 0 {
                endpoint.inject(&sent, pieces.as_slice())
            } else {
                endpoint.send(&sent, pieces.as_slice())
            }
        })
    }
}

unsafe extern "C" fn inject(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    len: usize,
    to: fi_addr_t,
) -> isize {
    // SAFETY: as in `recv`; the buffer is lent for the time of the call.
    unsafe {
        with(endpoint, |endpoint| {
            let sent = sent(to, None, core::ptr::null_mut(), false);
            endpoint.inject(&sent, &send::one(buffer, len))
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
    // SAFETY: as in `recv`.
    unsafe {
        with(endpoint, |endpoint| {
            let sent = sent(to, Some(data), context, endpoint.sends.reports());
            endpoint.send(&sent, &send::one(buffer, len))
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
    // SAFETY: as in `inject`.
    unsafe {
        with(endpoint, |endpoint| {
            let sent = sent(to, Some(data), core::ptr::null_mut(), false);
            endpoint.inject(&sent, &send::one(buffer, len))
        })
    }
}
