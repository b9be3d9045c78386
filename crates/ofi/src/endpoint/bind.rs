//! What is bound to an endpoint: an address vector, queues, counters; and its start.

use core::cell::{Cell, OnceCell, RefCell};
use core::ffi::c_int;
use std::collections::HashMap;
use std::sync::Arc;

use super::Endpoint;
use crate::address_vector::AddressVector;
use crate::completion_queue::Queue;
use crate::counter::Counter;
use crate::event_queue::EventQueue;
use crate::memory_region::AccessCounters;
use crate::peer::ReceiveContext;
use crate::{ffi_guard, object};
use limic_ofi_abi::errno::*;
use limic_ofi_abi::*;

/// Counters by kind of operation.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) send: RefCell<Option<Arc<Counter>>>,
    pub(crate) receive: RefCell<Option<Arc<Counter>>>,
    pub(crate) read: RefCell<Option<Arc<Counter>>>,
    pub(crate) write: RefCell<Option<Arc<Counter>>>,
    /// Whether there is any of these four.
    pub(crate) any: Cell<bool>,
    /// Of accesses through this endpoint, to whichever region.
    pub(crate) of_accesses: RefCell<AccessCounters>,
    /// The same by region, under limic's keys.
    pub(crate) of_regions: RefCell<HashMap<u64, AccessCounters>>,
}

impl Counters {
    /// Those of the endpoint itself.
    pub(super) fn all(&self) -> Vec<Arc<Counter>> {
        let own = [&self.send, &self.receive, &self.read, &self.write];
        let mut all: Vec<_> = own
            .iter()
            .filter_map(|place| place.borrow().clone())
            .collect();
        all.extend(self.of_accesses.borrow().all().cloned());
        all
    }

    /// Whether a counter is one of the endpoint itself.
    pub(crate) fn has(&self, counter: &Arc<Counter>) -> bool {
        self.all().iter().any(|one| Arc::ptr_eq(one, counter))
    }

    /// Whether the region under this key of limic's is watched here (`Region::watch`). It may have
    /// no counter.
    pub(crate) fn watches(&self, key: u64) -> bool {
        self.of_regions.borrow().contains_key(&key)
    }
}

/// A queue, and which operations are reported there.
pub(crate) struct Binding {
    pub(crate) queue: OnceCell<Arc<Queue>>,
    /// Default flags of operations, as the application gave them.
    flags: Cell<u64>,
    /// `FI_COMPLETION` if operations are reported whatever their flags say, else 0.
    always: Cell<u64>,
    /// What holds for calls without flags of their own: both of these.
    plain: Cell<u64>,
}

impl Binding {
    pub(super) fn new(flags: u64) -> Self {
        Self {
            queue: OnceCell::new(),
            flags: Cell::new(flags),
            always: Cell::new(FI_COMPLETION),
            plain: Cell::new(flags | FI_COMPLETION),
        }
    }

    pub(super) fn default_flags(&self) -> u64 {
        self.flags.get()
    }

    pub(super) fn set_default_flags(&self, flags: u64) {
        self.flags.set(flags);
        self.plain.set(flags | self.always.get());
    }

    /// Whether only operations are reported that ask for it.
    fn set_selective(&self, selective: bool) {
        self.always.set(if selective { 0 } else { FI_COMPLETION });
        self.set_default_flags(self.flags.get());
    }

    /// What holds for calls without flags; `FI_COMPLETION`: they are reported.
    #[inline(always)]
    pub(crate) fn plain(&self) -> u64 {
        self.plain.get()
    }

    /// What holds for a call with flags, which stand in for the default ones.
    #[inline(always)]
    pub(crate) fn with(&self, flags: u64) -> u64 {
        flags | self.always.get()
    }
}

pub(super) unsafe extern "C" fn bind(fid: *mut fid, other: *mut fid, flags: u64) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C passes what it was given.
        let endpoint: &Endpoint = unsafe { object::object(fid) };
        let _turn = endpoint.domain.enter_alone();
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
            class::SRX_CTX => {
                // SAFETY: as its class says.
                let context: Arc<ReceiveContext> = unsafe { object::share(other) };
                if !Arc::ptr_eq(&context.domain, &endpoint.domain) {
                    return Err(FI_EDOMAIN);
                }
                endpoint.receive_for(Arc::clone(&context))?;
                context.turns.join(&endpoint.turns);
            }
            // Nothing is ever reported there, but it cannot be closed before the endpoint.
            class::EQ => {
                // SAFETY: as its class says.
                let events: Arc<EventQueue> = unsafe { object::share(other) };
                endpoint.events.replace(Some(events));
            }
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
    if wanted.clone().any(|(_, it)| it.queue.get().is_some()) {
        return Err(FI_EINVAL);
    }
    queue.add(endpoint)?;
    queue.turns.join(&endpoint.turns);
    for (_, binding) in wanted {
        binding.queue.get_or_init(|| Arc::clone(queue));
        binding.set_selective(flags & FI_SELECTIVE_COMPLETION != 0);
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
    let of_peers = FI_REMOTE_READ | FI_REMOTE_WRITE;
    let own = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
    // What peers do to memory is told only to those that ask for it. An endpoint through which they
    // reach none has nothing to count.
    let told = endpoint.caps & FI_RMA_EVENT != 0 || !endpoint.uses_regions();
    let accepted = if told { own | of_peers } else { own };
    if flags == 0 || flags & !accepted != 0 {
        return Err(FI_EBADFLAGS);
    }
    let counted = if endpoint.uses_regions() {
        flags
    } else {
        flags & own
    };
    // Only a counter that has a place here is told when the endpoint is closed.
    if counted == 0 {
        return Ok(());
    }
    let wanted = kinds.iter().filter(|(bit, _)| counted & bit != 0);
    // A counter that is replaced would go on pointing to the endpoint when that is closed.
    if wanted.clone().any(|(_, place)| place.borrow().is_some()) {
        return Err(FI_EINVAL);
    }
    let mut of_accesses = counters.of_accesses.borrow().clone();
    of_accesses.add(counter, counted)?;
    counter.bound.add(endpoint)?;
    counter.turns.join(&endpoint.turns);
    for (_, place) in wanted {
        *place.borrow_mut() = Some(Arc::clone(counter));
    }
    counters.of_accesses.replace(of_accesses);
    if counted & own != 0 {
        counters.any.set(true);
    }
    if counted & of_peers != 0 {
        for region in endpoint.domain.regions.borrow().values() {
            if region.is_exposed(endpoint) {
                region.watch(endpoint)?;
            }
        }
    }
    Ok(())
}

impl Endpoint {
    pub(super) fn enable(&self) -> Result<(), i32> {
        if self.addresses.borrow().is_none() {
            return Err(FI_ENOAV);
        }
        let sends = self.sends.queue.get().is_some() || self.counters.any.get();
        let receives = self.receives.queue.get().is_some() || self.counters.any.get();
        // Reads, writes and atomics are reported to the queue of sends.
        let starts = self.caps & FI_SEND != 0
            || (self.uses_regions() && self.caps & (FI_READ | FI_WRITE) != 0);
        if (starts && !sends) || (self.caps & FI_RECV != 0 && !receives) {
            return Err(FI_ENOCQ);
        }
        if self.enabled.get() {
            return Ok(());
        }
        // Where a step fails, all can be tried again: what is exposed stays so.
        if self.uses_regions() {
            for region in self.domain.regions.borrow().values() {
                region.expose(self)?;
            }
        }
        if let Some(auto) = &self.domain.auto {
            // Not before: whoever knows the address already may ring, and nobody would answer.
            auto.add(self)?;
        }
        self.enabled.set(true);
        Ok(())
    }
}
