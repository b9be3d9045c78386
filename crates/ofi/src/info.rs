//! `fi_getinfo`: what this provider offers.

use core::ffi::{CStr, c_char, c_int, c_void};

use limic::ADDRESS_LEN;

use crate::hints::Hints;
use crate::names::{self, Name};
use crate::{ffi_guard, log, remote_comm};
use limic_ofi_abi::errno::*;
use limic_ofi_abi::info::{
    fi_domain_attr, fi_ep_attr, fi_fabric_attr, fi_info, fi_rx_attr, fi_tx_attr,
};
use limic_ofi_abi::*;

/// Everything that endpoints can do, wherever they are.
const CAPS: u64 = FI_MSG
    | FI_TAGGED
    | FI_RMA
    | FI_ATOMIC
    | FI_READ
    | FI_WRITE
    | FI_SEND
    | FI_RECV
    | FI_REMOTE_READ
    | FI_REMOTE_WRITE
    | FI_MULTI_RECV
    | FI_SOURCE
    | FI_DIRECTED_RECV
    | FI_AV_USER_ID
    | FI_LOCAL_COMM;

/// Everything that endpoints can do here.
pub(crate) fn caps() -> u64 {
    if remote_comm::no_other_node().is_none() {
        CAPS | FI_REMOTE_COMM
    } else {
        CAPS
    }
}

/// Orders that hold: sends among each other, and atomic operations among each other.
pub(crate) const ORDER: u64 = FI_ORDER_SAS
    | FI_ORDER_ATOMIC_RAR
    | FI_ORDER_ATOMIC_RAW
    | FI_ORDER_ATOMIC_WAR
    | FI_ORDER_ATOMIC_WAW;

/// Orders that all hold for an endpoint whose application asks for one of them.
pub(crate) const ACCESS_ORDER: u64 = FI_ORDER_RAR
    | FI_ORDER_RAW
    | FI_ORDER_WAR
    | FI_ORDER_WAW
    | FI_ORDER_RMA_RAR
    | FI_ORDER_RMA_RAW
    | FI_ORDER_RMA_WAR
    | FI_ORDER_RMA_WAW;

/// Flags of operations that are known.
pub(crate) const OP_FLAGS: u64 = FI_COMPLETION
    | FI_INJECT
    | FI_INJECT_COMPLETE
    | FI_TRANSMIT_COMPLETE
    | FI_DELIVERY_COMPLETE
    | FI_MATCH_COMPLETE
    | FI_MULTI_RECV
    | FI_REMOTE_CQ_DATA;

/// Most bytes of an injected message.
pub(crate) const INJECT_SIZE: usize = 4096;
/// Pieces of a memory region.
pub(crate) const MR_IOV_LIMIT: usize = 1;
/// Most bytes of a message.
pub(crate) const LONGEST: usize = 1 << 47;
/// Queues grow as they are used; this is what applications are told.
pub(crate) const QUEUE_SIZE: usize = 1024;
/// The 63 bits of a tag, in fields as libfabric's `FI_TAG_GENERIC`: the top bit is limic's.
pub(crate) const TAG_FORMAT: u64 = 0x5555_5555_5555_5555;
/// As many of each object as memory allows.
const MANY: usize = 65_535;

/// Bytes given to each structure: a newer libfabric copies its longer ones.
const GENEROUS: usize = 1024;

/// `fi_getinfo` of the provider.
pub(crate) unsafe extern "C" fn getinfo(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const fi_info,
    info: *mut *mut fi_info,
) -> c_int {
    ffi_guard::status(|| {
        if info.is_null() {
            return Err(FI_EINVAL);
        }
        // An endpoint of limic looks for another network, which this one is not.
        if limic_libfabric::is_asking() {
            return Err(FI_ENODATA);
        }
        // SAFETY: the core passes hints or null.
        let mut hints = unsafe { Hints::read(hints, version) };
        if let Some(why) = hints.refusal() {
            log::info(&format_args!("not what is asked for: {why}"));
            return Err(FI_ENODATA);
        }
        // SAFETY: C passes strings or null.
        let (node, service) = unsafe { (text_of(node)?, text_of(service)?) };
        if node.is_some() || service.is_some() {
            let is_own = flags & FI_SOURCE != 0;
            let name = named(node, service, flags).inspect_err(|_| {
                log::info(&format_args!(
                    "node {node:?}, service {service:?}: nobody here"
                ));
            })?;
            let bytes = name.map(|name| name.to_bytes(hints.text()));
            if is_own {
                hints.source = bytes;
            } else {
                // A node alone: somebody there, whose address is learnt otherwise.
                hints.target = Some(bytes.unwrap_or_else(|| names::unnamed(hints.text())));
            }
        }
        // SAFETY: checked.
        unsafe { *info = build(version, &hints).ok_or(FI_ENOMEM)? };
        Ok(())
    })
}

/// # Safety
/// `text` is null or a C string.
pub(crate) unsafe fn text_of<'a>(text: *const c_char) -> Result<Option<&'a str>, i32> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| FI_EINVAL)
}

/// The endpoint that a node and a service mean; with a node alone, nobody in particular.
///
/// # Errors
/// `FI_ENODATA`: nobody on this node.
pub(crate) fn named(
    node: Option<&str>,
    service: Option<&str>,
    flags: u64,
) -> Result<Option<Name>, i32> {
    if let (Some(node), None) = (node, service)
        && let Some(name) = Name::from_text(node)
    {
        return Ok(Some(name));
    }
    if node.is_some_and(|node| !names::is_here(node, flags & FI_NUMERICHOST != 0)) {
        return Err(FI_ENODATA);
    }
    match service {
        Some(service) => Name::service(service).map(Some).ok_or(FI_ENODATA),
        None => Ok(None),
    }
}

/// A copy of an address that libfabric frees, and its length.
fn copy_of(address: Option<&[u8]>) -> Option<(*mut c_void, usize)> {
    let Some(address) = address else {
        return Some((core::ptr::null_mut(), 0));
    };
    // SAFETY: a plain allocation, of that many bytes.
    unsafe {
        let copy = libc::malloc(address.len());
        if copy.is_null() {
            return None;
        }
        core::ptr::copy_nonoverlapping(address.as_ptr(), copy.cast(), address.len());
        Some((copy, address.len()))
    }
}

/// A zeroed structure that libfabric frees.
fn make<T>() -> Option<*mut T> {
    const { assert!(size_of::<T>() <= GENEROUS) };
    // SAFETY: a plain allocation; libfabric frees it with `free`.
    let memory = unsafe { libc::calloc(1, GENEROUS) };
    (!memory.is_null()).then_some(memory.cast())
}

fn copy_of_name(name: &CStr) -> *mut c_char {
    // SAFETY: a plain allocation; libfabric frees it with `free`.
    unsafe { libc::strdup(name.as_ptr()) }
}

fn build(version: u32, hints: &Hints) -> Option<*mut fi_info> {
    let (info, tx, rx) = (
        make::<fi_info>()?,
        make::<fi_tx_attr>()?,
        make::<fi_rx_attr>()?,
    );
    let (ep, domain) = (make::<fi_ep_attr>()?, make::<fi_domain_attr>()?);
    let fabric = make::<fi_fabric_attr>()?;
    // Without a service, what it is called is each endpoint's own matter.
    let unnamed = names::unnamed(hints.text());
    let source = copy_of(Some(hints.source.as_deref().unwrap_or(&unnamed)))?;
    let target = copy_of(hints.target.as_deref())?;
    let caps = hints.caps_given();
    let mode = hints.mode_given();
    // SAFETY: just made, zeroed, and long enough.
    unsafe {
        (*info).caps = caps;
        (*info).mode = mode;
        (*info).addr_format = hints.address_format();
        ((*info).src_addr, (*info).src_addrlen) = source;
        ((*info).dest_addr, (*info).dest_addrlen) = target;
        (*info).tx_attr = tx;
        (*info).rx_attr = rx;
        (*info).ep_attr = ep;
        (*info).domain_attr = domain;
        (*info).fabric_attr = fabric;

        let sending = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE | FI_SEND;
        (*tx).caps = caps & sending;
        (*tx).mode = mode;
        (*tx).op_flags = hints.tx_flags();
        (*tx).msg_order = hints.order();
        (*tx).inject_size = INJECT_SIZE;
        (*tx).size = hints.tx_size();
        (*tx).iov_limit = hints.iov_limit();
        (*tx).rma_iov_limit = hints.rma_iov_limit();
        (*tx).tclass = FI_TC_UNSPEC;

        (*rx).caps = caps
            & (FI_MSG
                | FI_TAGGED
                | FI_RMA
                | FI_ATOMIC
                | FI_RECV
                | FI_REMOTE_READ
                | FI_REMOTE_WRITE
                | FI_MULTI_RECV
                | FI_SOURCE
                | FI_RMA_EVENT
                | FI_DIRECTED_RECV);
        (*rx).mode = mode;
        (*rx).op_flags = hints.rx_flags();
        (*rx).msg_order = hints.order();
        (*rx).size = hints.rx_size();
        (*rx).iov_limit = hints.iov_limit();

        (*ep).r#type = FI_EP_RDM;
        (*ep).protocol = FI_PROTO_LIMIC;
        (*ep).protocol_version = 1;
        (*ep).max_msg_size = LONGEST;
        (*ep).max_order_raw_size = LONGEST;
        (*ep).max_order_war_size = LONGEST;
        (*ep).max_order_waw_size = LONGEST;
        (*ep).mem_tag_format = hints.tag_format();
        (*ep).tx_ctx_cnt = 1;
        (*ep).rx_ctx_cnt = 1;

        (*domain).name = copy_of_name(hints.own_name());
        (*domain).threading = hints.threading();
        (*domain).control_progress = hints.control_progress();
        (*domain).data_progress = hints.data_progress();
        (*domain).resource_mgmt = FI_RM_ENABLED;
        (*domain).av_type = hints.av_type();
        (*domain).mr_mode = hints.mr_mode(version);
        (*domain).mr_key_size = 8;
        (*domain).cq_data_size = 8;
        (*domain).cq_cnt = MANY;
        (*domain).ep_cnt = MANY;
        (*domain).tx_ctx_cnt = MANY;
        (*domain).rx_ctx_cnt = MANY;
        (*domain).max_ep_tx_ctx = 1;
        (*domain).max_ep_rx_ctx = 1;
        (*domain).cntr_cnt = MANY;
        (*domain).mr_iov_limit = MR_IOV_LIMIT;
        (*domain).caps = caps & (FI_LOCAL_COMM | FI_REMOTE_COMM);
        (*domain).mr_cnt = MANY;
        (*domain).tclass = FI_TC_UNSPEC;

        (*fabric).name = copy_of_name(hints.own_name());
        (*fabric).prov_version = fi_version(1, 0);
        (*fabric).api_version = version;
    }
    const { assert!(ADDRESS_LEN <= 64) };
    Some(info)
}
