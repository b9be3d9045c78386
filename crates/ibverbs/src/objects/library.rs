//! Whether libibverbs is there at all.
//!
//! The bindings load libibverbs at run time and say nothing when that fails: every call then
//! answers 'not supported'. So it is loaded here once by itself, for the sake of the reason.

#[cfg(not(test))]
use std::ffi::CStr;

use limic_shm::process::ValueHere;

use crate::{VerbsError, sys};

/// Whether libibverbs could be loaded.
///
/// # Errors
/// [`VerbsError::NoLibrary`] with the dynamic linker's reason.
pub fn available() -> Result<(), VerbsError> {
    static OUTCOME: ValueHere<Option<String>> = ValueHere::new();
    match OUTCOME.get_or_make(load) {
        None => Ok(()),
        Some(reason) => Err(VerbsError::NoLibrary(reason.clone())),
    }
}

#[cfg(test)]
pub(super) use sys::ibv_query_qp_data_in_order as data_in_order;

/// `ibv_query_qp_data_in_order`, which the bindings leave out; 0 where the library has it not.
///
/// # Safety
/// The queue pair is alive.
#[cfg(not(test))]
pub(super) unsafe fn data_in_order(
    pair: *mut sys::ibv_qp,
    what: sys::ibv_wr_opcode::Type,
    how: u32,
) -> i32 {
    type Call = unsafe extern "C" fn(*mut sys::ibv_qp, sys::ibv_wr_opcode::Type, u32) -> i32;
    let library = open();
    if library.is_null() {
        return 0;
    }
    // SAFETY: a library that is loaded and stays; a constant, terminated string.
    let call = unsafe { libc::dlsym(library, c"ibv_query_qp_data_in_order".as_ptr()) };
    if call.is_null() {
        return 0;
    }
    // SAFETY: libibverbs declares it so.
    let call = unsafe { core::mem::transmute::<*mut libc::c_void, Call>(call) };
    // SAFETY: the caller's promise.
    unsafe { call(pair, what, how) }
}

/// The library, which is loaded by the first call and stays; null if that fails.
#[cfg(not(test))]
fn open() -> *mut libc::c_void {
    // SAFETY: a constant, terminated string; loading runs the constructors of libibverbs, which
    // every program linked against it runs too.
    unsafe { libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_LAZY) }
}

/// Tests bring their adapters with them.
#[cfg(test)]
fn load() -> Option<String> {
    None
}

#[cfg(not(test))]
fn load() -> Option<String> {
    if !open().is_null() {
        return None;
    }
    // SAFETY: after a failed dlopen on this thread, dlerror gives a terminated string that lives
    // until the next call of this family on this thread, or null.
    let text = unsafe {
        let text = libc::dlerror();
        (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
    };
    Some(text.unwrap_or_else(|| "no reason was given".to_owned()))
}
