//! Endpoints: open, close, addresses, peers, and the thread that owns one.

use core::ffi::{c_int, c_void};

use limic::Peer;

use crate::arguments::{has_room, output};
use crate::endpoint_state::{EndpointState, Kind};
use crate::errors::Failure;
use crate::ffi_guard::{guarded, inside};
use crate::handles::limic_endpoint;
use crate::options::{Opened, Options, limic_options};
use crate::table;

/// Length of an endpoint's address in bytes.
pub const LIMIC_ADDRESS_LENGTH: usize = 64;

const _: () = assert!(LIMIC_ADDRESS_LENGTH == limic::ADDRESS_LEN);

/// Opens an endpoint: memory for its messages, and a place where peers find it. Nobody is
/// contacted.
///
/// - `options`: how; NULL for the defaults.
/// - `endpoint`: set to the endpoint. Close it with `limic_endpoint_close`.
///
/// Errors: `LIMIC_ERR_SETTINGS`, `LIMIC_ERR_NO_MEMORY`, `LIMIC_ERR_SYSTEM`; misuse.
///
/// # Safety
/// `options` is NULL or a structure with its size set, `endpoint` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_endpoint_open(
    options: *const limic_options,
    endpoint: *mut limic_endpoint,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let endpoint = unsafe { output(endpoint, "endpoint") }?;
        // SAFETY: the caller's promise.
        let options = unsafe { Options::read(options) }?;
        let kind = match options.open()? {
            Opened::Hybrid(endpoint) => Kind::Hybrid(endpoint),
            Opened::Shm(endpoint) => Kind::Shm(endpoint),
            Opened::Kernel(endpoint) => Kind::Kernel(endpoint),
        };
        endpoint.write(table::insert(EndpointState::new(kind), options.threads)?);
        Ok(())
    })
}

/// Closes an endpoint of either kind. What was sent goes out as far as peers take it within the
/// linger time (`LIMIC_LINGER_MS`); the peers are told; loans and regions end. Operations under way
/// are over when it returns: their buffers are the caller's, their requests void.
///
/// For a world this leaves the job without waiting for the others; `limic_world_finalize` waits.
///
/// Two buffers are exceptions. If the linger time is over and a receiver is in the middle of a
/// single copy, it gets what lies in the buffer then. If a sender is stopped in the middle of a
/// write into a buffer, it may write there until it goes on or ends; a warning names it.
///
/// Errors: `LIMIC_ERR_REGION` if a peer is stopped in the middle of an access to a region. The
/// endpoint is closed, but memory of `limic_region_expose` may be read and written until that peer
/// has ended; memory of `limic_region_allocate` is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn limic_endpoint_close(endpoint: limic_endpoint) -> c_int {
    guarded(|| Ok(table::remove(endpoint)?.into_kind(drop)?))
}

/// The address of an endpoint: `LIMIC_ADDRESS_LENGTH` bytes that travel to the other processes in
/// any way, and that `limic_connect` takes there.
///
/// - `address`: where to put it. `length`: bytes of room there.
///
/// Whoever holds an address can exchange messages with the endpoint: hand it to the job's own
/// processes only.
///
/// # Safety
/// `address` is NULL or writable for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_address(
    endpoint: limic_endpoint,
    address: *mut c_void,
    length: usize,
) -> c_int {
    inside(endpoint, |held| {
        let bytes = held.raw().address().to_bytes();
        // SAFETY: the caller's promise.
        unsafe { put(&bytes, address, length) }
    })
}

/// Gives C an address.
///
/// # Safety
/// `to` is NULL or writable for `length` bytes.
unsafe fn put(bytes: &[u8], to: *mut c_void, length: usize) -> Result<(), Failure> {
    if to.is_null() {
        return Err(Failure::null("address"));
    }
    has_room(length, bytes.len(), "an address")?;
    // SAFETY: writable for `length` bytes by the caller's promise, and that is enough.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), bytes.len()) };
    Ok(())
}

/// Decodes an address and names its owner. Nobody is contacted: a peer that is gone shows at the
/// first message. The same address gives the same peer.
///
/// - `address`, `length`: what `limic_address` gave there.
/// - `peer`: set to the peer, a small number that means something at this endpoint only.
///
/// Errors: `LIMIC_ERR_ADDRESS`; `LIMIC_ERR_NO_PATH` if it is on another machine, and no network
/// leads there; misuse.
///
/// # Safety
/// `address` is NULL or readable for `length` bytes, `peer` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_connect(
    endpoint: limic_endpoint,
    address: *const c_void,
    length: usize,
    peer: *mut u32,
) -> c_int {
    inside(endpoint, |held| {
        // SAFETY: the caller's promise.
        let peer = unsafe { output(peer, "peer") }?;
        if address.is_null() {
            return Err(Failure::null("address"));
        }
        // More than an address is refused below whatever it holds, so no more than one byte too
        // many is looked at.
        let length = length.min(LIMIC_ADDRESS_LENGTH + 1);
        let mut bytes = [0_u8; LIMIC_ADDRESS_LENGTH + 1];
        // SAFETY: readable for `length` bytes by the caller's promise; the array is as long or
        // longer.
        unsafe { core::ptr::copy_nonoverlapping(address.cast(), bytes.as_mut_ptr(), length) };
        peer.write(held.raw().connect(&bytes[..length])?.index());
        Ok(())
    })
}

/// The address of a peer, also of one that made the first contact itself. Arguments as for
/// `limic_address`.
///
/// Errors: `LIMIC_ERR_UNKNOWN_PEER`; misuse.
///
/// # Safety
/// As `limic_address`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_peer_address(
    endpoint: limic_endpoint,
    peer: u32,
    address: *mut c_void,
    length: usize,
) -> c_int {
    inside(endpoint, |held| {
        let found = held.raw().peer_address(Peer::from_index(peer))?;
        // SAFETY: the caller's promise.
        unsafe { put(&found.to_bytes(), address, length) }
    })
}

/// The endpoint as its own peer, for messages to oneself.
///
/// # Safety
/// `peer` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_myself(endpoint: limic_endpoint, peer: *mut u32) -> c_int {
    inside(endpoint, |held| {
        // SAFETY: the caller's promise.
        let peer = unsafe { output(peer, "peer") }?;
        peer.write(held.raw().myself().index());
        Ok(())
    })
}

/// Gives the endpoint up: the next thread that calls `limic_endpoint_adopt` owns it. Requests,
/// loans and regions go with it. With `LIMIC_THREADS_SERIALIZED` and `LIMIC_THREADS_MULTIPLE` there
/// is nothing to do, and nothing is done.
#[unsafe(no_mangle)]
pub extern "C" fn limic_endpoint_release(endpoint: limic_endpoint) -> c_int {
    guarded(|| table::release(endpoint))
}

/// Takes an endpoint that its owner has given up, or whose owner has ended.
///
/// Errors: `LIMIC_ERR_THREAD` if another thread still owns it.
#[unsafe(no_mangle)]
pub extern "C" fn limic_endpoint_adopt(endpoint: limic_endpoint) -> c_int {
    guarded(|| table::adopt(endpoint))
}
