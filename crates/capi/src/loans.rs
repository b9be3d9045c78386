//! Loans: messages that are built, and read, in shared memory.

use core::ffi::{c_int, c_void};

use limic::{Peer, Selector, Tag};

use crate::arguments::{label, output, selector, too_long};
use crate::endpoint_state::{EndpointState, Lent};
use crate::errors::Failure;
use crate::errors::limic_error::{LIMIC_ERR_RANGE, LIMIC_ERR_REQUEST};
use crate::ffi_guard::inside;
use crate::handles::{limic_endpoint, limic_loan, limic_request};
use crate::messages::start;
use crate::status::{StatusOut, limic_status};
use crate::waiting::{Patience, meet, until};

#[cold]
fn unknown() -> Failure {
    Failure::new(
        LIMIC_ERR_REQUEST,
        "the loan is not known: it was sent or given back already",
    )
}

/// Lends `length` bytes of shared memory, to be filled and sent without a copy.
///
/// - `loan`: set to the loan. `data`: set to its first byte; aligned to 64 bytes at least; what
///   lies there is undefined.
///
/// The memory is the caller's until `limic_loan_isend` or `limic_loan_return`.
///
/// Errors: `LIMIC_ERR_NO_MEMORY` names the limit that was hit (`LIMIC_LOAN_BYTES`); loans that
/// receivers have not given back are part of it.
///
/// # Safety
/// `loan` and `data` are NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_loan_get(
    endpoint: limic_endpoint,
    length: usize,
    loan: *mut limic_loan,
    data: *mut *mut c_void,
) -> c_int {
    inside(endpoint, |held| {
        if length > isize::MAX as usize {
            return Err(too_long(length));
        }
        // SAFETY: the caller's promise.
        let (loan, data) = unsafe { (output(loan, "loan")?, output(data, "data")?) };
        let raw = held.raw().borrow_loan(length)?;
        data.write(raw.start.cast());
        loan.write(limic_loan {
            endpoint: endpoint.id,
            number: held.loans.insert(Lent::Room(raw)),
        });
        Ok(())
    })
}

/// Starts to send the first `length` bytes of a loan. The time does not depend on the length; only
/// the first loan to a peer waits until that one answers. `loan` becomes `LIMIC_LOAN_NULL`: its
/// memory is not the caller's any more, also after an error of the transport.
///
/// Arguments as for `limic_isend`. Errors: as `limic_isend`; and, with the loan still the caller's,
/// `LIMIC_ERR_RANGE` if the loan is shorter, `LIMIC_ERR_REQUEST` if it is not (any more) one that
/// was lent for sending, misuse.
///
/// # Safety
/// `loan` is NULL or readable and writable, `request` is NULL or writable; nobody touches the
/// loan's memory any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_loan_isend(
    loan: *mut limic_loan,
    length: usize,
    destination: u32,
    tag: u32,
    context: u32,
    request: *mut limic_request,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { start_send(loan, length, destination, || label(tag, context), request) }
}

/// Starts to send a loan.
///
/// # Safety
/// As [`limic_loan_isend`].
pub(crate) unsafe fn start_send(
    loan: *mut limic_loan,
    length: usize,
    destination: u32,
    tag: impl FnOnce() -> Result<Tag, Failure>,
    request: *mut limic_request,
) -> c_int {
    // SAFETY: the caller's promise.
    let Some(loan) = (unsafe { loan.as_mut() }) else {
        return Failure::null("loan").report();
    };
    inside(loan.owner(), |held| {
        let tag = tag()?;
        // SAFETY: the caller's promise.
        let request = unsafe { output(request, "request") }?;
        let to = Peer::from_index(destination);
        meet(held, to)?;
        match held.loans.get_mut(loan.number) {
            Some(Lent::Room(raw)) if length <= raw.len => {}
            Some(Lent::Room(raw)) => {
                return Err(Failure::new(
                    LIMIC_ERR_RANGE,
                    format!("{length} bytes of a loan of {} bytes", raw.len),
                ));
            }
            Some(Lent::Message { .. }) => {
                return Err(Failure::new(
                    LIMIC_ERR_REQUEST,
                    "a received loan cannot be sent on: it is its sender's memory",
                ));
            }
            None => return Err(unknown()),
        }
        let Some(Lent::Room(raw)) = held.loans.take(loan.number) else {
            return Err(unknown());
        };
        let endpoint = loan.owner();
        *loan = limic_loan::default();
        // SAFETY: this endpoint lent it, it is long enough by the check above, and C does not touch
        // it any more (limic.h).
        let posted = unsafe { held.raw().post_loan(to, tag, raw, length) }?;
        start(endpoint, held, posted, request);
        Ok(())
    })
}

/// Waits for a message, at most `timeout_ns` nanoseconds, and takes it where it lies: without a
/// copy if it was sent as a loan.
///
/// - `loan`: set to the loan; give it back with `limic_loan_return`. `data`: set to the first byte;
///   the length is in `status`.
///
/// Other arguments as for `limic_recv`. The memory may be read only, until it is given back. It is
/// the sender's process that could still write there: copy first what must not change under your
/// eyes.
///
/// Errors: `LIMIC_ERR_TIMEOUT`, `LIMIC_ERR_PEER_FAILED`, `LIMIC_ERR_NO_MEMORY`; misuse.
///
/// # Safety
/// `loan` and `data` are NULL or writable, `status` is NULL or a structure with its size set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_loan_recv(
    endpoint: limic_endpoint,
    source: u32,
    tag: u32,
    context: u32,
    timeout_ns: i64,
    loan: *mut limic_loan,
    data: *mut *const c_void,
    status: *mut limic_status,
) -> c_int {
    let selector = || selector(source, tag, context);
    // SAFETY: the caller's promise.
    unsafe { receive(endpoint, selector, timeout_ns, loan, data, status) }
}

/// Waits for a message, and takes it where it lies.
///
/// # Safety
/// As [`limic_loan_recv`].
pub(crate) unsafe fn receive(
    endpoint: limic_endpoint,
    selector: impl FnOnce() -> Result<Selector, Failure>,
    timeout_ns: i64,
    loan: *mut limic_loan,
    data: *mut *const c_void,
    status: *mut limic_status,
) -> c_int {
    inside(endpoint, |held| {
        let selector = selector()?;
        // SAFETY: the caller's promise.
        let (loan, data) = unsafe { (output(loan, "loan")?, output(data, "data")?) };
        // SAFETY: the caller's promise.
        let status = unsafe { StatusOut::new(status) }?;
        let taken = match Patience::of(timeout_ns) {
            Patience::Forever if !held.is_shared() => {
                status.unless(held.raw().take_loan_blocking(&selector))?
            }
            patience => until(held, patience, |held| {
                Ok(status.unless(held.raw().take_loan(&selector))?)
            })?,
        };
        status.found(&taken.status);
        data.write(taken.start.cast());
        loan.write(limic_loan {
            endpoint: endpoint.id,
            number: held.loans.insert(Lent::Message { _keeps: taken }),
        });
        Ok(())
    })
}

/// Gives a loan back: one that was not sent, or a received one. `loan` becomes `LIMIC_LOAN_NULL`.
///
/// # Safety
/// `loan` is NULL or readable and writable; nobody touches the loan's memory any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_loan_return(loan: *mut limic_loan) -> c_int {
    // SAFETY: the caller's promise.
    let Some(loan) = (unsafe { loan.as_mut() }) else {
        return Failure::null("loan").report();
    };
    inside(loan.owner(), |held| {
        give_back(held, loan.number)?;
        *loan = limic_loan::default();
        Ok(())
    })
}

fn give_back(held: &mut EndpointState, number: u64) -> Result<(), Failure> {
    match held.loans.take(number).ok_or_else(unknown)? {
        // SAFETY: this endpoint lent it, and C does not touch it any more (limic.h).
        Lent::Room(raw) => unsafe { held.raw().return_loan(raw) },
        // The drop tells the sender.
        message @ Lent::Message { .. } => drop(message),
    }
    Ok(())
}
