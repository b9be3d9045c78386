//! The domain: what endpoints, address vectors, queues, counters and memory regions are opened in.

use core::cell::{Cell, RefCell};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::collections::BTreeMap;
use std::sync::Arc;

use rustix::process::Pid;
use rustix::thread::sched_getaffinity;

use crate::alone::Alone;
use crate::auto_progress::AutoProgress;
use crate::endpoint::Endpoint;
use crate::fabric::Fabric;
use crate::memory_region::{self, Region};
use crate::object::{self, Head, Object};
use crate::turns::Turns;
use crate::{
    address_vector, atomic, completion_queue, counter, endpoint, ffi_guard, peer, poll_set,
};
use limic_ofi_abi::errno::*;
use limic_ofi_abi::info::fi_info;
use limic_ofi_abi::objects::{fi_ops_domain, fid_domain, fid_fabric};
use limic_ofi_abi::*;

/// A domain.
#[repr(C)]
pub(crate) struct Domain {
    head: Head<fid_domain>,
    /// Of all objects, if the application serialises its calls; else of control calls that may
    /// touch any of them.
    turns: Arc<Turns>,
    /// Those of the objects that have their own. Touched in a turn of the domain alone.
    of_objects: RefCell<Vec<Arc<Turns>>>,
    /// Of what data calls of different objects share here: the neighbours, and registered memory.
    pub(crate) shared_turns: Turns,
    /// Moves messages along while nobody calls.
    pub(crate) auto: Option<AutoProgress>,
    pub(crate) fabric: Arc<Fabric>,
    /// Endpoints that are open, by number. They come and go in turns of the domain alone.
    endpoints: RefCell<Vec<Option<*const Endpoint>>>,
    /// Memory that peers may reach, by key.
    pub(crate) regions: RefCell<BTreeMap<u64, Arc<Region>>>,
    /// Keys and addresses are the provider's business (`FI_MR_BASIC`).
    pub(crate) basic_regions: bool,
    pub(crate) next_key: Cell<u64>,
    /// Accesses of peers to regions can be counted (`FI_RMA_EVENT`).
    pub(crate) has_events: bool,
    /// Regions whose accesses are counted are enabled by the application (`FI_MR_RMA_EVENT`).
    pub(crate) enables_regions: bool,
    /// Addresses are text.
    pub(crate) text: bool,
    /// Endpoints of this node in the address vectors, itself included; one that is in two vectors
    /// counts twice.
    neighbours: Cell<u32>,
    /// CPUs for all of them.
    cpus: u32,
    /// Empty looks at a queue after which a thread gives way to others.
    patience: AtomicU32,
}

// SAFETY: `repr(C)`, and the head comes first.
unsafe impl Object for Domain {
    const CLASS: usize = class::DOMAIN;
}

// SAFETY: what changes and is no atomic is touched in turns of the domain, of all objects, or of
// what is shared; and two turns exclude each other, by the lock or by the application's promise to
// serialise its data calls.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

static OPS: fi_ops = fi_ops {
    close,
    ..object::ops::<Domain>()
};

static DOMAIN_OPS: fi_ops_domain = fi_ops_domain {
    size: size_of::<fi_ops_domain>(),
    av_open: address_vector::open,
    cq_open: completion_queue::open,
    endpoint: endpoint::open,
    scalable_ep: ffi_guard::no_such_function,
    cntr_open: counter::open,
    poll_open: poll_set::open,
    stx_ctx: ffi_guard::no_such_function,
    srx_ctx: peer::open,
    query_atomic: atomic::query,
    query_collective: ffi_guard::no_such_function,
    endpoint2: endpoint::open2,
};

/// Empty looks before giving way where every endpoint has a CPU: for what else runs there.
const RARELY: u32 = 1024;
/// The same where they have not: the one that is waited for is waiting for this CPU.
const OFTEN: u32 = 8;

impl Domain {
    /// The turns of a new object.
    pub(crate) fn new_turns(&self) -> Arc<Turns> {
        if self.is_serial() {
            return Arc::clone(&self.turns);
        }
        let turns = Arc::new(Turns::new(false));
        let _turn = self.turns.control();
        let mut of_objects = self.of_objects.borrow_mut();
        // Those whose objects are gone.
        of_objects.retain(|turns| Arc::strong_count(turns) > 1);
        of_objects.push(Arc::clone(&turns));
        turns
    }

    /// Whether data calls take no lock.
    #[inline(always)]
    pub(crate) fn is_serial(&self) -> bool {
        self.turns.is_serial()
    }

    /// Begins a control call that may touch everything in the domain.
    pub(crate) fn enter_alone(&self) -> Alone<'_> {
        let turn = self.turns.control();
        let of_objects = self.of_objects.borrow();
        Alone::new(turn, of_objects.iter().map(Arc::clone))
    }

    /// Calls `each` for all open endpoints, which stay open meanwhile. It takes their turns. Only
    /// where data calls take locks.
    pub(crate) fn visit_endpoints(&self, each: impl FnMut(&Endpoint)) {
        // As a data call, which keeps back for control calls: who visits again and again would
        // leave them no time.
        let _turn = self.turns.data();
        self.for_each_endpoint(each);
    }

    /// Gives an endpoint a number.
    pub(crate) fn add_endpoint(&self, endpoint: *const Endpoint) -> Option<u16> {
        let mut endpoints = self.endpoints.borrow_mut();
        let free = endpoints.iter().position(Option::is_none);
        let number = free.unwrap_or(endpoints.len());
        let short = u16::try_from(number).ok()?;
        if number == endpoints.len() {
            endpoints.push(None);
        }
        endpoints[number] = Some(endpoint);
        Some(short)
    }

    pub(crate) fn remove_endpoint(&self, number: u16) {
        if let Some(place) = self.endpoints.borrow_mut().get_mut(usize::from(number)) {
            *place = None;
        }
    }

    /// Calls `each` for all open endpoints.
    pub(crate) fn for_each_endpoint(&self, mut each: impl FnMut(&Endpoint)) {
        for endpoint in self.endpoints.borrow().iter().flatten() {
            // SAFETY: an endpoint takes itself out before it goes.
            each(unsafe { &**endpoint });
        }
    }

    /// Empty looks at a queue after which a thread gives way to others.
    #[inline(always)]
    pub(crate) fn patience(&self) -> u32 {
        self.patience.load(Relaxed)
    }

    /// Whether this node has more endpoints than CPUs.
    #[inline(always)]
    pub(crate) fn is_crowded(&self) -> bool {
        self.patience() == OFTEN
    }

    /// Endpoints of this node have come or gone.
    pub(crate) fn count_neighbours(&self, change: i32) {
        let _turn = self.shared_turns.part();
        let count = self.neighbours.get().saturating_add_signed(change);
        self.neighbours.set(count);
        let often = count > self.cpus;
        self.patience
            .store(if often { OFTEN } else { RARELY }, Relaxed);
    }
}

/// CPUs that the endpoints of this node may run on: those that this process may use, or the one
/// that started it, which knows of no binding to single ones.
fn allowed_cpus() -> u32 {
    cpus_of(None)
        .max(cpus_of(rustix::process::getppid()))
        .max(1)
}

fn cpus_of(process: Option<Pid>) -> u32 {
    sched_getaffinity(process).map_or(0, |set| set.count())
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C closes what it was given, once.
        unsafe {
            if object::is_shared::<Domain>(fid) {
                return Err(FI_EBUSY);
            }
            let domain: &Domain = object::object(fid);
            // In a forked child its thread may have been inside.
            drop(domain.enter_alone());
            if let Some(auto) = &domain.auto {
                auto.stop();
            }
            object::take_back::<Domain>(fid).map(drop).ok_or(FI_EBUSY)
        }
    })
}

/// `fi_domain2`; no flag is known.
pub(crate) unsafe extern "C" fn open2(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        return -FI_EBADFLAGS;
    }
    // SAFETY: handed on.
    unsafe { open(fabric, info, domain, context) }
}

/// `fi_domain`.
pub(crate) unsafe extern "C" fn open(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    context: *mut c_void,
) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C passes an info of this provider, whose attributes may be missing.
        let info = unsafe { info.as_ref() };
        // SAFETY: as above.
        let attr = info.and_then(|info| unsafe { info.domain_attr.as_ref() });
        if domain.is_null() {
            return Err(FI_EINVAL);
        }
        let text = info.is_some_and(|info| info.addr_format == FI_ADDR_STR);
        let moves = attr.is_some_and(|attr| attr.data_progress == FI_PROGRESS_AUTO);
        let auto = moves.then(AutoProgress::new).transpose()?;
        let threading = attr.map_or(FI_THREAD_UNSPEC, |attr| attr.threading);
        let serial = threading == FI_THREAD_DOMAIN && auto.is_none();
        let object = Arc::new(Domain {
            head: Head::new(fid_domain {
                fid: object::fid_of::<Domain>(context, &OPS),
                ops: &DOMAIN_OPS,
                mr: &memory_region::OPS,
            }),
            turns: Arc::new(Turns::new(serial)),
            of_objects: RefCell::default(),
            shared_turns: Turns::new(serial),
            auto,
            // SAFETY: a fabric of this provider.
            fabric: unsafe { object::share(fabric) },
            endpoints: RefCell::default(),
            regions: RefCell::default(),
            basic_regions: attr.is_some_and(|attr| attr.mr_mode == FI_MR_BASIC),
            next_key: Cell::new(1),
            has_events: info.is_some_and(|info| info.caps & FI_RMA_EVENT != 0),
            enables_regions: attr.is_some_and(|attr| attr.mr_mode & FI_MR_RMA_EVENT != 0),
            text,
            neighbours: Cell::new(0),
            cpus: allowed_cpus(),
            patience: AtomicU32::new(RARELY),
        });
        if let Some(auto) = &object.auto {
            // SAFETY: `close` stops it before the domain goes.
            unsafe { auto.start(Arc::as_ptr(&object))? };
        }
        // SAFETY: checked.
        unsafe { *domain = object::hand_out(object) };
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use rustix::thread::{CpuSet, sched_setaffinity};

    use super::*;

    #[test]
    fn cpus_that_nobody_may_use_do_not_count() {
        let all = sched_getaffinity(None).expect("a set");
        assert_eq!(
            allowed_cpus(),
            all.count(),
            "as the parent, and what it was started by"
        );
        let first = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu));
        let mut one = CpuSet::new();
        one.set(first.expect("this thread runs somewhere"));
        sched_setaffinity(None, &one).expect("allowed");
        assert_eq!(cpus_of(None), 1);
        // A binding of this process alone is none of its neighbours.
        assert_eq!(allowed_cpus(), all.count());
    }
}
