//! Tagged messages.

use core::ffi::c_void;

use limic::{Selector, Tag};

use crate::abi::endpoint::{fi_msg_tagged, fi_ops_tagged, fid_ep};
use crate::abi::errno::*;
use crate::abi::*;
use crate::endpoint::{Endpoint, sort};
use crate::receive::{self, Wanted, room};
use crate::send::{self, Sent, pieces};
use crate::{border, object};

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

const RECEIVED: u64 = FI_TAGGED | FI_RECV;
const SENT: u64 = FI_TAGGED | FI_SEND;

/// A tag of the application; the highest bit is not its own (`mem_tag_format` says so).
#[inline(always)]
fn checked(tag: u64) -> Result<u64, i32> {
    if tag & sort::NOT_TAGGED == 0 {
        Ok(tag)
    } else {
        Err(FI_EINVAL)
    }
}

#[inline(always)]
fn selector(
    endpoint: &Endpoint,
    source: fi_addr_t,
    tag: u64,
    ignore: u64,
) -> Result<Selector, i32> {
    Ok(Selector {
        source: endpoint.source(source)?,
        tag: Tag(checked(tag & !ignore)?),
        mask: !ignore | sort::NOT_TAGGED,
    })
}

/// A call about an endpoint, in its domain.
///
/// # Safety
/// `endpoint` is one of this provider.
#[inline(always)]
pub(crate) unsafe fn with(
    endpoint: *mut fid_ep,
    body: impl FnOnce(&Endpoint) -> Result<usize, i32>,
) -> isize {
    border::size(|| {
        // SAFETY: the caller's promise.
        let endpoint: &Endpoint = unsafe { object::object(endpoint) };
        let _turn = endpoint.domain.enter();
        if !endpoint.enabled.get() {
            return Err(FI_EOPBADSTATE);
        }
        body(endpoint)
    })
}

unsafe extern "C" fn recv(
    endpoint: *mut fid_ep,
    buffer: *mut c_void,
    len: usize,
    _: *mut c_void,
    source: fi_addr_t,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: C passes what it was given, and lends buffer and context until the operation is over; so in all calls
    // of this file.
    unsafe {
        with(endpoint, |endpoint| {
            let wanted = Wanted {
                selector: selector(endpoint, source, tag, ignore)?,
                context,
                flags: RECEIVED,
                reported: endpoint.receives.reports(),
            };
            endpoint.receive(&wanted, &receive::one(buffer, len))
        })
    }
}

unsafe extern "C" fn recvv(
    endpoint: *mut fid_ep,
    iov: *const libc::iovec,
    _: *mut *mut c_void,
    count: usize,
    source: fi_addr_t,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: as in `recv`.
    unsafe {
        with(endpoint, |endpoint| {
            let wanted = Wanted {
                selector: selector(endpoint, source, tag, ignore)?,
                context,
                flags: RECEIVED,
                reported: endpoint.receives.reports(),
            };
            endpoint.receive(&wanted, room(iov, count)?.as_slice())
        })
    }
}

unsafe extern "C" fn recvmsg(
    endpoint: *mut fid_ep,
    message: *const fi_msg_tagged,
    flags: u64,
) -> isize {
    // SAFETY: as in `recv`; the message is valid during the call.
    unsafe {
        with(endpoint, |endpoint| {
            let message = message.as_ref().ok_or(FI_EINVAL)?;
            let asks = flags & (FI_PEEK | FI_CLAIM) != 0;
            let mut wanted = Wanted {
                selector: Selector::any(),
                context: message.context,
                flags: RECEIVED,
                // Whoever asks wants an answer.
                reported: asks || endpoint.receives.reports_with(flags),
            };
            if flags & (FI_PEEK | FI_CLAIM) == FI_CLAIM {
                // The context alone says which message is meant.
                let room = room(message.msg_iov, message.iov_count)?;
                return endpoint.receive_claimed(&wanted, room.as_slice(), flags);
            }
            wanted.selector = selector(endpoint, message.addr, message.tag, message.ignore)?;
            if flags & FI_PEEK != 0 {
                return endpoint.peek(&wanted, flags);
            }
            if flags & (FI_DISCARD | FI_MULTI_RECV) != 0 {
                return Err(FI_EBADFLAGS);
            }
            let room = room(message.msg_iov, message.iov_count)?;
            endpoint.receive(&wanted, room.as_slice())
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
    // SAFETY: as in `recv`.
    unsafe {
        with(endpoint, |endpoint| {
            let sent = Sent {
                to,
                tag: checked(tag)?,
                data: None,
                context,
                flags: SENT,
                reported: endpoint.sends.reports(),
            };
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
    tag: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: as in `recv`.
    unsafe {
        with(endpoint, |endpoint| {
            let sent = Sent {
                to,
                tag: checked(tag)?,
                data: None,
                context,
                flags: SENT,
                reported: endpoint.sends.reports(),
            };
            endpoint.send(&sent, pieces(iov, count)?.as_slice())
        })
    }
}

unsafe extern "C" fn sendmsg(
    endpoint: *mut fid_ep,
    message: *const fi_msg_tagged,
    flags: u64,
) -> isize {
    // SAFETY: as in `recv`; the message is valid during the call.
    unsafe {
        with(endpoint, |endpoint| {
            let message = message.as_ref().ok_or(FI_EINVAL)?;
            let sent = Sent {
                to: message.addr,
                tag: checked(message.tag)?,
                data: Endpoint::data_of(flags, message.data),
                context: message.context,
                flags: SENT,
                reported: endpoint.sends.reports_with(flags),
            };
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
    tag: u64,
) -> isize {
    // SAFETY: as in `recv`; the buffer is lent for the time of the call.
    unsafe {
        with(endpoint, |endpoint| {
            let sent = Sent {
                to,
                tag: checked(tag)?,
                data: None,
                context: core::ptr::null_mut(),
                flags: SENT,
                reported: false,
            };
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
    tag: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: as in `recv`.
    unsafe {
        with(endpoint, |endpoint| {
            let sent = Sent {
                to,
                tag: checked(tag)?,
                data: Some(data),
                context,
                flags: SENT,
                reported: endpoint.sends.reports(),
            };
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
    tag: u64,
) -> isize {
    // SAFETY: as in `inject`.
    unsafe {
        with(endpoint, |endpoint| {
            let sent = Sent {
                to,
                tag: checked(tag)?,
                data: Some(data),
                context: core::ptr::null_mut(),
                flags: SENT,
                reported: false,
            };
            endpoint.inject(&sent, &send::one(buffer, len))
        })
    }
}
