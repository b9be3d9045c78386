//! Completions, and the attributes with which queues, counters and address vectors are opened.

use core::ffi::{c_char, c_int, c_void};

use super::fid;

#[repr(C)]
pub(crate) struct fi_cq_tagged_entry {
    pub(crate) op_context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) buf: *mut c_void,
    pub(crate) data: u64,
    pub(crate) tag: u64,
}

#[repr(C)]
pub(crate) struct fi_cq_err_entry {
    pub(crate) op_context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) buf: *mut c_void,
    pub(crate) data: u64,
    pub(crate) tag: u64,
    pub(crate) olen: usize,
    pub(crate) err: c_int,
    pub(crate) prov_errno: c_int,
    pub(crate) err_data: *mut c_void,
    /// Only for applications of version 1.5 and later.
    pub(crate) err_data_size: usize,
}

#[repr(C)]
pub(crate) struct fi_cq_attr {
    pub(crate) size: usize,
    pub(crate) flags: u64,
    pub(crate) format: u32,
    pub(crate) wait_obj: u32,
    pub(crate) signaling_vector: c_int,
    pub(crate) wait_cond: u32,
    pub(crate) wait_set: *mut c_void,
}

#[repr(C)]
pub(crate) struct fi_cntr_attr {
    pub(crate) events: u32,
    pub(crate) wait_obj: u32,
    pub(crate) wait_set: *mut c_void,
    pub(crate) flags: u64,
}

#[repr(C)]
pub(crate) struct fi_eq_attr {
    pub(crate) size: usize,
    pub(crate) flags: u64,
    pub(crate) wait_obj: u32,
    pub(crate) signaling_vector: c_int,
    pub(crate) wait_set: *mut c_void,
}

#[repr(C)]
pub(crate) struct fi_eq_err_entry {
    pub(crate) fid: *mut fid,
    pub(crate) context: *mut c_void,
    pub(crate) data: u64,
    pub(crate) err: c_int,
    pub(crate) prov_errno: c_int,
    pub(crate) err_data: *mut c_void,
    pub(crate) err_data_size: usize,
}

#[repr(C)]
pub(crate) struct fi_poll_attr {
    pub(crate) flags: u64,
}

#[repr(C)]
pub(crate) struct fi_av_attr {
    pub(crate) r#type: u32,
    pub(crate) rx_ctx_bits: c_int,
    pub(crate) count: usize,
    pub(crate) ep_per_node: usize,
    pub(crate) name: *const c_char,
    pub(crate) map_addr: *mut c_void,
    pub(crate) flags: u64,
}

#[repr(C)]
pub(crate) struct fi_mr_attr {
    pub(crate) mr_iov: *const libc::iovec,
    pub(crate) iov_count: usize,
    pub(crate) access: u64,
    pub(crate) offset: u64,
    pub(crate) requested_key: u64,
    pub(crate) context: *mut c_void,
    pub(crate) auth_key_size: usize,
    pub(crate) auth_key: *mut u8,
    pub(crate) iface: u32,
    pub(crate) device: u64,
}
