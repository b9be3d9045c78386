//! Events of accesses (`FI_RMA_EVENT`): counters that are bound to a region count what peers do to
//! it. The engine tells of accesses (`Runtime::report_accesses`); what peers ask for by messages
//! (short writes with data, atomic operations) is told by who executes it.

use core::ffi::{c_int, c_void};
use std::sync::Arc;

use limic::Access;
use limic::raw::{Accesses, Runtime};

use super::{Region, limic_key};
use crate::counter::Counter;
use crate::endpoint::Endpoint;
use crate::ffi_guard;
use crate::object;
use limic_ofi_abi::errno::*;
use limic_ofi_abi::*;

/// Counters of what peers do to memory, by kind of access: to one region, or through one endpoint.
#[derive(Clone, Default)]
pub(crate) struct AccessCounters {
    reads: Option<Arc<Counter>>,
    writes: Option<Arc<Counter>>,
}

impl AccessCounters {
    /// Has a counter count the accesses that these flags of libfabric's say.
    ///
    /// # Errors
    /// `FI_EINVAL`: another counter counts some of them.
    pub(crate) fn add(&mut self, counter: &Arc<Counter>, flags: u64) -> Result<(), i32> {
        let places = [
            (FI_REMOTE_READ, &mut self.reads),
            (FI_REMOTE_WRITE, &mut self.writes),
        ];
        for (bit, place) in places {
            if flags & bit != 0 && place.replace(Arc::clone(counter)).is_some() {
                return Err(FI_EINVAL);
            }
        }
        Ok(())
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Counter>> {
        self.reads.iter().chain(&self.writes)
    }

    fn count(&self, accesses: Accesses) {
        if let Some(counter) = &self.reads {
            counter.count_many(accesses.reads);
        }
        if let Some(counter) = &self.writes {
            counter.count_many(accesses.writes);
        }
    }
}

impl Region {
    /// Binds a counter to it.
    fn bind_counter(&self, counter: &Arc<Counter>, flags: u64) -> Result<(), i32> {
        let domain = &self.domain;
        if !domain.has_events {
            return Err(FI_ENOSYS);
        }
        if !Arc::ptr_eq(&counter.domain, domain) {
            return Err(FI_EDOMAIN);
        }
        if flags == 0 || flags & !(FI_REMOTE_READ | FI_REMOTE_WRITE) != 0 {
            return Err(FI_EBADFLAGS);
        }
        // With this mode nothing is bound to a region that peers reach.
        if domain.enables_regions && self.enabled.get() {
            return Err(FI_EINVAL);
        }
        let before = self.counters.borrow().clone();
        let mut after = before.clone();
        after.add(counter, flags)?;
        self.counters.replace(after);
        let watched = self.watch_where_exposed();
        if watched.is_err() {
            self.counters.replace(before);
            // What is counted already is counted by the same counters as before.
            let _ = self.watch_where_exposed();
        }
        watched
    }

    /// Has the endpoints know its counters where it is exposed.
    fn watch_where_exposed(&self) -> Result<(), i32> {
        let mut watched = Ok(());
        self.domain.for_each_endpoint(|endpoint| {
            if watched.is_ok() && self.is_exposed(endpoint) {
                watched = self.watch(endpoint);
            }
        });
        watched
    }

    /// Has an endpoint tell of the accesses that somebody counts. A region that is not exposed
    /// there yet is watched first, so that no access is missed.
    pub(crate) fn watch(&self, endpoint: &Endpoint) -> Result<(), i32> {
        // The application did not say that this endpoint is to tell (fi_mr(3)).
        if endpoint.caps & FI_RMA_EVENT == 0 {
            return Ok(());
        }
        let counters = self.counters.borrow();
        for counter in counters.all() {
            if let Err(errno) = counter.bound.add(endpoint) {
                endpoint.leave_counters(&counters);
                return Err(errno);
            }
            counter.turns.join(&endpoint.turns);
        }
        let of_endpoint = &endpoint.counters;
        let of_all = of_endpoint.of_accesses.borrow();
        let reads = counters.reads.is_some() || of_all.reads.is_some();
        let writes = counters.writes.is_some() || of_all.writes.is_some();
        // What no peer may do is not told.
        let kinds = Access {
            read: reads && self.access.read,
            write: writes && self.access.write,
        };
        let key = limic_key(self.key);
        let before = of_endpoint
            .of_regions
            .borrow_mut()
            .insert(key, counters.clone());
        endpoint.limic.report_accesses(key, kinds);
        // The region's counters until now, if nothing else here uses them.
        endpoint.leave_counters(&before.unwrap_or_default());
        Ok(())
    }

    /// The region is no more: nobody tells of it.
    pub(super) fn unwatch(&self) {
        self.leave_endpoints();
        self.counters.take();
    }

    /// No endpoint tells of it.
    fn leave_endpoints(&self) {
        self.domain.for_each_endpoint(|endpoint| {
            let key = limic_key(self.key);
            if endpoint.enabled.get() && endpoint.counters.watches(key) {
                // What the endpoint has heard by now still counts.
                endpoint.hear_peers();
            }
            let watched = endpoint.counters.of_regions.borrow_mut().remove(&key);
            if let Some(counters) = watched {
                endpoint.limic.report_accesses(key, Access::NONE);
                endpoint.leave_counters(&counters);
            }
        });
    }

    /// Peers may reach it from now on. After an error they may not, and it can be tried again.
    fn enable(&self) -> Result<(), i32> {
        if self.enabled.get() {
            return Ok(());
        }
        // An attempt before this may have left it exposed, where a peer that guessed the key was in
        // the middle of an access.
        self.hide()?;
        self.enabled.set(true);
        let exposed = self.expose_everywhere();
        if exposed.is_err() {
            self.enabled.set(false);
            let _ = self.hide();
            self.leave_endpoints();
        }
        exposed
    }
}

impl Endpoint {
    /// These counters no longer count accesses through this endpoint, unless another region or the
    /// endpoint itself still uses them.
    fn leave_counters(&self, counters: &AccessCounters) {
        for counter in counters.all() {
            let of_regions = self.counters.of_regions.borrow();
            let mut others = of_regions.values().flat_map(AccessCounters::all);
            let used = others.any(|other| Arc::ptr_eq(other, counter));
            if !used && !self.counters.has(counter) {
                counter.bound.remove(self);
            }
        }
    }

    /// The endpoint is closed: no counter of a region knows it any more.
    pub(crate) fn leave_all_counters(&self) {
        let of_regions = self.counters.of_regions.take();
        for counter in of_regions.values().flat_map(AccessCounters::all) {
            counter.bound.remove(self);
        }
    }

    /// Peers have accessed the region under this key of limic's.
    #[cold]
    pub(crate) fn were_accessed(&self, key: u64, accesses: Accesses) {
        if let Some(counters) = self.counters.of_regions.borrow().get(&key) {
            counters.count(accesses);
        }
        self.counters.of_accesses.borrow().count(accesses);
    }

    /// A write was executed here that a peer has asked for.
    #[inline(always)]
    pub(crate) fn has_written_for_peer(&self, key: u64) {
        if self.caps & FI_RMA_EVENT != 0 {
            let once = Accesses {
                reads: 0,
                writes: 1,
            };
            self.were_accessed(limic_key(key), once);
        }
    }

    /// An atomic operation was executed here. For a region it counts by whether it changes memory
    /// (fi_mr(3)), for an endpoint by whether its peer gets what was there before (fi_endpoint(3)).
    #[inline(always)]
    pub(crate) fn has_executed_for_peer(&self, key: u64, fetches: bool, changes: bool) {
        if self.caps & FI_RMA_EVENT != 0 {
            self.count_atomic(key, fetches, changes);
        }
    }

    #[cold]
    fn count_atomic(&self, key: u64, fetches: bool, changes: bool) {
        let one_of = |is_write: bool| Accesses {
            reads: u64::from(!is_write),
            writes: u64::from(is_write),
        };
        if let Some(counters) = self.counters.of_regions.borrow().get(&limic_key(key)) {
            counters.count(one_of(changes));
        }
        self.counters.of_accesses.borrow().count(one_of(!fetches));
    }
}

/// `fi_mr_bind`. Endpoints need not be bound: a region is reachable through all of its domain.
pub(super) unsafe extern "C" fn bind(fid: *mut fid, other: *mut fid, flags: u64) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C passes an object of this provider.
        match unsafe { other.as_ref() }.map(|other| other.fclass) {
            Some(class::EP) => Ok(()),
            Some(class::CNTR) => {
                // SAFETY: C passes what it was given, and a counter, as its class says.
                let (region, counter): (&Region, Arc<Counter>) =
                    unsafe { (object::object(fid), object::share(other)) };
                let _turn = region.domain.enter_alone();
                region.bind_counter(&counter, flags)
            }
            _ => Err(FI_ENOSYS),
        }
    })
}

/// `fi_mr_enable`. A region works from the start unless it was registered to be enabled.
pub(super) unsafe extern "C" fn control(fid: *mut fid, what: c_int, _: *mut c_void) -> c_int {
    ffi_guard::status(|| {
        if what != command::ENABLE {
            return Err(FI_ENOSYS);
        }
        // SAFETY: C passes what it was given.
        let region: &Region = unsafe { object::object(fid) };
        let _turn = region.domain.enter_alone();
        region.enable()
    })
}
