//! What `fi_getinfo` takes and gives.

use core::ffi::{c_char, c_int, c_void};

use super::fid;
use super::objects::{fid_domain, fid_fabric};

#[repr(C)]
pub(crate) struct fi_tx_attr {
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) op_flags: u64,
    pub(crate) msg_order: u64,
    pub(crate) comp_order: u64,
    pub(crate) inject_size: usize,
    pub(crate) size: usize,
    pub(crate) iov_limit: usize,
    pub(crate) rma_iov_limit: usize,
    pub(crate) tclass: u32,
}

#[repr(C)]
pub(crate) struct fi_rx_attr {
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) op_flags: u64,
    pub(crate) msg_order: u64,
    pub(crate) comp_order: u64,
    pub(crate) total_buffered_recv: usize,
    pub(crate) size: usize,
    pub(crate) iov_limit: usize,
}

#[repr(C)]
pub(crate) struct fi_ep_attr {
    pub(crate) r#type: u32,
    pub(crate) protocol: u32,
    pub(crate) protocol_version: u32,
    pub(crate) max_msg_size: usize,
    pub(crate) msg_prefix_size: usize,
    pub(crate) max_order_raw_size: usize,
    pub(crate) max_order_war_size: usize,
    pub(crate) max_order_waw_size: usize,
    pub(crate) mem_tag_format: u64,
    pub(crate) tx_ctx_cnt: usize,
    pub(crate) rx_ctx_cnt: usize,
    pub(crate) auth_key_size: usize,
    pub(crate) auth_key: *mut u8,
}

#[repr(C)]
pub(crate) struct fi_domain_attr {
    pub(crate) domain: *mut fid_domain,
    pub(crate) name: *mut c_char,
    pub(crate) threading: u32,
    pub(crate) control_progress: u32,
    pub(crate) data_progress: u32,
    pub(crate) resource_mgmt: u32,
    pub(crate) av_type: u32,
    pub(crate) mr_mode: c_int,
    pub(crate) mr_key_size: usize,
    pub(crate) cq_data_size: usize,
    pub(crate) cq_cnt: usize,
    pub(crate) ep_cnt: usize,
    pub(crate) tx_ctx_cnt: usize,
    pub(crate) rx_ctx_cnt: usize,
    pub(crate) max_ep_tx_ctx: usize,
    pub(crate) max_ep_rx_ctx: usize,
    pub(crate) max_ep_stx_ctx: usize,
    pub(crate) max_ep_srx_ctx: usize,
    pub(crate) cntr_cnt: usize,
    pub(crate) mr_iov_limit: usize,
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) auth_key: *mut u8,
    pub(crate) auth_key_size: usize,
    pub(crate) max_err_data: usize,
    pub(crate) mr_cnt: usize,
    pub(crate) tclass: u32,
}

#[repr(C)]
pub(crate) struct fi_fabric_attr {
    pub(crate) fabric: *mut fid_fabric,
    pub(crate) name: *mut c_char,
    pub(crate) prov_name: *mut c_char,
    pub(crate) prov_version: u32,
    pub(crate) api_version: u32,
}

#[repr(C)]
pub(crate) struct fi_info {
    pub(crate) next: *mut fi_info,
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) addr_format: u32,
    pub(crate) src_addrlen: usize,
    pub(crate) dest_addrlen: usize,
    pub(crate) src_addr: *mut c_void,
    pub(crate) dest_addr: *mut c_void,
    pub(crate) handle: *mut fid,
    pub(crate) tx_attr: *mut fi_tx_attr,
    pub(crate) rx_attr: *mut fi_rx_attr,
    pub(crate) ep_attr: *mut fi_ep_attr,
    pub(crate) domain_attr: *mut fi_domain_attr,
    pub(crate) fabric_attr: *mut fi_fabric_attr,
    pub(crate) nic: *mut c_void,
}
