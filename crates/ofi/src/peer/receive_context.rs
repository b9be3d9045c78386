//! The shared receive context of an owner (`fi_srx_context` with `FI_PEER`).

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;
use std::sync::Arc;

use limic_ofi_abi::endpoint::{fi_ops_collective, fid_ep};
use limic_ofi_abi::errno::*;
use limic_ofi_abi::info::fi_rx_attr;
use limic_ofi_abi::objects::fid_domain;
use limic_ofi_abi::peer::*;
use limic_ofi_abi::*;

use super::not_asking;
use crate::domain::Domain;
use crate::endpoint::{self, Endpoint};
use crate::ffi_guard;
use crate::object::{self, Head, Object};
use crate::turns::Turns;

/// The context, as endpoints are bound to it.
#[repr(C)]
pub(crate) struct ReceiveContext {
    head: Head<fid_ep>,
    pub(crate) domain: Arc<Domain>,
    /// Those of all endpoints that are bound to it: one of them at a time calls the owner.
    pub(crate) turns: Arc<Turns>,
    /// What the owner has. It stays until this is closed, and so do its functions.
    pub(super) owner: NonNull<fid_peer_srx>,
    ops: *const fi_ops_srx_owner,
}

// SAFETY: `repr(C)`, and the head comes first.
unsafe impl Object for ReceiveContext {
    const CLASS: usize = class::SRX_CTX;
}

// SAFETY: nothing in it changes; what the owner has is the owner's to protect.
unsafe impl Send for ReceiveContext {}
// SAFETY: as above.
unsafe impl Sync for ReceiveContext {}

static OPS: fi_ops = object::ops::<ReceiveContext>();

/// Receives are posted at the owner: no function of a table of an endpoint is there. All tables are
/// a length and functions, of which this one has as many as the longest.
static NO_CALLS: fi_ops_collective = fi_ops_collective {
    size: size_of::<fi_ops_collective>(),
    calls: [ffi_guard::no_such_call; 11],
};

static PEER_OPS: fi_ops_srx_peer = fi_ops_srx_peer {
    size: size_of::<fi_ops_srx_peer>(),
    start_msg: start,
    start_tag: start,
    discard_msg: discard,
    discard_tag: discard,
};

impl ReceiveContext {
    /// What the owner does.
    pub(super) fn ops(&self) -> &fi_ops_srx_owner {
        // SAFETY: the owner keeps its functions while this is open.
        unsafe { &*self.ops }
    }
}

/// `fi_srx_context`.
pub(crate) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_rx_attr,
    endpoint: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    const WHAT: &str = "receive context";
    ffi_guard::status(|| {
        // SAFETY: C passes attributes or null.
        let flags = unsafe { attr.as_ref() }.map_or(0, |attr| attr.op_flags);
        if flags & FI_PEER == 0 {
            // Endpoints of limic share no receives of their own.
            return Err(FI_ENOSYS);
        }
        if endpoint.is_null() {
            return Err(FI_EINVAL);
        }
        // SAFETY: a domain of this provider.
        let domain: Arc<Domain> = unsafe { object::share(domain) };
        if domain.auto.is_some() {
            return Err(super::refused(WHAT, "its owner makes progress"));
        }
        // SAFETY: with this flag the context is such a structure, and what it points to is the
        // owner's, which keeps it until the context is closed.
        let (owner, ops) = unsafe {
            let object = |given: *const fi_peer_srx_context| (*given).srx;
            let (owner, ops) = super::given(WHAT, context, object, |owner| (*owner).owner_ops)?;
            (*owner.as_ptr()).peer_ops = &PEER_OPS;
            (owner, ops)
        };
        let none = &raw const NO_CALLS;
        let object = Arc::new(ReceiveContext {
            head: Head::new(fid_ep {
                fid: object::fid_of::<ReceiveContext>(core::ptr::null_mut(), &OPS),
                ops: none.cast(),
                cm: none.cast(),
                msg: none.cast(),
                rma: none.cast(),
                tagged: none.cast(),
                atomic: core::ptr::null(),
                collective: none,
            }),
            turns: domain.new_turns(),
            domain,
            owner,
            ops,
        });
        // SAFETY: checked.
        unsafe { *endpoint = object::hand_out(object) };
        Ok(())
    })
}

/// The owner has a receive for a message that was queued.
unsafe extern "C" fn start(entry: *mut fi_peer_rx_entry) -> c_int {
    // SAFETY: the owner passes an entry that was queued here, with its receive filled in.
    unsafe { with(entry, |endpoint| endpoint.start(entry)) }
}

/// Nobody wants a message that was queued.
unsafe extern "C" fn discard(entry: *mut fi_peer_rx_entry) -> c_int {
    // SAFETY: as above.
    unsafe { with(entry, |endpoint| endpoint.discard_entry(entry)) }
}

/// A call about an entry, in a turn of its endpoint.
///
/// # Safety
/// `entry` is null or an entry of the owner's, and nobody closes its endpoint meanwhile.
unsafe fn with(
    entry: *mut fi_peer_rx_entry,
    body: impl FnOnce(&Endpoint) -> Result<(), i32>,
) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: the caller's promise.
        let endpoint = unsafe { entry.as_ref().ok_or(FI_EINVAL)?.peer_context };
        let endpoint = endpoint.cast_const().cast::<Endpoint>();
        // Owners drop what is queued after they have closed the endpoint.
        if !endpoint::is_open(endpoint) {
            return Err(FI_EINVAL);
        }
        // SAFETY: it is an endpoint, and open.
        let endpoint = unsafe { &*endpoint };
        not_asking(&endpoint.domain)?;
        let _turn = endpoint.turns.data();
        body(endpoint)
    })
}
