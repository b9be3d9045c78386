// SPDX-License-Identifier: GPL-2.0

//! The C side: what limic calls in the kernel that has no Rust abstraction.
//!
//! The helpers are described in `limic_helpers.h`. Nothing outside of this file, `device.rs` and
//! `pinned.rs` uses raw bindings.

use kernel::bindings;
use kernel::error::from_err_ptr;
use kernel::mm::virt::VmaNew;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;

/// `struct limic_mm_events`: what is called, with the owner of the watch.
#[repr(C)]
pub(crate) struct MmEvents {
    pub(crate) begin: unsafe extern "C" fn(*mut c_void, c_uint),
    pub(crate) end: unsafe extern "C" fn(*mut c_void),
    pub(crate) change_begins: unsafe extern "C" fn(*mut c_void, usize, usize) -> bool,
    pub(crate) change_ends: unsafe extern "C" fn(*mut c_void),
    pub(crate) sweep: unsafe extern "C" fn(*mut c_void),
}

/// A watch over an address space.
#[repr(C)]
pub(crate) struct MmWatch {
    _opaque: [u8; 0],
}

#[allow(improper_ctypes, reason = "kernel structures are opaque here")]
extern "C" {
    pub(crate) fn limic_mm_watch_start(
        mm: *mut bindings::mm_struct,
        most: c_uint,
        owner: *mut c_void,
        events: *const MmEvents,
    ) -> *mut MmWatch;
    pub(crate) fn limic_mm_watch_stop(watch: *mut MmWatch);
    pub(crate) fn limic_mm_watches_freed();
    fn limic_current_mm() -> *mut bindings::mm_struct;
    fn limic_fatal_signal() -> bool;
    fn limic_resched();
    fn limic_cpu() -> c_uint;
    pub(crate) fn limic_charge(mm: *mut bindings::mm_struct, pages: c_ulong) -> c_int;
    pub(crate) fn limic_uncharge(mm: *mut bindings::mm_struct, pages: c_ulong);
    pub(crate) fn limic_page_follows(last: *mut bindings::page, page: *mut bindings::page) -> bool;
    pub(crate) fn limic_page_nth(page: *mut bindings::page, n: c_ulong) -> *mut bindings::page;
    fn limic_untagged(addr: c_ulong) -> c_ulong;
    fn limic_user_range(addr: c_ulong, len: c_ulong) -> bool;
    pub(crate) fn limic_copy_out(
        to: c_ulong,
        run: *mut bindings::page,
        off: c_ulong,
        len: c_ulong,
    ) -> c_ulong;
    pub(crate) fn limic_copy_in(
        run: *mut bindings::page,
        off: c_ulong,
        from: c_ulong,
        len: c_ulong,
    ) -> c_ulong;
    fn limic_fault_in(addr: c_ulong, len: c_ulong, write: bool) -> c_ulong;
    fn limic_set_bits(word: *mut i32, bits: c_int);
    fn limic_wait_until(users: *mut i32, value: c_int);
    fn limic_wake(users: *mut i32);
    pub(crate) fn limic_area_alloc(bytes: c_ulong) -> *mut c_void;
    pub(crate) fn limic_area_free(area: *mut c_void);
    pub(crate) fn limic_area_map(vma: *mut bindings::vm_area_struct, area: *mut c_void) -> c_int;
}

/// The address space of the calling task; null in a kernel thread. Only to be compared.
#[inline]
pub(crate) fn current_mm() -> *mut bindings::mm_struct {
    // SAFETY: reads a field of the current task, which only that task changes.
    unsafe { limic_current_mm() }
}

/// Whether the calling task is being killed.
#[inline]
pub(crate) fn killed() -> bool {
    // SAFETY: looks at the current task only.
    unsafe { limic_fatal_signal() }
}

/// Lets another task run if one wants to. Sleeps, so no spin lock may be held.
#[inline]
pub(crate) fn resched() {
    // SAFETY: called from ioctl and teardown code, which may sleep.
    unsafe { limic_resched() }
}

/// The CPU that runs this, or ran it a moment ago.
#[inline]
pub(crate) fn cpu() -> usize {
    // SAFETY: no preconditions.
    unsafe { limic_cpu() as usize }
}

/// The address of the calling process without a tag, as the kernel names it when memory changes.
#[inline]
pub(crate) fn untagged(addr: u64) -> u64 {
    // SAFETY: arithmetic on an address of the current task.
    unsafe { limic_untagged(addr as c_ulong) as u64 }
}

/// Whether these addresses are all in the user's half.
#[inline]
pub(crate) fn user_range(addr: usize, len: usize) -> bool {
    // SAFETY: arithmetic only.
    unsafe { limic_user_range(addr, len) }
}

/// Brings pages of the calling process in, at least the first one. `None` if that is impossible.
pub(crate) fn fault_in(addr: usize, len: usize, write: bool) -> Option<()> {
    // SAFETY: faults on user addresses of the current task; the callers hold no lock.
    (unsafe { limic_fault_in(addr, len, write) } < len).then_some(())
}

/// Sets bits in one step, fully ordered. Unlike an addition it cannot carry into others, or clear
/// those that somebody else has set before.
pub(crate) fn set_bits(word: &Atomic<u32>, bits: u32) {
    // SAFETY: `Atomic<u32>` has the layout of `atomic_t`, and the borrow keeps it alive.
    unsafe { limic_set_bits(word.as_ptr().cast(), bits as c_int) }
}

/// Sleeps until the counter has this value.
pub(crate) fn wait_until(users: &Atomic<i32>, value: i32) {
    // SAFETY: `Atomic<i32>` has the layout of `atomic_t`, and the borrow keeps it alive.
    unsafe { limic_wait_until(users.as_ptr(), value) }
}

/// Wakes those who sleep on the counter. It is used as a key only, so it may be gone already.
pub(crate) fn wake(users: *mut i32) {
    // SAFETY: `wake_up_var` hashes the address and does not read through it.
    unsafe { limic_wake(users) }
}

/// Bytes into the file at which a mapping that is being made begins.
pub(crate) fn vma_offset(vma: &VmaNew) -> usize {
    // SAFETY: it is being set up, so it is there, and nobody changes this field meanwhile.
    let pages = unsafe { (*vma.as_ptr()).vm_pgoff };
    pages.saturating_mul(kernel::page::PAGE_SIZE)
}

/// 64 random bits, not 0.
pub(crate) fn random_nonzero() -> u64 {
    loop {
        // SAFETY: no preconditions.
        let random = unsafe { bindings::get_random_u64() };
        if random != 0 {
            return random;
        }
    }
}

/// Starts a watch over the caller's address space, which has `most` of them at most, else EMFILE.
///
/// # Safety
/// `owner` stays valid, and the functions of `events` may be called with it from any task, until
/// [`limic_mm_watch_stop`].
pub(crate) unsafe fn watch_current_mm(
    most: u32,
    owner: *mut c_void,
    events: &'static MmEvents,
) -> Result<*mut MmWatch> {
    let mm = current_mm();
    if mm.is_null() {
        return Err(EINVAL);
    }
    // SAFETY: the current task uses its `mm`, so it stays alive during the call. The caller keeps
    // `owner` valid.
    from_err_ptr(unsafe { limic_mm_watch_start(mm, most, owner, events) })
}

/// An errno that the kernel crate has no constant for.
pub(crate) fn errno(number: u32) -> Error {
    Error::from_errno(-(number as c_int))
}

macro_rules! more_errors {
    ($($name:ident),* $(,)?) => { $(
        #[allow(non_snake_case, reason = "reads like the constants of the kernel crate")]
        #[inline]
        pub(crate) fn $name() -> Error {
            errno(bindings::$name)
        }
    )* };
}

more_errors!(
    EADDRINUSE,
    EALREADY,
    ECANCELED,
    ENOBUFS,
    ENOTCONN,
    EPROTO,
    EPROTONOSUPPORT,
    ESTALE,
);
