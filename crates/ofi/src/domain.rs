//! The domain: what endpoints, address vectors, queues, counters and memory regions are opened in.

use core::cell::{Cell, RefCell};
use core::ffi::{c_int, c_void};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::abi::errno::*;
use crate::abi::info::fi_info;
use crate::abi::objects::{fi_ops_domain, fid_domain, fid_fabric};
use crate::abi::*;
use crate::endpoint::Endpoint;
use crate::fabric::Fabric;
use crate::memory_region::{self, Region};
use crate::node::Pool;
use crate::object::{self, Head, Object};
use crate::{address_vector, atomic, completion_queue, counter, endpoint, ffi_guard, poll_set};

/// A domain.
#[repr(C)]
pub(crate) struct Domain {
    head: Head<fid_domain>,
    /// Held during every call about something in the domain, unless the application has promised
    /// that no two threads are in one at once (`FI_THREAD_DOMAIN`).
    lock: Option<Mutex<()>>,
    pub(crate) fabric: Arc<Fabric>,
    pub(crate) pool: Pool,
    /// Endpoints that are open, by number.
    endpoints: RefCell<Vec<Option<*const Endpoint>>>,
    /// Memory that peers may reach, by key.
    pub(crate) regions: RefCell<HashMap<u64, Arc<Region>>>,
    /// Keys and addresses are the provider's business (`FI_MR_BASIC`).
    pub(crate) basic_regions: bool,
    pub(crate) next_key: Cell<u64>,
    /// Endpoints of this node in the address vectors, itself included.
    neighbours: Cell<u32>,
    /// The thread that looked last for something that was not there; at first, the one that opened
    /// the domain.
    looked: Cell<libc::pthread_t>,
    /// Empty looks at a queue after which a thread gives way to others.
    patience: Cell<u32>,
}

// SAFETY: `repr(C)`, and the head comes first.
unsafe impl Object for Domain {
    const CLASS: usize = class::DOMAIN;
}

// SAFETY: everything that changes is touched only between `enter` and the end of the guard, under
// the lock or under the application's promise to serialise its calls.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

static OPS: fi_ops = object::ops::<Domain>();

static DOMAIN_OPS: fi_ops_domain = fi_ops_domain {
    size: size_of::<fi_ops_domain>(),
    av_open: address_vector::open,
    cq_open: completion_queue::open,
    endpoint: endpoint::open,
    scalable_ep: ffi_guard::no_such_function,
    cntr_open: counter::open,
    poll_open: poll_set::open,
    stx_ctx: ffi_guard::no_such_function,
    srx_ctx: ffi_guard::no_such_function,
    query_atomic: atomic::query,
    query_collective: ffi_guard::no_such_function,
    endpoint2: endpoint::open2,
};

/// Empty looks before giving way where every endpoint has a CPU: for what else runs there.
const RARELY: u32 = 1024;
/// The same where they have not: the one that is waited for is waiting for this CPU.
const OFTEN: u32 = 8;

impl Domain {
    /// Begins a call about something in the domain.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Option<MutexGuard<'_, ()>> {
        // The lock guards no invariant across a panic: see `border`.
        self.lock
            .as_ref()
            .map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The lock of such calls, if there is one.
    pub(crate) fn lock(&self) -> Option<&Mutex<()>> {
        self.lock.as_ref()
    }

    /// This thread is about to give its CPU to others.
    pub(crate) fn looks(&self) {
        self.looked.set(this_thread());
    }

    /// Whether this thread may be the only one that uses the domain.
    pub(crate) fn is_this_threads(&self) -> bool {
        self.looked.get() == this_thread()
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
        self.patience.get()
    }

    /// Whether this node has more endpoints than CPUs.
    #[inline(always)]
    pub(crate) fn is_crowded(&self) -> bool {
        self.patience.get() == OFTEN
    }

    /// Endpoints of this node have come or gone.
    pub(crate) fn count_neighbours(&self, change: i32) {
        let count = self.neighbours.get().saturating_add_signed(change);
        self.neighbours.set(count);
        let often = count > online_cpus();
        self.patience.set(if often { OFTEN } else { RARELY });
    }
}

fn this_thread() -> libc::pthread_t {
    // SAFETY: a plain question to the C library.
    unsafe { libc::pthread_self() }
}

fn online_cpus() -> u32 {
    // SAFETY: a plain question to the C library.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(count).unwrap_or(1).max(1)
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
        let attr = unsafe { info.as_ref().and_then(|info| info.domain_attr.as_ref()) };
        if domain.is_null() {
            return Err(FI_EINVAL);
        }
        let threading = attr.map_or(FI_THREAD_UNSPEC, |attr| attr.threading);
        let serial = threading == FI_THREAD_DOMAIN;
        let object = Arc::new(Domain {
            head: Head::new(fid_domain {
                fid: object::fid_of::<Domain>(context, &OPS),
                ops: &DOMAIN_OPS,
                mr: &memory_region::OPS,
            }),
            lock: (!serial).then(Mutex::default),
            // SAFETY: a fabric of this provider.
            fabric: unsafe { object::share(fabric) },
            pool: Pool::new(),
            endpoints: RefCell::default(),
            regions: RefCell::default(),
            basic_regions: attr.is_some_and(|attr| attr.mr_mode == FI_MR_BASIC),
            next_key: Cell::new(1),
            neighbours: Cell::new(0),
            looked: Cell::new(this_thread()),
            patience: Cell::new(RARELY),
        });
        // SAFETY: checked.
        unsafe { *domain = object::hand_out(object) };
        Ok(())
    })
}
