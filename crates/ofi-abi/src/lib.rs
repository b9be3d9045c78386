//! libfabric's binary interface, as far as limic uses it: the structures of version 1.17, of which
//! later versions only grow the tails.
//!
//! Written by hand, so that building needs neither libfabric nor libclang; the tests compare every
//! size and offset with the system's headers where there are any. Names are those of C.

#![expect(
    non_camel_case_types,
    missing_docs,
    missing_debug_implementations,
    reason = "the names of the C interface, which its manual pages describe"
)]

/// A table of functions. An entry without arguments is one that nobody here calls, nor has.
macro_rules! table {
    ($name:ident { $($entry:ident $(($($argument:ty),*) -> $result:ty)?;)* }) => {
        #[repr(C)]
        pub struct $name {
            pub size: usize,
            $(pub $entry: table!(@ $(($($argument),*) -> $result)?),)*
        }
    };
    (@) => { unsafe extern "C" fn() -> c_int };
    (@ ($($argument:ty),*) -> $result:ty) => { unsafe extern "C" fn($($argument),*) -> $result };
}

pub mod atomic;
pub mod endpoint;
pub mod entries;
pub mod errno;
pub mod flags;
pub mod info;
#[cfg(test)]
mod layout_tests;
pub mod objects;
pub mod peer;

use core::ffi::{c_char, c_int, c_void};

pub use self::flags::*;

/// What an application lends with each operation, for the provider's own use.
#[repr(C)]
pub struct fi_context2 {
    pub internal: [*mut c_void; 8],
}

/// An address of an address vector.
pub type fi_addr_t = u64;

/// No particular address.
pub const FI_ADDR_UNSPEC: fi_addr_t = u64::MAX;
/// No key.
pub const FI_KEY_NOTAVAIL: u64 = u64::MAX;
/// No address is known.
pub const FI_ADDR_NOTAVAIL: fi_addr_t = u64::MAX;

/// A version of the interface.
pub const fn fi_version(major: u32, minor: u32) -> u32 {
    major << 16 | minor
}

/// Head of every object.
#[repr(C)]
pub struct fid {
    pub fclass: usize,
    pub context: *mut c_void,
    pub ops: *const fi_ops,
}

/// What every object can do.
#[repr(C)]
pub struct fi_ops {
    pub size: usize,
    pub close: unsafe extern "C" fn(*mut fid) -> c_int,
    pub bind: unsafe extern "C" fn(*mut fid, *mut fid, u64) -> c_int,
    pub control: unsafe extern "C" fn(*mut fid, c_int, *mut c_void) -> c_int,
    pub ops_open:
        unsafe extern "C" fn(*mut fid, *const c_char, u64, *mut *mut c_void, *mut c_void) -> c_int,
    pub tostr: Option<unsafe extern "C" fn(*const fid, *mut c_char, usize) -> c_int>,
    pub ops_set: Option<
        unsafe extern "C" fn(*mut fid, *const c_char, u64, *mut c_void, *mut c_void) -> c_int,
    >,
}

/// Classes of objects.
pub mod class {
    pub const FABRIC: usize = 1;
    pub const DOMAIN: usize = 2;
    pub const EP: usize = 3;
    pub const SRX_CTX: usize = 6;
    pub const AV: usize = 11;
    pub const MR: usize = 12;
    pub const EQ: usize = 13;
    pub const CQ: usize = 14;
    pub const CNTR: usize = 15;
    pub const POLL: usize = 17;
}

/// Commands of `fi_control`.
pub mod command {
    use core::ffi::c_int;

    pub const GETOPSFLAG: c_int = 2;
    pub const SETOPSFLAG: c_int = 3;
    pub const GETWAIT: c_int = 5;
    pub const ENABLE: c_int = 6;
    pub const GETWAITOBJ: c_int = 16;
}

/// What a provider hands to libfabric.
#[repr(C)]
pub struct fi_provider {
    pub version: u32,
    pub fi_version: u32,
    /// The core's own.
    pub context: [*mut c_void; 4],
    pub name: *const c_char,
    pub getinfo: unsafe extern "C" fn(
        u32,
        *const c_char,
        *const c_char,
        u64,
        *const info::fi_info,
        *mut *mut info::fi_info,
    ) -> c_int,
    pub fabric: unsafe extern "C" fn(
        *mut info::fi_fabric_attr,
        *mut *mut objects::fid_fabric,
        *mut c_void,
    ) -> c_int,
    pub cleanup: Option<unsafe extern "C" fn()>,
}
