//! Which provider of libfabric is used.

use core::ffi::CStr;
use core::ptr::null;
use std::ffi::CString;

use limic_fabric::{Limits, Network, Part};
use limic_ofi_abi::info::fi_info;
use limic_ofi_abi::{
    FI_CONTEXT, FI_CONTEXT2, FI_EP_RDM, FI_MR_ALLOCATED, FI_MR_ENDPOINT, FI_MR_LOCAL,
    FI_MR_PROV_KEY, FI_MR_VIRT_ADDR, FI_MSG, FI_ORDER_SAS, FI_READ, FI_RECV, FI_REMOTE_READ,
    FI_RM_ENABLED, FI_RMA, FI_SEND, FI_THREAD_DOMAIN, fi_version,
};

use crate::device::Device;
use crate::fabric::limits;
use crate::library::Functions;
use crate::packet::PACKET;
use crate::settings::{OfiError, OfiSettings};
use crate::unasked::reads_end;

/// The interface that is spoken: of the structures of 1.17 only what this version has too.
const VERSION: u32 = fi_version(1, 11);

/// What an endpoint with remote reads can do.
const READS: u64 = FI_MSG | FI_SEND | FI_RECV | FI_RMA | FI_READ | FI_REMOTE_READ;

/// Who reads less at once has no reads that pay.
const SHORTEST_PART: usize = 1 << 20;

/// Providers of adapters. Only these are used where nobody has asked for libfabric.
const ADAPTERS: [&str; 6] = ["efa", "cxi", "opx", "psm3", "psm2", "verbs;ofi_rxm"];

/// Used only by name: limic itself, one machine only, no network of its own, or datagrams that are
/// made reliable in software.
const BY_NAME: [&str; 8] = [
    "limic",
    "shm",
    "sm2",
    "lnx",
    "ofi_hook",
    "ofi_mrail",
    "udp",
    "sockets",
];

/// How libfabric's layers ask it for providers that `FI_PROVIDER` hides from programs. It is older
/// than [`VERSION`], so each version that serves has it. Layers do not open them all the same.
const HIDDEN: u64 = 1 << 60;

/// Whether `FI_PROVIDER` is there to put an MPI on limic: it is not meant for limic itself.
fn is_for_limic(filter: &str) -> bool {
    let mut names = filter.split(',').map(str::trim);
    names.all(|name| name.eq_ignore_ascii_case("limic"))
}

/// How libfabric is asked.
fn flags() -> u64 {
    let filter = std::env::var("FI_PROVIDER");
    match filter.is_ok_and(|filter| is_for_limic(&filter)) {
        true => HIDDEN,
        false => 0,
    }
}

/// An adapter of this machine that libfabric may serve, as the kernel names it.
#[must_use]
pub fn adapter() -> Option<String> {
    ["/sys/class/cxi", "/sys/class/infiniband"]
        .iter()
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flat_map(|folder| folder.filter_map(Result::ok))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .min()
}

/// A provider that can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its name, and its domain, which is a device or an interface.
    pub name: String,
    /// What connections over it take.
    pub limits: Limits,
}

/// The provider that an endpoint with these settings would use.
///
/// # Errors
/// Says why there is none.
pub fn found(settings: &OfiSettings) -> Result<Found, OfiError> {
    let info = &Device::open(settings)?.info;
    Ok(Found {
        name: format!("{} on {}", info.provider(), info.domain()),
        limits: limits(info.longest_read()),
    })
}

/// No provider serves.
pub(crate) fn nothing(name: Option<&str>) -> OfiError {
    OfiError::Nothing(match name {
        Some(name) => format!(
            "libfabric has no provider {name} with reliable endpoints here (fi_info -t FI_EP_RDM \
             shows what it has)"
        ),
        None => "libfabric has no provider here that limic uses by itself".to_owned(),
    })
}

/// What libfabric says of a provider.
#[derive(Debug)]
pub(crate) struct Info {
    functions: Functions,
    info: *mut fi_info,
    /// Endpoints have remote reads.
    reads: bool,
}

impl Info {
    /// Those that serve, in libfabric's order, with remote reads where they are used.
    pub(crate) fn all(functions: Functions, settings: &OfiSettings) -> Result<Vec<Self>, OfiError> {
        let mut all = Self::with(functions, FI_MSG, settings)?;
        if !all.iter().any(|one| one.wants_reads(settings)) {
            return Ok(all);
        }
        for reader in Self::with(functions, READS, settings)? {
            let mut same = all.iter_mut().filter(|one| one.is_same(&reader));
            let same = same.find(|one| !one.reads && one.wants_reads(settings));
            if let Some(one) = same.filter(|_| reader.can_read()) {
                *one = reader;
                one.reads = true;
            }
        }
        Ok(all)
    }

    /// Those that serve and have these capabilities.
    #[expect(unsafe_code, reason = "structures of C")]
    fn with(
        functions: Functions,
        caps: u64,
        settings: &OfiSettings,
    ) -> Result<Vec<Self>, OfiError> {
        let (name, adapters) = (settings.provider.as_deref(), settings.adapters);
        let hints = Self::copy(functions, null())?;
        // SAFETY: just made, all parts are there; a name is on the heap of C, and freed with it.
        let list = unsafe {
            let hints = hints.info;
            (*hints).caps = caps;
            (*hints).mode = FI_CONTEXT | FI_CONTEXT2;
            (*(*hints).ep_attr).r#type = FI_EP_RDM;
            (*(*hints).tx_attr).msg_order = FI_ORDER_SAS;
            (*(*hints).rx_attr).msg_order = FI_ORDER_SAS;
            (*(*hints).domain_attr).resource_mgmt = FI_RM_ENABLED;
            (*(*hints).domain_attr).threading = FI_THREAD_DOMAIN;
            (*(*hints).domain_attr).mr_mode =
                FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_ENDPOINT;
            if let Some(name) = name.and_then(|name| CString::new(name).ok()) {
                (*(*hints).fabric_attr).prov_name = libc::strdup(name.as_ptr());
            }
            functions.getinfo(VERSION, flags(), hints)
        };
        let list = match list {
            Ok(info) => Self::of(functions, info),
            Err(libc::ENODATA) => return Ok(Vec::new()),
            Err(error) => {
                let why = format!("libfabric: {}", functions.text(error));
                return Err(OfiError::Failed(why));
            }
        };
        let (mut all, mut at) = (Vec::new(), list.info);
        // SAFETY: of the list, which is linked and ends.
        while let Some(this) = unsafe { at.as_ref() } {
            let copy = Self::copy(functions, this)?;
            if copy.serves(name, adapters) {
                all.push(copy);
            }
            at = this.next;
        }
        Ok(all)
    }

    /// A copy of one alone, or an empty one with all its parts.
    #[expect(unsafe_code, reason = "functions of C")]
    fn copy(functions: Functions, of: *const fi_info) -> Result<Self, OfiError> {
        // SAFETY: null, or of libfabric and whole.
        let info = unsafe { (functions.duplicate)(of) };
        if info.is_null() {
            return Err(OfiError::Failed("libfabric has no memory".to_owned()));
        }
        Ok(Self::of(functions, info))
    }

    fn of(functions: Functions, info: *mut fi_info) -> Self {
        Self {
            functions,
            info,
            reads: false,
        }
    }

    #[expect(unsafe_code, reason = "structures of C")]
    pub(crate) fn get(&self) -> &fi_info {
        // SAFETY: libfabric made it, and it is freed when this goes.
        unsafe { &*self.info }
    }

    pub(crate) fn as_ptr(&self) -> *mut fi_info {
        self.info
    }

    #[expect(unsafe_code, reason = "structures of C")]
    fn serves(&self, name: Option<&str>, adapters: bool) -> bool {
        let (info, provider) = (self.get(), self.provider());
        let of = |list: &[&str]| {
            let mut parts = provider.split(';');
            list.contains(&&*provider) || parts.any(|part| list.contains(&part))
        };
        let chosen = match name {
            Some(name) => name != "limic",
            None if adapters => ADAPTERS.contains(&&*provider),
            None => !of(&BY_NAME),
        };
        // SAFETY: libfabric gives all parts.
        let fits = unsafe {
            (*info.ep_attr).max_msg_size >= PACKET && (*info.ep_attr).msg_prefix_size == 0
        };
        chosen && fits && (flags() != HIDDEN || !provider.contains(';'))
    }

    /// Whether both are of one provider, over one device, and name endpoints in one way.
    fn is_same(&self, other: &Self) -> bool {
        let all = |info: &Self| (info.provider(), info.domain(), info.get().addr_format);
        all(self) == all(other)
    }

    /// Whether remote reads serve. Where the application chooses keys they have to be so long that
    /// nobody guesses them.
    #[expect(unsafe_code, reason = "structures of C")]
    fn can_read(&self) -> bool {
        // SAFETY: libfabric gives all parts.
        let (longest, key) = unsafe {
            let info = self.get();
            (
                (*info.ep_attr).max_msg_size,
                (*info.domain_attr).mr_key_size,
            )
        };
        let unguessable = self.memory_mode() & FI_MR_PROV_KEY != 0 || key >= size_of::<u64>();
        self.get().caps & READS == READS && unguessable && longest >= SHORTEST_PART
    }

    /// Whether reads are used if there are any.
    fn wants_reads(&self, settings: &OfiSettings) -> bool {
        let unasked = || reads_end(&self.provider(), |name| std::env::var(name).ok());
        settings.reads.unwrap_or_else(unasked)
    }

    /// Bytes of the longest read; 0: there are none.
    #[expect(unsafe_code, reason = "structures of C")]
    pub(crate) fn longest_read(&self) -> usize {
        match self.reads {
            // SAFETY: libfabric gives all parts.
            true => unsafe { (*self.get().ep_attr).max_msg_size },
            false => 0,
        }
    }

    /// What is to be done to memory before the provider uses it.
    #[expect(unsafe_code, reason = "structures of C")]
    pub(crate) fn memory_mode(&self) -> i32 {
        // SAFETY: libfabric gives all parts.
        unsafe { (*self.get().domain_attr).mr_mode }
    }

    /// A key for memory, which nobody guesses.
    #[expect(unsafe_code, reason = "structures of C")]
    pub(crate) fn key(&self) -> Result<u64, String> {
        // SAFETY: libfabric gives all parts.
        let bytes = unsafe { (*self.get().domain_attr).mr_key_size };
        let key = getrandom::u64().map_err(|error| format!("no random numbers: {error}"))?;
        let unused = size_of::<u64>().saturating_sub(bytes).min(7) as u32 * u8::BITS;
        Ok(key >> unused)
    }

    /// Its name, with those of the layers above it.
    #[expect(unsafe_code, reason = "structures of C")]
    pub(crate) fn provider(&self) -> String {
        // SAFETY: libfabric gives all parts, and names are strings or null.
        unsafe { text((*self.get().fabric_attr).prov_name) }
    }

    #[expect(unsafe_code, reason = "structures of C")]
    fn domain(&self) -> String {
        // SAFETY: as above.
        unsafe { text((*self.get().domain_attr).name) }
    }

    /// A byte that says how endpoints are named: only those of one provider reach each other.
    pub(crate) fn kind(&self) -> u8 {
        let format = self.get().addr_format.to_le_bytes();
        let provider = self.provider();
        let hash = provider
            .bytes()
            .chain(format)
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
            });
        hash.to_le_bytes()
            .into_iter()
            .fold(0, |all, byte| all ^ byte)
    }
}

impl Drop for Info {
    #[expect(unsafe_code, reason = "functions of C")]
    fn drop(&mut self) {
        // SAFETY: libfabric made it, with what it is linked to, and it is used no more.
        unsafe { (self.functions.free)(self.info) };
    }
}

/// # Safety
/// It is a string or null.
#[expect(unsafe_code, reason = "strings of C")]
unsafe fn text(text: *const core::ffi::c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

/// The place of an endpoint: the kind, and its name without the zeros at its end.
pub(crate) fn part_of(kind: u8, name: &[u8]) -> Option<Part> {
    let len = name.iter().rposition(|byte| *byte != 0)? + 1;
    let mut place = vec![kind];
    place.extend(&name[..len]);
    Part::new(Network::Ofi, &place)
}

/// The name in a place, as long as those of this provider. `None`: it is of another one.
pub(crate) fn name_of(place: &[u8], kind: u8, len: usize) -> Option<Vec<u8>> {
    let (of, name) = place.split_first()?;
    let mut room = vec![0; len];
    room.get_mut(..name.len())?.copy_from_slice(name);
    (*of == kind && !name.is_empty()).then_some(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_for_limic_if_it_names_nothing_else() {
        let found = ["limic", " Limic ", "limic,tcp", "^limic", "tcp", ""].map(is_for_limic);
        assert_eq!(found, [true, true, false, false, false, false]);
    }

    #[test]
    fn names_come_back_with_their_zeros() {
        let name = [2, 0, 0x1f, 0x90, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        let part = part_of(7, &name).unwrap();
        assert_eq!(part.place().len(), 9);
        assert_eq!(name_of(part.place(), 7, 16), Some(name.to_vec()));
        assert_eq!(name_of(part.place(), 8, 16), None, "another provider's");
        assert_eq!(name_of(part.place(), 7, 7), None, "too long");
        assert_eq!(part_of(7, &[0; 16]), None);
        assert_eq!(part_of(7, &[1; 32]), None);
    }
}
