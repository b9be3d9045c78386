//! Endpoints are opened and closed.

use core::cell::{Cell, RefCell};
use core::ffi::{c_int, c_void};
use core::slice;
use std::rc::Rc;
use std::sync::Arc;

use limic::raw::Runtime;
use limic::{Endpoint as _, HybridEndpoint, Tag};

use super::bind::{Binding, Counters, bind};
use super::leftovers;
use super::options::{cancel, control, getname, getopt, setname, setopt, size_left};
use super::{Endpoint, sort};
use crate::domain::Domain;
use crate::errors::logged_errno;
use crate::memory_region::Region;
use crate::messages::{tagged, untagged};
use crate::names::Name;
use crate::node::Pool;
use crate::object::{self, Head};
use crate::peer::Owned;
use crate::receipts::Receipts;
use crate::stats::Tally;
use crate::{atomic, ffi_guard, info, rma};
use limic_ofi_abi::endpoint::{fi_ops_cm, fi_ops_collective, fi_ops_ep, fid_ep};
use limic_ofi_abi::errno::*;
use limic_ofi_abi::info::fi_info;
use limic_ofi_abi::objects::fid_domain;
use limic_ofi_abi::*;

static OPS: fi_ops = fi_ops {
    close,
    bind,
    control,
    ..object::ops::<Endpoint>()
};

static EP_OPS: fi_ops_ep = fi_ops_ep {
    size: size_of::<fi_ops_ep>(),
    cancel,
    getopt,
    setopt,
    tx_ctx: ffi_guard::no_such_function,
    rx_ctx: ffi_guard::no_such_function,
    rx_size_left: size_left,
    tx_size_left: size_left,
};

static CM_OPS: fi_ops_cm = fi_ops_cm {
    size: size_of::<fi_ops_cm>(),
    setname,
    getname,
    getpeer: ffi_guard::no_such_function,
    connect: ffi_guard::no_such_function,
    listen: ffi_guard::no_such_function,
    accept: ffi_guard::no_such_function,
    reject: ffi_guard::no_such_function,
    shutdown: ffi_guard::no_such_function,
    join: ffi_guard::no_such_function,
};

static COLLECTIVE_OPS: fi_ops_collective = fi_ops_collective {
    size: size_of::<fi_ops_collective>(),
    calls: [ffi_guard::no_such_call; 11],
};

/// `fi_endpoint2`; no flag is known.
pub(crate) unsafe extern "C" fn open2(
    domain: *mut fid_domain,
    info: *mut fi_info,
    endpoint: *mut *mut fid_ep,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        return -FI_EBADFLAGS;
    }
    // SAFETY: handed on.
    unsafe { open(domain, info, endpoint, context) }
}

/// `fi_endpoint`.
pub(crate) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    info: *mut fi_info,
    endpoint: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C passes an info of this provider.
        let asked = unsafe { info.as_ref() }.ok_or(FI_EINVAL)?;
        if endpoint.is_null() {
            return Err(FI_EINVAL);
        }
        // SAFETY: as above.
        let kind = unsafe { asked.ep_attr.as_ref() }.map_or(FI_EP_UNSPEC, |attr| attr.r#type);
        if !matches!(kind, FI_EP_UNSPEC | FI_EP_RDM) {
            return Err(FI_EINVAL);
        }
        // SAFETY: attributes of an info of this provider, or null.
        let (tx, rx) = unsafe { (asked.tx_attr.as_ref(), asked.rx_attr.as_ref()) };
        let orders = tx.map_or(0, |attr| attr.msg_order) | rx.map_or(0, |attr| attr.msg_order);
        let tx = tx.map_or(0, |attr| attr.op_flags);
        let rx = rx.map_or(0, |attr| attr.op_flags);
        if (tx | rx) & !info::OP_FLAGS != 0 {
            return Err(FI_EBADFLAGS);
        }
        if orders & !(info::ORDER | info::ACCESS_ORDER) != 0 {
            return Err(FI_EINVAL);
        }
        // SAFETY: a domain of this provider.
        let domain: Arc<Domain> = unsafe { object::share(domain) };
        // SAFETY: an address of so many bytes, or null.
        let source = (!asked.src_addr.is_null() && asked.src_addrlen > 0)
            .then(|| unsafe { slice::from_raw_parts(asked.src_addr.cast(), asked.src_addrlen) });
        // Its form is the info's own, also where the domain has the other one.
        let text = asked.addr_format == FI_ADDR_STR;
        let source = source
            .map(|bytes| Name::or_unnamed(bytes, text))
            .transpose()?
            .flatten();
        let limic = HybridEndpoint::open().map_err(|error| logged_errno(&error))?;
        let caps = if asked.caps == 0 {
            info::caps()
        } else {
            asked.caps
        };
        let turns = domain.new_turns();
        let turn = domain.enter_alone();
        let mut object = Arc::new(Endpoint {
            head: Head::new(fid_ep {
                fid: object::fid_of::<Endpoint>(context, &OPS),
                ops: &EP_OPS,
                cm: &CM_OPS,
                msg: &untagged::OPS,
                rma: &rma::OPS,
                tagged: &tagged::OPS,
                atomic: &atomic::OPS,
                collective: &COLLECTIVE_OPS,
            }),
            limic,
            number: 0,
            caps,
            service: RefCell::default(),
            lends: asked.mode & FI_CONTEXT2 != 0,
            sends: Binding::new(tx),
            receives: Binding::new(rx),
            counters: Counters::default(),
            addresses: RefCell::default(),
            events: RefCell::default(),
            peers: RefCell::default(),
            positions: RefCell::default(),
            enabled: Cell::new(false),
            claims: RefCell::default(),
            least_room: Cell::new(64),
            multi: RefCell::default(),
            has_multi: Cell::new(false),
            unanswered: RefCell::default(),
            receipts: Receipts::default(),
            keeps_order: orders & info::ACCESS_ORDER != 0,
            heard_last: Cell::default(),
            said_last: Cell::default(),
            waiting: RefCell::default(),
            injected: Cell::new(0),
            injected_bytes: Cell::new(0),
            untaken: RefCell::default(),
            refused: RefCell::default(),
            owned: Owned::default(),
            tally: Tally::default(),
            turns,
            pool: Pool::new(),
            domain: Arc::clone(&domain),
        });
        // Before the domain knows it: it may be refused.
        if let Some(name) = source {
            object.set_service(&name)?;
        }
        let place = Arc::as_ptr(&object);
        let number = domain.add_endpoint(place).ok_or(FI_ENOMEM)?;
        // Nobody else has it yet.
        if let Some(object) = Arc::get_mut(&mut object) {
            object.number = number;
        }
        // Also if there is nothing to reach here: whoever asks gets an answer.
        object.limic.reserve_tags(Tag(sort::ASIDE), sort::MASK);
        object.choose_inbox();
        // A process that ends takes nothing from those that receive from anybody (fi_domain(3): an
        // RDM endpoint has no connections).
        object.limic.keep_any_source_receives();
        drop(turn);
        leftovers::add(place);
        // SAFETY: checked.
        unsafe { *endpoint = object::hand_out(object) };
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C closes what it was given, once.
        let endpoint: &Endpoint = unsafe { object::object(fid) };
        let place = core::ptr::from_ref(endpoint);
        leftovers::remove(place);
        let domain = Arc::clone(&endpoint.domain);
        let turn = domain.enter_alone();
        // Data calls that come too late are refused.
        endpoint.enabled.set(false);
        // Memory that is exposed there is taken back while peers can be asked: all at once, so that
        // waits for those that are stopped do not add up.
        for step in [Region::withdraw, Region::forget] {
            for region in domain.regions.borrow().values() {
                step(region, endpoint);
            }
        }
        if endpoint.caps & FI_RMA_EVENT != 0 {
            // Counters that outlive it count what peers have done until now.
            endpoint.hear_peers();
        }
        endpoint.leave_all();
        // An owner that starts a message of this endpoint later finds none.
        endpoint.forget_owned();
        drop(turn);
        // No other object knows it any more, and the application calls it no longer. So what was
        // sent goes out without a turn, for which others would wait. Then no operation of the
        // endpoint touches a buffer any more, but for the block of a split copy in the middle of
        // which its sender is stopped (docs/libfabric.md).
        endpoint.tally.print(endpoint);
        endpoint.limic.close();
        let turn = endpoint.turns.control();
        // An owner of its receives is told in a turn of the endpoint.
        endpoint.forget_pending();
        drop(turn);
        let turn = domain.enter_alone();
        // SAFETY: as above. Nothing else ever holds an endpoint.
        if let Some(Endpoint { limic, .. }) = unsafe { object::take_back(fid) } {
            let limic = Rc::new(limic);
            for region in domain.regions.borrow().values() {
                region.keep_closed(place, &limic);
            }
        }
        drop(turn);
        Ok(())
    })
}

impl Endpoint {
    /// Takes it out of all that knows it, in a turn of all objects: its queues and counters, and
    /// the domain.
    fn leave_all(&self) {
        for binding in [&self.sends, &self.receives] {
            if let Some(queue) = binding.queue.get() {
                queue.remove(self);
            }
        }
        self.leave_all_counters();
        for counter in self.counters.all() {
            counter.bound.remove(self);
        }
        self.domain.remove_endpoint(self.number);
        if let Some(auto) = &self.domain.auto {
            auto.remove(self);
        }
    }
}
