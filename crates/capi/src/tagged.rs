//! Tags of 64 bits, and masks.
//!
//! What is sent by these functions and by those with a context match each other:
//! `LIMIC_TAG(context, tag)` is the tag of 64 bits of both.

use core::ffi::{c_int, c_void};

use libc::iovec;
use limic::Peer;
use limic::raw::SendOptions;

use crate::arguments::{masked, output, wide};
use crate::errors::Failure;
use crate::errors::limic_error::LIMIC_ERR_INVALID;
use crate::ffi_guard::inside;
use crate::handles::{limic_endpoint, limic_loan, limic_message, limic_request};
use crate::status::limic_status;
use crate::{loans, messages, probe, vectored};

/// As a flag of `limic_tag_isendv`: the word `immediate` goes with the message.
pub const LIMIC_SEND_IMMEDIATE: u32 = 1;

/// As a flag of `limic_tag_isendv`: the request is done when the message reaches its receiver
/// whatever becomes of this process.
pub const LIMIC_SEND_DELIVERED: u32 = 2;

/// As a flag of `limic_tag_isendv`: the request is done when a receive has taken the message, as in
/// MPI's synchronous mode. A probe takes nothing.
pub const LIMIC_SEND_MATCHED: u32 = 4;

/// Like `limic_send`, under a tag of 64 bits: at most `LIMIC_TAG_MAX`.
///
/// `LIMIC_TAG(context, tag)` is that of a message of `limic_send`, and of a status; so the
/// functions with and without a context can be mixed.
///
/// # Safety
/// As `limic_send`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_tag_send(
    endpoint: limic_endpoint,
    data: *const c_void,
    length: usize,
    destination: u32,
    tag: u64,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { messages::send(endpoint, data, length, destination, || wide(tag)) }
}

/// Like `limic_recv`, for a message whose tag agrees with `tag` in the bits that are 1 in `mask`.
///
/// - `source`: a peer, or `LIMIC_ANY_SOURCE`.
/// - `mask`: `UINT64_MAX` for this tag alone, 0 for any tag whose highest bit is that of `tag`: the
///   highest bit always counts, and is 1 in those of a context of 0x80000000 or more. Under a tag
///   that has it, `mask` has to keep off the tags above `LIMIC_TAG_MAX`.
///
/// The tag is in `status`. So for any message whose kind, in the lowest byte, is 3:
///
/// ```c
/// limic_tag_recv(endpoint, data, sizeof data, LIMIC_ANY_SOURCE, 3, 0xff, &status);
/// uint64_t tag = LIMIC_TAG(status.context, status.tag);
/// ```
///
/// # Safety
/// As `limic_recv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_tag_recv(
    endpoint: limic_endpoint,
    data: *mut c_void,
    length: usize,
    source: u32,
    tag: u64,
    mask: u64,
    status: *mut limic_status,
) -> c_int {
    let selector = || masked(source, tag, mask);
    // SAFETY: the caller's promise.
    unsafe { messages::receive(endpoint, data, length, selector, status) }
}

/// Like `limic_isend`, under a tag as of `limic_tag_send`.
///
/// # Safety
/// As `limic_isend`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_tag_isend(
    endpoint: limic_endpoint,
    data: *const c_void,
    length: usize,
    destination: u32,
    tag: u64,
    request: *mut limic_request,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { messages::start_send(endpoint, data, length, destination, || wide(tag), request) }
}

/// Like `limic_isendv`, under a tag as of `limic_tag_send`, with more than its bytes, or done
/// later.
///
/// - `flags`: 0, or any of `LIMIC_SEND_IMMEDIATE`, `LIMIC_SEND_DELIVERED`, `LIMIC_SEND_MATCHED`.
/// - `immediate`: with `LIMIC_SEND_IMMEDIATE`, a word for `limic_status.immediate` of the receiver.
///
/// A send that waits for its receive, and tells the number of a frame:
///
/// ```c
/// struct iovec piece = {data, length};
/// limic_tag_isendv(endpoint, &piece, 1, peer, tag, LIMIC_SEND_MATCHED | LIMIC_SEND_IMMEDIATE,
///                  frame, &request);
/// limic_wait(&request, LIMIC_FOREVER, NULL);
/// ```
///
/// Errors: as `limic_isend`; `LIMIC_ERR_INVALID` for another flag; `LIMIC_ERR_SYSTEM` for
/// `LIMIC_SEND_MATCHED` from an endpoint of `LIMIC_KIND_KERNEL`.
///
/// # Safety
/// As `limic_isendv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_tag_isendv(
    endpoint: limic_endpoint,
    pieces: *const iovec,
    count: c_int,
    destination: u32,
    tag: u64,
    flags: u32,
    immediate: u64,
    request: *mut limic_request,
) -> c_int {
    inside(endpoint, |held| {
        // SAFETY: the caller's promise.
        unsafe { vectored::to_send(pieces, count, &mut held.pieces) }?;
        let tag = wide(tag)?;
        let options = options(flags, immediate)?;
        // SAFETY: the caller's promise.
        let request = unsafe { output(request, "request") }?;
        let to = Peer::from_index(destination);
        // SAFETY: readable until the operation is done, by the caller's promise.
        let posted = unsafe { held.raw().post_send_with(to, tag, options, &held.pieces) }?;
        messages::start(endpoint, held, posted, request);
        Ok(())
    })
}

fn options(flags: u32, immediate: u64) -> Result<SendOptions, Failure> {
    const ALL: u32 = LIMIC_SEND_IMMEDIATE | LIMIC_SEND_DELIVERED | LIMIC_SEND_MATCHED;
    if flags & !ALL != 0 {
        let text = format!("flags {flags:#x}: no more is known than {ALL:#x}");
        return Err(Failure::new(LIMIC_ERR_INVALID, text));
    }
    Ok(SendOptions {
        immediate: (flags & LIMIC_SEND_IMMEDIATE != 0).then_some(immediate),
        delivered: flags & LIMIC_SEND_DELIVERED != 0,
        matched: flags & LIMIC_SEND_MATCHED != 0,
        more: false,
    })
}

/// Like `limic_irecv`, for a message as `limic_tag_recv` asks for it.
///
/// # Safety
/// As `limic_irecv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_tag_irecv(
    endpoint: limic_endpoint,
    data: *mut c_void,
    length: usize,
    source: u32,
    tag: u64,
    mask: u64,
    request: *mut limic_request,
) -> c_int {
    let selector = || masked(source, tag, mask);
    // SAFETY: the caller's promise.
    unsafe { messages::start_receive(endpoint, data, length, selector, request) }
}

/// Like `limic_irecvv`, for a message as `limic_tag_recv` asks for it.
///
/// # Safety
/// As `limic_irecvv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_tag_irecvv(
    endpoint: limic_endpoint,
    pieces: *const iovec,
    count: c_int,
    source: u32,
    tag: u64,
    mask: u64,
    request: *mut limic_request,
) -> c_int {
    let selector = || masked(source, tag, mask);
    // SAFETY: the caller's promise.
    unsafe { vectored::start_receive(endpoint, pieces, count, selector, request) }
}

/// Like `limic_probe`, for a message as `limic_tag_recv` asks for it.
///
/// # Safety
/// As `limic_probe`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_tag_probe(
    endpoint: limic_endpoint,
    source: u32,
    tag: u64,
    mask: u64,
    timeout_ns: i64,
    status: *mut limic_status,
) -> c_int {
    let wanted = ("limic_tag_probe", || masked(source, tag, mask));
    // SAFETY: the caller's promise.
    unsafe { probe::probe(endpoint, wanted, timeout_ns, status) }
}

/// Like `limic_mprobe`, for a message as `limic_tag_recv` asks for it.
///
/// # Safety
/// As `limic_mprobe`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_tag_mprobe(
    endpoint: limic_endpoint,
    source: u32,
    tag: u64,
    mask: u64,
    timeout_ns: i64,
    message: *mut limic_message,
    status: *mut limic_status,
) -> c_int {
    let wanted = ("limic_tag_mprobe", || masked(source, tag, mask));
    // SAFETY: the caller's promise.
    unsafe { probe::take_message(endpoint, wanted, timeout_ns, message, status) }
}

/// Like `limic_loan_isend`, under a tag as of `limic_tag_send`.
///
/// # Safety
/// As `limic_loan_isend`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_tag_loan_isend(
    loan: *mut limic_loan,
    length: usize,
    destination: u32,
    tag: u64,
    request: *mut limic_request,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { loans::start_send(loan, length, destination, || wide(tag), request) }
}

/// Like `limic_loan_recv`, for a message as `limic_tag_recv` asks for it.
///
/// # Safety
/// As `limic_loan_recv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_tag_loan_recv(
    endpoint: limic_endpoint,
    source: u32,
    tag: u64,
    mask: u64,
    timeout_ns: i64,
    loan: *mut limic_loan,
    data: *mut *const c_void,
    status: *mut limic_status,
) -> c_int {
    let selector = || masked(source, tag, mask);
    // SAFETY: the caller's promise.
    unsafe { loans::receive(endpoint, selector, timeout_ns, loan, data, status) }
}
