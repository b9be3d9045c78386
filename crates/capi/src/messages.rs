//! Send and receive, of one piece of memory.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;

use limic::raw::{Posted, RawSlice, RawSliceMut, SendOptions};
use limic::{Outcome, Peer, Selector, Tag};

use crate::arguments::{bytes, label, output, room, selector};
use crate::endpoint_state::EndpointState;
use crate::entry::Inside;
use crate::errors::Failure;
use crate::ffi_guard::inside;
use crate::handles::{limic_endpoint, limic_request};
use crate::requests::{DONE, await_transport, let_go};
use crate::status::{StatusOut, limic_status};
use crate::waiting::Patience;

/// Gives C the request of an operation that was posted.
#[inline(always)]
pub(crate) fn start(
    endpoint: limic_endpoint,
    held: &mut EndpointState,
    posted: Posted,
    request: &mut MaybeUninit<limic_request>,
) {
    let number = match posted {
        Posted::Pending(id) => id.0,
        Posted::Done(outcome) => held.done.insert(outcome) | DONE,
    };
    request.write(limic_request {
        endpoint: endpoint.id,
        number,
    });
}

/// Waits for what was posted.
#[inline(always)]
pub(crate) fn finish(held: &mut Inside, posted: Posted) -> Result<Outcome, Failure> {
    match posted {
        Posted::Done(outcome) => Ok(outcome),
        Posted::Pending(id) => await_transport(held, id, Patience::Forever),
    }
}

/// Waits for a send that was posted, and lets a network take it: the caller may not call again for
/// long.
pub(crate) fn finish_send(held: &mut Inside, posted: Posted) -> Result<Outcome, Failure> {
    let outcome = finish(held, posted)?;
    let_go(held, Patience::Forever);
    Ok(outcome)
}

/// Sends `length` bytes at `data` to the peer `destination` under `tag` and `context`, and returns
/// when `data` may be used again. That does not mean that the message was received.
///
/// - `data`: may be NULL if `length` is 0.
/// - `destination`: a peer of this endpoint; in a world, the rank.
/// - `tag`: anything but `LIMIC_ANY_TAG`. `context`: at most `LIMIC_CONTEXT_MAX`.
///
/// Errors: `LIMIC_ERR_PEER_FAILED`, `LIMIC_ERR_UNKNOWN_PEER`, `LIMIC_ERR_NO_PATH`,
/// `LIMIC_ERR_NO_MEMORY`; misuse.
///
/// # Safety
/// `data` is readable for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_send(
    endpoint: limic_endpoint,
    data: *const c_void,
    length: usize,
    destination: u32,
    tag: u32,
    context: u32,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { send(endpoint, data, length, destination, || label(tag, context)) }
}

/// Sends and waits.
///
/// # Safety
/// As [`limic_send`].
#[inline(always)]
pub(crate) unsafe fn send(
    endpoint: limic_endpoint,
    data: *const c_void,
    length: usize,
    destination: u32,
    tag: impl FnOnce() -> Result<Tag, Failure>,
) -> c_int {
    inside(endpoint, |held| {
        let (data, tag) = (bytes(data, length)?, tag()?);
        let to = Peer::from_index(destination);
        if held.is_shared() {
            // SAFETY: as below.
            return unsafe { send_shared(held, to, tag, data) };
        }
        // SAFETY: readable by the caller's promise, which holds until this call returns; it waits
        // for the end.
        unsafe { held.raw().send_blocking(to, tag, &[data]) }?;
        Ok(())
    })
}

/// Sends, and lets other threads in while it waits.
///
/// # Safety
/// As [`limic_send`].
#[inline(never)]
unsafe fn send_shared(
    held: &mut Inside,
    to: Peer,
    tag: Tag,
    data: RawSlice,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise; this waits for the end.
    let posted = unsafe { held.raw().post_send(to, tag, &[data]) }?;
    finish_send(held, posted)??;
    Ok(())
}

/// Receives, and lets other threads in while it waits.
///
/// # Safety
/// As [`limic_recv`].
#[inline(never)]
unsafe fn receive_shared(
    held: &mut Inside,
    selector: &Selector,
    data: RawSliceMut,
) -> Result<Outcome, Failure> {
    // SAFETY: the caller's promise; this waits for the end.
    match unsafe { held.raw().post_recv(selector, &[data]) } {
        Ok(posted) => finish(held, posted),
        Err(why) => Ok(Err(why)),
    }
}

/// Receives one message into `length` bytes at `data`, and waits for it.
///
/// - `source`: a peer, or `LIMIC_ANY_SOURCE`. `tag`: a tag, or `LIMIC_ANY_TAG`. `context`: always
///   counts.
/// - `status`: who sent it, its tag and its length; NULL if that is not wanted.
///
/// Messages of one peer in one context match in the order in which they were sent.
///
/// Errors: `LIMIC_ERR_TRUNCATED` (the first `length` bytes were delivered), `LIMIC_ERR_PEER_FAILED`
/// (the peer named; for any source, the death of any peer, which ends all such receives that are
/// posted, or else the next one), `LIMIC_ERR_UNKNOWN_PEER`; misuse.
///
/// # Safety
/// `data` is writable for `length` bytes and nobody else touches them meanwhile; `status` is NULL
/// or a structure with its size set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_recv(
    endpoint: limic_endpoint,
    data: *mut c_void,
    length: usize,
    source: u32,
    tag: u32,
    context: u32,
    status: *mut limic_status,
) -> c_int {
    let selector = || selector(source, tag, context);
    // SAFETY: the caller's promise.
    unsafe { receive(endpoint, data, length, selector, status) }
}

/// Receives and waits.
///
/// # Safety
/// As [`limic_recv`].
#[inline(always)]
pub(crate) unsafe fn receive(
    endpoint: limic_endpoint,
    data: *mut c_void,
    length: usize,
    selector: impl FnOnce() -> Result<Selector, Failure>,
    status: *mut limic_status,
) -> c_int {
    inside(endpoint, |held| {
        let (data, selector) = (room(data, length)?, selector()?);
        // SAFETY: the caller's promise.
        let status = unsafe { StatusOut::new(status) }?;
        let outcome = if held.is_shared() {
            // SAFETY: as below.
            unsafe { receive_shared(held, &selector, data) }?
        } else {
            // SAFETY: writable by the caller's promise, until this call returns.
            unsafe { held.raw().recv_blocking(&selector, &[data]) }
        };
        status.set(&outcome);
        outcome?;
        Ok(())
    })
}

/// Starts a send and does not wait. `data` belongs to the library until the request is done. Over
/// TCP a short one that follows another one at once goes with the next call that waits, tests or
/// makes progress.
///
/// - `request`: set to the operation; wait for it with `limic_wait` or its relatives.
///
/// Errors: as `limic_send`, now or from the request. After an error `*request` is unchanged and
/// `data` is the caller's.
///
/// # Safety
/// `data` is readable for `length` bytes, and nobody writes there, until the request is done;
/// `request` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_isend(
    endpoint: limic_endpoint,
    data: *const c_void,
    length: usize,
    destination: u32,
    tag: u32,
    context: u32,
    request: *mut limic_request,
) -> c_int {
    let tag = || label(tag, context);
    // SAFETY: the caller's promise.
    unsafe { start_send(endpoint, data, length, destination, tag, request) }
}

/// Starts a send.
///
/// # Safety
/// As [`limic_isend`].
#[inline(always)]
pub(crate) unsafe fn start_send(
    endpoint: limic_endpoint,
    data: *const c_void,
    length: usize,
    destination: u32,
    tag: impl FnOnce() -> Result<Tag, Failure>,
    request: *mut limic_request,
) -> c_int {
    inside(endpoint, |held| {
        let (data, tag) = (bytes(data, length)?, tag()?);
        // SAFETY: the caller's promise.
        let request = unsafe { output(request, "request") }?;
        let to = Peer::from_index(destination);
        let later = SendOptions::WAITED_FOR_LATER;
        // SAFETY: readable until the operation is done, by the caller's promise.
        let posted = unsafe { held.raw().post_send_with(to, tag, later, &[data]) }?;
        start(endpoint, held, posted, request);
        Ok(())
    })
}

/// Starts a receive and does not wait. `data` belongs to the library until the request is done.
///
/// Arguments as for `limic_recv`; the status comes from the request. Receives match in the order in
/// which they were posted.
///
/// Errors: as `limic_recv`, now or from the request. After an error `*request` is unchanged and
/// `data` is the caller's.
///
/// # Safety
/// `data` is writable for `length` bytes, and nobody else touches them, until the request is done;
/// `request` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_irecv(
    endpoint: limic_endpoint,
    data: *mut c_void,
    length: usize,
    source: u32,
    tag: u32,
    context: u32,
    request: *mut limic_request,
) -> c_int {
    let selector = || selector(source, tag, context);
    // SAFETY: the caller's promise.
    unsafe { start_receive(endpoint, data, length, selector, request) }
}

/// Starts a receive.
///
/// # Safety
/// As [`limic_irecv`].
#[inline(always)]
pub(crate) unsafe fn start_receive(
    endpoint: limic_endpoint,
    data: *mut c_void,
    length: usize,
    selector: impl FnOnce() -> Result<Selector, Failure>,
    request: *mut limic_request,
) -> c_int {
    inside(endpoint, |held| {
        let (data, selector) = (room(data, length)?, selector()?);
        // SAFETY: the caller's promise.
        let request = unsafe { output(request, "request") }?;
        // SAFETY: writable until the operation is done, by the caller's promise.
        let posted = unsafe { held.raw().post_recv(&selector, &[data]) }?;
        start(endpoint, held, posted, request);
        Ok(())
    })
}

/// Sends one message and receives another one at the same time: the way to exchange without a
/// deadlock.
///
/// Arguments as for `limic_send` and `limic_recv`, with one context. Both operations are over when
/// it returns, also after an error.
///
/// Errors: those of the receive, else those of the send. If the receive cannot be started, nothing
/// is sent; if the send cannot be started, the receive is cancelled.
///
/// # Safety
/// As `limic_send` and `limic_recv`; the two buffers do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_sendrecv(
    endpoint: limic_endpoint,
    data: *const c_void,
    length: usize,
    destination: u32,
    tag: u32,
    receive_data: *mut c_void,
    receive_length: usize,
    source: u32,
    receive_tag: u32,
    context: u32,
    status: *mut limic_status,
) -> c_int {
    inside(endpoint, |held| {
        let (data, tag) = (bytes(data, length)?, label(tag, context)?);
        let into = room(receive_data, receive_length)?;
        let selector = selector(source, receive_tag, context)?;
        // SAFETY: the caller's promise.
        let status = unsafe { StatusOut::new(status) }?;
        // SAFETY: writable until the end of this call, which waits for the receive in every case.
        let receive = status.unless(unsafe { held.raw().post_recv(&selector, &[into]) })?;
        let to = Peer::from_index(destination);
        // SAFETY: readable until the end of this call, which waits for the send.
        let send = unsafe { held.raw().post_send(to, tag, &[data]) };
        if let (Err(_), Posted::Pending(id)) = (&send, &receive) {
            // It is pending, so it is known.
            let _ = held.raw().cancel(*id);
        }
        let received = finish(held, receive)?;
        status.set(&received);
        let sent = match send {
            Ok(send) => finish_send(held, send)?,
            Err(why) => Err(why),
        };
        match (sent, received) {
            (Err(why), Err(limic::Error::Cancelled)) => Ok(status.unless(Err(why))?),
            (_, Err(why)) | (Err(why), _) => Err(why.into()),
            (Ok(_), Ok(_)) => Ok(()),
        }
    })
}
