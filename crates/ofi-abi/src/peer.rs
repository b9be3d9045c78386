//! Peer mode (fi_peer(3)): one provider, the owner, has its completions written and its receives
//! served by others, its peers. The structures of versions 2.3 to 2.6; they may change from version
//! to version.

use core::ffi::{c_int, c_void};

use super::endpoint::fid_ep;
use super::entries::fi_cq_err_entry;
use super::{fi_addr_t, fid};

/// What the owner of a completion queue does for its peers.
#[repr(C)]
pub struct fi_ops_cq_owner {
    pub size: usize,
    pub write: unsafe extern "C" fn(
        *mut fid_peer_cq,
        *mut c_void,
        u64,
        usize,
        *mut c_void,
        u64,
        u64,
        fi_addr_t,
    ) -> isize,
    pub writeerr: unsafe extern "C" fn(*mut fid_peer_cq, *const fi_peer_cq_err_entry) -> isize,
}

#[repr(C)]
pub struct fid_peer_cq {
    pub fid: fid,
    pub owner_ops: *const fi_ops_cq_owner,
}

#[repr(C)]
pub struct fi_peer_cq_context {
    pub size: usize,
    pub cq: *mut fid_peer_cq,
}

/// `fi_cq_err_entry` as it is in these versions, which have one field more.
#[repr(C)]
pub struct fi_peer_cq_err_entry {
    pub entry: fi_cq_err_entry,
    pub src_addr: fi_addr_t,
}

/// What the owner of a counter does for its peers.
#[repr(C)]
pub struct fi_ops_cntr_owner {
    pub size: usize,
    pub inc: unsafe extern "C" fn(*mut fid_peer_cntr),
    pub incerr: unsafe extern "C" fn(*mut fid_peer_cntr),
}

#[repr(C)]
pub struct fid_peer_cntr {
    pub fid: fid,
    pub owner_ops: *const fi_ops_cntr_owner,
}

#[repr(C)]
pub struct fi_peer_cntr_context {
    pub size: usize,
    pub cntr: *mut fid_peer_cntr,
}

/// A receive, or a message that waits for one.
#[repr(C)]
pub struct fi_peer_rx_entry {
    pub srx: *mut fid_peer_srx,
    pub addr: fi_addr_t,
    pub msg_size: usize,
    pub tag: u64,
    pub cq_data: u64,
    pub flags: u64,
    pub context: *mut c_void,
    pub count: usize,
    pub desc: *mut *mut c_void,
    pub peer_context: *mut c_void,
    pub owner_context: *mut c_void,
    pub iov: *mut libc::iovec,
}

#[repr(C)]
pub struct fi_peer_match_attr {
    pub addr: fi_addr_t,
    pub msg_size: usize,
    pub tag: u64,
}

/// Finds the receive of a message.
pub type fi_peer_get = unsafe extern "C" fn(
    *mut fid_peer_srx,
    *mut fi_peer_match_attr,
    *mut *mut fi_peer_rx_entry,
) -> c_int;
/// Something happens to an entry.
pub type fi_peer_about = unsafe extern "C" fn(*mut fi_peer_rx_entry) -> c_int;

/// What the owner of a shared receive context does for its peers.
#[repr(C)]
pub struct fi_ops_srx_owner {
    pub size: usize,
    pub get_msg: fi_peer_get,
    pub get_tag: fi_peer_get,
    pub queue_msg: fi_peer_about,
    pub queue_tag: fi_peer_about,
    pub foreach_unspec_addr: unsafe extern "C" fn(
        *mut fid_peer_srx,
        unsafe extern "C" fn(*mut fi_peer_rx_entry) -> fi_addr_t,
    ),
    pub free_entry: unsafe extern "C" fn(*mut fi_peer_rx_entry),
}

/// What a peer does for the owner of a shared receive context.
#[repr(C)]
pub struct fi_ops_srx_peer {
    pub size: usize,
    pub start_msg: fi_peer_about,
    pub start_tag: fi_peer_about,
    pub discard_msg: fi_peer_about,
    pub discard_tag: fi_peer_about,
}

#[repr(C)]
pub struct fid_peer_srx {
    pub ep_fid: fid_ep,
    pub owner_ops: *const fi_ops_srx_owner,
    pub peer_ops: *const fi_ops_srx_peer,
}

#[repr(C)]
pub struct fi_peer_srx_context {
    pub size: usize,
    pub srx: *mut fid_peer_srx,
}
