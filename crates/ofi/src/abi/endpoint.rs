//! Endpoints: their tables of functions, and the structures of the calls that take one.

use core::ffi::{c_int, c_void};

use super::atomic::fi_ops_atomic;
use super::{fi_addr_t, fid};

type Unused = unsafe extern "C" fn() -> c_int;

#[repr(C)]
pub(crate) struct fid_ep {
    pub(crate) fid: fid,
    pub(crate) ops: *const fi_ops_ep,
    pub(crate) cm: *const fi_ops_cm,
    pub(crate) msg: *const fi_ops_msg,
    pub(crate) rma: *const fi_ops_rma,
    pub(crate) tagged: *const fi_ops_tagged,
    pub(crate) atomic: *const fi_ops_atomic,
    pub(crate) collective: *const c_void,
}

#[repr(C)]
pub(crate) struct fi_ops_ep {
    pub(crate) size: usize,
    pub(crate) cancel: unsafe extern "C" fn(*mut fid, *mut c_void) -> isize,
    pub(crate) getopt:
        unsafe extern "C" fn(*mut fid, c_int, c_int, *mut c_void, *mut usize) -> c_int,
    pub(crate) setopt: unsafe extern "C" fn(*mut fid, c_int, c_int, *const c_void, usize) -> c_int,
    pub(crate) tx_ctx: Unused,
    pub(crate) rx_ctx: Unused,
    pub(crate) rx_size_left: unsafe extern "C" fn(*mut fid_ep) -> isize,
    pub(crate) tx_size_left: unsafe extern "C" fn(*mut fid_ep) -> isize,
}

#[repr(C)]
pub(crate) struct fi_ops_cm {
    pub(crate) size: usize,
    pub(crate) setname: unsafe extern "C" fn(*mut fid, *mut c_void, usize) -> c_int,
    pub(crate) getname: unsafe extern "C" fn(*mut fid, *mut c_void, *mut usize) -> c_int,
    pub(crate) getpeer: Unused,
    pub(crate) connect: Unused,
    pub(crate) listen: Unused,
    pub(crate) accept: Unused,
    pub(crate) reject: Unused,
    pub(crate) shutdown: Unused,
    pub(crate) join: Unused,
}

#[repr(C)]
pub(crate) struct fi_msg {
    pub(crate) msg_iov: *const libc::iovec,
    pub(crate) desc: *mut *mut c_void,
    pub(crate) iov_count: usize,
    pub(crate) addr: fi_addr_t,
    pub(crate) context: *mut c_void,
    pub(crate) data: u64,
}

#[repr(C)]
pub(crate) struct fi_msg_tagged {
    pub(crate) msg_iov: *const libc::iovec,
    pub(crate) desc: *mut *mut c_void,
    pub(crate) iov_count: usize,
    pub(crate) addr: fi_addr_t,
    pub(crate) tag: u64,
    pub(crate) ignore: u64,
    pub(crate) context: *mut c_void,
    pub(crate) data: u64,
}

#[repr(C)]
pub(crate) struct fi_rma_iov {
    pub(crate) addr: u64,
    pub(crate) len: usize,
    pub(crate) key: u64,
}

#[repr(C)]
pub(crate) struct fi_msg_rma {
    pub(crate) msg_iov: *const libc::iovec,
    pub(crate) desc: *mut *mut c_void,
    pub(crate) iov_count: usize,
    pub(crate) addr: fi_addr_t,
    pub(crate) rma_iov: *const fi_rma_iov,
    pub(crate) rma_iov_count: usize,
    pub(crate) context: *mut c_void,
    pub(crate) data: u64,
}

#[repr(C)]
pub(crate) struct fi_ops_msg {
    pub(crate) size: usize,
    pub(crate) recv: unsafe extern "C" fn(
        *mut fid_ep,
        *mut c_void,
        usize,
        *mut c_void,
        fi_addr_t,
        *mut c_void,
    ) -> isize,
    pub(crate) recvv: unsafe extern "C" fn(
        *mut fid_ep,
        *const libc::iovec,
        *mut *mut c_void,
        usize,
        fi_addr_t,
        *mut c_void,
    ) -> isize,
    pub(crate) recvmsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg, u64) -> isize,
    pub(crate) send: unsafe extern "C" fn(
        *mut fid_ep,
        *const c_void,
        usize,
        *mut c_void,
        fi_addr_t,
        *mut c_void,
    ) -> isize,
    pub(crate) sendv: unsafe extern "C" fn(
        *mut fid_ep,
        *const libc::iovec,
        *mut *mut c_void,
        usize,
        fi_addr_t,
        *mut c_void,
    ) -> isize,
    pub(crate) sendmsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg, u64) -> isize,
    pub(crate) inject: unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, fi_addr_t) -> isize,
    pub(crate) senddata: unsafe extern "C" fn(
        *mut fid_ep,
        *const c_void,
        usize,
        *mut c_void,
        u64,
        fi_addr_t,
        *mut c_void,
    ) -> isize,
    pub(crate) injectdata:
        unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, u64, fi_addr_t) -> isize,
}

#[repr(C)]
pub(crate) struct fi_ops_tagged {
    pub(crate) size: usize,
    pub(crate) recv: unsafe extern "C" fn(
        *mut fid_ep,
        *mut c_void,
        usize,
        *mut c_void,
        fi_addr_t,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
    pub(crate) recvv: unsafe extern "C" fn(
        *mut fid_ep,
        *const libc::iovec,
        *mut *mut c_void,
        usize,
        fi_addr_t,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
    pub(crate) recvmsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_tagged, u64) -> isize,
    pub(crate) send: unsafe extern "C" fn(
        *mut fid_ep,
        *const c_void,
        usize,
        *mut c_void,
        fi_addr_t,
        u64,
        *mut c_void,
    ) -> isize,
    pub(crate) sendv: unsafe extern "C" fn(
        *mut fid_ep,
        *const libc::iovec,
        *mut *mut c_void,
        usize,
        fi_addr_t,
        u64,
        *mut c_void,
    ) -> isize,
    pub(crate) sendmsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_tagged, u64) -> isize,
    pub(crate) inject:
        unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, fi_addr_t, u64) -> isize,
    pub(crate) senddata: unsafe extern "C" fn(
        *mut fid_ep,
        *const c_void,
        usize,
        *mut c_void,
        u64,
        fi_addr_t,
        u64,
        *mut c_void,
    ) -> isize,
    pub(crate) injectdata:
        unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, u64, fi_addr_t, u64) -> isize,
}

#[repr(C)]
pub(crate) struct fi_ops_rma {
    pub(crate) size: usize,
    pub(crate) read: unsafe extern "C" fn(
        *mut fid_ep,
        *mut c_void,
        usize,
        *mut c_void,
        fi_addr_t,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
    pub(crate) readv: unsafe extern "C" fn(
        *mut fid_ep,
        *const libc::iovec,
        *mut *mut c_void,
        usize,
        fi_addr_t,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
    pub(crate) readmsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_rma, u64) -> isize,
    pub(crate) write: unsafe extern "C" fn(
        *mut fid_ep,
        *const c_void,
        usize,
        *mut c_void,
        fi_addr_t,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
    pub(crate) writev: unsafe extern "C" fn(
        *mut fid_ep,
        *const libc::iovec,
        *mut *mut c_void,
        usize,
        fi_addr_t,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
    pub(crate) writemsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_rma, u64) -> isize,
    pub(crate) inject:
        unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, fi_addr_t, u64, u64) -> isize,
    pub(crate) writedata: unsafe extern "C" fn(
        *mut fid_ep,
        *const c_void,
        usize,
        *mut c_void,
        u64,
        fi_addr_t,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
    pub(crate) injectdata:
        unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, u64, fi_addr_t, u64, u64) -> isize,
}
