//! LiMIC2's interface (`limic_open`, `limic_tx_init`, `limic_rx_comp`, `limic_tx_comp`,
//! `limic_close`), so that a C MPI that was written for LiMIC2 0.5.6 builds and runs unchanged.
//! `include/limic2/limic.h` is its manual.
//!
//! LiMIC2 handed raw kernel addresses to user space and believed them when they came back. Here the
//! two fields hold a random handle and where it is registered. A copy takes its bounds from the
//! registration and never from the descriptor, which has travelled through memory that others can
//! write ([`descriptor`] for what is in it).
//!
//! Where the kernel module is there ([`module`]), the handle is one of its exposures: the kernel
//! checks handle and bounds, and the preparing process agrees to each buffer. Over cross-memory
//! attach the registration is a table of the preparing process ([`table`]), which the copying
//! process maps for reading ([`registry`]). There the copying library checks: who may attach to a
//! process can read and write all of it with a system call of its own, so this protects against
//! mistakes and against forged descriptors, and not against the copying process itself.

#![allow(non_camel_case_types, reason = "the name of the structure is LiMIC2's")]

mod descriptor;
mod module;
mod path;
mod refusal;
mod registry;
mod session;
mod sessions;
mod table;

use core::ffi::{c_int, c_ulong, c_void};

use limic_copy::{LocalSlice, LocalSliceMut};
use limic_ffi::guard;

use crate::refusal::Refusal;
use crate::session::Local;

/// LiMIC2's descriptor of a prepared buffer: see `limic.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct limic_user {
    /// Pages that hold the bytes.
    pub nr_pages: c_int,
    /// Of the first byte in its page.
    pub offset: usize,
    /// Bytes.
    pub length: usize,
    /// Address of the first byte in the process that prepared the buffer.
    pub va: c_ulong,
    /// The handle.
    pub mm: *mut c_void,
    /// Where it is registered.
    pub tsk: *mut c_void,
}

/// Runs a function that C called: a refusal becomes errno and the value that says so.
fn guarded<T>(failed: T, call: impl FnOnce() -> Result<T, Refusal>) -> T {
    // Locks that a panic poisons are taken all the same, and hold nothing half-done.
    let refusal = match guard(call) {
        Ok(Ok(value)) => return value,
        Ok(Err(refusal)) => refusal,
        Err(_) => Refusal::new(libc::EIO, "a fault in limic2, please report it"),
    };
    refusal.report();
    failed
}

/// Opens LiMIC2: see `limic.h`.
#[unsafe(no_mangle)]
pub extern "C" fn limic_open() -> c_int {
    guarded(-1, sessions::open)
}

/// Closes it: see `limic.h`.
#[unsafe(no_mangle)]
pub extern "C" fn limic_close(fd: c_int) {
    guarded((), || {
        // No fault of a program that a call with no result would tell of: MVAPICH2 closes what it
        // has not opened, when it ends.
        if let Err(refusal) = sessions::close(fd) {
            refusal.note("nothing was closed");
        }
        Ok(())
    });
}

/// Prepares a buffer: see `limic.h`.
///
/// # Safety
/// `lu` is NULL or writable. The buffer stays valid for reads and writes by others until nobody
/// copies any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_tx_init(
    fd: c_int,
    buf: *mut c_void,
    len: usize,
    lu: *mut limic_user,
) -> usize {
    guarded(0, || {
        if lu.is_null() {
            return Err(Refusal::invalid("the descriptor is a null pointer"));
        }
        let buffer = descriptor::Part::of_buffer(buf, len)?;
        let nr_pages = buffer.pages()?;
        let registered = sessions::find(fd)?.prepare(buffer)?;
        let filled = limic_user {
            nr_pages,
            offset: descriptor::offset_in_page(buffer.start),
            length: len,
            va: buffer.start as c_ulong,
            mm: core::ptr::without_provenance_mut(registered.key as usize),
            tsk: core::ptr::without_provenance_mut(registered.place() as usize),
        };
        // SAFETY: not null, and writable by the caller's promise. It may lie in shared memory at
        // any address.
        unsafe { lu.write_unaligned(filled) };
        Ok(len)
    })
}

/// Copies out of a prepared buffer: see `limic.h`.
///
/// # Safety
/// `buf` is writable for `len` bytes and nobody else uses them meanwhile; `lu` is NULL or readable
/// and writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_rx_comp(
    fd: c_int,
    buf: *mut c_void,
    len: usize,
    lu: *mut limic_user,
) -> usize {
    let into = |len| Local::Into(LocalSliceMut::new(buf.cast(), len));
    // SAFETY: the caller's promise; `into` names no more than `len` bytes.
    guarded(0, || unsafe { copy(fd, buf, len, lu, into) })
}

/// Copies into a prepared buffer: see `limic.h`.
///
/// # Safety
/// `buf` is readable for `len` bytes and nobody writes them meanwhile; `lu` is NULL or readable and
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_tx_comp(
    fd: c_int,
    buf: *mut c_void,
    len: usize,
    lu: *mut limic_user,
) -> usize {
    let from = |len| Local::From(LocalSlice::new(buf.cast(), len));
    // SAFETY: the caller's promise; `from` names no more than `len` bytes.
    guarded(0, || unsafe { copy(fd, buf, len, lu, from) })
}

/// # Safety
/// `lu` is NULL or readable and writable; what `local` gives is valid for the copy.
unsafe fn copy(
    fd: c_int,
    buf: *mut c_void,
    len: usize,
    lu: *mut limic_user,
    local: impl FnOnce(usize) -> Local,
) -> Result<usize, Refusal> {
    if lu.is_null() || buf.is_null() {
        return Err(Refusal::invalid("a null pointer"));
    }
    // SAFETY: readable by the caller's promise. It may lie in memory that others write: it is read
    // once, and only this copy is checked and used.
    let read = unsafe { lu.read_unaligned() };
    let (registered, part) = descriptor::decode(&read, len)?;
    let local = local(part.len);
    // SAFETY: the caller's promise.
    unsafe { sessions::find(fd)?.copy(registered, part, local) }?;
    // SAFETY: writable by the caller's promise; `addr_of` makes no reference to memory that others
    // may write.
    unsafe { (&raw mut (*lu).length).write_unaligned(part.len) };
    Ok(part.len)
}
