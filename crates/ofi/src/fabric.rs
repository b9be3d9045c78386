//! The fabric: what domains and event queues are opened from.

use core::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::object::{self, Head, Object};
use crate::{domain, event_queue, ffi_guard, wait};
use limic_ofi_abi::errno::*;
use limic_ofi_abi::info::fi_fabric_attr;
use limic_ofi_abi::objects::{fi_ops_fabric, fid_fabric};
use limic_ofi_abi::{class, fi_ops, fi_version};

/// A fabric.
#[repr(C)]
pub(crate) struct Fabric {
    head: Head<fid_fabric>,
    /// The version of the interface that the application asked for.
    pub(crate) api: u32,
}

// SAFETY: `repr(C)`, and the head comes first.
unsafe impl Object for Fabric {
    const CLASS: usize = class::FABRIC;
}

// SAFETY: nothing in it changes.
unsafe impl Send for Fabric {}
// SAFETY: as above.
unsafe impl Sync for Fabric {}

static OPS: fi_ops = object::ops::<Fabric>();

static FABRIC_OPS: fi_ops_fabric = fi_ops_fabric {
    size: size_of::<fi_ops_fabric>(),
    domain: domain::open,
    passive_ep: ffi_guard::no_such_function,
    eq_open: event_queue::open,
    wait_open: ffi_guard::no_such_function,
    trywait: wait::trywait,
    domain2: domain::open2,
};

/// `fi_fabric`.
pub(crate) unsafe extern "C" fn open(
    attr: *mut fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    ffi_guard::status(|| {
        if fabric.is_null() {
            return Err(FI_EINVAL);
        }
        // SAFETY: the core passes the attributes of an info of this provider.
        let api = unsafe { attr.as_ref() }.map_or(0, |attr| attr.api_version);
        let object = Arc::new(Fabric {
            head: Head::new(fid_fabric {
                fid: object::fid_of::<Fabric>(context, &OPS),
                ops: &FABRIC_OPS,
                api_version: api,
            }),
            api: if api == 0 { fi_version(1, 17) } else { api },
        });
        // SAFETY: checked.
        unsafe { *fabric = object::hand_out(object) };
        Ok(())
    })
}
