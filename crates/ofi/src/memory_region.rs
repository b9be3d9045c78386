//! Memory regions: memory that peers may read, write and change under a key.

mod closed;
mod events;

use core::cell::{Cell, RefCell};
use core::ffi::{c_int, c_void};
use std::sync::Arc;

use limic::raw::{OneSided, RawSliceMut};
use limic::{Access, Error, RegionId};

use self::closed::Left;
pub(crate) use self::events::AccessCounters;
use crate::domain::Domain;
use crate::endpoint::Endpoint;
use crate::errors::logged_errno;
use crate::ffi_guard;
use crate::object::{self, Head, Object};
use limic_ofi_abi::entries::fi_mr_attr;
use limic_ofi_abi::errno::*;
use limic_ofi_abi::objects::{fi_ops_mr, fid_mr};
use limic_ofi_abi::*;

pub(crate) static OPS: fi_ops_mr = fi_ops_mr {
    size: size_of::<fi_ops_mr>(),
    reg,
    regv,
    regattr,
};

static FID_OPS: fi_ops = fi_ops {
    close,
    bind: events::bind,
    control: events::control,
    ..object::ops::<Region>()
};

/// A memory region.
#[repr(C)]
pub(crate) struct Region {
    head: Head<fid_mr>,
    domain: Arc<Domain>,
    start: *mut u8,
    len: usize,
    key: u64,
    access: Access,
    /// The offset by which peers name the first byte.
    origin: u64,
    /// Peers may reach it: from the start, or since `fi_mr_enable`.
    enabled: Cell<bool>,
    /// It is being closed: no further access begins.
    over: Cell<bool>,
    /// What counts accesses of peers.
    counters: RefCell<AccessCounters>,
    /// Where it is exposed: number of the endpoint, and its name there.
    exposed: RefCell<Vec<(u16, RegionId)>>,
    /// Where a peer was in the middle of an access when the endpoint was closed.
    left: RefCell<Vec<Left>>,
}

// SAFETY: `repr(C)`, and the head comes first.
unsafe impl Object for Region {
    const CLASS: usize = class::MR;
}

// SAFETY: what changes is touched only in turns of all objects; the memory is touched as the
// application allowed.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

/// limic's keys are never 0. The largest key is libfabric's word for 'none', so this loses none.
pub(crate) fn limic_key(key: u64) -> u64 {
    key.wrapping_add(1)
}

impl Region {
    /// Whether it is reachable through an endpoint.
    pub(crate) fn is_exposed(&self, endpoint: &Endpoint) -> bool {
        let exposed = self.exposed.borrow();
        exposed.iter().any(|(number, _)| *number == endpoint.number)
    }

    /// Makes it reachable through an endpoint.
    pub(crate) fn expose(&self, endpoint: &Endpoint) -> Result<(), i32> {
        let allowed = self.access.read || self.access.write;
        let reached = allowed && self.enabled.get() && !self.over.get();
        if !reached || self.is_exposed(endpoint) {
            return Ok(());
        }
        self.watch(endpoint)?;
        let key = limic_key(self.key);
        let memory = RawSliceMut {
            start: self.start,
            len: self.len,
        };
        // SAFETY: an application that registers memory for remote access promises just this.
        let exposed = unsafe {
            endpoint
                .limic
                .expose_raw(memory, Some(key), self.access, self.origin)
        };
        let (id, _) = exposed.map_err(|error| logged_errno(&error))?;
        self.exposed.borrow_mut().push((endpoint.number, id));
        Ok(())
    }

    /// Makes it reachable through all endpoints. After an error it may be through some.
    fn expose_everywhere(&self) -> Result<(), i32> {
        let mut exposed = Ok(());
        self.domain.for_each_endpoint(|endpoint| {
            if endpoint.enabled.get() && endpoint.uses_regions() && exposed.is_ok() {
                exposed = self.expose(endpoint);
            }
        });
        exposed
    }

    /// Where `len` bytes at a peer's offset lie, if such an access is allowed.
    fn part(&self, offset: u64, len: usize, access: Access) -> Result<*mut u8, i32> {
        let allowed = (self.access.read || !access.read) && (self.access.write || !access.write);
        if self.over.get() || !self.enabled.get() || !allowed {
            return Err(FI_EKEYREJECTED);
        }
        let offset = usize::try_from(offset.wrapping_sub(self.origin)).map_err(|_| FI_EACCES)?;
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(self.start.wrapping_add(offset)),
            _ => Err(FI_EACCES),
        }
    }

    /// Takes it back for good: [`hide`](Self::hide).
    fn revoke(&self) -> Result<(), i32> {
        self.over.set(true);
        self.hide()
    }

    /// Has peers reach it no longer, and waits for accesses under way.
    ///
    /// # Errors
    /// `FI_EBUSY`: a peer is in the middle of one, and stays there. No other one begins.
    fn hide(&self) -> Result<(), i32> {
        let mut exposed = self.exposed.borrow_mut();
        self.domain.for_each_endpoint(|endpoint| {
            exposed.retain(|(at, id)| *at != endpoint.number || is_in_use(endpoint, *id));
        });
        let mut left = self.left.borrow_mut();
        left.retain(Left::is_in_use);
        let over = exposed.is_empty() && left.is_empty();
        over.then_some(()).ok_or(FI_EBUSY)
    }
}

/// Ends an exposure. True if a peer is in the middle of an access, and stays there.
fn is_in_use(endpoint: &Endpoint, id: RegionId) -> bool {
    matches!(endpoint.limic.revoke(id), Err(Error::RegionInUse { .. }))
}

impl Domain {
    /// Where an operation lies that a peer asks for, if it is allowed. The memory stays registered
    /// during the call that asks this.
    pub(crate) fn reached(
        &self,
        key: u64,
        offset: u64,
        len: usize,
        access: Access,
    ) -> Result<*mut u8, i32> {
        // Another endpoint may look here too. Who closes a region has all turns.
        let _turn = self.shared_turns.part();
        let regions = self.regions.borrow();
        let region = regions.get(&key).ok_or(FI_EKEYREJECTED)?;
        region.part(offset, len, access)
    }
}

/// What a registration asks for.
struct Asked {
    start: *mut u8,
    len: usize,
    access: u64,
    key: u64,
    /// `FI_RMA_EVENT`, or nothing.
    flags: u64,
    context: *mut c_void,
}

/// # Safety
/// `domain` is one of this provider, and `region` room for an object.
unsafe fn register(domain: *mut fid, asked: &Asked, region: *mut *mut fid_mr) -> Result<(), i32> {
    if region.is_null() {
        return Err(FI_EINVAL);
    }
    // SAFETY: the caller's promise.
    let domain: Arc<Domain> = unsafe { object::share(domain) };
    let _turn = domain.enter_alone();
    let has_events = asked.flags & FI_RMA_EVENT != 0;
    if has_events && !domain.has_events {
        return Err(FI_EBADFLAGS);
    }
    let basic = domain.basic_regions;
    let key = if basic {
        let key = domain.next_key.get();
        domain.next_key.set(key + 1);
        key
    } else {
        asked.key
    };
    if key == FI_KEY_NOTAVAIL {
        return Err(FI_EINVAL);
    }
    if domain.regions.borrow().contains_key(&key) {
        return Err(FI_ENOKEY);
    }
    let object = Arc::new(Region {
        head: Head::new(fid_mr {
            fid: object::fid_of::<Region>(asked.context, &FID_OPS),
            mem_desc: core::ptr::null_mut(),
            key,
        }),
        domain: Arc::clone(&domain),
        start: asked.start,
        len: asked.len,
        key,
        access: Access {
            read: asked.access & FI_REMOTE_READ != 0,
            write: asked.access & FI_REMOTE_WRITE != 0,
        },
        origin: if basic { asked.start.addr() as u64 } else { 0 },
        enabled: Cell::new(!(has_events && domain.enables_regions)),
        over: Cell::new(false),
        counters: RefCell::default(),
        exposed: RefCell::default(),
        left: RefCell::default(),
    });
    if let Err(errno) = object.expose_everywhere() {
        // No peer knows the key yet.
        let _ = object.revoke();
        object.unwatch();
        return Err(errno);
    }
    domain.regions.borrow_mut().insert(key, Arc::clone(&object));
    // SAFETY: checked.
    unsafe { *region = object::hand_out(object) };
    Ok(())
}

unsafe extern "C" fn reg(
    domain: *mut fid,
    start: *const c_void,
    len: usize,
    access: u64,
    offset: u64,
    key: u64,
    flags: u64,
    region: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    ffi_guard::status(|| {
        if flags & !FI_RMA_EVENT != 0 {
            return Err(FI_EBADFLAGS);
        }
        if offset != 0 {
            return Err(FI_EINVAL);
        }
        let asked = Asked {
            start: start.cast_mut().cast(),
            len,
            access,
            key,
            flags,
            context,
        };
        // SAFETY: C passes what it was given.
        unsafe { register(domain, &asked, region) }
    })
}

unsafe extern "C" fn regv(
    domain: *mut fid,
    iov: *const libc::iovec,
    count: usize,
    access: u64,
    offset: u64,
    key: u64,
    flags: u64,
    region: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    if count != 1 || iov.is_null() {
        return -FI_EINVAL;
    }
    // SAFETY: C passes one entry.
    let whole = unsafe { &*iov };
    let (start, len) = (whole.iov_base, whole.iov_len);
    // SAFETY: handed on.
    unsafe {
        reg(
            domain, start, len, access, offset, key, flags, region, context,
        )
    }
}

unsafe extern "C" fn regattr(
    domain: *mut fid,
    attr: *const fi_mr_attr,
    flags: u64,
    region: *mut *mut fid_mr,
) -> c_int {
    if attr.is_null() {
        return -FI_EINVAL;
    }
    // One of them says that the attributes hold no addresses.
    if flags & !FI_RMA_EVENT != 0 {
        return -FI_EBADFLAGS;
    }
    // SAFETY: a domain of this provider.
    let domain_of: &Domain = unsafe { object::object(domain) };
    // Memory of devices is not reached from here. Attributes of older interfaces end before that.
    let says_device = domain_of.fabric.api >= fi_version(1, 10);
    // SAFETY: C passes attributes of this interface.
    if says_device && unsafe { (*attr).iface } != 0 {
        return -FI_ENOSYS;
    }
    // SAFETY: as above; handed on.
    unsafe {
        regv(
            domain,
            (*attr).mr_iov,
            (*attr).iov_count,
            (*attr).access,
            (*attr).offset,
            (*attr).requested_key,
            flags,
            region,
            (*attr).context,
        )
    }
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    ffi_guard::status(|| {
        // SAFETY: C closes what it was given, once.
        let region: Arc<Region> = unsafe { object::share(fid) };
        let domain = Arc::clone(&region.domain);
        let turn = domain.enter_alone();
        region.revoke()?;
        region.unwatch();
        domain.regions.borrow_mut().remove(&region.key);
        drop(region);
        // SAFETY: as above.
        let closed = unsafe { object::take_back::<Region>(fid) };
        drop(closed);
        drop(turn);
        Ok(())
    })
}
