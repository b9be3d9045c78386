//! Probe and matched probe.

use core::ffi::{c_int, c_void};

use limic::Selector;
use limic::raw::{ClaimId, Posted};

use crate::arguments::{output, room, selector};
use crate::endpoint_state::EndpointState;
use crate::errors::Failure;
use crate::errors::limic_error::LIMIC_ERR_REQUEST;
use crate::ffi_guard::inside;
use crate::handles::{limic_endpoint, limic_message, limic_request};
use crate::messages::{finish, start};
use crate::status::{StatusOut, limic_status};
use crate::waiting::{Patience, until_message};

/// Waits until a message that fits has arrived, at most `timeout_ns` nanoseconds (0 looks once,
/// `LIMIC_FOREVER` waits without end), and describes it without taking it.
///
/// Arguments as for `limic_recv`. Errors: `LIMIC_ERR_TIMEOUT` if there is none,
/// `LIMIC_ERR_PEER_FAILED`, `LIMIC_ERR_UNKNOWN_PEER`; misuse.
///
/// # Safety
/// `status` is NULL or a structure with its size set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_probe(
    endpoint: limic_endpoint,
    source: u32,
    tag: u32,
    context: u32,
    timeout_ns: i64,
    status: *mut limic_status,
) -> c_int {
    let wanted = ("limic_probe", || selector(source, tag, context));
    // SAFETY: the caller's promise.
    unsafe { probe(endpoint, wanted, timeout_ns, status) }
}

/// Waits for a message, for the call of this name.
///
/// # Safety
/// As [`limic_probe`].
pub(crate) unsafe fn probe(
    endpoint: limic_endpoint,
    (call, selector): (&'static str, impl FnOnce() -> Result<Selector, Failure>),
    timeout_ns: i64,
    status: *mut limic_status,
) -> c_int {
    inside(endpoint, |held| {
        let selector = selector()?;
        // SAFETY: the caller's promise.
        let status = unsafe { StatusOut::new(status) }?;
        let wanted = (call, &selector);
        let patience = Patience::of(timeout_ns);
        let look = |held: &EndpointState| status.unless(held.raw().peek(&selector));
        let found = until_message(held, patience, wanted, look)?;
        status.found(&found);
        Ok(())
    })
}

/// Like `limic_probe`, but takes the message out of matching: only `limic_mrecv`, `limic_imrecv`
/// and `limic_imrecvv` can receive it. Between probe and receive nobody else can come.
///
/// - `message`: set to the message. Receive it or drop it: its sender may be waiting.
///
/// # Safety
/// As `limic_probe`; `message` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_mprobe(
    endpoint: limic_endpoint,
    source: u32,
    tag: u32,
    context: u32,
    timeout_ns: i64,
    message: *mut limic_message,
    status: *mut limic_status,
) -> c_int {
    let wanted = ("limic_mprobe", || selector(source, tag, context));
    // SAFETY: the caller's promise.
    unsafe { take_message(endpoint, wanted, timeout_ns, message, status) }
}

/// Waits for a message and takes it out of matching, for the call of this name.
///
/// # Safety
/// As [`limic_mprobe`].
pub(crate) unsafe fn take_message(
    endpoint: limic_endpoint,
    (call, selector): (&'static str, impl FnOnce() -> Result<Selector, Failure>),
    timeout_ns: i64,
    message: *mut limic_message,
    status: *mut limic_status,
) -> c_int {
    inside(endpoint, |held| {
        let selector = selector()?;
        // SAFETY: the caller's promise.
        let message = unsafe { output(message, "message") }?;
        // SAFETY: the caller's promise.
        let status = unsafe { StatusOut::new(status) }?;
        let wanted = (call, &selector);
        let patience = Patience::of(timeout_ns);
        let look = |held: &EndpointState| status.unless(held.raw().claim(&selector));
        let (found, claim) = until_message(held, patience, wanted, look)?;
        message.write(limic_message {
            endpoint: endpoint.id,
            number: held.claims.insert(claim),
        });
        status.found(&found);
        Ok(())
    })
}

/// Takes a claimed message out of the table.
pub(crate) fn take(held: &mut EndpointState, message: &limic_message) -> Result<ClaimId, Failure> {
    held.claims.take(message.number).ok_or_else(|| {
        Failure::new(
            LIMIC_ERR_REQUEST,
            "the message is not known: it was received or dropped already",
        )
    })
}

/// Receives a message that `limic_mprobe` took, and waits for it. `message` becomes
/// `LIMIC_MESSAGE_NULL`.
///
/// Errors: as `limic_recv`; `LIMIC_ERR_REQUEST` if it was received or dropped already.
///
/// # Safety
/// As `limic_recv`; `message` is NULL or readable and writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_mrecv(
    message: *mut limic_message,
    data: *mut c_void,
    length: usize,
    status: *mut limic_status,
) -> c_int {
    // SAFETY: the caller's promise.
    let Some(message) = (unsafe { message.as_mut() }) else {
        return Failure::null("message").report();
    };
    inside(message.owner(), |held| {
        let data = room(data, length)?;
        // SAFETY: the caller's promise.
        let status = unsafe { StatusOut::new(status) }?;
        let claim = take(held, message)?;
        *message = limic_message::default();
        // SAFETY: writable by the caller's promise, until this call returns; it waits for the end.
        let posted = unsafe { held.raw().post_claimed(claim, &[data]) }?;
        let outcome = finish(held, posted)?;
        status.set(&outcome);
        outcome?;
        Ok(())
    })
}

/// Starts to receive a message that `limic_mprobe` took. `message` becomes `LIMIC_MESSAGE_NULL`;
/// `data` belongs to the library until the request is done.
///
/// # Safety
/// As `limic_irecv`; `message` is NULL or readable and writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_imrecv(
    message: *mut limic_message,
    data: *mut c_void,
    length: usize,
    request: *mut limic_request,
) -> c_int {
    // SAFETY: the caller's promise.
    let Some(message) = (unsafe { message.as_mut() }) else {
        return Failure::null("message").report();
    };
    inside(message.owner(), |held| {
        let data = room(data, length)?;
        // SAFETY: the caller's promise.
        let request = unsafe { output(request, "request") }?;
        let claim = take(held, message)?;
        // SAFETY: writable until the operation is done, by the caller's promise.
        let posted = unsafe { held.raw().post_claimed(claim, &[data]) }?;
        start(message.owner(), held, posted, request);
        *message = limic_message::default();
        Ok(())
    })
}

/// Throws away a message that `limic_mprobe` took, so that its sender completes. `message` becomes
/// `LIMIC_MESSAGE_NULL`.
///
/// # Safety
/// `message` is NULL or readable and writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_message_drop(message: *mut limic_message) -> c_int {
    // SAFETY: the caller's promise.
    let Some(message) = (unsafe { message.as_mut() }) else {
        return Failure::null("message").report();
    };
    inside(message.owner(), |held| {
        let claim = take(held, message)?;
        *message = limic_message::default();
        // SAFETY: no room is given, so nothing is written.
        if let Posted::Pending(id) = unsafe { held.raw().post_claimed(claim, &[]) }? {
            held.raw().abandon(id, Box::new(()));
        }
        Ok(())
    })
}
