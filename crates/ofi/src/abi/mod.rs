//! libfabric's binary interface, as far as a provider sees it: the structures of version 1.17, of
//! which later versions only grow the tails.
//!
//! Written by hand, so that building needs neither libfabric nor libclang; the tests compare every
//! size and offset with the system's headers where there are any. Names are those of C.

#![expect(non_camel_case_types, reason = "the names of the C interface")]

/// A table of functions. An entry without arguments is one that this provider does not have: it
/// holds `ffi_guard::no_such_function`.
macro_rules! table {
    ($name:ident { $($entry:ident $(($($argument:ty),*) -> $result:ty)?;)* }) => {
        #[repr(C)]
        pub(crate) struct $name {
            pub(crate) size: usize,
            $(pub(crate) $entry: table!(@ $(($($argument),*) -> $result)?),)*
        }
    };
    (@) => { unsafe extern "C" fn() -> c_int };
    (@ ($($argument:ty),*) -> $result:ty) => { unsafe extern "C" fn($($argument),*) -> $result };
}

pub(crate) mod atomic;
pub(crate) mod endpoint;
pub(crate) mod entries;
pub(crate) mod errno;
pub(crate) mod flags;
pub(crate) mod info;
#[cfg(test)]
mod layout_tests;
pub(crate) mod objects;

use core::ffi::{c_char, c_int, c_void};

pub(crate) use self::flags::*;

/// An address of an address vector.
pub(crate) type fi_addr_t = u64;

/// No particular address.
pub(crate) const FI_ADDR_UNSPEC: fi_addr_t = u64::MAX;
/// No key.
pub(crate) const FI_KEY_NOTAVAIL: u64 = u64::MAX;
/// No address is known.
pub(crate) const FI_ADDR_NOTAVAIL: fi_addr_t = u64::MAX;

/// A version of the interface.
pub(crate) const fn fi_version(major: u32, minor: u32) -> u32 {
    major << 16 | minor
}

/// Head of every object.
#[repr(C)]
pub(crate) struct fid {
    pub(crate) fclass: usize,
    pub(crate) context: *mut c_void,
    pub(crate) ops: *const fi_ops,
}

/// What every object can do.
#[repr(C)]
pub(crate) struct fi_ops {
    pub(crate) size: usize,
    pub(crate) close: unsafe extern "C" fn(*mut fid) -> c_int,
    pub(crate) bind: unsafe extern "C" fn(*mut fid, *mut fid, u64) -> c_int,
    pub(crate) control: unsafe extern "C" fn(*mut fid, c_int, *mut c_void) -> c_int,
    pub(crate) ops_open:
        unsafe extern "C" fn(*mut fid, *const c_char, u64, *mut *mut c_void, *mut c_void) -> c_int,
    pub(crate) tostr: Option<unsafe extern "C" fn(*const fid, *mut c_char, usize) -> c_int>,
    pub(crate) ops_set: Option<
        unsafe extern "C" fn(*mut fid, *const c_char, u64, *mut c_void, *mut c_void) -> c_int,
    >,
}

/// Classes of objects.
pub(crate) mod class {
    pub(crate) const FABRIC: usize = 1;
    pub(crate) const DOMAIN: usize = 2;
    pub(crate) const EP: usize = 3;
    pub(crate) const AV: usize = 11;
    pub(crate) const MR: usize = 12;
    pub(crate) const EQ: usize = 13;
    pub(crate) const CQ: usize = 14;
    pub(crate) const CNTR: usize = 15;
    pub(crate) const POLL: usize = 17;
}

/// Commands of `fi_control`.
pub(crate) mod command {
    use core::ffi::c_int;

    pub(crate) const GETOPSFLAG: c_int = 2;
    pub(crate) const SETOPSFLAG: c_int = 3;
    pub(crate) const GETWAIT: c_int = 5;
    pub(crate) const ENABLE: c_int = 6;
    pub(crate) const GETWAITOBJ: c_int = 16;
}

/// What a provider hands to libfabric.
#[repr(C)]
pub(crate) struct fi_provider {
    pub(crate) version: u32,
    pub(crate) fi_version: u32,
    /// The core's own.
    pub(crate) context: [*mut c_void; 4],
    pub(crate) name: *const c_char,
    pub(crate) getinfo: unsafe extern "C" fn(
        u32,
        *const c_char,
        *const c_char,
        u64,
        *const info::fi_info,
        *mut *mut info::fi_info,
    ) -> c_int,
    pub(crate) fabric: unsafe extern "C" fn(
        *mut info::fi_fabric_attr,
        *mut *mut objects::fid_fabric,
        *mut c_void,
    ) -> c_int,
    pub(crate) cleanup: Option<unsafe extern "C" fn()>,
}
