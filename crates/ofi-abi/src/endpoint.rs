//! Endpoints: their tables of functions, and the structures of the calls that take one.

use core::ffi::{c_int, c_void};

use super::atomic::fi_ops_atomic;
use super::{fi_addr_t, fid};

#[repr(C)]
pub struct fid_ep {
    pub fid: fid,
    pub ops: *const fi_ops_ep,
    pub cm: *const fi_ops_cm,
    pub msg: *const fi_ops_msg,
    pub rma: *const fi_ops_rma,
    pub tagged: *const fi_ops_tagged,
    pub atomic: *const fi_ops_atomic,
    pub collective: *const fi_ops_collective,
}

/// Nothing of it is there.
#[repr(C)]
pub struct fi_ops_collective {
    pub size: usize,
    pub calls: [unsafe extern "C" fn() -> isize; 11],
}

table! { fi_ops_ep {
    cancel(*mut fid, *mut c_void) -> isize;
    getopt(*mut fid, c_int, c_int, *mut c_void, *mut usize) -> c_int;
    setopt(*mut fid, c_int, c_int, *const c_void, usize) -> c_int;
    tx_ctx;
    rx_ctx;
    rx_size_left(*mut fid_ep) -> isize;
    tx_size_left(*mut fid_ep) -> isize;
}}

table! { fi_ops_cm {
    setname(*mut fid, *mut c_void, usize) -> c_int;
    getname(*mut fid, *mut c_void, *mut usize) -> c_int;
    getpeer;
    connect;
    listen;
    accept;
    reject;
    shutdown;
    join;
}}

#[repr(C)]
pub struct fi_msg {
    pub msg_iov: *const libc::iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: fi_addr_t,
    pub context: *mut c_void,
    pub data: u64,
}

#[repr(C)]
pub struct fi_msg_tagged {
    pub msg_iov: *const libc::iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: fi_addr_t,
    pub tag: u64,
    pub ignore: u64,
    pub context: *mut c_void,
    pub data: u64,
}

#[repr(C)]
pub struct fi_rma_iov {
    pub addr: u64,
    pub len: usize,
    pub key: u64,
}

#[repr(C)]
pub struct fi_msg_rma {
    pub msg_iov: *const libc::iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: fi_addr_t,
    pub rma_iov: *const fi_rma_iov,
    pub rma_iov_count: usize,
    pub context: *mut c_void,
    pub data: u64,
}

table! { fi_ops_msg {
    recv(*mut fid_ep, *mut c_void, usize, *mut c_void, fi_addr_t, *mut c_void) -> isize;
    recvv(*mut fid_ep, *const libc::iovec, *mut *mut c_void, usize, fi_addr_t,
        *mut c_void) -> isize;
    recvmsg(*mut fid_ep, *const fi_msg, u64) -> isize;
    send(*mut fid_ep, *const c_void, usize, *mut c_void, fi_addr_t, *mut c_void) -> isize;
    sendv(*mut fid_ep, *const libc::iovec, *mut *mut c_void, usize, fi_addr_t,
        *mut c_void) -> isize;
    sendmsg(*mut fid_ep, *const fi_msg, u64) -> isize;
    inject(*mut fid_ep, *const c_void, usize, fi_addr_t) -> isize;
    senddata(*mut fid_ep, *const c_void, usize, *mut c_void, u64, fi_addr_t, *mut c_void) -> isize;
    injectdata(*mut fid_ep, *const c_void, usize, u64, fi_addr_t) -> isize;
}}

table! { fi_ops_tagged {
    recv(*mut fid_ep, *mut c_void, usize, *mut c_void, fi_addr_t, u64, u64, *mut c_void) -> isize;
    recvv(*mut fid_ep, *const libc::iovec, *mut *mut c_void, usize, fi_addr_t, u64, u64,
        *mut c_void) -> isize;
    recvmsg(*mut fid_ep, *const fi_msg_tagged, u64) -> isize;
    send(*mut fid_ep, *const c_void, usize, *mut c_void, fi_addr_t, u64, *mut c_void) -> isize;
    sendv(*mut fid_ep, *const libc::iovec, *mut *mut c_void, usize, fi_addr_t, u64,
        *mut c_void) -> isize;
    sendmsg(*mut fid_ep, *const fi_msg_tagged, u64) -> isize;
    inject(*mut fid_ep, *const c_void, usize, fi_addr_t, u64) -> isize;
    senddata(*mut fid_ep, *const c_void, usize, *mut c_void, u64, fi_addr_t, u64,
        *mut c_void) -> isize;
    injectdata(*mut fid_ep, *const c_void, usize, u64, fi_addr_t, u64) -> isize;
}}

table! { fi_ops_rma {
    read(*mut fid_ep, *mut c_void, usize, *mut c_void, fi_addr_t, u64, u64, *mut c_void) -> isize;
    readv(*mut fid_ep, *const libc::iovec, *mut *mut c_void, usize, fi_addr_t, u64, u64,
        *mut c_void) -> isize;
    readmsg(*mut fid_ep, *const fi_msg_rma, u64) -> isize;
    write(*mut fid_ep, *const c_void, usize, *mut c_void, fi_addr_t, u64, u64,
        *mut c_void) -> isize;
    writev(*mut fid_ep, *const libc::iovec, *mut *mut c_void, usize, fi_addr_t, u64, u64,
        *mut c_void) -> isize;
    writemsg(*mut fid_ep, *const fi_msg_rma, u64) -> isize;
    inject(*mut fid_ep, *const c_void, usize, fi_addr_t, u64, u64) -> isize;
    writedata(*mut fid_ep, *const c_void, usize, *mut c_void, u64, fi_addr_t, u64, u64,
        *mut c_void) -> isize;
    injectdata(*mut fid_ep, *const c_void, usize, u64, fi_addr_t, u64, u64) -> isize;
}}
