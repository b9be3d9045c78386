//! What every entry from C does: no panic gets out, and errors become codes.

use core::ffi::c_int;

use limic_ffi::{Panic, guard};

use crate::entry::{Inside, enter};
use crate::errors::Failure;
use crate::errors::limic_error::{LIMIC_ERR_BUSY, LIMIC_ERR_INTERNAL, LIMIC_OK};
use crate::handles::limic_endpoint;

/// Runs a function that C called and that is not about an open endpoint.
#[inline(always)]
pub(crate) fn guarded(call: impl FnOnce() -> Result<(), Failure>) -> c_int {
    // Nothing that a panic may leave half-done is used again.
    match guard(call) {
        Ok(Ok(())) => LIMIC_OK as c_int,
        Ok(Err(failure)) => failure.report(),
        Err(panic) => panicked(&panic).report(),
    }
}

#[cold]
fn panicked(panic: &Panic) -> Failure {
    Failure::new(
        LIMIC_ERR_INTERNAL,
        format!("a fault in limic, please report it: {}", panic.text()),
    )
}

/// Runs a call on an endpoint, after all checks of the handle.
#[inline(always)]
pub(crate) fn inside(
    endpoint: limic_endpoint,
    call: impl FnOnce(&mut Inside) -> Result<(), Failure>,
) -> c_int {
    match visit(endpoint, call) {
        Ok(()) => LIMIC_OK as c_int,
        // In a signal handler: the code alone, since keeping the detail takes memory.
        Err(failure) if failure.code == LIMIC_ERR_BUSY => LIMIC_ERR_BUSY as c_int,
        Err(failure) => failure.report(),
    }
}

/// As [`inside`], for a part of a call.
#[inline(always)]
pub(crate) fn visit<T>(
    endpoint: limic_endpoint,
    call: impl FnOnce(&mut Inside) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut held = enter(endpoint)?;
    if held.broken {
        return Err(broken());
    }
    // A panic marks the endpoint as broken, and nothing but its end is asked of it then.
    guard(|| call(&mut held)).unwrap_or_else(|panic| {
        held.broken = true;
        Err(panicked(&panic))
    })
}

#[cold]
pub(crate) fn broken() -> Failure {
    Failure::new(
        LIMIC_ERR_INTERNAL,
        "an earlier call of this endpoint met a fault in limic; close the endpoint",
    )
}
