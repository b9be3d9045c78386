//! The heap of `liblimic-heap.so`, if that is loaded: it serves a program's `malloc`, and libraries
//! which contain limic ask it where memory lies.

use core::ffi::{c_int, c_void};
use std::os::fd::{FromRawFd, OwnedFd};

use limic_shm::process::ValueHere;

use crate::{Place, heap, table};

/// Set in the numbers of its arenas: this copy of the code has its own.
const PRELOADED: u64 = 1 << 63;

/// What the library exports under the name `limic_heap_v1`.
#[repr(C)]
#[derive(Debug)]
pub struct Interface {
    place: extern "C" fn(*const c_void, usize, &mut u64, &mut u64) -> c_int,
    descriptor: extern "C" fn(u64, &mut usize) -> c_int,
    is_there: extern "C" fn(u64) -> c_int,
    ended: extern "C" fn() -> u64,
}

/// The heap of this copy of the code, for others.
pub const INTERFACE: Interface = Interface {
    place: place_for_others,
    descriptor: descriptor_for_others,
    is_there: is_there_for_others,
    ended: ended_for_others,
};

extern "C" fn place_for_others(
    start: *const c_void,
    len: usize,
    arena: &mut u64,
    offset: &mut u64,
) -> c_int {
    match table::place(start.addr(), len) {
        Some(place) => {
            (*arena, *offset) = (place.arena, place.offset);
            1
        }
        None => 0,
    }
}

/// -1: there is no such arena, or no free descriptor.
extern "C" fn descriptor_for_others(arena: u64, bytes: &mut usize) -> c_int {
    use std::os::fd::IntoRawFd;
    match heap::descriptor(arena) {
        Some((fd, len)) => {
            *bytes = len;
            fd.into_raw_fd()
        }
        None => -1,
    }
}

extern "C" fn is_there_for_others(arena: u64) -> c_int {
    c_int::from(table::contains(arena))
}

extern "C" fn ended_for_others() -> u64 {
    table::ended()
}

/// The interface of the library, if it is loaded.
fn interface() -> Option<&'static Interface> {
    static FOUND: ValueHere<Option<&'static Interface>> = ValueHere::new();
    *FOUND.get_or_make(|| {
        // SAFETY: looks a name up, which ends with a zero.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"limic_heap_v1".as_ptr()) };
        // SAFETY: only that library has this name, and stays loaded; the name has the version of
        // the structure.
        unsafe { found.cast::<Interface>().as_ref() }
    })
}

/// Where bytes lie in that heap.
pub(crate) fn place(start: *const u8, len: usize) -> Option<Place> {
    let (mut arena, mut offset) = (0, 0);
    let found = (interface()?.place)(start.cast(), len, &mut arena, &mut offset);
    (found != 0).then_some(Place {
        arena: arena | PRELOADED,
        offset,
    })
}

/// As [`descriptor`](crate::descriptor), if this is an arena of that heap.
pub(crate) fn descriptor(arena: u64) -> Option<(OwnedFd, usize)> {
    let mut bytes = 0;
    let fd = (interface()?.descriptor)(arena & !PRELOADED, &mut bytes);
    if fd < 0 {
        return None;
    }
    // SAFETY: made for this call.
    Some((unsafe { OwnedFd::from_raw_fd(fd) }, bytes))
}

/// Whether an arena of that heap is still there.
pub(crate) fn is_there(arena: u64) -> bool {
    interface().is_some_and(|heap| (heap.is_there)(arena & !PRELOADED) != 0)
}

/// How many arenas of that heap have ended.
pub(crate) fn ended() -> u64 {
    interface().map_or(0, |heap| (heap.ended)())
}

/// Whether a number is that of an arena there.
pub(crate) fn has(arena: u64) -> bool {
    arena & PRELOADED != 0
}
