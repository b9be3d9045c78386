//! Addresses are written into room of the application's: as they are, and as text.

use core::ffi::{c_char, c_void};

use super::AddressVector;
use crate::names::Name;
use crate::{ffi_guard, object};
use limic_ofi_abi::errno::*;
use limic_ofi_abi::objects::fid_av;

/// Writes an address as far as there is room, and its length.
///
/// # Safety
/// `len` is null or valid, and `room` valid for as many bytes.
pub(crate) unsafe fn put_bytes(
    bytes: &[u8],
    room: *mut c_void,
    len: *mut usize,
) -> Result<(), i32> {
    // SAFETY: the caller's promise.
    unsafe {
        let len = len.as_mut().ok_or(FI_EINVAL)?;
        let given = core::mem::replace(len, bytes.len());
        if !room.is_null() {
            let count = given.min(bytes.len());
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), room.cast(), count);
        }
        if given < bytes.len() || room.is_null() {
            return Err(FI_ETOOSMALL);
        }
    }
    Ok(())
}

/// An address as text, which does not show the secret in it.
pub(super) unsafe extern "C" fn straddr(
    av: *mut fid_av,
    address: *const c_void,
    buffer: *mut c_char,
    len: *mut usize,
) -> *const c_char {
    ffi_guard::cross(core::ptr::null(), || {
        if address.is_null() || len.is_null() {
            return core::ptr::null();
        }
        // SAFETY: C passes what it was given, and an address in its format.
        let name = unsafe {
            let av: &AddressVector = object::object(av);
            Name::read(address, av.domain.text)
        };
        let text = name.map_or_else(|_| "not an address".to_owned(), |name| name.shown());
        // SAFETY: C passes a length and as much room.
        unsafe {
            let given = core::mem::replace(&mut *len, text.len() + 1);
            if given > 0 && !buffer.is_null() {
                let count = text.len().min(given - 1);
                core::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), count);
                *buffer.add(count) = 0;
            }
        }
        buffer
    })
}
