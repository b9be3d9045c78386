//! Buffers that peers may read. They belong to the process, not to an endpoint.

use core::ffi::{c_int, c_void};
use std::collections::HashMap;
use std::sync::MutexGuard;

use limic::Buffer;
use limic_shm::process::LockHere;

use crate::arguments::{output, too_long};
use crate::errors::Failure;
use crate::errors::limic_error::{LIMIC_ERR_INVALID, LIMIC_ERR_NO_MEMORY};
use crate::ffi_guard::guarded;

/// All buffers that C has, by their addresses.
static BUFFERS: LockHere<Option<HashMap<usize, Buffer>>> = LockHere::new(None);

fn buffers() -> MutexGuard<'static, Option<HashMap<usize, Buffer>>> {
    BUFFERS.lock()
}

/// Allocates `length` bytes, all 0, that peers on this node may read and cannot write: a message
/// out of them, or out of any part of them, is copied once, by its receiver. They are used as any
/// memory is, by any endpoint and thread, and sent as often as wanted.
///
/// - `data`: set to the first byte, on a page.
///
/// If the system gives no such memory, it is ordinary memory. A forked child has a copy, which no
/// peer can read.
///
/// Errors: `LIMIC_ERR_NO_MEMORY`, `LIMIC_ERR_INVALID`.
///
/// # Safety
/// `data` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_buffer_alloc(length: usize, data: *mut *mut c_void) -> c_int {
    guarded(|| {
        if length > isize::MAX as usize {
            return Err(too_long(length));
        }
        // SAFETY: the caller's promise.
        let data = unsafe { output(data, "data")? };
        let no_memory = || Failure::new(LIMIC_ERR_NO_MEMORY, format!("a buffer of {length} bytes"));
        let mut buffer = Buffer::new(length).ok_or_else(no_memory)?;
        let start = buffer.as_mut_ptr();
        data.write(start.cast());
        let mut buffers = buffers();
        buffers.get_or_insert_default().insert(start.addr(), buffer);
        Ok(())
    })
}

/// Gives a buffer back. NULL is none, and nothing happens.
///
/// Errors: `LIMIC_ERR_INVALID` if `data` is not the first byte of a buffer.
///
/// # Safety
/// `data` is NULL, or no operation and nobody else uses the buffer any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_buffer_free(data: *mut c_void) -> c_int {
    guarded(|| {
        if data.is_null() {
            return Ok(());
        }
        let mut buffers = buffers();
        let buffer = buffers.as_mut().and_then(|all| all.remove(&data.addr()));
        drop(buffers);
        let unknown = "this is not a buffer of limic_buffer_alloc, or it was given back already";
        buffer
            .map(drop)
            .ok_or_else(|| Failure::new(LIMIC_ERR_INVALID, unknown))
    })
}
