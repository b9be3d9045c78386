//! Address vectors: `fi_addr_t` is a position in one.
//!
//! Inserting decodes an address and contacts nobody: that happens at the first message.

use core::cell::RefCell;
use core::ffi::{c_char, c_int, c_void};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use limic::{ADDRESS_LEN, Address};

use crate::abi::entries::fi_av_attr;
use crate::abi::errno::*;
use crate::abi::objects::{fi_ops_av, fid_av, fid_domain};
use crate::abi::*;
use crate::domain::Domain;
use crate::errors::reported;
use crate::ffi_guard;
use crate::object::{self, Head, Object};

/// An address vector.
#[repr(C)]
pub(crate) struct AddressVector {
    head: Head<fid_av>,
    pub(crate) domain: Arc<Domain>,
    entries: RefCell<Vec<Option<Address>>>,
    /// The positions of each address, in the order in which it was inserted.
    positions: RefCell<HashMap<[u8; ADDRESS_LEN], Vec<fi_addr_t>>>,
}

// SAFETY: `repr(C)`, and the head comes first.
unsafe impl Object for AddressVector {
    const CLASS: usize = class::AV;
}

// SAFETY: touched only in calls that have entered its domain.
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
    insertsvc: ffi_guard::no_such_function,
    insertsym: ffi_guard::no_such_function,
    remove,
    lookup,
    straddr,
    av_set: ffi_guard::no_such_function,
};

impl AddressVector {
    /// The address at a position.
    pub(crate) fn address(&self, at: fi_addr_t) -> Option<Address> {
        let entries = self.entries.borrow();
        *entries.get(usize::try_from(at).ok()?)?
    }

    /// Where an address stands: first, if it stands at several positions.
    pub(crate) fn position(&self, address: &Address) -> Option<fi_addr_t> {
        let positions = self.positions.borrow();
        positions.get(&address.to_bytes())?.first().copied()
    }

    fn enter(&self, address: Address) -> fi_addr_t {
        let mut entries = self.entries.borrow_mut();
        // Positions are not used again: an endpoint may still know the old one.
        let at = entries.len() as fi_addr_t;
        entries.push(Some(address));
        let mut positions = self.positions.borrow_mut();
        positions.entry(address.to_bytes()).or_default().push(at);
        if address.is_local() {
            self.domain.count_neighbours(1);
        }
        at
    }

    fn take_out(&self, at: fi_addr_t) -> bool {
        let mut entries = self.entries.borrow_mut();
        let place = usize::try_from(at).ok().and_then(|at| entries.get_mut(at));
        let Some(address) = place.and_then(Option::take) else {
            return false;
        };
        let mut positions = self.positions.borrow_mut();
        if let Entry::Occupied(mut all) = positions.entry(address.to_bytes()) {
            all.get_mut().retain(|known| *known != at);
            if all.get().is_empty() {
                all.remove();
            }
        }
        self.domain
            .for_each_endpoint(|endpoint| endpoint.forget_address(self, at));
        if address.is_local() {
            self.domain.count_neighbours(-1);
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
        if asked.r#type == FI_AV_UNSPEC {
            asked.r#type = FI_AV_TABLE;
        }
        let object = Arc::new(AddressVector {
            head: Head::new(fid_av {
                fid: object::fid_of::<AddressVector>(context, &OPS),
                ops: &AV_OPS,
            }),
            // SAFETY: a domain of this provider.
            domain: unsafe { object::share(domain) },
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
        let av = unsafe { object::take_back::<AddressVector>(fid) }.ok_or(FI_EBUSY)?;
        let _turn = av.domain.enter();
        for at in 0..av.entries.borrow().len() {
            let local = av.entries.borrow()[at].is_some_and(|address| address.is_local());
            av.domain.count_neighbours(-i32::from(local));
        }
        Ok(())
    })
}

/// An event queue may be bound; nothing is reported there, since insertion is done when it returns.
unsafe extern "C" fn bind(_: *mut fid, other: *mut fid, _: u64) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C passes an object of this provider.
        let class = unsafe { other.as_ref() }.map(|other| other.fclass);
        if class == Some(class::EQ) {
            Ok(())
        } else {
            Err(FI_EINVAL)
        }
    })
}

/// `fi_av_insert`: gives how many of the addresses make sense.
unsafe extern "C" fn insert(
    av: *mut fid_av,
    addresses: *const c_void,
    count: usize,
    places: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    ffi_guard::cross(-FI_EOTHER, || {
        if addresses.is_null() && count > 0 {
            return -FI_EINVAL;
        }
        // SAFETY: an address vector of this provider.
        let av: &AddressVector = unsafe { object::object(av) };
        let _turn = av.domain.enter();
        let mut good = 0;
        for number in 0..count {
            // SAFETY: C passes `count` addresses of the length that `fi_getname` gives.
            let bytes = unsafe {
                let start = addresses.cast::<u8>().add(number * ADDRESS_LEN);
                core::slice::from_raw_parts(start, ADDRESS_LEN)
            };
            let (place, errno) = match Address::from_bytes(bytes) {
                Ok(address) => (av.enter(address), 0),
                Err(error) => (FI_ADDR_NOTAVAIL, reported(&error)),
            };
            good += c_int::from(errno == 0);
            if !places.is_null() {
                // SAFETY: C gives room for `count` places, or none.
                unsafe { *places.add(number) = place };
            }
            if flags & FI_SYNC_ERR != 0 && !context.is_null() {
                // SAFETY: with this flag the context is an array of `count` numbers.
                unsafe { *context.cast::<c_int>().add(number) = errno };
            }
        }
        good
    })
}

unsafe extern "C" fn remove(
    av: *mut fid_av,
    places: *mut fi_addr_t,
    count: usize,
    _flags: u64,
) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: an address vector of this provider.
        let av: &AddressVector = unsafe { object::object(av) };
        let _turn = av.domain.enter();
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
        let _turn = av.domain.enter();
        let found = av.address(at).ok_or(FI_EINVAL)?;
        // SAFETY: C passes a length and as much room.
        unsafe { put_address(&found, address, len).or(Ok(())) }
    })
}

/// Writes an address as far as there is room, and its length.
///
/// # Safety
/// `len` is null or valid, and `room` valid for as many bytes.
pub(crate) unsafe fn put_address(
    address: &Address,
    room: *mut c_void,
    len: *mut usize,
) -> Result<(), i32> {
    let bytes = address.to_bytes();
    // SAFETY: the caller's promise.
    unsafe {
        let len = len.as_mut().ok_or(FI_EINVAL)?;
        let given = core::mem::replace(len, bytes.len());
        if !room.is_null() {
            let count = given.min(bytes.len());
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), room.cast(), count);
        }
        if given < bytes.len() || room.is_null() {
            return Err(FI_ETOOSMALL);
        }
    }
    Ok(())
}

/// An address as text, which does not show the secret in it.
unsafe extern "C" fn straddr(
    _: *mut fid_av,
    address: *const c_void,
    buffer: *mut c_char,
    len: *mut usize,
) -> *const c_char {
    ffi_guard::cross(core::ptr::null(), || {
        if address.is_null() || len.is_null() {
            return core::ptr::null();
        }
        // SAFETY: C passes an address of this provider.
        let bytes = unsafe { core::slice::from_raw_parts(address.cast::<u8>(), ADDRESS_LEN) };
        let text = Address::from_bytes(bytes).map_or_else(|e| e.to_string(), |a| a.to_string());
        // SAFETY: C passes a length and as much room.
        unsafe {
            let given = core::mem::replace(&mut *len, text.len() + 1);
            if given > 0 && !buffer.is_null() {
                let count = text.len().min(given - 1);
                core::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), count);
                *buffer.add(count) = 0;
            }
        }
        buffer
    })
}
