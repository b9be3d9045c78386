//! Endpoints (`FI_EP_RDM`): opened, bound, enabled, asked, closed. Each is one endpoint of limic.

use core::cell::{Cell, RefCell};
use core::ffi::{c_int, c_void};
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use limic::raw::ClaimId;
use limic::{HybridEndpoint, Peer, RawEndpoint, Tag};

use crate::abi::endpoint::{fi_ops_cm, fi_ops_ep, fid_ep};
use crate::abi::errno::*;
use crate::abi::info::fi_info;
use crate::abi::objects::fid_domain;
use crate::abi::*;
use crate::address_vector::{AddressVector, put_address};
use crate::completion_queue::Queue;
use crate::counter::Counter;
use crate::domain::Domain;
use crate::errors::reported;
use crate::fabric::no_ops_open;
use crate::node::{NO_REQUEST, Node, UNNAMED, mark};
use crate::object::{self, Head, Object};
use crate::stats::Tally;
use crate::{atomic, border, info, log, message, rma, tagged};

/// What the tags of limic's messages say beside an application's tag.
pub(crate) mod sort {
    /// 0: a tagged message; its other bits are the application's tag.
    pub(crate) const NOT_TAGGED: u64 = 1 << 63;
    /// An untagged message.
    pub(crate) const UNTAGGED: u64 = NOT_TAGGED;
    /// What endpoints say to each other.
    pub(crate) const ASIDE: u64 = 0b11 << 62;
    /// The bits that tell untagged messages from all others.
    pub(crate) const MASK: u64 = 0b11 << 62;
}

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

/// An endpoint.
#[repr(C)]
pub(crate) struct Endpoint {
    head: Head<fid_ep>,
    pub(crate) domain: Arc<Domain>,
    pub(crate) limic: HybridEndpoint,
    pub(crate) myself: Peer,
    pub(crate) number: u16,
    pub(crate) caps: u64,
    /// The application lends a `fi_context2` with each operation.
    pub(crate) lends: bool,
    pub(crate) sends: Binding,
    pub(crate) receives: Binding,
    pub(crate) counters: Counters,
    addresses: RefCell<Option<Arc<AddressVector>>>,
    /// The peer at each position of the address vector, and the position of each peer.
    peers: RefCell<Vec<u32>>,
    positions: RefCell<Vec<fi_addr_t>>,
    pub(crate) enabled: Cell<bool>,
    /// Messages that were found by `FI_PEEK | FI_CLAIM`, by context.
    pub(crate) claims: RefCell<HashMap<usize, ClaimId>>,
    /// Bytes of a multi-receive under which it is given back.
    pub(crate) least_room: Cell<usize>,
    /// Multi-receives that are posted.
    pub(crate) multi: RefCell<Vec<*mut crate::node::Spare>>,
    /// Tells the answers to atomic operations from each other.
    pub(crate) atomics: Cell<u32>,
    /// Copies of injected messages that are not sent yet.
    pub(crate) injected: Cell<u32>,
    pub(crate) tally: Tally,
}

// SAFETY: `repr(C)`, and the head comes first.
unsafe impl Object for Endpoint {
    const CLASS: usize = class::EP;
}

// SAFETY: touched only in calls that have entered its domain.
unsafe impl Send for Endpoint {}
// SAFETY: as above.
unsafe impl Sync for Endpoint {}

static OPS: fi_ops = fi_ops {
    size: size_of::<fi_ops>(),
    close,
    bind,
    control,
    ops_open: no_ops_open,
    tostr: None,
    ops_set: None,
};

static EP_OPS: fi_ops_ep = fi_ops_ep {
    size: size_of::<fi_ops_ep>(),
    cancel,
    getopt,
    setopt,
    tx_ctx: border::no_such_function,
    rx_ctx: border::no_such_function,
    rx_size_left: size_left,
    tx_size_left: size_left,
};

static CM_OPS: fi_ops_cm = fi_ops_cm {
    size: size_of::<fi_ops_cm>(),
    setname,
    getname,
    getpeer: border::no_such_function,
    connect: border::no_such_function,
    listen: border::no_such_function,
    accept: border::no_such_function,
    reject: border::no_such_function,
    shutdown: border::no_such_function,
    join: border::no_such_function,
};

/// No peer yet.
const UNKNOWN: u32 = u32::MAX;

impl Endpoint {
    /// The peer at a position of the address vector.
    #[inline(always)]
    pub(crate) fn peer(&self, address: fi_addr_t) -> Result<Peer, i32> {
        let known = self.peers.borrow().get(address as usize).copied();
        match known {
            Some(peer) if peer != UNKNOWN => Ok(Peer::from_index(peer)),
            _ => self.find_peer(address),
        }
    }

    #[cold]
    fn find_peer(&self, address: fi_addr_t) -> Result<Peer, i32> {
        let addresses = self.addresses.borrow();
        let vector = addresses.as_ref().ok_or(FI_ENOAV)?;
        let found = vector.address(address).ok_or(FI_EINVAL)?;
        let peer = self
            .limic
            .connect(&found.to_bytes())
            .map_err(|error| reported(&error))?;
        let mut peers = self.peers.borrow_mut();
        if peers.len() <= address as usize {
            peers.resize(address as usize + 1, UNKNOWN);
        }
        peers[address as usize] = peer.index();
        Ok(peer)
    }

    /// The position of a peer in the address vector, if it stands there.
    pub(crate) fn address_of(&self, peer: u32) -> fi_addr_t {
        let mut positions = self.positions.borrow_mut();
        let place = peer as usize;
        if let Some(known) = positions.get(place)
            && *known != UNNAMED
        {
            return *known;
        }
        let addresses = self.addresses.borrow();
        let Ok(address) = self.limic.peer_address(Peer::from_index(peer)) else {
            return UNNAMED;
        };
        let found = addresses.as_ref().and_then(|all| all.position(&address));
        let Some(found) = found else { return UNNAMED };
        if positions.len() <= place {
            positions.resize(place + 1, UNNAMED);
        }
        positions[place] = found;
        found
    }

    /// The mark of this endpoint on its nodes.
    #[inline(always)]
    pub(crate) fn mark(&self) -> u64 {
        u64::from(self.number) << mark::ENDPOINT_SHIFT
    }

    /// The node of an operation: in the context, or a spare one.
    #[inline(always)]
    pub(crate) fn node(&self, context: *mut c_void, reported: bool) -> *mut Node {
        if self.lends && reported && !context.is_null() {
            context.cast()
        } else {
            self.domain.pool.take(context).cast()
        }
    }

    /// The marks of a node of [`node`](Self::node).
    #[inline(always)]
    pub(crate) fn marks(&self, context: *mut c_void, reported: bool) -> u64 {
        let lent = self.lends && reported && !context.is_null();
        self.mark() | if lent { 0 } else { mark::SPARE } | if reported { 0 } else { mark::SILENT }
    }

    pub(crate) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.limic.wake_fd()
    }

    /// Asks senders to ring. False if there is something to do.
    pub(crate) fn arm(&self) -> bool {
        let armed = self.limic.arm();
        // Arming looks around once more, and operations may have ended there.
        self.collect();
        armed
    }
}

/// Endpoints that are open in this process, to be closed in good order when libfabric is unloaded.
static OPEN: Mutex<Vec<usize>> = Mutex::new(Vec::new());

fn open_endpoints() -> std::sync::MutexGuard<'static, Vec<usize>> {
    // A list of numbers: whole after a panic too.
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Closes what the application left open.
pub(crate) fn close_all() {
    for endpoint in core::mem::take(&mut *open_endpoints()) {
        let endpoint = core::ptr::with_exposed_provenance::<Endpoint>(endpoint);
        // SAFETY: an endpoint takes itself out of the list before it goes; libfabric is being unloaded, so nobody else
        // calls about it.
        let endpoint = unsafe { &*endpoint };
        endpoint.tally.print(endpoint);
        endpoint.limic.close();
    }
}

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
    border::status(|| {
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
        // SAFETY: a domain of this provider.
        let domain: Arc<Domain> = unsafe { object::share(domain) };
        let limic = HybridEndpoint::open().map_err(|error| reported(&error))?;
        // SAFETY: attributes of an info of this provider, or null.
        let (tx, rx) = unsafe {
            let tx = asked.tx_attr.as_ref().map_or(0, |attr| attr.op_flags);
            (tx, asked.rx_attr.as_ref().map_or(0, |attr| attr.op_flags))
        };
        let caps = if asked.caps == 0 {
            info::CAPS
        } else {
            asked.caps
        };
        let turn = domain.enter();
        let myself = limic.myself();
        let mut object = Arc::new(Endpoint {
            head: Head::new(fid_ep {
                fid: object::fid_of::<Endpoint>(context, &OPS),
                ops: &EP_OPS,
                cm: &CM_OPS,
                msg: &message::OPS,
                rma: &rma::OPS,
                tagged: &tagged::OPS,
                atomic: &atomic::OPS,
                collective: core::ptr::null(),
            }),
            myself,
            limic,
            number: 0,
            caps,
            lends: asked.mode & FI_CONTEXT2 != 0,
            sends: Binding::default(),
            receives: Binding::default(),
            counters: Counters::default(),
            addresses: RefCell::default(),
            peers: RefCell::default(),
            positions: RefCell::default(),
            enabled: Cell::new(false),
            claims: RefCell::default(),
            least_room: Cell::new(64),
            multi: RefCell::default(),
            atomics: Cell::new(0),
            injected: Cell::new(0),
            tally: Tally::default(),
            domain: Arc::clone(&domain),
        });
        object.sends.flags.set(tx);
        object.receives.flags.set(rx);
        let place = Arc::as_ptr(&object);
        let number = domain.add_endpoint(place).ok_or(FI_ENOMEM)?;
        // Nobody else has it yet.
        if let Some(object) = Arc::get_mut(&mut object) {
            object.number = number;
        }
        if object.uses_regions() {
            object.limic.set_aside(Tag(sort::ASIDE), sort::MASK);
        }
        drop(turn);
        open_endpoints().push(place.expose_provenance());
        // SAFETY: checked.
        unsafe { *endpoint = object::hand_out(object) };
        Ok(())
    })
}

impl Endpoint {
    /// Whether peers may reach memory through it.
    pub(crate) fn uses_regions(&self) -> bool {
        self.caps & (FI_RMA | FI_ATOMIC) != 0
    }
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    border::status(|| {
        // SAFETY: C closes what it was given, once.
        let endpoint: &Endpoint = unsafe { object::object(fid) };
        let place = core::ptr::from_ref(endpoint);
        open_endpoints().retain(|open| *open != place.addr());
        let domain = Arc::clone(&endpoint.domain);
        let turn = domain.enter();
        endpoint.tally.print(endpoint);
        // What was sent goes out first; then no operation of the endpoint touches a buffer any more.
        endpoint.limic.close();
        domain.remove_endpoint(endpoint.number);
        for region in domain.regions.borrow().values() {
            region.forget(endpoint.number);
        }
        for binding in [&endpoint.sends, &endpoint.receives] {
            if let Some(queue) = &*binding.queue.borrow() {
                queue.remove(endpoint);
            }
        }
        let counters = &endpoint.counters;
        for counter in [
            &counters.send,
            &counters.receive,
            &counters.read,
            &counters.write,
        ] {
            if let Some(counter) = &*counter.borrow() {
                counter
                    .endpoints
                    .borrow_mut()
                    .retain(|known| *known != place);
            }
        }
        // SAFETY: as above. Nothing else ever holds an endpoint.
        let object = unsafe { object::take_back::<Endpoint>(fid) };
        drop(object);
        drop(turn);
        Ok(())
    })
}

unsafe extern "C" fn bind(fid: *mut fid, other: *mut fid, flags: u64) -> c_int {
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
                *endpoint.addresses.borrow_mut() = Some(vector);
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
    if flags & !(FI_SEND | FI_RECV | FI_SELECTIVE_COMPLETION) != 0 {
        return Err(FI_EBADFLAGS);
    }
    for (bit, binding) in [(FI_SEND, &endpoint.sends), (FI_RECV, &endpoint.receives)] {
        if flags & bit == 0 {
            continue;
        }
        if binding.queue.borrow().is_some() {
            return Err(FI_EINVAL);
        }
        queue.add(endpoint)?;
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
    for (bit, place) in kinds {
        if flags & bit != 0 {
            *place.borrow_mut() = Some(Arc::clone(counter));
        }
    }
    counters.any.set(true);
    let mut endpoints = counter.endpoints.borrow_mut();
    if !endpoints.contains(&core::ptr::from_ref(endpoint)) {
        endpoints.push(endpoint);
    }
    Ok(())
}

unsafe extern "C" fn control(fid: *mut fid, what: c_int, argument: *mut c_void) -> c_int {
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
                    *flags = binding.flags.get();
                } else {
                    binding.flags.set(*flags & !(FI_SEND | FI_RECV));
                }
                Ok(())
            }
            _ => Err(FI_ENOSYS),
        }
    })
}

impl Endpoint {
    fn enable(&self) -> Result<(), i32> {
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

/// `fi_cancel`: the operation ends with `FI_ECANCELED`, or as usual if it was too late.
unsafe extern "C" fn cancel(fid: *mut fid, context: *mut c_void) -> isize {
    border::size(|| {
        // SAFETY: C passes what it was given.
        let endpoint: &Endpoint = unsafe { object::object(fid) };
        let _turn = endpoint.domain.enter();
        let multi = endpoint.multi.borrow();
        // SAFETY: posted multi-receives are alive.
        let posted = multi
            .iter()
            .find(|multi| unsafe { (***multi).context } == context);
        let node = match posted {
            Some(multi) => multi.cast::<Node>(),
            None => {
                let spare = endpoint.domain.pool.find(context, endpoint.number.into());
                match spare {
                    Some(node) => node,
                    None if endpoint.lends && !context.is_null() => context.cast(),
                    None => return Ok(0),
                }
            }
        };
        drop(multi);
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

unsafe extern "C" fn getopt(
    fid: *mut fid,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> c_int {
    border::status(|| {
        // SAFETY: C passes what it was given.
        let endpoint: &Endpoint = unsafe { object::object(fid) };
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

unsafe extern "C" fn setopt(
    fid: *mut fid,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    border::status(|| {
        // SAFETY: C passes what it was given.
        let endpoint: &Endpoint = unsafe { object::object(fid) };
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
unsafe extern "C" fn size_left(_: *mut fid_ep) -> isize {
    info::QUEUE_SIZE as isize
}

/// Addresses are limic's to choose.
unsafe extern "C" fn setname(_: *mut fid, _: *mut c_void, _: usize) -> c_int {
    -FI_ENOSYS
}

unsafe extern "C" fn getname(fid: *mut fid, address: *mut c_void, len: *mut usize) -> c_int {
    border::status(|| {
        // SAFETY: C passes what it was given, a length, and as much room.
        unsafe {
            let endpoint: &Endpoint = object::object(fid);
            put_address(&endpoint.limic.address(), address, len)
        }
    })
}
