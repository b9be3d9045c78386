//! Devices, and the context of an open one.

use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::sys;

use super::library;
use super::port::{self, Port, PortSettings};
use crate::VerbsError;
use crate::error::leaked;

/// A device by name, not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// As the kernel calls it, `mlx5_0` or `rxe0`.
    pub name: String,
}

/// The devices of this machine, in the library's order.
///
/// # Errors
/// [`VerbsError::NoLibrary`], [`VerbsError::NoDevice`].
pub fn devices() -> Result<Vec<Device>, VerbsError> {
    let list = List::new()?;
    Ok(list
        .names()
        .into_iter()
        .map(|name| Device { name })
        .collect())
}

/// The device that a name means among those, and the port with it: `NAME` or `NAME:PORT`.
#[must_use]
pub fn named<'a>(
    devices: impl Iterator<Item = &'a Device> + Clone,
    wanted: &str,
) -> Option<(&'a Device, Option<u8>)> {
    let find = |name: &str| devices.clone().find(|device| device.name == name);
    find(wanted).map(|device| (device, None)).or_else(|| {
        let (name, port) = wanted.rsplit_once(':')?;
        Some((find(name)?, Some(port.parse().ok()?)))
    })
}

/// The library's list, freed when dropped; the devices in it stay valid after that only if they
/// were opened.
struct List {
    first: NonNull<*mut sys::ibv_device>,
    count: usize,
}

impl List {
    fn new() -> Result<Self, VerbsError> {
        library::available()?;
        let mut count = 0;
        // SAFETY: the call writes the number of devices and gives a list, or null.
        let first = unsafe { sys::ibv_get_device_list(&raw mut count) };
        let Some(first) = NonNull::new(first) else {
            let why = std::io::Error::last_os_error().to_string();
            return Err(VerbsError::NoDevice(why));
        };
        let list = Self {
            first,
            count: usize::try_from(count).unwrap_or(0),
        };
        if list.count == 0 {
            return Err(VerbsError::NoDevice("its list is empty".to_owned()));
        }
        Ok(list)
    }

    fn devices(&self) -> &[*mut sys::ibv_device] {
        // SAFETY: the list has `count` entries and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }

    fn names(&self) -> Vec<String> {
        let name = |device: &*mut sys::ibv_device| {
            // SAFETY: a device of a list that is alive; its name is a terminated string inside it.
            unsafe {
                let name = sys::ibv_get_device_name(*device);
                (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
            }
        };
        self.devices().iter().filter_map(name).collect()
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: came from ibv_get_device_list and is freed once.
        unsafe { sys::ibv_free_device_list(self.first.as_ptr()) };
    }
}

/// What a device can do, as far as this crate looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Queue pairs.
    pub queue_pairs: u32,
    /// Work requests of one queue.
    pub work_requests: u32,
    /// Slices of one work request.
    pub slices: u32,
    /// Entries of a completion queue.
    pub completions: u32,
    /// RDMA reads under way that one queue pair may have started, and may be asked for.
    pub reads: u8,
    /// Ports.
    pub ports: u8,
    /// Work requests of one shared receive queue; 0 if there are none.
    pub shared_receives: u32,
    /// Whether reliable connections can read and write memory that is not pinned
    /// ([`Access::ON_DEMAND`](super::Access::ON_DEMAND)).
    pub on_demand: bool,
    /// Bytes of memory on the adapter; 0 on most.
    pub device_memory: u64,
    /// There is no adapter: threads of the kernel do its work, on the processors that pollers want
    /// too (Soft-RoCE).
    pub in_software: bool,
}

/// The vendor of Soft-RoCE. It says that it can page on demand, and copies wrong bytes then: Linux
/// 7.2's `__rxe_odp_mr_copy` begins at the first byte again in each page of a packet, and reads of
/// more than a packet bring zeros.
const SOFT_ROCE: u32 = 0xff_ffff;
/// `IBV_ODP_SUPPORT`.
const ODP: u64 = 1;
/// `IBV_ODP_SUPPORT_WRITE` and `IBV_ODP_SUPPORT_READ`.
const ODP_READ_WRITE: u32 = 1 << 2 | 1 << 3;

/// An open device.
#[derive(Debug)]
pub struct Context {
    raw: NonNull<sys::ibv_context>,
    name: String,
    limits: Limits,
}

// SAFETY: libibverbs allows every call on a context from any thread (ibv_open_device(3): all verbs
// are thread safe).
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Opens a device.
    ///
    /// # Errors
    /// [`VerbsError::UnknownDevice`], [`VerbsError::Call`] (permission, a driver without its
    /// library).
    pub fn open(device: &Device) -> Result<Arc<Self>, VerbsError> {
        let list = List::new()?;
        let names = list.names();
        let Some(at) = names.iter().position(|name| *name == device.name) else {
            return Err(VerbsError::UnknownDevice {
                wanted: device.name.clone(),
                present: names.join(", "),
            });
        };
        // SAFETY: a device of a list that is alive.
        let raw = unsafe { sys::ibv_open_device(list.devices()[at]) };
        let raw = NonNull::new(raw).ok_or_else(|| VerbsError::last("ibv_open_device"))?;
        let mut context = Self {
            raw,
            name: device.name.clone(),
            limits: Limits {
                queue_pairs: 0,
                work_requests: 0,
                slices: 0,
                completions: 0,
                reads: 0,
                ports: 0,
                shared_receives: 0,
                on_demand: false,
                device_memory: 0,
                in_software: false,
            },
        };
        context.limits = context.query()?;
        context.unblock_events()?;
        Ok(Arc::new(context))
    }

    fn query(&self) -> Result<Limits, VerbsError> {
        // SAFETY: all-zero bytes are a value of this plain C struct, which the call fills.
        let mut attr: sys::ibv_device_attr_ex = unsafe { std::mem::zeroed() };
        // SAFETY: an open context, and room for the answer.
        let returned =
            unsafe { sys::ibv_query_device_ex(self.raw(), std::ptr::null(), &raw mut attr) };
        VerbsError::check("ibv_query_device_ex", returned)?;
        let plain = attr.orig_attr;
        let count = |value: i32| u32::try_from(value).unwrap_or(0);
        Ok(Limits {
            queue_pairs: count(plain.max_qp),
            work_requests: count(plain.max_qp_wr),
            slices: count(plain.max_sge),
            completions: count(plain.max_cqe),
            reads: plain
                .max_qp_rd_atom
                .min(plain.max_qp_init_rd_atom)
                .clamp(0, 255) as u8,
            ports: plain.phys_port_cnt,
            shared_receives: if plain.max_srq > 0 {
                count(plain.max_srq_wr)
            } else {
                0
            },
            on_demand: plain.vendor_id != SOFT_ROCE
                && attr.odp_caps.general_caps & ODP != 0
                && attr.odp_caps.per_transport_caps.rc_odp_caps & ODP_READ_WRITE == ODP_READ_WRITE,
            device_memory: attr.max_dm_size,
            in_software: plain.vendor_id == SOFT_ROCE,
        })
    }

    /// The device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the device can do.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Whether it is an adapter for iWARP.
    pub(super) fn speaks_iwarp(&self) -> bool {
        // SAFETY: an open context, whose device lives as long.
        let transport = unsafe { (*(*self.raw()).device).transport_type };
        transport == sys::ibv_transport_type::IBV_TRANSPORT_IWARP
    }

    /// A port of the device, counted from 1, with the address that peers reach it at.
    ///
    /// # Errors
    /// [`VerbsError::NoPort`] if it is down or has no address, [`VerbsError::Setting`],
    /// [`VerbsError::Call`].
    pub fn port(&self, number: u8, settings: &PortSettings) -> Result<Port, VerbsError> {
        port::query(self, number, settings)
    }

    /// The first port that is up and has what the settings ask for.
    ///
    /// # Errors
    /// [`VerbsError::NoPort`] with what is the matter with each; [`VerbsError::Setting`] of one.
    pub fn first_port(&self, settings: &PortSettings) -> Result<Port, VerbsError> {
        let (mut why, mut unset) = (Vec::new(), None);
        for number in 1..=self.limits.ports {
            match self.port(number, settings) {
                Ok(port) => return Ok(port),
                Err(VerbsError::NoPort { why: reason, .. }) => why.push(reason),
                Err(error @ VerbsError::Setting { .. }) => unset = Some(error),
                Err(error) => why.push(error.to_string()),
            }
        }
        Err(unset.unwrap_or_else(|| VerbsError::NoPort {
            device: self.name.clone(),
            why: why.join("; "),
        }))
    }

    pub(super) fn raw(&self) -> *mut sys::ibv_context {
        self.raw.as_ptr()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once, and every object of the context holds a reference to
        // it.
        let returned = unsafe { sys::ibv_close_device(self.raw()) };
        if returned != 0 {
            leaked("ibv_close_device", returned);
        }
    }
}
