//! What is bound to an endpoint: an address vector, queues, counters; and its start.

use core::cell::{Cell, RefCell};
use core::ffi::c_int;
use std::sync::Arc;

use super::Endpoint;
use crate::abi::errno::*;
use crate::abi::*;
use crate::address_vector::AddressVector;
use crate::completion_queue::Queue;
use crate::counter::Counter;
use crate::{border, object};

/// Counters by kind of operation.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) send: RefCell<Option<Arc<Counter>>>,
    pub(crate) receive: RefCell<Option<Arc<Counter>>>,
    pub(crate) read: RefCell<Option<Arc<Counter>>>,
    pub(crate) write: RefCell<Option<Arc<Counter>>>,
    /// Whether there is any of them.
    pub(crate) any: Cell<bool>,
}

/// A queue, and whether only operations that ask for it are reported.
#[derive(Default)]
pub(crate) struct Binding {
    pub(crate) queue: RefCell<Option<Arc<Queue>>>,
    pub(crate) selective: Cell<bool>,
    /// Default flags of operations.
    pub(crate) flags: Cell<u64>,
}

impl Binding {
    /// Whether calls without flags are reported.
    #[inline(always)]
    pub(crate) fn reports(&self) -> bool {
        !self.selective.get() || self.flags.get() & FI_COMPLETION != 0
    }

    /// Whether a call with these flags is reported.
    #[inline(always)]
    pub(crate) fn reports_with(&self, flags: u64) -> bool {
        !self.selective.get() || flags & FI_COMPLETION != 0
    }
}

pub(super) unsafe extern "C" fn bind(fid: *mut fid, other: *mut fid, flags: u64) -> c_int {
    border::status(|| {
        // SAFETY: C passes what it was given.
        let endpoint: &Endpoint = unsafe { object::object(fid) };
        let _turn = endpoint.domain.enter();
        // SAFETY: an object of this provider; so below.
        let class = unsafe { other.as_ref() }.ok_or(FI_EINVAL)?.fclass;
        match class {
            class::AV => {
                // SAFETY: as its class says.
                let vector: Arc<AddressVector> = unsafe { object::share(other) };
                if !Arc::ptr_eq(&vector.domain, &endpoint.domain) {
                    return Err(FI_EDOMAIN);
                }
                let mut addresses = endpoint.addresses.borrow_mut();
                if addresses.is_some() {
                    return Err(FI_EINVAL);
                }
                *addresses = Some(vector);
            }
            class::CQ => {
                // SAFETY: as its class says.
                let queue: Arc<Queue> = unsafe { object::share(other) };
                bind_queue(endpoint, &queue, flags)?;
            }
            class::CNTR => {
                // SAFETY: as its class says.
                let counter: Arc<Counter> = unsafe { object::share(other) };
                bind_counter(endpoint, &counter, flags)?;
            }
            // Nothing is ever reported there.
            class::EQ => {}
            _ => return Err(FI_EINVAL),
        }
        Ok(())
    })
}

fn bind_queue(endpoint: &Endpoint, queue: &Arc<Queue>, flags: u64) -> Result<(), i32> {
    if !Arc::ptr_eq(&queue.domain, &endpoint.domain) {
        return Err(FI_EDOMAIN);
    }
    let directions = FI_SEND | FI_RECV;
    if flags & directions == 0 || flags & !(directions | FI_SELECTIVE_COMPLETION) != 0 {
        return Err(FI_EBADFLAGS);
    }
    let bindings = [(FI_SEND, &endpoint.sends), (FI_RECV, &endpoint.receives)];
    let wanted = bindings.iter().filter(|(bit, _)| flags & bit != 0);
    if wanted.clone().any(|(_, it)| it.queue.borrow().is_some()) {
        return Err(FI_EINVAL);
    }
    queue.add(endpoint)?;
    for (_, binding) in wanted {
        *binding.queue.borrow_mut() = Some(Arc::clone(queue));
        binding.selective.set(flags & FI_SELECTIVE_COMPLETION != 0);
    }
    Ok(())
}

fn bind_counter(endpoint: &Endpoint, counter: &Arc<Counter>, flags: u64) -> Result<(), i32> {
    if !Arc::ptr_eq(&counter.domain, &endpoint.domain) {
        return Err(FI_EDOMAIN);
    }
    let counters = &endpoint.counters;
    let kinds = [
        (FI_SEND, &counters.send),
        (FI_RECV, &counters.receive),
        (FI_READ, &counters.read),
        (FI_WRITE, &counters.write),
    ];
    if flags == 0 || flags & !(FI_SEND | FI_RECV | FI_READ | FI_WRITE) != 0 {
        // What peers do to memory here is not counted: they do it without this side's help.
        return Err(FI_EBADFLAGS);
    }
    let wanted = kinds.iter().filter(|(bit, _)| flags & bit != 0);
    // A counter that is replaced would go on pointing to the endpoint when that is closed.
    if wanted.clone().any(|(_, place)| place.borrow().is_some()) {
        return Err(FI_EINVAL);
    }
    for (_, place) in wanted {
        *place.borrow_mut() = Some(Arc::clone(counter));
    }
    counters.any.set(true);
    let mut endpoints = counter.endpoints.borrow_mut();
    if !endpoints.contains(&core::ptr::from_ref(endpoint)) {
        endpoints.push(endpoint);
    }
    Ok(())
}

impl Endpoint {
    pub(super) fn enable(&self) -> Result<(), i32> {
        if self.addresses.borrow().is_none() {
            return Err(FI_ENOAV);
        }
        let sends = self.sends.queue.borrow().is_some() || self.counters.any.get();
        let receives = self.receives.queue.borrow().is_some() || self.counters.any.get();
        if (self.caps & FI_SEND != 0 && !sends) || (self.caps & FI_RECV != 0 && !receives) {
            return Err(FI_ENOCQ);
        }
        if self.enabled.replace(true) || !self.uses_regions() {
            return Ok(());
        }
        for region in self.domain.regions.borrow().values() {
            region.expose(self)?;
        }
        Ok(())
    }
}
