//! Endpoints are asked and told: names, options, flags, cancellation.

use core::ffi::{c_int, c_void};

use limic::RawEndpoint;

use super::Endpoint;
use crate::abi::endpoint::fid_ep;
use crate::abi::errno::*;
use crate::abi::*;
use crate::address_vector::put_address;
use crate::node::NO_REQUEST;
use crate::{border, info, log, object};

pub(super) unsafe extern "C" fn control(
    fid: *mut fid,
    what: c_int,
    argument: *mut c_void,
) -> c_int {
    border::status(|| {
        // SAFETY: C passes what it was given.
        let endpoint: &Endpoint = unsafe { object::object(fid) };
        let _turn = endpoint.domain.enter();
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
    border::size(|| {
        // SAFETY: C passes what it was given.
        let endpoint: &Endpoint = unsafe { object::object(fid) };
        let _turn = endpoint.domain.enter();
        // What has ended is reported, so that a buffer for many messages is posted when it is cancelled.
        endpoint.collect();
        let multi = endpoint.multi.borrow().find(context);
        let node = match multi {
            Some(node) => node,
            None => {
                let spare = endpoint.domain.pool.find(context, endpoint.number);
                match spare {
                    Some(node) => node,
                    None if endpoint.lends && !context.is_null() => context.cast(),
                    None => return Ok(0),
                }
            }
        };
        // SAFETY: a spare node, or the memory that the application lent for the operation which it means.
        let request = unsafe { (*node).request };
        if request != NO_REQUEST {
            // Unknown requests are those of operations that are over.
            let _ = endpoint.limic.cancel(limic::RequestId(request));
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
    border::status(|| {
        // SAFETY: C passes what it was given.
        let endpoint: &Endpoint = unsafe { object::object(fid) };
        let _turn = endpoint.domain.enter();
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
    border::status(|| {
        // SAFETY: C passes what it was given.
        let endpoint: &Endpoint = unsafe { object::object(fid) };
        let _turn = endpoint.domain.enter();
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

/// Addresses are limic's to choose.
pub(super) unsafe extern "C" fn setname(_: *mut fid, _: *mut c_void, _: usize) -> c_int {
    -FI_ENOSYS
}

pub(super) unsafe extern "C" fn getname(
    fid: *mut fid,
    address: *mut c_void,
    len: *mut usize,
) -> c_int {
    border::status(|| {
        // SAFETY: C passes what it was given, a length, and as much room.
        unsafe {
            let endpoint: &Endpoint = object::object(fid);
            let _turn = endpoint.domain.enter();
            put_address(&endpoint.limic.address(), address, len)
        }
    })
}
