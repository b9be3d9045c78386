//! Atomic operations: types, operations, and the structures of their calls.

use core::ffi::{c_int, c_void};

use super::endpoint::fid_ep;
use super::fi_addr_t;

/// Operations, numbered as libfabric does.
pub mod op {
    pub const MIN: u32 = 0;
    pub const MAX: u32 = 1;
    pub const SUM: u32 = 2;
    pub const PROD: u32 = 3;
    pub const LOR: u32 = 4;
    pub const LAND: u32 = 5;
    pub const BOR: u32 = 6;
    pub const BAND: u32 = 7;
    pub const LXOR: u32 = 8;
    pub const BXOR: u32 = 9;
    pub const READ: u32 = 10;
    pub const WRITE: u32 = 11;
    pub const CSWAP: u32 = 12;
    pub const CSWAP_NE: u32 = 13;
    pub const CSWAP_LE: u32 = 14;
    pub const CSWAP_LT: u32 = 15;
    pub const CSWAP_GE: u32 = 16;
    pub const CSWAP_GT: u32 = 17;
    pub const MSWAP: u32 = 18;

    /// Whether it looks at a second operand.
    #[must_use]
    pub fn compares(op: u32) -> bool {
        (CSWAP..=MSWAP).contains(&op)
    }
}

#[repr(C)]
pub struct fi_ioc {
    pub addr: *mut c_void,
    pub count: usize,
}

#[repr(C)]
pub struct fi_rma_ioc {
    pub addr: u64,
    pub count: usize,
    pub key: u64,
}

#[repr(C)]
pub struct fi_atomic_attr {
    pub count: usize,
    pub size: usize,
}

#[repr(C)]
pub struct fi_msg_atomic {
    pub msg_iov: *const fi_ioc,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: fi_addr_t,
    pub rma_iov: *const fi_rma_ioc,
    pub rma_iov_count: usize,
    pub datatype: u32,
    pub op: u32,
    pub context: *mut c_void,
    pub data: u64,
}

table! { fi_ops_atomic {
    write(*mut fid_ep, *const c_void, usize, *mut c_void, fi_addr_t, u64, u64, u32, u32,
        *mut c_void) -> isize;
    writev(*mut fid_ep, *const fi_ioc, *mut *mut c_void, usize, fi_addr_t, u64, u64, u32, u32,
        *mut c_void) -> isize;
    writemsg(*mut fid_ep, *const fi_msg_atomic, u64) -> isize;
    inject(*mut fid_ep, *const c_void, usize, fi_addr_t, u64, u64, u32, u32) -> isize;
    readwrite(*mut fid_ep, *const c_void, usize, *mut c_void, *mut c_void, *mut c_void, fi_addr_t,
        u64, u64, u32, u32, *mut c_void) -> isize;
    readwritev(*mut fid_ep, *const fi_ioc, *mut *mut c_void, usize, *mut fi_ioc, *mut *mut c_void,
        usize, fi_addr_t, u64, u64, u32, u32, *mut c_void) -> isize;
    readwritemsg(*mut fid_ep, *const fi_msg_atomic, *mut fi_ioc, *mut *mut c_void, usize,
        u64) -> isize;
    compwrite(*mut fid_ep, *const c_void, usize, *mut c_void, *const c_void, *mut c_void,
        *mut c_void, *mut c_void, fi_addr_t, u64, u64, u32, u32, *mut c_void) -> isize;
    compwritev(*mut fid_ep, *const fi_ioc, *mut *mut c_void, usize, *const fi_ioc, *mut *mut c_void,
        usize, *mut fi_ioc, *mut *mut c_void, usize, fi_addr_t, u64, u64, u32, u32,
        *mut c_void) -> isize;
    compwritemsg(*mut fid_ep, *const fi_msg_atomic, *const fi_ioc, *mut *mut c_void, usize,
        *mut fi_ioc, *mut *mut c_void, usize, u64) -> isize;
    writevalid(*mut fid_ep, u32, u32, *mut usize) -> c_int;
    readwritevalid(*mut fid_ep, u32, u32, *mut usize) -> c_int;
    compwritevalid(*mut fid_ep, u32, u32, *mut usize) -> c_int;
}}
