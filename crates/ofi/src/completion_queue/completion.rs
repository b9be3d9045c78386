//! A completion: what a queue keeps of an operation that is over.
//!
//! It is a copy. So the `fi_context2` that an application lent with an operation is the
//! application's again when the operation is over, whether or not its completion was read.

use core::ffi::c_void;

use crate::node::{Node, context_of, mark};
use limic_ofi_abi::entries::{fi_cq_err_entry, fi_cq_tagged_entry};
use limic_ofi_abi::*;

/// What the application calls the operation, and a copy of its [`Node`]. The first six words are
/// those of a completion in the longest format, in that order.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Completion {
    pub(crate) context: *mut c_void,
    /// Its mark `SPARE` means nothing here.
    pub(crate) node: Node,
}

const _: () = assert!(size_of::<Completion>() == 64, "one cache line");

impl Completion {
    /// Of an operation that is over.
    ///
    /// # Safety
    /// The node is alive.
    pub(crate) unsafe fn of(node: *mut Node) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            Self {
                context: context_of(node),
                node: *node,
            }
        }
    }

    /// Whether the operation failed.
    #[inline(always)]
    pub(super) const fn has_failed(&self) -> bool {
        self.node.flags & mark::FAILED != 0
    }

    /// The number of its endpoint.
    #[inline(always)]
    pub(super) const fn endpoint(&self) -> u16 {
        (self.node.flags >> mark::ENDPOINT_SHIFT) as u16
    }

    /// Who sent a message, or wrote with data, as the endpoint numbers its peers.
    #[inline(always)]
    pub(super) const fn source(&self) -> Option<u32> {
        if self.node.flags & (FI_RECV | FI_REMOTE_WRITE) == 0 {
            return None;
        }
        Some(self.node.peer)
    }

    /// In the longest format.
    #[inline(always)]
    pub(super) fn entry(&self) -> fi_cq_tagged_entry {
        // Each field is loaded by itself: most were stored so a moment ago, and a load of two would
        // wait until both stores are done, with all before them.
        // SAFETY: references to initialized fields.
        let load = |field: &u64| unsafe { core::ptr::read_volatile(field) };
        // SAFETY: as above.
        let (len, buf) = unsafe {
            (
                core::ptr::read_volatile(&self.node.len),
                core::ptr::read_volatile(&self.node.buf),
            )
        };
        fi_cq_tagged_entry {
            op_context: self.context,
            flags: self.node.flags & mark::PUBLIC,
            len,
            buf,
            data: load(&self.node.data),
            tag: load(&self.node.tag),
        }
    }

    /// That of an operation that failed.
    pub(super) fn error(&self) -> fi_cq_err_entry {
        fi_cq_err_entry {
            op_context: self.context,
            flags: self.node.flags & mark::PUBLIC,
            len: self.node.len,
            buf: self.node.buf,
            data: self.node.data,
            tag: self.node.tag,
            olen: self.node.rest as usize,
            err: self.node.error,
            prov_errno: self.node.error,
            err_data: core::ptr::null_mut(),
            err_data_size: 0,
        }
    }
}
