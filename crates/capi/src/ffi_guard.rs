//! What every entry from C does: no panic gets out, and errors become codes.

use core::ffi::c_int;

use limic_ffi::{Panic, guard};

use crate::entry::{Inside, enter};
use crate::errors::Failure;
use crate::errors::limic_error::{LIMIC_ERR_INTERNAL, LIMIC_OK};
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
    let mut held = match enter(endpoint) {
        Ok(held) if held.broken => return broken().report(),
        Ok(held) => held,
        Err(failure) => return failure.report(),
    };
    // A panic marks the endpoint as broken, and nothing but its end is asked of it then.
    match guard(|| call(&mut held)) {
        Ok(Ok(())) => LIMIC_OK as c_int,
        Ok(Err(failure)) => failure.report(),
        Err(panic) => {
            held.broken = true;
            panicked(&panic).report()
        }
    }
}

/// As [`inside`], for a call on several endpoints. An error was kept already, if it has a text, and
/// its code is left.
pub(crate) fn visit<T>(
    endpoint: limic_endpoint,
    call: impl FnOnce(&mut Inside) -> T,
) -> Result<T, c_int> {
    let mut answer = None;
    let code = inside(endpoint, |held| {
        answer = Some(call(held));
        Ok(())
    });
    answer.ok_or(code)
}

#[cold]
pub(crate) fn broken() -> Failure {
    Failure::new(
        LIMIC_ERR_INTERNAL,
        "an earlier call of this endpoint met a fault in limic; close the endpoint",
    )
}
