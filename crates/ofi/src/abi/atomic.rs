//! Atomic operations: types, operations, and the structures of their calls.

use core::ffi::{c_int, c_void};

use super::endpoint::fid_ep;
use super::fi_addr_t;

#[repr(C)]
pub(crate) struct fi_ioc {
    pub(crate) addr: *mut c_void,
    pub(crate) count: usize,
}

#[repr(C)]
pub(crate) struct fi_rma_ioc {
    pub(crate) addr: u64,
    pub(crate) count: usize,
    pub(crate) key: u64,
}

#[repr(C)]
pub(crate) struct fi_atomic_attr {
    pub(crate) count: usize,
    pub(crate) size: usize,
}

#[repr(C)]
pub(crate) struct fi_msg_atomic {
    pub(crate) msg_iov: *const fi_ioc,
    pub(crate) desc: *mut *mut c_void,
    pub(crate) iov_count: usize,
    pub(crate) addr: fi_addr_t,
    pub(crate) rma_iov: *const fi_rma_ioc,
    pub(crate) rma_iov_count: usize,
    pub(crate) datatype: u32,
    pub(crate) op: u32,
    pub(crate) context: *mut c_void,
    pub(crate) data: u64,
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
