//! One-sided access: memory that peers read and write without this side's help.

use core::ffi::{c_int, c_void};

use limic::raw::RegionId;
use limic::{Access, Peer};

use crate::arguments::{bytes, output, room, too_long};
use crate::endpoint_state::{EndpointState, Exposed};
use crate::errors::Failure;
use crate::errors::limic_error::{LIMIC_ERR_NO_MEMORY, LIMIC_ERR_REQUEST};
use crate::ffi_guard::inside;
use crate::handles::{limic_endpoint, limic_region, limic_request};
use crate::messages::start;
use crate::waiting::{Patience, meet, until};

/// Exposes `length` bytes of the caller's memory at `data`: peers that are given the key can read
/// and write them, until `limic_region_revoke`.
///
/// - `region`: set to the region. `key`: set to what peers need to name it; a random number, to be
///   sent to them in a message.
///
/// Writes of peers show up at any time. What a write means for this side has to be agreed upon by
/// messages: a write is in place when the writer's request is done.
///
/// Errors: `LIMIC_ERR_NO_MEMORY` if the table of regions is full; misuse.
///
/// # Safety
/// `data` is readable and writable for `length` bytes until the region is revoked or the endpoint
/// closed; `region` and `key` are NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_region_expose(
    endpoint: limic_endpoint,
    data: *mut c_void,
    length: usize,
    region: *mut limic_region,
    key: *mut u64,
) -> c_int {
    inside(endpoint, |held| {
        let memory = room(data, length)?;
        // SAFETY: the caller's promise.
        let (region, key) = unsafe { (output(region, "region")?, output(key, "key")?) };
        // SAFETY: readable and writable until it is revoked, by the caller's promise; closing
        // revokes it too.
        let (id, number) = unsafe { held.raw().expose_raw(memory, None, Access::BOTH, 0) }?;
        key.write(number);
        region.write(enter(endpoint, held, id, false));
        Ok(())
    })
}

/// Like `limic_region_expose`, with `length` bytes of zeroed memory that the library makes, and
/// frees when the region is revoked.
///
/// - `data`: set to the first byte.
///
/// # Safety
/// `data`, `region` and `key` are NULL or writable; nobody touches the memory after the region was
/// revoked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_region_allocate(
    endpoint: limic_endpoint,
    length: usize,
    data: *mut *mut c_void,
    region: *mut limic_region,
    key: *mut u64,
) -> c_int {
    inside(endpoint, |held| {
        if length > isize::MAX as usize {
            return Err(too_long(length));
        }
        // SAFETY: the caller's promise.
        let (region, key) = unsafe { (output(region, "region")?, output(key, "key")?) };
        // SAFETY: the caller's promise.
        let data = unsafe { output(data, "data") }?;
        let mut memory = Vec::new();
        memory.try_reserve_exact(length).map_err(|_| {
            Failure::new(LIMIC_ERR_NO_MEMORY, format!("a region of {length} bytes"))
        })?;
        memory.resize(length, 0_u8);
        let start = memory.as_mut_ptr();
        let (id, number) = held.raw().expose(memory)?;
        data.write(start.cast());
        key.write(number);
        region.write(enter(endpoint, held, id, true));
        Ok(())
    })
}

fn enter(
    endpoint: limic_endpoint,
    held: &mut EndpointState,
    id: RegionId,
    allocated: bool,
) -> limic_region {
    limic_region {
        endpoint: endpoint.id,
        number: held.regions.insert(Exposed { id, allocated }),
    }
}

/// Ends an exposure, after the accesses under way have finished. Memory of `limic_region_expose` is
/// the caller's again, memory of `limic_region_allocate` is freed. `region` becomes
/// `LIMIC_REGION_NULL`.
///
/// Errors: `LIMIC_ERR_REQUEST` if it was revoked already. `LIMIC_ERR_REGION` if a peer is in the
/// middle of an access and nothing of that moves for ten seconds, as when it is stopped, or if
/// accesses go on for a minute: no other access begins, but `region` and its memory stay as they
/// are, and the call can be made again.
///
/// # Safety
/// `region` is NULL or readable and writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_region_revoke(region: *mut limic_region) -> c_int {
    // SAFETY: the caller's promise.
    let Some(region) = (unsafe { region.as_mut() }) else {
        return Failure::null("region").report();
    };
    inside(region.owner(), |held| {
        let number = region.number;
        let memory = if held.is_shared() {
            // Found anew each time: a thread that is let in may revoke it, and expose another one.
            until(held, Patience::Forever, |held| {
                Ok(held.raw().try_revoke(find(held, number)?.id)?)
            })?
        } else {
            held.raw().revoke(find(held, number)?.id)?
        };
        let revoked = held.regions.take(number);
        *region = limic_region::default();
        // What was allocated comes back as a vector and is freed here.
        debug_assert!(revoked.is_some_and(|region| region.allocated) || memory.is_empty());
        Ok(())
    })
}

fn find(held: &EndpointState, number: u64) -> Result<&Exposed, Failure> {
    let region = held.regions.get(number);
    region.ok_or_else(|| {
        Failure::new(
            LIMIC_ERR_REQUEST,
            "the region is not known: it was revoked already",
        )
    })
}

/// Starts to read `length` bytes at byte `offset` of the region that `peer` exposes under `key`,
/// into `data`. `data` belongs to the library until the request is done. The first contact with a
/// peer waits for that peer to answer.
///
/// Errors: `LIMIC_ERR_REGION` if there is no such region (any more), `LIMIC_ERR_RANGE` outside of
/// it, `LIMIC_ERR_PEER_FAILED`, `LIMIC_ERR_UNKNOWN_PEER`, now or from the request; misuse.
///
/// # Safety
/// As `limic_irecv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_iread(
    endpoint: limic_endpoint,
    peer: u32,
    key: u64,
    offset: u64,
    data: *mut c_void,
    length: usize,
    request: *mut limic_request,
) -> c_int {
    inside(endpoint, |held| {
        let data = room(data, length)?;
        // SAFETY: the caller's promise.
        let request = unsafe { output(request, "request") }?;
        let peer = Peer::from_index(peer);
        meet(held, peer)?;
        // SAFETY: writable until the operation is done, by the caller's promise.
        let posted = unsafe { held.raw().post_read(peer, key, offset, &[data]) }?;
        start(endpoint, held, posted, request);
        Ok(())
    })
}

/// Starts to write `length` bytes at `data` to byte `offset` of the region that `peer` exposes
/// under `key`. When the request is done, the bytes are in place. Errors as for `limic_iread`.
///
/// # Safety
/// As `limic_isend`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_iwrite(
    endpoint: limic_endpoint,
    peer: u32,
    key: u64,
    offset: u64,
    data: *const c_void,
    length: usize,
    request: *mut limic_request,
) -> c_int {
    inside(endpoint, |held| {
        let data = bytes(data, length)?;
        // SAFETY: the caller's promise.
        let request = unsafe { output(request, "request") }?;
        let peer = Peer::from_index(peer);
        meet(held, peer)?;
        // SAFETY: readable until the operation is done, by the caller's promise.
        let posted = unsafe { held.raw().post_write(peer, key, offset, &[data]) }?;
        start(endpoint, held, posted, request);
        Ok(())
    })
}
