//! Fabrics, domains, and what is opened in them, with their tables of functions.

use core::ffi::{c_char, c_int, c_void};

use super::atomic::fi_atomic_attr;
use super::endpoint::fid_ep;
use super::entries::{
    fi_av_attr, fi_cntr_attr, fi_cq_attr, fi_cq_err_entry, fi_eq_attr, fi_eq_err_entry, fi_mr_attr,
    fi_poll_attr,
};
use super::info::{fi_info, fi_rx_attr};
use super::{fi_addr_t, fid};

#[repr(C)]
pub struct fid_fabric {
    pub fid: fid,
    pub ops: *const fi_ops_fabric,
    pub api_version: u32,
}

table! { fi_ops_fabric {
    domain(*mut fid_fabric, *mut fi_info, *mut *mut fid_domain, *mut c_void) -> c_int;
    passive_ep;
    eq_open(*mut fid_fabric, *mut fi_eq_attr, *mut *mut fid_eq, *mut c_void) -> c_int;
    wait_open;
    trywait(*mut fid_fabric, *mut *mut fid, c_int) -> c_int;
    domain2(*mut fid_fabric, *mut fi_info, *mut *mut fid_domain, u64, *mut c_void) -> c_int;
}}

#[repr(C)]
pub struct fid_domain {
    pub fid: fid,
    pub ops: *const fi_ops_domain,
    pub mr: *const fi_ops_mr,
}

table! { fi_ops_domain {
    av_open(*mut fid_domain, *mut fi_av_attr, *mut *mut fid_av, *mut c_void) -> c_int;
    cq_open(*mut fid_domain, *mut fi_cq_attr, *mut *mut fid_cq, *mut c_void) -> c_int;
    endpoint(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, *mut c_void) -> c_int;
    scalable_ep;
    cntr_open(*mut fid_domain, *mut fi_cntr_attr, *mut *mut fid_cntr, *mut c_void) -> c_int;
    poll_open(*mut fid_domain, *mut fi_poll_attr, *mut *mut fid_poll) -> c_int;
    stx_ctx;
    srx_ctx(*mut fid_domain, *mut fi_rx_attr, *mut *mut fid_ep, *mut c_void) -> c_int;
    query_atomic(*mut fid_domain, u32, u32, *mut fi_atomic_attr, u64) -> c_int;
    query_collective;
    endpoint2(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, u64, *mut c_void) -> c_int;
}}

table! { fi_ops_mr {
    reg(*mut fid, *const c_void, usize, u64, u64, u64, u64, *mut *mut fid_mr, *mut c_void) -> c_int;
    regv(*mut fid, *const libc::iovec, usize, u64, u64, u64, u64, *mut *mut fid_mr,
        *mut c_void) -> c_int;
    regattr(*mut fid, *const fi_mr_attr, u64, *mut *mut fid_mr) -> c_int;
}}

#[repr(C)]
pub struct fid_mr {
    pub fid: fid,
    pub mem_desc: *mut c_void,
    pub key: u64,
}

#[repr(C)]
pub struct fid_av {
    pub fid: fid,
    pub ops: *const fi_ops_av,
}

table! { fi_ops_av {
    insert(*mut fid_av, *const c_void, usize, *mut fi_addr_t, u64, *mut c_void) -> c_int;
    insertsvc(*mut fid_av, *const c_char, *const c_char, *mut fi_addr_t, u64,
        *mut c_void) -> c_int;
    insertsym(*mut fid_av, *const c_char, usize, *const c_char, usize, *mut fi_addr_t, u64,
        *mut c_void) -> c_int;
    remove(*mut fid_av, *mut fi_addr_t, usize, u64) -> c_int;
    lookup(*mut fid_av, fi_addr_t, *mut c_void, *mut usize) -> c_int;
    straddr(*mut fid_av, *const c_void, *mut c_char, *mut usize) -> *const c_char;
    av_set;
    insert_auth_key;
    lookup_auth_key;
    set_user_id(*mut fid_av, fi_addr_t, fi_addr_t, u64) -> c_int;
}}

#[repr(C)]
pub struct fid_cq {
    pub fid: fid,
    pub ops: *const fi_ops_cq,
}

table! { fi_ops_cq {
    read(*mut fid_cq, *mut c_void, usize) -> isize;
    readfrom(*mut fid_cq, *mut c_void, usize, *mut fi_addr_t) -> isize;
    readerr(*mut fid_cq, *mut fi_cq_err_entry, u64) -> isize;
    sread(*mut fid_cq, *mut c_void, usize, *const c_void, c_int) -> isize;
    sreadfrom(*mut fid_cq, *mut c_void, usize, *mut fi_addr_t, *const c_void, c_int) -> isize;
    signal(*mut fid_cq) -> c_int;
    strerror(*mut fid_cq, c_int, *const c_void, *mut c_char, usize) -> *const c_char;
}}

#[repr(C)]
pub struct fid_cntr {
    pub fid: fid,
    pub ops: *const fi_ops_cntr,
}

table! { fi_ops_cntr {
    read(*mut fid_cntr) -> u64;
    readerr(*mut fid_cntr) -> u64;
    add(*mut fid_cntr, u64) -> c_int;
    set(*mut fid_cntr, u64) -> c_int;
    wait(*mut fid_cntr, u64, c_int) -> c_int;
    adderr(*mut fid_cntr, u64) -> c_int;
    seterr(*mut fid_cntr, u64) -> c_int;
}}

#[repr(C)]
pub struct fid_eq {
    pub fid: fid,
    pub ops: *const fi_ops_eq,
}

table! { fi_ops_eq {
    read(*mut fid_eq, *mut u32, *mut c_void, usize, u64) -> isize;
    readerr(*mut fid_eq, *mut fi_eq_err_entry, u64) -> isize;
    write(*mut fid_eq, u32, *const c_void, usize, u64) -> isize;
    sread(*mut fid_eq, *mut u32, *mut c_void, usize, c_int, u64) -> isize;
    strerror(*mut fid_eq, c_int, *const c_void, *mut c_char, usize) -> *const c_char;
}}

#[repr(C)]
pub struct fid_poll {
    pub fid: fid,
    pub ops: *const fi_ops_poll,
}

table! { fi_ops_poll {
    poll(*mut fid_poll, *mut *mut c_void, c_int) -> c_int;
    poll_add(*mut fid_poll, *mut fid, u64) -> c_int;
    poll_del(*mut fid_poll, *mut fid, u64) -> c_int;
}}
