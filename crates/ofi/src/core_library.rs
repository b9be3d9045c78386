//! The libfabric that loaded this library. Its functions are looked up by name, since linking would
//! bind to one version of it.

use core::ffi::{CStr, c_void};

/// A function of it; null if it has none of this name.
pub(crate) fn symbol(name: &CStr) -> *mut c_void {
    // SAFETY: plain calls of the dynamic linker. With NOLOAD nothing is loaded that is not there;
    // the handle stays open, so the functions stay.
    unsafe {
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
        let loaded = libc::dlopen(c"libfabric.so.1".as_ptr(), flags);
        let from = if loaded.is_null() {
            libc::RTLD_DEFAULT
        } else {
            loaded
        };
        libc::dlsym(from, name.as_ptr())
    }
}
