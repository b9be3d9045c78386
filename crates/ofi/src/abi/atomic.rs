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

#[repr(C)]
pub(crate) struct fi_ops_atomic {
    pub(crate) size: usize,
    pub(crate) write: unsafe extern "C" fn(
        *mut fid_ep,
        *const c_void,
        usize,
        *mut c_void,
        fi_addr_t,
        u64,
        u64,
        u32,
        u32,
        *mut c_void,
    ) -> isize,
    pub(crate) writev: unsafe extern "C" fn(
        *mut fid_ep,
        *const fi_ioc,
        *mut *mut c_void,
        usize,
        fi_addr_t,
        u64,
        u64,
        u32,
        u32,
        *mut c_void,
    ) -> isize,
    pub(crate) writemsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_atomic, u64) -> isize,
    pub(crate) inject: unsafe extern "C" fn(
        *mut fid_ep,
        *const c_void,
        usize,
        fi_addr_t,
        u64,
        u64,
        u32,
        u32,
    ) -> isize,
    pub(crate) readwrite: unsafe extern "C" fn(
        *mut fid_ep,
        *const c_void,
        usize,
        *mut c_void,
        *mut c_void,
        *mut c_void,
        fi_addr_t,
        u64,
        u64,
        u32,
        u32,
        *mut c_void,
    ) -> isize,
    pub(crate) readwritev: unsafe extern "C" fn(
        *mut fid_ep,
        *const fi_ioc,
        *mut *mut c_void,
        usize,
        *mut fi_ioc,
        *mut *mut c_void,
        usize,
        fi_addr_t,
        u64,
        u64,
        u32,
        u32,
        *mut c_void,
    ) -> isize,
    pub(crate) readwritemsg: unsafe extern "C" fn(
        *mut fid_ep,
        *const fi_msg_atomic,
        *mut fi_ioc,
        *mut *mut c_void,
        usize,
        u64,
    ) -> isize,
    pub(crate) compwrite: unsafe extern "C" fn(
        *mut fid_ep,
        *const c_void,
        usize,
        *mut c_void,
        *const c_void,
        *mut c_void,
        *mut c_void,
        *mut c_void,
        fi_addr_t,
        u64,
        u64,
        u32,
        u32,
        *mut c_void,
    ) -> isize,
    pub(crate) compwritev: unsafe extern "C" fn(
        *mut fid_ep,
        *const fi_ioc,
        *mut *mut c_void,
        usize,
        *const fi_ioc,
        *mut *mut c_void,
        usize,
        *mut fi_ioc,
        *mut *mut c_void,
        usize,
        fi_addr_t,
        u64,
        u64,
        u32,
        u32,
        *mut c_void,
    ) -> isize,
    pub(crate) compwritemsg: unsafe extern "C" fn(
        *mut fid_ep,
        *const fi_msg_atomic,
        *const fi_ioc,
        *mut *mut c_void,
        usize,
        *mut fi_ioc,
        *mut *mut c_void,
        usize,
        u64,
    ) -> isize,
    pub(crate) writevalid: unsafe extern "C" fn(*mut fid_ep, u32, u32, *mut usize) -> c_int,
    pub(crate) readwritevalid: unsafe extern "C" fn(*mut fid_ep, u32, u32, *mut usize) -> c_int,
    pub(crate) compwritevalid: unsafe extern "C" fn(*mut fid_ep, u32, u32, *mut usize) -> c_int,
}
