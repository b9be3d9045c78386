//! Requests: test, wait, cancel.

use core::ffi::c_int;

use limic::Outcome;
use limic::RequestId;

use crate::arguments::output;
use crate::entry::Inside;
use crate::errors::Failure;
use crate::errors::limic_error::LIMIC_ERR_REQUEST;
use crate::ffi_guard::inside;
use crate::handles::limic_request;
use crate::status::{StatusOut, limic_status};
use crate::waiting::{Patience, until};

/// Marks the number of an operation that was done when it was started: its outcome lies in
/// `Held::done`. The transport's numbers and those of the slab leave the bit alone: it is the top
/// one of a place in a table.
pub(crate) const DONE: u64 = 1 << 31;

/// Where an outcome is to be had.
#[derive(Clone, Copy)]
pub(crate) enum Lies {
    Here(u64),
    Transport(RequestId),
}

impl limic_request {
    #[inline(always)]
    pub(crate) fn lies(self) -> Lies {
        if self.number & DONE == 0 {
            Lies::Transport(RequestId(self.number))
        } else {
            Lies::Here(self.number & !DONE)
        }
    }
}

#[cold]
pub(crate) fn unknown() -> Failure {
    Failure::new(
        LIMIC_ERR_REQUEST,
        "the request is not known: it was waited for already, or this is no request of an open endpoint",
    )
}

/// What a network has not taken goes on, before a caller who may not call again for long is told
/// that an operation is over. Only a wait without a limit gives it time, where no other thread
/// waits to be let in.
#[inline(always)]
pub(crate) fn let_go(held: &Inside, patience: Patience) {
    if !held.raw().holds_messages() {
        return;
    }
    if patience == Patience::Forever && !held.is_shared() {
        held.raw().flush();
    } else {
        held.raw().progress();
    }
}

/// Looks once; makes progress if the operation is pending.
#[inline(always)]
fn ask(held: &mut Inside, request: limic_request) -> Result<Option<Outcome>, Failure> {
    match request.lies() {
        Lies::Here(number) => {
            let_go(held, Patience::Look);
            held.done.take(number).map(Some).ok_or_else(unknown)
        }
        Lies::Transport(id) => known(held.raw().test(id)),
    }
}

/// An unknown request is the caller's mistake and not an outcome.
#[inline(always)]
pub(crate) fn known(outcome: Option<Outcome>) -> Result<Option<Outcome>, Failure> {
    match outcome {
        Some(Err(limic::Error::UnknownRequest)) => Err(unknown()),
        other => Ok(other),
    }
}

/// Waits for one.
#[inline(always)]
pub(crate) fn await_one(
    held: &mut Inside,
    request: limic_request,
    patience: Patience,
) -> Result<Outcome, Failure> {
    match (request.lies(), patience) {
        (Lies::Here(number), _) => {
            let_go(held, patience);
            held.done.take(number).ok_or_else(unknown)
        }
        (Lies::Transport(id), _) => await_transport(held, id, patience),
    }
}

/// Waits for one that was pending.
#[inline(always)]
pub(crate) fn await_transport(
    held: &mut Inside,
    id: RequestId,
    patience: Patience,
) -> Result<Outcome, Failure> {
    if patience == Patience::Forever && !held.is_shared() {
        return known(Some(held.raw().wait(id)))?.ok_or_else(unknown);
    }
    let outcome = until(held, patience, |held| known(held.raw().test(id)))?;
    let_go(held, patience);
    Ok(outcome)
}

/// Tells C what became of a request that is over, and voids it.
#[inline(always)]
pub(crate) fn conclude(
    request: &mut limic_request,
    status: StatusOut,
    outcome: Outcome,
) -> Result<(), Failure> {
    *request = limic_request::default();
    status.set(&outcome);
    outcome.map(|_| ()).map_err(Failure::from)
}

/// Looks whether an operation is done, after moving messages along once.
///
/// - `request`: set to `LIMIC_REQUEST_NULL` if it is done. `LIMIC_REQUEST_NULL` is done at once,
///   with an empty status.
/// - `done`: set to 1 if it is done, else 0.
/// - `status`: set if it is done; may be NULL.
///
/// Returns what became of the operation if it is done, `LIMIC_OK` if not. Errors:
/// `LIMIC_ERR_REQUEST`, and those of the operation.
///
/// # Safety
/// `request` and `done` are NULL or valid; `status` is NULL or a structure with its size set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_test(
    request: *mut limic_request,
    done: *mut c_int,
    status: *mut limic_status,
) -> c_int {
    // SAFETY: the caller's promise.
    let Some(request) = (unsafe { request.as_mut() }) else {
        return Failure::null("request").report();
    };
    // SAFETY: the caller's promise.
    let Some(done) = (unsafe { done.as_mut() }) else {
        return Failure::null("done").report();
    };
    if request.is_null() {
        *done = 1;
        // SAFETY: the caller's promise.
        return crate::ffi_guard::guarded(|| unsafe { nothing(status) });
    }
    inside(request.owner(), |held| {
        // SAFETY: the caller's promise.
        let status = unsafe { StatusOut::new(status) }?;
        *done = 0;
        match ask(held, *request)? {
            None => Ok(()),
            Some(outcome) => {
                *done = 1;
                conclude(request, status, outcome)
            }
        }
    })
}

/// The status of no operation.
///
/// # Safety
/// As [`StatusOut::new`].
pub(crate) unsafe fn nothing(status: *mut limic_status) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let status = unsafe { StatusOut::new(status) }?;
    status.found(&limic::Status {
        peer: limic::Peer::from_index(crate::arguments::LIMIC_ANY_SOURCE),
        tag: limic::Tag(0),
        len: 0,
        immediate: None,
    });
    Ok(())
}

/// Waits until an operation is done, at most `timeout_ns` nanoseconds; `LIMIC_FOREVER` waits
/// without end, 0 looks once.
///
/// `request` and `status` as for `limic_test`. Returns what became of the operation, or
/// `LIMIC_ERR_TIMEOUT`: the request is then still pending. Waiting polls, then yields, then sleeps.
///
/// # Safety
/// As `limic_test`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_wait(
    request: *mut limic_request,
    timeout_ns: i64,
    status: *mut limic_status,
) -> c_int {
    // SAFETY: the caller's promise.
    let Some(request) = (unsafe { request.as_mut() }) else {
        return Failure::null("request").report();
    };
    if request.is_null() {
        // SAFETY: the caller's promise.
        return crate::ffi_guard::guarded(|| unsafe { nothing(status) });
    }
    inside(request.owner(), |held| {
        // SAFETY: the caller's promise.
        let status = unsafe { StatusOut::new(status) }?;
        let outcome = await_one(held, *request, Patience::of(timeout_ns))?;
        conclude(request, status, outcome)
    })
}

/// Asks that an operation be cancelled. The request stays pending and is waited for as usual: it
/// ends with `LIMIC_ERR_CANCELLED`, or as if nothing had been asked if it had matched already.
///
/// Errors: `LIMIC_ERR_REQUEST` if it is not pending any more.
///
/// # Safety
/// `request` is NULL or readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_cancel(request: *const limic_request) -> c_int {
    // SAFETY: the caller's promise.
    let Some(request) = (unsafe { request.as_ref() }) else {
        return Failure::null("request").report();
    };
    inside(request.owner(), |held| match request.lies() {
        Lies::Here(number) => held.done.get_mut(number).map(|_| ()).ok_or_else(unknown),
        Lies::Transport(id) => {
            // Unknown is the only error, and the text here says more.
            held.raw().cancel(id).map_err(|_| unknown())
        }
    })
}

/// Whether an operation is done, without moving messages along, freeing the request or telling what
/// became of it.
///
/// - `done`: set to 1 or 0; 1 also for a request that is not known any more.
///
/// # Safety
/// `request` is NULL or readable, `done` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_is_done(request: *const limic_request, done: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    let Some(request) = (unsafe { request.as_ref() }) else {
        return Failure::null("request").report();
    };
    if request.is_null() {
        return crate::ffi_guard::guarded(|| {
            // SAFETY: the caller's promise.
            unsafe { output(done, "done") }?.write(1);
            Ok(())
        });
    }
    inside(request.owner(), |held| {
        // SAFETY: the caller's promise.
        let done = unsafe { output(done, "done") }?;
        done.write(match request.lies() {
            Lies::Here(_) => 1,
            Lies::Transport(id) => c_int::from(held.raw().is_done(id)),
        });
        Ok(())
    })
}
