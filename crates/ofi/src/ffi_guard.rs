//! The border to C: no panic crosses it.

use limic_ffi::{Panic, guard};

use crate::log;
use limic_ofi_abi::errno::FI_EOTHER;

/// Runs the body of a function that C calls. A panic, which is a bug of this library, becomes
/// `otherwise`.
#[inline(always)]
pub(crate) fn cross<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    // What a panic leaves half done is at worst an operation that is never reported.
    guard(body).unwrap_or_else(|panic| caught(otherwise, &panic))
}

/// Leaves the call: it ends with `FI_EOTHER`, or what else stands for a failure.
#[cold]
pub(crate) fn leave(why: &'static str) -> ! {
    std::panic::resume_unwind(Box::new(Left(why)))
}

/// Why a call was left, which is no bug.
struct Left(&'static str);

#[cold]
fn caught<T>(otherwise: T, panic: &Panic) -> T {
    if let Some(Left(why)) = panic.get() {
        log::warn(why);
        return otherwise;
    }
    log::warn(&format_args!("a bug of limic: {}", panic.text()));
    otherwise
}

/// As [`cross`], for functions that give 0 or a negative error number.
#[inline(always)]
pub(crate) fn status(body: impl FnOnce() -> Result<(), i32>) -> i32 {
    cross(-FI_EOTHER, || match body() {
        Ok(()) => 0,
        Err(errno) => -errno,
    })
}

/// As [`status`], for functions that give a `ssize_t`.
#[inline(always)]
pub(crate) fn size(body: impl FnOnce() -> Result<usize, i32>) -> isize {
    cross(-(FI_EOTHER as isize), || match body() {
        Ok(count) => count as isize,
        Err(errno) => -(errno as isize),
    })
}

/// A function that this provider does not have. Callers pass arguments, which it does not look at:
/// under the C calling conventions of Linux the caller removes them.
pub(crate) unsafe extern "C" fn no_such_function() -> i32 {
    -limic_ofi_abi::errno::FI_ENOSYS
}

/// The same, of those that give a `ssize_t`.
pub(crate) unsafe extern "C" fn no_such_call() -> isize {
    -(limic_ofi_abi::errno::FI_ENOSYS as isize)
}
