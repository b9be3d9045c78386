//! Endpoints are asked and told: names, options, flags, cancellation.

use core::ffi::{c_int, c_void};
use core::slice;

use limic::Endpoint as _;
use limic::raw::Requests;

use super::Endpoint;
use crate::address_vector::put_bytes;
use crate::names::Name;
use crate::node::Spare;
use crate::progress::{kind, name_of};
use crate::services::Service;
use crate::{ffi_guard, info, log, object};
use limic_ofi_abi::endpoint::fid_ep;
use limic_ofi_abi::errno::*;
use limic_ofi_abi::*;

pub(super) unsafe extern "C" fn control(
    fid: *mut fid,
    what: c_int,
    argument: *mut c_void,
) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C passes what it was given.
        let endpoint: &Endpoint = unsafe { object::object(fid) };
        let _turn = endpoint.domain.enter_alone();
        match what {
            command::ENABLE => endpoint.enable(),
            command::GETOPSFLAG | command::SETOPSFLAG => {
                // SAFETY: the argument of these commands is a word of flags.
                let flags = unsafe { argument.cast::<u64>().as_mut() }.ok_or(FI_EINVAL)?;
                let binding = match *flags & (FI_SEND | FI_RECV) {
                    FI_SEND => &endpoint.sends,
                    FI_RECV => &endpoint.receives,
                    _ => return Err(FI_EINVAL),
                };
                if what == command::GETOPSFLAG {
                    *flags = binding.default_flags();
                    return Ok(());
                }
                let wanted = *flags & !(FI_SEND | FI_RECV);
                if wanted & !info::OP_FLAGS != 0 {
                    return Err(FI_EBADFLAGS);
                }
                binding.set_default_flags(wanted);
                Ok(())
            }
            _ => Err(FI_ENOSYS),
        }
    })
}

/// `fi_cancel`: the operation ends with `FI_ECANCELED`, or as usual if it was too late.
pub(super) unsafe extern "C" fn cancel(fid: *mut fid, context: *mut c_void) -> isize {
    ffi_guard::size(|| {
        // SAFETY: C passes what it was given.
        let endpoint: &Endpoint = unsafe { object::object(fid) };
        let _turn = endpoint.turns.data();
        // What has ended is reported, so that a buffer for many messages is posted when it is
        // cancelled.
        endpoint.collect();
        // By the name of what is pending alone: a context may be a mere number, and what it pointed
        // to be gone.
        let watched = |node: *mut c_void, kind| endpoint.limic.watched(name_of(node, kind));
        let request = endpoint.posted_multi(context).or_else(|| {
            let spare = |spare: *mut Spare| watched(spare.cast(), kind::NODE);
            endpoint.pool.find(context, spare)
        });
        // The node of an operation that lends its memory lies in the context.
        let lent = endpoint.lends && context.addr() as u64 & kind::BITS == 0;
        let request = request.or_else(|| lent.then(|| watched(context, kind::NODE)).flatten());
        if let Some(request) = request {
            // It may be too late, which is no error.
            let _ = endpoint.limic.cancel(request);
        }
        endpoint.collect();
        Ok(0)
    })
}

pub(super) unsafe extern "C" fn getopt(
    fid: *mut fid,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C passes what it was given.
        let endpoint: &Endpoint = unsafe { object::object(fid) };
        let _turn = endpoint.turns.control();
        if (level, name) != (FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV) {
            return Err(FI_ENOPROTOOPT);
        }
        // SAFETY: C passes a length and as much room.
        unsafe {
            let len = len.as_mut().ok_or(FI_EINVAL)?;
            if core::mem::replace(len, size_of::<usize>()) < size_of::<usize>() || value.is_null() {
                return Err(FI_ETOOSMALL);
            }
            *value.cast::<usize>() = endpoint.least_room.get();
        }
        Ok(())
    })
}

pub(super) unsafe extern "C" fn setopt(
    fid: *mut fid,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C passes what it was given.
        let endpoint: &Endpoint = unsafe { object::object(fid) };
        let _turn = endpoint.turns.control();
        if (level, name) != (FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV) {
            log::info(&format_args!("option {name} of endpoints is not known"));
            return Err(FI_ENOPROTOOPT);
        }
        if value.is_null() || len != size_of::<usize>() {
            return Err(FI_EINVAL);
        }
        // SAFETY: C passes a number.
        endpoint.least_room.set(unsafe { *value.cast::<usize>() });
        Ok(())
    })
}

/// Queues have no fixed length.
pub(super) unsafe extern "C" fn size_left(_: *mut fid_ep) -> isize {
    info::QUEUE_SIZE as isize
}

impl Endpoint {
    /// Gives it a service, in place of one that it may have.
    pub(super) fn set_service(&self, name: &Name) -> Result<(), i32> {
        let Name::Service(service) = name else {
            // Those are limic's to choose.
            return Err(FI_EADDRNOTAVAIL);
        };
        let mut place = self.service.borrow_mut();
        if place.as_ref().is_none_or(|known| known.name != *service) {
            *place = Some(Service::open(service, self.limic.address())?);
        }
        Ok(())
    }
}

/// `fi_setname`: before the endpoint is enabled, and only services.
pub(super) unsafe extern "C" fn setname(fid: *mut fid, address: *mut c_void, len: usize) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C passes what it was given.
        let endpoint: &Endpoint = unsafe { object::object(fid) };
        let _turn = endpoint.turns.control();
        if endpoint.enabled.get() {
            return Err(FI_EOPBADSTATE);
        }
        if address.is_null() {
            return Err(FI_EINVAL);
        }
        // SAFETY: C passes an address of so many bytes.
        let address = unsafe { slice::from_raw_parts(address.cast(), len) };
        endpoint.set_service(&Name::within(address, endpoint.domain.text)?)
    })
}

pub(super) unsafe extern "C" fn getname(
    fid: *mut fid,
    address: *mut c_void,
    len: *mut usize,
) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C passes what it was given, a length, and as much room.
        unsafe {
            let endpoint: &Endpoint = object::object(fid);
            let _turn = endpoint.turns.control();
            // Not its service, which means another endpoint on another node.
            let name = Name::Address(endpoint.limic.address());
            put_bytes(&name.to_bytes(endpoint.domain.text), address, len)
        }
    })
}
