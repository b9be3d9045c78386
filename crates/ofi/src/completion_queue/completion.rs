//! A completion: what a queue keeps of an operation that is over.
//!
//! It is a copy. So the `fi_context2` that an application lent with an operation is the
//! application's again when the operation is over, whether or not its completion was read.

use core::ffi::c_void;

use crate::node::{NO_PEER, Node, context_of, mark};
use limic_ofi_abi::entries::{fi_cq_err_entry, fi_cq_tagged_entry};
use limic_ofi_abi::*;

/// What the application calls the operation, and the fields of its [`Node`]. The first six are
/// those of a completion in the longest format, in that order.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Completion {
    pub(crate) context: *mut c_void,
    /// Completion flags, and the [`mark`]s of the node, of which `SPARE` means nothing here.
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) buf: *mut c_void,
    pub(crate) data: u64,
    pub(crate) tag: u64,
    pub(crate) peer: u32,
    pub(crate) error: i32,
    /// Bytes that did not fit.
    pub(crate) rest: u64,
}

const _: () = assert!(size_of::<Completion>() == 64, "one cache line");

impl Completion {
    pub(crate) const EMPTY: Self = Self {
        context: core::ptr::null_mut(),
        flags: 0,
        len: 0,
        buf: core::ptr::null_mut(),
        data: 0,
        tag: 0,
        peer: NO_PEER,
        error: 0,
        rest: 0,
    };

    /// Of an operation that is over.
    ///
    /// # Safety
    /// The node is alive.
    pub(crate) unsafe fn of(node: *mut Node) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            Self {
                context: context_of(node),
                flags: (*node).flags,
                len: (*node).len,
                buf: (*node).buf,
                data: (*node).data,
                tag: (*node).tag,
                peer: (*node).peer,
                error: (*node).error,
                rest: (*node).rest,
            }
        }
    }

    /// Whether the operation failed.
    #[inline(always)]
    pub(super) const fn has_failed(&self) -> bool {
        self.flags & mark::FAILED != 0
    }

    /// The number of its endpoint.
    #[inline(always)]
    pub(super) const fn endpoint(&self) -> u16 {
        (self.flags >> mark::ENDPOINT_SHIFT) as u16
    }

    /// Who sent a message, or wrote with data, as the endpoint numbers its peers.
    #[inline(always)]
    pub(super) const fn source(&self) -> Option<u32> {
        if self.flags & (FI_RECV | FI_REMOTE_WRITE) == 0 {
            return None;
        }
        Some(self.peer)
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
                core::ptr::read_volatile(&self.len),
                core::ptr::read_volatile(&self.buf),
            )
        };
        fi_cq_tagged_entry {
            op_context: self.context,
            flags: self.flags & mark::PUBLIC,
            len,
            buf,
            data: load(&self.data),
            tag: load(&self.tag),
        }
    }

    /// That of an operation that failed.
    pub(super) fn error(&self) -> fi_cq_err_entry {
        fi_cq_err_entry {
            op_context: self.context,
            flags: self.flags & mark::PUBLIC,
            len: self.len,
            buf: self.buf,
            data: self.data,
            tag: self.tag,
            olen: self.rest as usize,
            err: self.error,
            prov_errno: self.error,
            err_data: core::ptr::null_mut(),
            err_data_size: 0,
        }
    }
}
