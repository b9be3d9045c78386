//! Poll sets: several queues and counters asked at once.

use core::cell::RefCell;
use core::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::completion_queue::Queue;
use crate::counter::Counter;
use crate::domain::Domain;
use crate::ffi_guard;
use crate::object::{self, Head, Object};
use crate::turns::Turns;
use limic_ofi_abi::entries::fi_poll_attr;
use limic_ofi_abi::errno::*;
use limic_ofi_abi::objects::{fi_ops_poll, fid_domain, fid_poll};
use limic_ofi_abi::{class, fi_ops, fid};

enum Member {
    Queue(Arc<Queue>),
    /// With its changes when it was last reported.
    Counter(Arc<Counter>, u64),
}

/// A poll set.
#[repr(C)]
pub(crate) struct PollSet {
    head: Head<fid_poll>,
    domain: Arc<Domain>,
    turns: Arc<Turns>,
    members: RefCell<Vec<(*mut fid, Member)>>,
}

// SAFETY: `repr(C)`, and the head comes first.
unsafe impl Object for PollSet {
    const CLASS: usize = class::POLL;
}

// SAFETY: touched only in its turns, or in those that they are joined to.
unsafe impl Send for PollSet {}
// SAFETY: as above.
unsafe impl Sync for PollSet {}

static OPS: fi_ops = object::ops::<PollSet>();

static POLL_OPS: fi_ops_poll = fi_ops_poll {
    size: size_of::<fi_ops_poll>(),
    poll,
    poll_add,
    poll_del,
};

/// `fi_poll_open`.
pub(crate) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_poll_attr,
    set: *mut *mut fid_poll,
) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C passes attributes or null.
        let flags = unsafe { attr.as_ref() }.map_or(0, |attr| attr.flags);
        if set.is_null() || flags != 0 {
            return Err(FI_EINVAL);
        }
        // SAFETY: a domain of this provider.
        let domain: Arc<Domain> = unsafe { object::share(domain) };
        let object = Arc::new(PollSet {
            head: Head::new(fid_poll {
                fid: object::fid_of::<PollSet>(core::ptr::null_mut(), &OPS),
                ops: &POLL_OPS,
            }),
            turns: domain.new_turns(),
            domain,
            members: RefCell::default(),
        });
        // SAFETY: checked.
        unsafe { *set = object::hand_out(object) };
        Ok(())
    })
}

/// Gives the contexts of those that have something to tell.
unsafe extern "C" fn poll(set: *mut fid_poll, contexts: *mut *mut c_void, count: c_int) -> c_int {
    ffi_guard::cross(-FI_EOTHER, || {
        // SAFETY: C passes what it was given.
        let set: &PollSet = unsafe { object::object(set) };
        let turn = set.turns.data();
        let mut found = 0;
        for (fid, member) in set.members.borrow_mut().iter_mut() {
            let ready = match member {
                Member::Queue(queue) => {
                    queue.progress();
                    queue.has_any()
                }
                Member::Counter(counter, seen) => {
                    counter.progress();
                    // What there is no room for is reported the next time.
                    found < count && {
                        let now = counter.changes();
                        core::mem::replace(seen, now) != now
                    }
                }
            };
            if ready && found < count {
                // SAFETY: C passes room for `count` contexts; members are alive while they are
                // here.
                unsafe { *contexts.add(found as usize) = (**fid).context };
                found += 1;
            }
        }
        if found == 0 {
            turn.found_nothing();
        }
        found
    })
}

unsafe extern "C" fn poll_add(set: *mut fid_poll, fid: *mut fid, _: u64) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C passes what it was given; so below.
        let set: &PollSet = unsafe { object::object(set) };
        let _turn = set.domain.enter_alone();
        // SAFETY: as above.
        let member = unsafe {
            object::share_if::<Queue>(fid)
                .map(Member::Queue)
                .or_else(|| object::share_if::<Counter>(fid).map(|c| Member::Counter(c, 0)))
        };
        let member = member.ok_or(FI_EINVAL)?;
        let (domain, turns) = match &member {
            Member::Queue(queue) => (&queue.domain, &queue.turns),
            Member::Counter(counter, _) => (&counter.domain, &counter.turns),
        };
        if !Arc::ptr_eq(domain, &set.domain) {
            // It would be asked in a turn of this domain, beside calls of its own.
            return Err(FI_EDOMAIN);
        }
        turns.join(&set.turns);
        set.members.borrow_mut().push((fid, member));
        Ok(())
    })
}

unsafe extern "C" fn poll_del(set: *mut fid_poll, fid: *mut fid, _: u64) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C passes what it was given.
        let set: &PollSet = unsafe { object::object(set) };
        let _turn = set.turns.control();
        let mut members = set.members.borrow_mut();
        let at = members.iter().position(|(member, _)| *member == fid);
        members.swap_remove(at.ok_or(FI_EINVAL)?);
        Ok(())
    })
}
