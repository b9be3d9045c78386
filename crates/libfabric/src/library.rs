//! libfabric itself, loaded when it is asked for.

use core::cell::Cell;
use core::ffi::{CStr, c_char, c_int, c_void};

use libloading::Library;
use limic_ofi_abi::info::{fi_fabric_attr, fi_info};
use limic_ofi_abi::objects::fid_fabric;

const NAME: &str = "libfabric.so.1";

thread_local! {
    static ASKING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread asks libfabric for its providers: limic's own says then that it has nothing,
/// since it would come back here.
#[must_use]
pub fn is_asking() -> bool {
    ASKING.get()
}

type GetInfo = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const fi_info,
    *mut *mut fi_info,
) -> c_int;
type OpenFabric =
    unsafe extern "C" fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int;

/// The functions of libfabric that it exports; all others are in tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Functions {
    getinfo: GetInfo,
    pub(crate) duplicate: unsafe extern "C" fn(*const fi_info) -> *mut fi_info,
    pub(crate) free: unsafe extern "C" fn(*mut fi_info),
    pub(crate) fabric: OpenFabric,
    error: unsafe extern "C" fn(c_int) -> *const c_char,
}

impl Functions {
    /// Loads libfabric. It stays loaded: providers may have threads.
    #[expect(unsafe_code, reason = "functions of C")]
    pub(crate) fn load() -> Result<Self, String> {
        // SAFETY: loading runs the constructors of libfabric and of what it links against, which
        // every program linked against it runs too.
        let library = unsafe { Library::new(NAME) };
        let library = library.map_err(|error| format!("libfabric cannot be loaded: {error}"))?;
        let failed = |error| format!("{NAME} is none that limic knows: {error}");
        // SAFETY: the types are those of the functions of these names.
        let functions = unsafe {
            Self {
                getinfo: *library.get(b"fi_getinfo\0").map_err(failed)?,
                duplicate: *library.get(b"fi_dupinfo\0").map_err(failed)?,
                free: *library.get(b"fi_freeinfo\0").map_err(failed)?,
                fabric: *library.get(b"fi_fabric\0").map_err(failed)?,
                error: *library.get(b"fi_strerror\0").map_err(failed)?,
            }
        };
        core::mem::forget(library);
        Ok(functions)
    }

    /// Asks for what fits the hints.
    ///
    /// # Safety
    /// The hints are whole.
    #[expect(unsafe_code, reason = "functions of C")]
    pub(crate) unsafe fn getinfo(
        &self,
        version: u32,
        flags: u64,
        hints: *const fi_info,
    ) -> Result<*mut fi_info, c_int> {
        let mut list = core::ptr::null_mut();
        let nothing = core::ptr::null();
        ASKING.set(true);
        // SAFETY: the caller's promise.
        let result =
            unsafe { (self.getinfo)(version, nothing, nothing, flags, hints, &raw mut list) };
        ASKING.set(false);
        if result == 0 { Ok(list) } else { Err(-result) }
    }

    /// What an error number says.
    #[expect(unsafe_code, reason = "functions of C")]
    pub(crate) fn text(&self, error: c_int) -> String {
        // SAFETY: it gives a constant string for any number.
        let text = unsafe { CStr::from_ptr((self.error)(error)) };
        text.to_string_lossy().into_owned()
    }
}
