//! Send and receive of memory in several pieces.

use core::ffi::{c_int, c_void};

use libc::iovec;
use limic::raw::{RawSlice, RawSliceMut};
use limic::{Peer, Selector};

use crate::arguments::{bytes, label, output, room, selector, too_long};
use crate::errors::Failure;
use crate::errors::limic_error::LIMIC_ERR_INVALID;
use crate::ffi_guard::inside;
use crate::handles::{limic_endpoint, limic_message, limic_request};
use crate::messages::start;

/// Checks a list of pieces and puts it into `into`, by `piece`.
///
/// # Safety
/// `pieces` is NULL or readable for `count` entries.
pub(crate) unsafe fn list<S>(
    pieces: *const iovec,
    count: c_int,
    into: &mut Vec<S>,
    piece: impl Fn(*mut c_void, usize) -> Result<S, Failure>,
) -> Result<(), Failure> {
    into.clear();
    let Ok(count) = usize::try_from(count) else {
        return Err(Failure::new(
            LIMIC_ERR_INVALID,
            format!("a list of {count} pieces"),
        ));
    };
    if count == 0 {
        return Ok(());
    }
    if pieces.is_null() {
        return Err(Failure::null("the list of pieces"));
    }
    let mut total = 0_usize;
    for at in 0..count {
        // SAFETY: `at` is below the count for which the caller promised that entries are readable.
        let iovec { iov_base, iov_len } = unsafe { pieces.add(at).read() };
        total = total.saturating_add(iov_len);
        into.push(piece(iov_base, iov_len)?);
    }
    if total > isize::MAX as usize {
        return Err(too_long(total));
    }
    Ok(())
}

/// # Safety
/// As [`list`].
pub(crate) unsafe fn to_send(
    pieces: *const iovec,
    count: c_int,
    into: &mut Vec<RawSlice>,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe { list(pieces, count, into, |start, len| bytes(start, len)) }
}

/// # Safety
/// As [`list`].
pub(crate) unsafe fn to_fill(
    pieces: *const iovec,
    count: c_int,
    into: &mut Vec<RawSliceMut>,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe { list(pieces, count, into, room) }
}

/// Like `limic_isend`, for a message in `count` pieces, sent one behind the other. The list itself
/// may be reused when it returns; the pieces belong to the library until the request is done.
///
/// # Safety
/// `pieces` is readable for `count` entries, and each piece as `limic_isend` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_isendv(
    endpoint: limic_endpoint,
    pieces: *const iovec,
    count: c_int,
    destination: u32,
    tag: u32,
    context: u32,
    request: *mut limic_request,
) -> c_int {
    inside(endpoint, |held| {
        // SAFETY: the caller's promise.
        unsafe { to_send(pieces, count, &mut held.pieces) }?;
        let tag = label(tag, context)?;
        // SAFETY: the caller's promise.
        let request = unsafe { output(request, "request") }?;
        let to = Peer::from_index(destination);
        // SAFETY: readable until the operation is done, by the caller's promise.
        let posted = unsafe { held.raw().post_send(to, tag, &held.pieces) }?;
        start(endpoint, held, posted, request);
        Ok(())
    })
}

/// Like `limic_irecv`, into `count` pieces that are filled one after the other.
///
/// # Safety
/// `pieces` is readable for `count` entries, and each piece as `limic_irecv` says; the pieces do
/// not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_irecvv(
    endpoint: limic_endpoint,
    pieces: *const iovec,
    count: c_int,
    source: u32,
    tag: u32,
    context: u32,
    request: *mut limic_request,
) -> c_int {
    let selector = || selector(source, tag, context);
    // SAFETY: the caller's promise.
    unsafe { start_receive(endpoint, pieces, count, selector, request) }
}

/// Starts a receive.
///
/// # Safety
/// As [`limic_irecvv`].
pub(crate) unsafe fn start_receive(
    endpoint: limic_endpoint,
    pieces: *const iovec,
    count: c_int,
    selector: impl FnOnce() -> Result<Selector, Failure>,
    request: *mut limic_request,
) -> c_int {
    inside(endpoint, |held| {
        // SAFETY: the caller's promise.
        unsafe { to_fill(pieces, count, &mut held.rooms) }?;
        let selector = selector()?;
        // SAFETY: the caller's promise.
        let request = unsafe { output(request, "request") }?;
        // SAFETY: writable until the operation is done, by the caller's promise.
        let posted = unsafe { held.raw().post_recv(&selector, &held.rooms) }?;
        start(endpoint, held, posted, request);
        Ok(())
    })
}

/// Like `limic_imrecv`, into `count` pieces that are filled one after the other.
///
/// # Safety
/// As `limic_irecvv`; `message` is NULL or readable and writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_imrecvv(
    message: *mut limic_message,
    pieces: *const iovec,
    count: c_int,
    request: *mut limic_request,
) -> c_int {
    // SAFETY: the caller's promise.
    let Some(message) = (unsafe { message.as_mut() }) else {
        return Failure::null("message").report();
    };
    inside(message.owner(), |held| {
        // SAFETY: the caller's promise.
        unsafe { to_fill(pieces, count, &mut held.rooms) }?;
        // SAFETY: the caller's promise.
        let request = unsafe { output(request, "request") }?;
        let claim = crate::probe::take(held, message)?;
        // SAFETY: writable until the operation is done, by the caller's promise.
        let posted = unsafe { held.raw().post_claimed(claim, &held.rooms) }?;
        start(message.owner(), held, posted, request);
        *message = limic_message::default();
        Ok(())
    })
}
