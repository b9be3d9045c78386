//! Finds libpmix at run time and holds its functions, behind calls that are safe.

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::PathBuf;
use std::ptr;

use libloading::Library;

use super::super::BootstrapError;
use super::abi::{self, ByteObject, Data, Info, Proc, Status, Value};

/// The functions of one loaded libpmix. The library stays loaded until the process ends, because it
/// runs a thread of its own.
pub(super) struct Pmix {
    name: String,
    init: abi::InitFn,
    finalize: abi::FinalizeFn,
    abort: abi::AbortFn,
    put: abi::PutFn,
    commit: abi::CommitFn,
    fence: abi::FenceFn,
    get: abi::GetFn,
    error_string: abi::TextFn,
    version: abi::VersionFn,
}

impl std::fmt::Debug for Pmix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pmix")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// What PMIx_Get brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Got {
    Number(u32),
    Bytes(Vec<u8>),
    /// Another `pmix_data_type_t`.
    Other(u16),
}

impl Pmix {
    /// Loads the first of `LIMIC_PMIX_LIBRARY`, `libpmix.so.2` and `libpmix.so` that the loader
    /// finds.
    pub(super) fn load() -> Result<Self, BootstrapError> {
        let named = std::env::var_os("LIMIC_PMIX_LIBRARY").filter(|name| !name.is_empty());
        let names: Vec<PathBuf> = match named {
            Some(name) => vec![name.into()],
            None => vec!["libpmix.so.2".into(), "libpmix.so".into()],
        };
        let mut tried = Vec::new();
        for name in names {
            // SAFETY: loading runs the library's constructors; libpmix and what it links against
            // (libevent, hwloc, libc) have none that break Rust's rules, and the user's own choice
            // of another file is the user's word.
            match unsafe { Library::new(&name) } {
                Ok(library) => return Self::resolve(library, name.display().to_string()),
                Err(error) => tried.push(format!("{} ({error})", name.display())),
            }
        }
        Err(BootstrapError::LibraryNotLoaded {
            tried: tried.join(", "),
        })
    }

    fn resolve(library: Library, name: String) -> Result<Self, BootstrapError> {
        /// # Safety
        /// `F` is the type of the C function called `function`.
        unsafe fn find<F: Copy>(
            library: &Library,
            name: &str,
            function: &'static str,
        ) -> Result<F, BootstrapError> {
            // SAFETY: the caller names the function's true type.
            let symbol = unsafe { library.get::<F>(function.as_bytes()) };
            let symbol = symbol.map_err(|_| BootstrapError::FunctionMissing {
                library: name.to_owned(),
                function,
            })?;
            Ok(*symbol)
        }
        // SAFETY: each type in `abi` is that of the C function in pmix.h, which the standard keeps.
        // The pointers stay good because the library is never unloaded (the `forget` below).
        let pmix = unsafe {
            Self {
                init: find(&library, &name, "PMIx_Init")?,
                finalize: find(&library, &name, "PMIx_Finalize")?,
                abort: find(&library, &name, "PMIx_Abort")?,
                put: find(&library, &name, "PMIx_Put")?,
                commit: find(&library, &name, "PMIx_Commit")?,
                fence: find(&library, &name, "PMIx_Fence")?,
                get: find(&library, &name, "PMIx_Get")?,
                error_string: find(&library, &name, "PMIx_Error_string")?,
                version: find(&library, &name, "PMIx_Get_version")?,
                name,
            }
        };
        std::mem::forget(library);
        Ok(pmix)
    }

    /// The name that it was loaded by.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The library's own words about itself.
    pub(super) fn version(&self) -> String {
        // SAFETY: takes nothing; returns a string that lives as long as the library.
        unsafe { text((self.version)()) }
    }

    /// The library's words for a status.
    pub(super) fn describe(&self, status: Status) -> String {
        // SAFETY: takes any status; returns a string that lives as long as the library.
        let words = unsafe { text((self.error_string)(status)) };
        format!("{words} ({status})")
    }

    /// Connects to the server; returns this process's job and rank.
    pub(super) fn init(&self) -> Result<Proc, Status> {
        let mut me = Proc {
            nspace: [0; 256],
            rank: 0,
        };
        // SAFETY: `me` is a writable pmix_proc_t; no options, hence null and 0.
        check(unsafe { (self.init)(&raw mut me, ptr::null_mut(), 0) })?;
        Ok(me)
    }

    pub(super) fn finalize(&self) -> Result<(), Status> {
        // SAFETY: no options, hence null and 0.
        check(unsafe { (self.finalize)(ptr::null(), 0) })
    }

    /// Ends all ranks of the job.
    pub(super) fn abort(&self, code: c_int, message: &CStr) -> Result<(), Status> {
        // SAFETY: the text is closed by NUL and only read; null and 0 name all processes of the
        // job.
        check(unsafe { (self.abort)(code, message.as_ptr(), ptr::null_mut(), 0) })
    }

    /// Stores a blob for all ranks; it reaches them with the next fence.
    pub(super) fn put(&self, key: &CStr, blob: &[u8]) -> Result<(), Status> {
        // The library copies the bytes, but its type is `char *`: a copy of our own keeps `blob`
        // out of its reach.
        let mut bytes = blob.to_vec();
        let mut value = Value {
            data: Data {
                bytes: ByteObject {
                    bytes: bytes.as_mut_ptr().cast(),
                    size: bytes.len(),
                },
            },
            ..Value::new(abi::BYTE_OBJECT)
        };
        // SAFETY: the key is closed by NUL; the value and the bytes that it names live until the
        // calls return.
        check(unsafe { (self.put)(abi::SCOPE_GLOBAL, key.as_ptr(), &raw mut value) })?;
        // SAFETY: takes nothing.
        check(unsafe { (self.commit)() })
    }

    /// Waits for all ranks of the job; with `collect`, brings what they stored here.
    pub(super) fn fence(&self, collect: bool, seconds: c_int) -> Result<(), Status> {
        let flag = Value {
            data: Data { flag: collect },
            ..Value::new(abi::BOOL)
        };
        let limit = Value {
            data: Data { integer: seconds },
            ..Value::new(abi::INT)
        };
        let options = [
            Info::new(abi::COLLECT_DATA, flag),
            Info::new(abi::TIMEOUT, limit),
        ];
        // SAFETY: null and 0 name all processes of the job; the options are two whole pmix_info_t,
        // only read.
        check(unsafe { (self.fence)(ptr::null(), 0, options.as_ptr(), options.len()) })
    }

    /// What `of` stored under `key`.
    pub(super) fn get(&self, of: &Proc, key: &CStr, seconds: c_int) -> Result<Got, Status> {
        let limit = Value {
            data: Data { integer: seconds },
            ..Value::new(abi::INT)
        };
        let options = [Info::new(abi::TIMEOUT, limit)];
        let mut found: *mut Value = ptr::null_mut();
        // SAFETY: the key is closed by NUL; `of` and the option are only read; `found` is writable
        // and receives a value from malloc, ours to free.
        check(unsafe {
            (self.get)(
                of,
                key.as_ptr(),
                options.as_ptr(),
                options.len(),
                &raw mut found,
            )
        })?;
        if found.is_null() {
            return Ok(Got::Other(0));
        }
        // SAFETY: on success the pointer names a whole pmix_value_t. `kind` says which member of
        // the union holds; the members read here are valid for any bits. A byte object's bytes and
        // the value itself come from malloc, and nobody else knows them, so both are freed here
        // once, as PMIX_VALUE_RELEASE of pmix_common.h does.
        unsafe {
            let value = *found;
            let got = match value.kind {
                abi::UINT32 => Got::Number(value.data.uint32),
                abi::BYTE_OBJECT => {
                    let object = value.data.bytes;
                    let mut bytes = Vec::new();
                    if !object.bytes.is_null() {
                        let stored = object.bytes.cast::<u8>();
                        bytes.extend_from_slice(std::slice::from_raw_parts(stored, object.size));
                        libc::free(object.bytes.cast());
                    }
                    Got::Bytes(bytes)
                }
                other => Got::Other(other),
            };
            libc::free(found.cast());
            Ok(got)
        }
    }
}

fn check(status: Status) -> Result<(), Status> {
    if status == abi::SUCCESS {
        Ok(())
    } else {
        Err(status)
    }
}

/// # Safety
/// `words` is null or names a string closed by NUL.
unsafe fn text(words: *const c_char) -> String {
    if words.is_null() {
        return String::new();
    }
    // SAFETY: not null, and closed by NUL as the caller says.
    unsafe { CStr::from_ptr(words) }
        .to_string_lossy()
        .into_owned()
}

/// A C string from text that may hold NULs; it ends at the first.
pub(super) fn c_text(words: &str) -> CString {
    let words = words.split('\0').next().unwrap_or_default();
    CString::new(words).unwrap_or_default()
}
