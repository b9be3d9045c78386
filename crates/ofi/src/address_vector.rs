//! Address vectors: `fi_addr_t` is a position in one.
//!
//! Inserting decodes an address and contacts nobody: that happens at the first message.

mod insert;
mod strangers;
mod user_ids;
mod written;

use core::cell::{Cell, Ref, RefCell};
use core::ffi::{c_int, c_void};
use std::collections::hash_map::Entry::Occupied;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use limic::{ADDRESS_LEN, Address};

use self::insert::{insert, insertsvc, insertsym};
use self::strangers::Strangers;
use self::user_ids::{UserIds, set_user_id};
pub(crate) use self::written::put_bytes;
use self::written::straddr;
use crate::domain::Domain;
use crate::event_queue::EventQueue;
use crate::ffi_guard;
use crate::names::Name;
use crate::object::{self, Head, Object};
use crate::services;
use crate::turns::Turns;
use limic_ofi_abi::entries::fi_av_attr;
use limic_ofi_abi::errno::*;
use limic_ofi_abi::objects::{fi_ops_av, fid_av, fid_domain};
use limic_ofi_abi::*;

/// An address vector.
#[repr(C)]
pub(crate) struct AddressVector {
    head: Head<fid_av>,
    pub(crate) domain: Arc<Domain>,
    events: RefCell<Option<Arc<EventQueue>>>,
    /// Of data calls about different endpoints, each of which has a turn of its own.
    turns: Turns,
    /// Whom each position stands for: a service until somebody has asked for it.
    entries: RefCell<Vec<Option<Name>>>,
    /// Positions that nobody has any more.
    free: RefCell<BTreeSet<usize>>,
    user_ids: UserIds,
    /// Those whose address is unknown.
    unasked: Cell<usize>,
    strangers: RefCell<Strangers>,
    /// The positions of each address, in the order in which it was inserted.
    positions: RefCell<HashMap<[u8; ADDRESS_LEN], Vec<fi_addr_t>>>,
}

// SAFETY: `repr(C)`, and the head comes first.
unsafe impl Object for AddressVector {
    const CLASS: usize = class::AV;
}

// SAFETY: touched only in its turns, or in those of all objects.
unsafe impl Send for AddressVector {}
// SAFETY: as above.
unsafe impl Sync for AddressVector {}

static OPS: fi_ops = fi_ops {
    close,
    bind,
    ..object::ops::<AddressVector>()
};

static AV_OPS: fi_ops_av = fi_ops_av {
    size: size_of::<fi_ops_av>(),
    insert,
    insertsvc,
    insertsym,
    remove,
    lookup,
    straddr,
    av_set: ffi_guard::no_such_function,
    insert_auth_key: ffi_guard::no_such_function,
    lookup_auth_key: ffi_guard::no_such_function,
    set_user_id,
};

impl AddressVector {
    /// The address at a position; of a service, whoever has it is asked.
    pub(crate) fn address(&self, at: fi_addr_t) -> Result<Address, i32> {
        let _turn = self.turns.part();
        self.resolved(at)
    }

    fn resolved(&self, at: fi_addr_t) -> Result<Address, i32> {
        let mut entries = self.entries.borrow_mut();
        let place = usize::try_from(at).ok().and_then(|at| entries.get_mut(at));
        let name = place.and_then(Option::as_mut).ok_or(FI_EINVAL)?;
        match name {
            Name::Address(address) => Ok(*address),
            Name::Service(service) => {
                let address = services::ask(service)?;
                *name = Name::Address(address);
                self.unasked.set(self.unasked.get() - 1);
                self.stands(at, &address);
                Ok(address)
            }
        }
    }

    /// What an address is called: where it stands first, if it stands at several positions.
    pub(crate) fn name(&self, address: &Address) -> Option<fi_addr_t> {
        let _turn = self.turns.part();
        self.position(address).map(|at| self.called(at))
    }

    /// What a position is called where messages are reported.
    pub(crate) fn name_of(&self, at: fi_addr_t) -> fi_addr_t {
        let _turn = self.turns.part();
        self.called(at)
    }

    fn called(&self, at: fi_addr_t) -> fi_addr_t {
        self.user_ids.get(at)
    }

    fn position(&self, address: &Address) -> Option<fi_addr_t> {
        let known = || {
            let positions = self.positions.borrow();
            positions.get(&address.to_bytes())?.first().copied()
        };
        known().or_else(|| {
            if self.unasked.get() == 0 || self.strangers.borrow().has(address, Instant::now()) {
                return None;
            }
            let again = self.ask_services();
            self.strangers.borrow_mut().add(address, again);
            known()
        })
    }

    /// Asks all services that nobody has sent to, but for those that were late a while ago: whoever
    /// waits for one does nothing else. Gives when to ask again, if one was late.
    #[cold]
    fn ask_services(&self) -> Option<Instant> {
        let entries = self.entries.borrow();
        let places: Vec<usize> = (0..entries.len())
            .filter(|at| matches!(entries[*at], Some(Name::Service(_))))
            .collect();
        drop(entries);
        let again = places.into_iter().filter_map(|at| {
            let at = at as fi_addr_t;
            let late = self.strangers.borrow().late_until(at, Instant::now());
            late.or_else(|| match self.resolved(at) {
                Err(FI_ETIMEDOUT) => Some(self.strangers.borrow_mut().was_late(at, Instant::now())),
                // One that is not there has sent nothing.
                _ => None,
            })
        });
        again.min()
    }

    /// An address stands at a position.
    fn stands(&self, at: fi_addr_t, address: &Address) {
        let mut positions = self.positions.borrow_mut();
        let all = positions.entry(address.to_bytes()).or_default();
        all.push(at);
        if all.len() == 1 && address.is_local() {
            self.domain.count_neighbours(1);
        }
    }

    fn enter(&self, name: Name) -> fi_addr_t {
        let mut entries = self.entries.borrow_mut();
        // The lowest one (fi_av(3)): whoever passes no room for positions counts on that. Endpoints
        // have forgotten who stood there.
        let free = self.free.borrow_mut().pop_first();
        let place = free.unwrap_or(entries.len());
        let at = place as fi_addr_t;
        match &name {
            Name::Address(address) => self.stands(at, address),
            Name::Service(_) => {
                self.unasked.set(self.unasked.get() + 1);
                // It may be the new one's.
                self.strangers.borrow_mut().may_be_known();
            }
        }
        match entries.get_mut(place) {
            Some(old) => *old = Some(name),
            None => entries.push(Some(name)),
        }
        at
    }

    /// Whoever stands at a position.
    fn entry(&self, at: fi_addr_t) -> Option<Ref<'_, Name>> {
        let entries = self.entries.borrow();
        Ref::filter_map(entries, |all| all.get(usize::try_from(at).ok()?)?.as_ref()).ok()
    }

    fn take_out(&self, at: fi_addr_t) -> bool {
        let mut entries = self.entries.borrow_mut();
        let place = usize::try_from(at).ok().and_then(|at| entries.get_mut(at));
        let Some(name) = place.and_then(Option::take) else {
            return false;
        };
        self.free.borrow_mut().insert(at as usize);
        self.domain
            .for_each_endpoint(|endpoint| endpoint.forget_address(self, at));
        self.user_ids.forget(at);
        self.strangers.borrow_mut().forget(at);
        let Name::Address(address) = name else {
            self.unasked.set(self.unasked.get() - 1);
            return true;
        };
        let mut positions = self.positions.borrow_mut();
        if let Occupied(mut all) = positions.entry(address.to_bytes()) {
            all.get_mut().retain(|known| *known != at);
            if all.get().is_empty() {
                all.remove();
                self.domain.count_neighbours(-i32::from(address.is_local()));
            }
        }
        true
    }
}

/// `fi_av_open`.
pub(crate) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_av_attr,
    av: *mut *mut fid_av,
    context: *mut c_void,
) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C passes attributes or null.
        let asked = unsafe { attr.as_mut() }.ok_or(FI_EINVAL)?;
        if av.is_null() || asked.rx_ctx_bits != 0 {
            return Err(FI_EINVAL);
        }
        // Vectors that processes share by name, and insertion in the background.
        if !asked.name.is_null() || asked.flags & FI_EVENT != 0 {
            return Err(FI_ENOSYS);
        }
        if asked.flags & !(FI_SYMMETRIC | FI_AV_USER_ID) != 0 {
            return Err(FI_EBADFLAGS);
        }
        if asked.r#type == FI_AV_UNSPEC {
            asked.r#type = FI_AV_TABLE;
        }
        // SAFETY: a domain of this provider.
        let domain: Arc<Domain> = unsafe { object::share(domain) };
        let object = Arc::new(AddressVector {
            head: Head::new(fid_av {
                fid: object::fid_of::<AddressVector>(context, &OPS),
                ops: &AV_OPS,
            }),
            turns: Turns::new(domain.is_serial()),
            domain,
            events: RefCell::default(),
            free: RefCell::default(),
            user_ids: UserIds::of_vector(asked.flags),
            unasked: Cell::new(0),
            strangers: RefCell::default(),
            entries: RefCell::new(Vec::with_capacity(asked.count.min(1 << 20))),
            positions: RefCell::default(),
        });
        // SAFETY: checked.
        unsafe { *av = object::hand_out(object) };
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C closes what it was given, once.
        let vector: &AddressVector = unsafe { object::object(fid) };
        let domain = Arc::clone(&vector.domain);
        // Where a forked child cannot enter, the vector stays its caller's.
        let _turn = domain.enter_alone();
        // SAFETY: as above.
        let av = unsafe { object::take_back::<AddressVector>(fid) }.ok_or(FI_EBUSY)?;
        for address in av.positions.borrow().keys() {
            let local = Address::from_bytes(address).is_ok_and(|address| address.is_local());
            av.domain.count_neighbours(-i32::from(local));
        }
        Ok(())
    })
}

/// An event queue may be bound; nothing is reported there, since insertion is done when it returns.
unsafe extern "C" fn bind(fid: *mut fid, other: *mut fid, flags: u64) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C passes objects of this provider.
        let (vector, class): (&AddressVector, _) = unsafe {
            (
                object::object(fid),
                other.as_ref().map(|other| other.fclass),
            )
        };
        if class != Some(class::EQ) {
            return Err(FI_EINVAL);
        }
        if flags != 0 {
            return Err(FI_EBADFLAGS);
        }
        let _turn = vector.domain.enter_alone();
        // SAFETY: as its class says.
        vector.events.replace(Some(unsafe { object::share(other) }));
        Ok(())
    })
}

unsafe extern "C" fn remove(
    av: *mut fid_av,
    places: *mut fi_addr_t,
    count: usize,
    flags: u64,
) -> c_int {
    ffi_guard::status(|| {
        // The only flag is for keys of authorization, which are not offered.
        if flags != 0 {
            return Err(FI_EBADFLAGS);
        }
        // SAFETY: an address vector of this provider.
        let av: &AddressVector = unsafe { object::object(av) };
        let _turn = av.domain.enter_alone();
        let mut all = true;
        for number in 0..count {
            // SAFETY: C passes `count` places.
            all &= av.take_out(unsafe { *places.add(number) });
        }
        if all { Ok(()) } else { Err(FI_EINVAL) }
    })
}

unsafe extern "C" fn lookup(
    av: *mut fid_av,
    at: fi_addr_t,
    address: *mut c_void,
    len: *mut usize,
) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: an address vector of this provider.
        let av: &AddressVector = unsafe { object::object(av) };
        let _turn = av.domain.enter_alone();
        // The address once it is known: a service means another endpoint on another node.
        let name = av.entry(at).ok_or(FI_EINVAL)?;
        // SAFETY: C passes a length and as much room.
        match unsafe { put_bytes(&name.to_bytes(av.domain.text), address, len) } {
            // It is cut, and its length told (fi_av(3)).
            Err(FI_ETOOSMALL) => Ok(()),
            other => other,
        }
    })
}
