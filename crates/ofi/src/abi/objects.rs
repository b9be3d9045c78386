//! Fabrics, domains, and what is opened in them, with their tables of functions.

use core::ffi::{c_char, c_int, c_void};

use super::atomic::fi_atomic_attr;
use super::endpoint::fid_ep;
use super::entries::{
    fi_av_attr, fi_cntr_attr, fi_cq_attr, fi_cq_err_entry, fi_eq_attr, fi_eq_err_entry, fi_mr_attr,
    fi_poll_attr,
};
use super::info::fi_info;
use super::{fi_addr_t, fid};

/// An entry that this provider leaves to its stub for functions that it does not have.
type Unused = unsafe extern "C" fn() -> c_int;

#[repr(C)]
pub(crate) struct fid_fabric {
    pub(crate) fid: fid,
    pub(crate) ops: *const fi_ops_fabric,
    pub(crate) api_version: u32,
}

#[repr(C)]
pub(crate) struct fi_ops_fabric {
    pub(crate) size: usize,
    pub(crate) domain: unsafe extern "C" fn(
        *mut fid_fabric,
        *mut fi_info,
        *mut *mut fid_domain,
        *mut c_void,
    ) -> c_int,
    pub(crate) passive_ep: Unused,
    pub(crate) eq_open: unsafe extern "C" fn(
        *mut fid_fabric,
        *mut fi_eq_attr,
        *mut *mut fid_eq,
        *mut c_void,
    ) -> c_int,
    pub(crate) wait_open: Unused,
    pub(crate) trywait: unsafe extern "C" fn(*mut fid_fabric, *mut *mut fid, c_int) -> c_int,
    pub(crate) domain2: unsafe extern "C" fn(
        *mut fid_fabric,
        *mut fi_info,
        *mut *mut fid_domain,
        u64,
        *mut c_void,
    ) -> c_int,
}

#[repr(C)]
pub(crate) struct fid_domain {
    pub(crate) fid: fid,
    pub(crate) ops: *const fi_ops_domain,
    pub(crate) mr: *const fi_ops_mr,
}

#[repr(C)]
pub(crate) struct fi_ops_domain {
    pub(crate) size: usize,
    pub(crate) av_open: unsafe extern "C" fn(
        *mut fid_domain,
        *mut fi_av_attr,
        *mut *mut fid_av,
        *mut c_void,
    ) -> c_int,
    pub(crate) cq_open: unsafe extern "C" fn(
        *mut fid_domain,
        *mut fi_cq_attr,
        *mut *mut fid_cq,
        *mut c_void,
    ) -> c_int,
    pub(crate) endpoint:
        unsafe extern "C" fn(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, *mut c_void) -> c_int,
    pub(crate) scalable_ep: Unused,
    pub(crate) cntr_open: unsafe extern "C" fn(
        *mut fid_domain,
        *mut fi_cntr_attr,
        *mut *mut fid_cntr,
        *mut c_void,
    ) -> c_int,
    pub(crate) poll_open:
        unsafe extern "C" fn(*mut fid_domain, *mut fi_poll_attr, *mut *mut fid_poll) -> c_int,
    pub(crate) stx_ctx: Unused,
    pub(crate) srx_ctx: Unused,
    pub(crate) query_atomic:
        unsafe extern "C" fn(*mut fid_domain, u32, u32, *mut fi_atomic_attr, u64) -> c_int,
    pub(crate) query_collective: Unused,
    pub(crate) endpoint2: unsafe extern "C" fn(
        *mut fid_domain,
        *mut fi_info,
        *mut *mut fid_ep,
        u64,
        *mut c_void,
    ) -> c_int,
}

#[repr(C)]
pub(crate) struct fi_ops_mr {
    pub(crate) size: usize,
    pub(crate) reg: unsafe extern "C" fn(
        *mut fid,
        *const c_void,
        usize,
        u64,
        u64,
        u64,
        u64,
        *mut *mut fid_mr,
        *mut c_void,
    ) -> c_int,
    pub(crate) regv: unsafe extern "C" fn(
        *mut fid,
        *const libc::iovec,
        usize,
        u64,
        u64,
        u64,
        u64,
        *mut *mut fid_mr,
        *mut c_void,
    ) -> c_int,
    pub(crate) regattr:
        unsafe extern "C" fn(*mut fid, *const fi_mr_attr, u64, *mut *mut fid_mr) -> c_int,
}

#[repr(C)]
pub(crate) struct fid_mr {
    pub(crate) fid: fid,
    pub(crate) mem_desc: *mut c_void,
    pub(crate) key: u64,
}

#[repr(C)]
pub(crate) struct fid_av {
    pub(crate) fid: fid,
    pub(crate) ops: *const fi_ops_av,
}

#[repr(C)]
pub(crate) struct fi_ops_av {
    pub(crate) size: usize,
    pub(crate) insert: unsafe extern "C" fn(
        *mut fid_av,
        *const c_void,
        usize,
        *mut fi_addr_t,
        u64,
        *mut c_void,
    ) -> c_int,
    pub(crate) insertsvc: Unused,
    pub(crate) insertsym: Unused,
    pub(crate) remove: unsafe extern "C" fn(*mut fid_av, *mut fi_addr_t, usize, u64) -> c_int,
    pub(crate) lookup:
        unsafe extern "C" fn(*mut fid_av, fi_addr_t, *mut c_void, *mut usize) -> c_int,
    pub(crate) straddr:
        unsafe extern "C" fn(*mut fid_av, *const c_void, *mut c_char, *mut usize) -> *const c_char,
    pub(crate) av_set: Unused,
}

#[repr(C)]
pub(crate) struct fid_cq {
    pub(crate) fid: fid,
    pub(crate) ops: *const fi_ops_cq,
}

#[repr(C)]
pub(crate) struct fi_ops_cq {
    pub(crate) size: usize,
    pub(crate) read: unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize) -> isize,
    pub(crate) readfrom:
        unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize, *mut fi_addr_t) -> isize,
    pub(crate) readerr: unsafe extern "C" fn(*mut fid_cq, *mut fi_cq_err_entry, u64) -> isize,
    pub(crate) sread:
        unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize, *const c_void, c_int) -> isize,
    pub(crate) sreadfrom: unsafe extern "C" fn(
        *mut fid_cq,
        *mut c_void,
        usize,
        *mut fi_addr_t,
        *const c_void,
        c_int,
    ) -> isize,
    pub(crate) signal: unsafe extern "C" fn(*mut fid_cq) -> c_int,
    pub(crate) strerror: unsafe extern "C" fn(
        *mut fid_cq,
        c_int,
        *const c_void,
        *mut c_char,
        usize,
    ) -> *const c_char,
}

#[repr(C)]
pub(crate) struct fid_cntr {
    pub(crate) fid: fid,
    pub(crate) ops: *const fi_ops_cntr,
}

#[repr(C)]
pub(crate) struct fi_ops_cntr {
    pub(crate) size: usize,
    pub(crate) read: unsafe extern "C" fn(*mut fid_cntr) -> u64,
    pub(crate) readerr: unsafe extern "C" fn(*mut fid_cntr) -> u64,
    pub(crate) add: unsafe extern "C" fn(*mut fid_cntr, u64) -> c_int,
    pub(crate) set: unsafe extern "C" fn(*mut fid_cntr, u64) -> c_int,
    pub(crate) wait: unsafe extern "C" fn(*mut fid_cntr, u64, c_int) -> c_int,
    pub(crate) adderr: unsafe extern "C" fn(*mut fid_cntr, u64) -> c_int,
    pub(crate) seterr: unsafe extern "C" fn(*mut fid_cntr, u64) -> c_int,
}

#[repr(C)]
pub(crate) struct fid_eq {
    pub(crate) fid: fid,
    pub(crate) ops: *const fi_ops_eq,
}

#[repr(C)]
pub(crate) struct fi_ops_eq {
    pub(crate) size: usize,
    pub(crate) read: unsafe extern "C" fn(*mut fid_eq, *mut u32, *mut c_void, usize, u64) -> isize,
    pub(crate) readerr: unsafe extern "C" fn(*mut fid_eq, *mut fi_eq_err_entry, u64) -> isize,
    pub(crate) write: unsafe extern "C" fn(*mut fid_eq, u32, *const c_void, usize, u64) -> isize,
    pub(crate) sread:
        unsafe extern "C" fn(*mut fid_eq, *mut u32, *mut c_void, usize, c_int, u64) -> isize,
    pub(crate) strerror: unsafe extern "C" fn(
        *mut fid_eq,
        c_int,
        *const c_void,
        *mut c_char,
        usize,
    ) -> *const c_char,
}

#[repr(C)]
pub(crate) struct fid_poll {
    pub(crate) fid: fid,
    pub(crate) ops: *const fi_ops_poll,
}

#[repr(C)]
pub(crate) struct fi_ops_poll {
    pub(crate) size: usize,
    pub(crate) poll: unsafe extern "C" fn(*mut fid_poll, *mut *mut c_void, c_int) -> c_int,
    pub(crate) poll_add: unsafe extern "C" fn(*mut fid_poll, *mut fid, u64) -> c_int,
    pub(crate) poll_del: unsafe extern "C" fn(*mut fid_poll, *mut fid, u64) -> c_int,
}
