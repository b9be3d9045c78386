//! Counters: how many operations of an endpoint have completed.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::bound::Bound;
use crate::domain::Domain;
use crate::ffi_guard;
use crate::object::{self, Head, Object};
use crate::peer::{Asking, OwnersCounter, not_asking};
use crate::signal::Signals;
use crate::turns::{Turn, Turns};
use crate::wait::WaitObject;
use limic_ofi_abi::entries::fi_cntr_attr;
use limic_ofi_abi::errno::*;
use limic_ofi_abi::objects::{fi_ops_cntr, fid_cntr, fid_domain};
use limic_ofi_abi::*;

/// A counter.
#[repr(C)]
pub(crate) struct Counter {
    head: Head<fid_cntr>,
    pub(crate) domain: Arc<Domain>,
    pub(crate) turns: Arc<Turns>,
    pub(crate) value: Cell<u64>,
    pub(crate) errors: Cell<u64>,
    /// How often the two have changed: a counter that was set back may say what it said before.
    changes: Cell<u64>,
    /// The changes that the application has seen by reading it.
    seen: Cell<u64>,
    /// The application polls the descriptor by itself. No call sleeps on it any more: whoever does
    /// makes it unreadable again, perhaps before the application's thread has woken.
    polled: Cell<bool>,
    /// Another provider's counter that counts them too.
    owner: Option<OwnersCounter>,
    /// Changes that threads in `fi_cntr_wait` sleep for.
    signals: Signals,
    /// Endpoints whose operations it counts.
    pub(crate) bound: Bound,
}

// SAFETY: `repr(C)`, and the head comes first.
unsafe impl Object for Counter {
    const CLASS: usize = class::CNTR;
}

// SAFETY: touched only in its turns, or in those that they are joined to.
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

/// Of a counter that another provider owns: that one is read and set, this one makes progress.
static OWNED_OPS: fi_ops_cntr = fi_ops_cntr {
    size: size_of::<fi_ops_cntr>(),
    read: pass_on,
    readerr: pass_on,
    add: not_here,
    set: not_here,
    wait: no_wait,
    adderr: not_here,
    seterr: not_here,
};

/// `fi_cntr_read` of the owner.
unsafe extern "C" fn pass_on(counter: *mut fid_cntr) -> u64 {
    // SAFETY: C passes what it was given.
    let asked: &Counter = unsafe { object::object(counter) };
    if not_asking(&asked.domain).is_err() {
        return 0;
    }
    // SAFETY: as above.
    unsafe {
        with(counter, 0, |counter, turn| {
            let mut moved = counter.bound.progress();
            moved |= counter.bound.show_arrived();
            if !moved {
                turn.found_nothing();
            }
            if let Some(owner) = &counter.owner {
                let _asking = Asking::within(&counter.domain);
                owner.tell(counter.state());
            }
            0
        })
    }
}

unsafe extern "C" fn not_here(_: *mut fid_cntr, _: u64) -> c_int {
    -FI_ENOSYS
}

unsafe extern "C" fn no_wait(_: *mut fid_cntr, _: u64, _: c_int) -> c_int {
    -FI_ENOSYS
}

impl Counter {
    /// One more operation is over.
    #[inline(always)]
    pub(crate) fn count(&self, failed: bool) {
        let cell = if failed { &self.errors } else { &self.value };
        cell.set(cell.get().wrapping_add(1));
        self.changed();
    }

    /// So many operations of peers are over.
    pub(crate) fn count_many(&self, count: u64) {
        if count > 0 {
            self.value.set(self.value.get().wrapping_add(count));
            self.changed();
        }
    }

    #[inline(always)]
    fn changed(&self) {
        self.changes.set(self.changes.get().wrapping_add(1));
        if self.bound.wake() {
            self.signals.give();
        }
    }

    /// The application has changed it.
    fn was_set(&self) -> c_int {
        self.changed();
        0
    }

    /// Whether the application has seen all, and may poll the descriptor for the next change.
    pub(crate) fn may_be_polled(&self) -> bool {
        self.polled.set(true);
        self.may_sleep(self.seen.get())
    }

    /// Whether there were no more changes than these, and the descriptor becomes readable with the
    /// next one.
    fn may_sleep(&self, changes: u64) -> bool {
        self.progress();
        let quiet = || self.changes() == changes;
        quiet() && self.bound.arm(self.signals.all_have_heard()) && quiet()
    }

    pub(crate) fn has_news(&self) -> bool {
        self.seen.get() != self.changes()
    }

    /// Operations that succeeded and failed.
    pub(crate) fn state(&self) -> (u64, u64) {
        (self.value.get(), self.errors.get())
    }

    /// A number that is another one after each change.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.get()
    }

    pub(crate) fn progress(&self) {
        self.bound.progress();
    }

    /// The application asks what it says.
    fn ask(&self, turn: &Turn<'_>) {
        self.progress();
        if !self.has_news() {
            turn.found_nothing();
        }
        self.seen.set(self.changes());
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
        let (mut wait, mut kind) = (None, FI_WAIT_UNSPEC);
        let mut owner = None;
        // SAFETY: C passes attributes or null.
        if let Some(attr) = unsafe { attr.as_ref() } {
            if attr.flags & !FI_PEER != 0 {
                return Err(FI_EBADFLAGS);
            }
            // Operations are counted, not their bytes.
            if attr.events != FI_CNTR_EVENTS_COMP {
                return Err(FI_ENOSYS);
            }
            if attr.flags & FI_PEER != 0 {
                // SAFETY: with this flag the context says whose counter it is.
                owner = Some(unsafe { OwnersCounter::new(context)? });
                kind = FI_WAIT_NONE;
            } else {
                (wait, kind) = (WaitObject::asked(attr.wait_obj)?, attr.wait_obj);
            }
        }
        // SAFETY: a domain of this provider.
        let domain: Arc<Domain> = unsafe { object::share(domain) };
        let ops = if owner.is_some() {
            &OWNED_OPS
        } else {
            &CNTR_OPS
        };
        let object = Arc::new(Counter {
            head: Head::new(fid_cntr {
                fid: object::fid_of::<Counter>(context, &OPS),
                ops,
            }),
            turns: domain.new_turns(),
            domain,
            value: Cell::new(0),
            errors: Cell::new(0),
            changes: Cell::new(0),
            seen: Cell::new(0),
            polled: Cell::new(false),
            owner,
            signals: Signals::default(),
            bound: Bound::new(wait, kind),
        });
        // SAFETY: checked.
        unsafe { *counter = object::hand_out(object) };
        Ok(())
    })
}

/// A call about a counter, in a turn of it.
///
/// # Safety
/// `counter` is one of this provider.
unsafe fn with<T>(
    counter: *mut fid_cntr,
    otherwise: T,
    body: impl FnOnce(&Counter, &Turn<'_>) -> T,
) -> T {
    ffi_guard::cross(otherwise, || {
        // SAFETY: the caller's promise.
        let counter: &Counter = unsafe { object::object(counter) };
        let turn = counter.turns.data();
        body(counter, &turn)
    })
}

unsafe extern "C" fn read(counter: *mut fid_cntr) -> u64 {
    // SAFETY: C passes what it was given; so below.
    unsafe {
        with(counter, 0, |counter, turn| {
            counter.ask(turn);
            counter.value.get()
        })
    }
}

unsafe extern "C" fn readerr(counter: *mut fid_cntr) -> u64 {
    // SAFETY: as above.
    unsafe {
        with(counter, 0, |counter, turn| {
            counter.ask(turn);
            counter.errors.get()
        })
    }
}

unsafe extern "C" fn add(counter: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: as above.
    unsafe {
        with(counter, -FI_EOTHER, |counter, _| {
            counter.value.set(counter.value.get().wrapping_add(value));
            counter.was_set()
        })
    }
}

unsafe extern "C" fn set(counter: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: as above.
    unsafe {
        with(counter, -FI_EOTHER, |counter, _| {
            counter.value.set(value);
            counter.was_set()
        })
    }
}

unsafe extern "C" fn adderr(counter: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: as above.
    unsafe {
        with(counter, -FI_EOTHER, |counter, _| {
            counter.errors.set(counter.errors.get().wrapping_add(value));
            counter.was_set()
        })
    }
}

unsafe extern "C" fn seterr(counter: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: as above.
    unsafe {
        with(counter, -FI_EOTHER, |counter, _| {
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
        let (errors, mut since) = {
            let _turn = counter.turns.data();
            (counter.errors.get(), counter.signals.begin())
        };
        let look = |over: bool| {
            counter.progress();
            since = counter.signals.look(since);
            if counter.value.get() >= threshold {
                return Some(Ok(()));
            }
            if counter.errors.get() != errors {
                return Some(Err(FI_EAVAIL));
            }
            over.then_some(Err(FI_ETIMEDOUT))
        };
        let (bound, turns) = (&counter.bound, &counter.turns);
        let may_sleep = || {
            let on_descriptor = bound.has_descriptor() && !counter.polled.get();
            on_descriptor.then(|| counter.may_sleep(counter.changes()))
        };
        let waited = bound.wait("fi_cntr_wait", turns, timeout, look, may_sleep);
        let _turn = counter.turns.data();
        counter.signals.end(since);
        waited
    })
}

unsafe extern "C" fn control(fid: *mut fid, what: c_int, argument: *mut c_void) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C passes what it was given, and room for what the command gives.
        unsafe {
            let counter: &Counter = object::object(fid);
            counter.bound.control(what, argument)
        }
    })
}
