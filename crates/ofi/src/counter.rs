//! Counters: how many operations of an endpoint have completed.

use core::cell::{Cell, RefCell};
use core::ffi::{c_int, c_void};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use crate::abi::entries::fi_cntr_attr;
use crate::abi::errno::*;
use crate::abi::objects::{fi_ops_cntr, fid_cntr, fid_domain};
use crate::abi::*;
use crate::domain::Domain;
use crate::endpoint::Endpoint;
use crate::ffi_guard;
use crate::object::{self, Head, Object};
use crate::wait::{self, WaitObject};

/// A counter.
#[repr(C)]
pub(crate) struct Counter {
    head: Head<fid_cntr>,
    pub(crate) domain: Arc<Domain>,
    pub(crate) value: Cell<u64>,
    pub(crate) errors: Cell<u64>,
    /// What the application has seen of the two.
    seen: Cell<(u64, u64)>,
    /// Endpoints whose operations it counts.
    endpoints: RefCell<Vec<*const Endpoint>>,
    wait: Option<WaitObject>,
    wait_kind: u32,
    /// Somebody sleeps on the descriptor, or is about to, and was not woken yet.
    armed: Cell<bool>,
}

// SAFETY: `repr(C)`, and the head comes first.
unsafe impl Object for Counter {
    const CLASS: usize = class::CNTR;
}

// SAFETY: touched only in calls that have entered its domain.
unsafe impl Send for Counter {}
// SAFETY: as above.
unsafe impl Sync for Counter {}

static OPS: fi_ops = fi_ops {
    control,
    ..object::ops::<Counter>()
};

static CNTR_OPS: fi_ops_cntr = fi_ops_cntr {
    size: size_of::<fi_ops_cntr>(),
    read,
    readerr,
    add,
    set,
    wait: wait_for,
    adderr,
    seterr,
};

impl Counter {
    /// One more operation is over.
    #[inline(always)]
    pub(crate) fn count(&self, failed: bool) {
        let cell = if failed { &self.errors } else { &self.value };
        cell.set(cell.get().wrapping_add(1));
        if self.armed.get() {
            self.wake();
        }
    }

    /// It has changed, and nobody may ring for that.
    #[cold]
    fn wake(&self) {
        self.armed.set(false);
        if let Some(wait) = &self.wait {
            wait.call();
        }
    }

    /// The application has changed it.
    fn was_set(&self) -> c_int {
        if self.armed.get() {
            self.wake();
        }
        0
    }

    /// An endpoint counts here from now on.
    pub(crate) fn add(&self, endpoint: &Endpoint) -> Result<(), i32> {
        let mut endpoints = self.endpoints.borrow_mut();
        if endpoints.contains(&core::ptr::from_ref(endpoint)) {
            return Ok(());
        }
        if let Some(wait) = &self.wait {
            let added = wait.add(endpoint.wake_fd(), endpoint.number);
            added.map_err(|errno| errno.raw_os_error())?;
        }
        endpoints.push(endpoint);
        Ok(())
    }

    /// An endpoint closes.
    pub(crate) fn remove(&self, endpoint: &Endpoint) {
        let gone = core::ptr::from_ref(endpoint);
        let mut endpoints = self.endpoints.borrow_mut();
        let before = endpoints.len();
        endpoints.retain(|known| *known != gone);
        if let (true, Some(wait)) = (endpoints.len() < before, &self.wait) {
            wait.remove(endpoint.wake_fd());
        }
    }

    /// Whether the application has seen all, and the descriptor becomes readable with the next
    /// change.
    pub(crate) fn may_sleep(&self) -> bool {
        self.progress();
        if self.has_news() {
            return false;
        }
        if let Some(wait) = &self.wait {
            wait.heard();
            self.armed.set(true);
        }
        let armed = self.endpoints.borrow().iter().all(|endpoint| {
            // SAFETY: an endpoint takes itself out before it goes.
            unsafe { (**endpoint).arm() }
        });
        // Arming makes progress once more.
        armed && !self.has_news()
    }

    pub(crate) fn has_news(&self) -> bool {
        self.seen.get() != self.state()
    }

    pub(crate) fn has_descriptor(&self) -> bool {
        self.wait.is_some()
    }

    /// Operations that succeeded and failed.
    pub(crate) fn state(&self) -> (u64, u64) {
        (self.value.get(), self.errors.get())
    }

    pub(crate) fn progress(&self) {
        for endpoint in self.endpoints.borrow().iter() {
            // SAFETY: an endpoint takes itself out before it goes.
            unsafe { (**endpoint).progress() };
        }
    }
}

/// `fi_cntr_open`.
pub(crate) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_cntr_attr,
    counter: *mut *mut fid_cntr,
    context: *mut c_void,
) -> c_int {
    ffi_guard::status(|| {
        if counter.is_null() {
            return Err(FI_EINVAL);
        }
        let (mut wait, mut wait_kind) = (None, FI_WAIT_UNSPEC);
        // SAFETY: C passes attributes or null.
        if let Some(attr) = unsafe { attr.as_ref() } {
            if attr.flags != 0 {
                return Err(FI_EBADFLAGS);
            }
            // Operations are counted, not their bytes.
            if attr.events != FI_CNTR_EVENTS_COMP {
                return Err(FI_ENOSYS);
            }
            (wait, wait_kind) = (WaitObject::asked(attr.wait_obj)?, attr.wait_obj);
        }
        let object = Arc::new(Counter {
            head: Head::new(fid_cntr {
                fid: object::fid_of::<Counter>(context, &OPS),
                ops: &CNTR_OPS,
            }),
            // SAFETY: a domain of this provider.
            domain: unsafe { object::share(domain) },
            value: Cell::new(0),
            errors: Cell::new(0),
            seen: Cell::new((0, 0)),
            endpoints: RefCell::default(),
            wait,
            wait_kind,
            armed: Cell::new(false),
        });
        // SAFETY: checked.
        unsafe { *counter = object::hand_out(object) };
        Ok(())
    })
}

/// A call about a counter, in its domain.
///
/// # Safety
/// `counter` is one of this provider.
unsafe fn with<T>(counter: *mut fid_cntr, otherwise: T, body: impl FnOnce(&Counter) -> T) -> T {
    ffi_guard::cross(otherwise, || {
        // SAFETY: the caller's promise.
        let counter: &Counter = unsafe { object::object(counter) };
        let _turn = counter.domain.enter();
        body(counter)
    })
}

unsafe extern "C" fn read(counter: *mut fid_cntr) -> u64 {
    // SAFETY: C passes what it was given; so below.
    unsafe {
        with(counter, 0, |counter| {
            counter.progress();
            counter.seen.set(counter.state());
            counter.value.get()
        })
    }
}

unsafe extern "C" fn readerr(counter: *mut fid_cntr) -> u64 {
    // SAFETY: as above.
    unsafe {
        with(counter, 0, |counter| {
            counter.progress();
            counter.seen.set(counter.state());
            counter.errors.get()
        })
    }
}

unsafe extern "C" fn add(counter: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: as above.
    unsafe {
        with(counter, -FI_EOTHER, |counter| {
            counter.value.set(counter.value.get().wrapping_add(value));
            counter.was_set()
        })
    }
}

unsafe extern "C" fn set(counter: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: as above.
    unsafe {
        with(counter, -FI_EOTHER, |counter| {
            counter.value.set(value);
            counter.was_set()
        })
    }
}

unsafe extern "C" fn adderr(counter: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: as above.
    unsafe {
        with(counter, -FI_EOTHER, |counter| {
            counter.errors.set(counter.errors.get().wrapping_add(value));
            counter.was_set()
        })
    }
}

unsafe extern "C" fn seterr(counter: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: as above.
    unsafe {
        with(counter, -FI_EOTHER, |counter| {
            counter.errors.set(value);
            counter.was_set()
        })
    }
}

/// Waits until the counter has reached `threshold`, an operation has failed, or the time (ms, -1
/// without end) is over.
unsafe extern "C" fn wait_for(counter: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C passes what it was given.
        let counter: &Counter = unsafe { object::object(counter) };
        let deadline = u64::try_from(timeout)
            .ok()
            .map(|ms| Instant::now() + Duration::from_millis(ms));
        let (mut patience, mut told) = (wait::Patience::new(), wait::Told::new());
        let errors = {
            let _turn = counter.domain.enter();
            counter.errors.get()
        };
        loop {
            {
                let _turn = counter.domain.enter();
                counter.progress();
                counter.seen.set(counter.state());
                if counter.value.get() >= threshold {
                    return Ok(());
                }
                if counter.errors.get() != errors {
                    return Err(FI_EAVAIL);
                }
                if counter.wait.is_some() && !counter.may_sleep() {
                    continue;
                }
                // SAFETY: an endpoint takes itself out before it goes.
                unsafe { told.look("fi_cntr_wait", &counter.endpoints.borrow()) };
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(FI_ETIMEDOUT);
            }
            match &counter.wait {
                Some(wait) => {
                    let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
                    wait.sleep(left.unwrap_or(wait::LONGEST).min(wait::LONGEST));
                }
                None => patience.step(),
            }
        }
    })
}

unsafe extern "C" fn control(fid: *mut fid, what: c_int, argument: *mut c_void) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C passes what it was given, and room for what the command gives.
        unsafe {
            let counter: &Counter = object::object(fid);
            wait::control(counter.wait.as_ref(), counter.wait_kind, what, argument)
        }
    })
}
