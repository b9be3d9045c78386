//! How an endpoint is opened.

use core::ffi::{CStr, c_char};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use limic::{HybridEndpoint, KernelEndpoint, Settings, ShmEndpoint};

use crate::errors::Failure;
use crate::errors::limic_error::{LIMIC_ERR_INVALID, LIMIC_ERR_SETTINGS, LIMIC_ERR_SIZE};
use crate::struct_version;
use crate::table::Threads;

/// Every path within one node, picked for each message, and the networks to other nodes
/// (`LIMIC_FABRIC`). The default.
pub const LIMIC_KIND_HYBRID: u32 = 0;
/// Shared memory only: no process reads another's memory, and no other node is reached.
pub const LIMIC_KIND_SHM: u32 = 1;
/// Messages that the kernel module matches and copies: needs `/dev/limic`. All endpoints that talk
/// to each other have to be of this kind and in one group (`LIMIC_KERNEL_GROUP`; by itself it is
/// the launcher's job).
pub const LIMIC_KIND_KERNEL: u32 = 2;

/// One thread owns the endpoint: the one that opened it, until it is handed on
/// (`limic_endpoint_release`, `limic_endpoint_adopt`). The default, and the quickest.
pub const LIMIC_THREADS_OWNER: u32 = 0;
/// Any thread may call, one at a time: the program sees to that with its own lock. A call while
/// another thread is inside fails with `LIMIC_ERR_THREAD`.
pub const LIMIC_THREADS_SERIALIZED: u32 = 1;
/// Since 1.1: any thread may call at any time; the library has the lock, and a call that waits lets
/// other threads in meanwhile. `limic_endpoint_close` and `limic_world_finalize` fail with
/// `LIMIC_ERR_THREAD` while another thread waits.
pub const LIMIC_THREADS_MULTIPLE: u32 = 2;

/// How an endpoint is opened. `limic_options options = LIMIC_OPTIONS_INIT;` and NULL mean the
/// defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct limic_options {
    /// Size of this structure in bytes, set by the caller.
    pub size: u32,
    /// `LIMIC_KIND_HYBRID`, `LIMIC_KIND_SHM` or `LIMIC_KIND_KERNEL`.
    pub kind: u32,
    /// `LIMIC_THREADS_OWNER`, `LIMIC_THREADS_SERIALIZED` or `LIMIC_THREADS_MULTIPLE`.
    pub threads: u32,
    /// 0.
    pub reserved: u32,
    /// Settings of the form `LIMIC_NAME=value`, with a NULL behind the last; or NULL. They win over
    /// the environment. `limic info --all` lists the names. The strings are the caller's; the
    /// library copies what it keeps.
    pub settings: *const *const c_char,
}

/// Bytes of them in version 1.0.
const LEAST: usize = 24;
const _: () = assert!(LEAST <= size_of::<limic_options>());

/// What holds for fields that a caller does not know.
const DEFAULT: limic_options = limic_options {
    size: 0,
    kind: LIMIC_KIND_HYBRID,
    threads: LIMIC_THREADS_OWNER,
    reserved: 0,
    settings: core::ptr::null(),
};

/// The options as Rust has them.
#[derive(Debug)]
pub(crate) struct Options {
    kind: u32,
    pub(crate) threads: Threads,
    given: Vec<(OsString, OsString)>,
}

/// An endpoint of the wanted kind.
pub(crate) enum Opened {
    Hybrid(HybridEndpoint),
    Shm(ShmEndpoint),
    Kernel(KernelEndpoint),
}

impl Options {
    /// # Safety
    /// `options` is NULL, or readable for as many bytes as its first field says; `settings` is NULL
    /// or a list of strings with a NULL behind the last.
    pub(crate) unsafe fn read(options: *const limic_options) -> Result<Self, Failure> {
        let mut read = Self {
            kind: LIMIC_KIND_HYBRID,
            threads: Threads::Owner,
            given: Vec::new(),
        };
        if options.is_null() {
            return Ok(read);
        }
        // SAFETY: the caller's promise.
        let size = unsafe { (&raw const (*options).size).read() } as usize;
        struct_version::check(size, LEAST, 4096, "limic_options")?;
        // SAFETY: readable for `size` bytes by the caller's promise, of which sizes of any version
        // end behind a field; its fields are numbers, and a list that the caller vouches for.
        let options = unsafe { struct_version::take(options.cast(), size, DEFAULT) };
        let Some(options) = options else {
            return Err(Failure::new(
                LIMIC_ERR_SIZE,
                "limic_options has set fields that this library does not know: it is older than the program's header",
            ));
        };
        if options.kind > LIMIC_KIND_KERNEL || options.reserved != 0 {
            return Err(Failure::new(
                LIMIC_ERR_INVALID,
                format!(
                    "limic_options.kind is {} (0 to 2), .reserved {} (0)",
                    options.kind, options.reserved
                ),
            ));
        }
        read.kind = options.kind;
        read.threads = match options.threads {
            LIMIC_THREADS_OWNER => Threads::Owner,
            LIMIC_THREADS_SERIALIZED => Threads::Serialized,
            LIMIC_THREADS_MULTIPLE => Threads::Multiple,
            other => {
                return Err(Failure::new(
                    LIMIC_ERR_INVALID,
                    format!("limic_options.threads is {other}, not 0 to 2"),
                ));
            }
        };
        // SAFETY: the caller's promise.
        read.given = unsafe { settings(options.settings) }?;
        Ok(read)
    }

    /// Opens an endpoint.
    pub(crate) fn open(&self) -> Result<Opened, Failure> {
        let refused = |why: String| Failure::new(LIMIC_ERR_SETTINGS, why);
        let settings = Settings::builder()
            .with_variables(self.given.iter().map(|(name, value)| (name, value)))
            .build()
            .map_err(|error| refused(error.to_string()))?;
        // In the environment an unknown name is a warning, since it may be another program's. Here
        // it is a mistake.
        if let Some(warning) = settings.warnings_about_given().first() {
            return Err(refused(format!("limic_options.settings: {warning}")));
        }
        Ok(match self.kind {
            LIMIC_KIND_SHM => Opened::Shm(ShmEndpoint::with(settings)?),
            LIMIC_KIND_KERNEL => Opened::Kernel(KernelEndpoint::with(settings)?),
            _ => Opened::Hybrid(HybridEndpoint::with(settings)?),
        })
    }
}

/// # Safety
/// NULL, or a list of strings with a NULL behind the last.
unsafe fn settings(mut list: *const *const c_char) -> Result<Vec<(OsString, OsString)>, Failure> {
    let mut given = Vec::new();
    if list.is_null() {
        return Ok(given);
    }
    // SAFETY: the caller's promise: entries up to the NULL are there, and are strings.
    while let Some(text) = unsafe { list.read().as_ref() } {
        // SAFETY: as above.
        let text = unsafe { CStr::from_ptr(text) }.to_bytes();
        let cut = text.iter().position(|byte| *byte == b'=');
        let Some(cut) = cut.filter(|_| text.starts_with(b"LIMIC_")) else {
            return Err(Failure::new(
                LIMIC_ERR_SETTINGS,
                format!(
                    "'{}' in limic_options.settings is not of the form LIMIC_NAME=value",
                    String::from_utf8_lossy(text)
                ),
            ));
        };
        let part = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        given.push((part(&text[..cut]), part(&text[cut + 1..])));
        // SAFETY: the entry before was not the NULL, so there is another one.
        list = unsafe { list.add(1) };
    }
    Ok(given)
}
