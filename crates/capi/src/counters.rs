//! What was moved so far.

use core::ffi::{c_char, c_int};

use limic::Peer;
use limic::counters::Traffic;
use limic::settings::Path;
use limic_shm::process::ValueHere;

use crate::errors::Failure;
use crate::errors::limic_error::{LIMIC_ERR_INVALID, LIMIC_ERR_UNKNOWN_PEER};
use crate::ffi_guard::inside;
use crate::handles::limic_endpoint;
use crate::struct_version;

/// Messages and bytes of payload.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct limic_traffic {
    /// Messages.
    pub messages: u64,
    /// Bytes of payload.
    pub bytes: u64,
}

impl limic_traffic {
    fn of(traffic: &Traffic) -> Self {
        Self {
            messages: traffic.messages,
            bytes: traffic.bytes,
        }
    }

    fn sum<'a>(parts: impl Iterator<Item = &'a Traffic>) -> Self {
        parts.fold(Self::default(), |sum, part| Self {
            messages: sum.messages.wrapping_add(part.messages),
            bytes: sum.bytes.wrapping_add(part.bytes),
        })
    }
}

/// What an endpoint has moved since it was opened. `limic_counters counters = LIMIC_COUNTERS_INIT;`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct limic_counters {
    /// Size of this structure in bytes, set by the caller.
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// Sent to all peers.
    pub sent: limic_traffic,
    /// Received from all peers.
    pub received: limic_traffic,
    /// Messages that arrived before their receive was posted.
    pub unexpected: u64,
    /// Bytes of unexpected messages that are held now.
    pub unexpected_bytes: u64,
    /// Times that the endpoint slept.
    pub sleeps: u64,
    /// Sends by size: class 0 is the empty message, class k holds `2^(k-1)` to `2^k - 1` bytes.
    pub sizes: [u64; 65],
}

/// Bytes of them in version 1.0.
const LEAST: usize = 584;
const _: () = assert!(LEAST <= size_of::<limic_counters>());

/// Reads the counters.
///
/// # Safety
/// `counters` is NULL or a structure with its size set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_counters_read(
    endpoint: limic_endpoint,
    counters: *mut limic_counters,
) -> c_int {
    inside(endpoint, |held| {
        if counters.is_null() {
            return Err(Failure::null("counters"));
        }
        // SAFETY: the caller's promise.
        let size = unsafe { (&raw const (*counters).size).read() } as usize;
        struct_version::check(size, LEAST, 1 << 16, "limic_counters")?;
        let read = held.raw().counters();
        let mut sizes = [0; 65];
        for (class, count) in sizes.iter_mut().zip(&read.sizes) {
            *class = *count;
        }
        let found = limic_counters {
            size: size as u32,
            reserved: 0,
            sent: limic_traffic::sum(read.sent_paths.iter().map(|(_, traffic)| traffic)),
            received: limic_traffic::sum(read.received_paths.iter().map(|(_, traffic)| traffic)),
            unexpected: read.unexpected,
            unexpected_bytes: read.unexpected_bytes,
            sleeps: read.sleeps,
            sizes,
        };
        // SAFETY: `size` bytes are writable by the caller's promise, and `size` is at least the
        // least.
        unsafe { struct_version::give(found, counters.cast(), size, LEAST) };
        Ok(())
    })
}

/// Reads what was exchanged with one peer.
///
/// - `sent`, `received`: set; may be NULL.
///
/// Errors: `LIMIC_ERR_UNKNOWN_PEER`; misuse.
///
/// # Safety
/// `sent` and `received` are NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_counters_peer(
    endpoint: limic_endpoint,
    peer: u32,
    sent: *mut limic_traffic,
    received: *mut limic_traffic,
) -> c_int {
    inside(endpoint, |held| {
        let read = held.raw().counters();
        let of = |list: &[(Peer, Traffic)]| {
            let found = list.iter().find(|(number, _)| number.index() == peer);
            found.map(|(_, traffic)| limic_traffic::of(traffic))
        };
        let (Some(out), Some(back)) = (of(&read.sent), of(&read.received)) else {
            let text = format!(
                "there is no peer {peer}: this endpoint knows {}",
                read.sent.len()
            );
            return Err(Failure::new(LIMIC_ERR_UNKNOWN_PEER, text));
        };
        // SAFETY: the caller's promise.
        if let Some(sent) = unsafe { sent.as_mut() } {
            *sent = out;
        }
        // SAFETY: the caller's promise.
        if let Some(received) = unsafe { received.as_mut() } {
            *received = back;
        }
        Ok(())
    })
}

/// Reads what went by one path. Long messages count where their path is chosen: at the receiver.
///
/// - `path`: 0 to `limic_path_count() - 1`.
///
/// # Safety
/// `traffic` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_counters_path(
    endpoint: limic_endpoint,
    path: u32,
    traffic: *mut limic_traffic,
) -> c_int {
    inside(endpoint, |held| {
        // SAFETY: the caller's promise.
        let traffic = unsafe { crate::arguments::output(traffic, "traffic") }?;
        let wanted = Path::ALL
            .get(path as usize)
            .ok_or_else(|| Failure::new(LIMIC_ERR_INVALID, format!("there is no path {path}")))?;
        let read = held.raw().counters();
        let found = read.paths.iter().find(|(path, _)| path == wanted);
        traffic.write(found.map_or_else(limic_traffic::default, |(_, found)| {
            limic_traffic::of(found)
        }));
        Ok(())
    })
}

/// How many paths this library knows.
#[unsafe(no_mangle)]
pub extern "C" fn limic_path_count() -> u32 {
    Path::ALL.len() as u32
}

/// The name of a path, as in the settings: "inline", "eager", "cma" and so on. NULL for a number
/// that is no path. The memory is the library's and stays valid.
#[unsafe(no_mangle)]
pub extern "C" fn limic_path_name(path: u32) -> *const c_char {
    static NAMES: ValueHere<Vec<std::ffi::CString>> = ValueHere::new();
    let names = NAMES.get_or_make(|| {
        let names = Path::ALL
            .iter()
            .map(|path| std::ffi::CString::new(path.name()));
        names.map(Result::unwrap_or_default).collect()
    });
    names
        .get(path as usize)
        .map_or(core::ptr::null(), |name| name.as_ptr())
}
