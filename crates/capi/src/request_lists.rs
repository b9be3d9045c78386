//! Lists of requests: wait for one, some or all.

use core::ffi::c_int;

use limic::{Endpoint, Outcome, RequestId};

use crate::entry::Inside;
use crate::errors::Failure;
use crate::errors::limic_error::{LIMIC_ERR_ENDPOINT, LIMIC_ERR_INVALID};
use crate::ffi_guard::inside;
use crate::handles::{limic_endpoint, limic_request};
use crate::requests::{Lies, await_one, conclude, known, let_go, nothing, unknown};
use crate::status::{StatusOut, limic_status};
use crate::waiting::{Patience, late, until};

/// A list of requests of one endpoint.
struct List<'a> {
    requests: &'a mut [limic_request],
    endpoint: limic_endpoint,
}

impl<'a> List<'a> {
    /// `None` if no request is pending.
    ///
    /// # Safety
    /// `requests` is NULL or valid for `count` entries, for the time of the call from C.
    unsafe fn new(requests: *mut limic_request, count: c_int) -> Result<Option<Self>, Failure> {
        let Ok(count) = usize::try_from(count) else {
            return Err(Failure::new(
                LIMIC_ERR_INVALID,
                format!("a list of {count} requests"),
            ));
        };
        if count == 0 {
            return Ok(None);
        }
        if requests.is_null() {
            return Err(Failure::null("the list of requests"));
        }
        // SAFETY: the caller's promise.
        let requests: &'a mut [limic_request] =
            unsafe { core::slice::from_raw_parts_mut(requests, count) };
        let mut pending = requests.iter().filter(|request| !request.is_null());
        let Some(first) = pending.next() else {
            return Ok(None);
        };
        let endpoint = first.owner();
        if pending.any(|request| request.owner() != endpoint) {
            return Err(Failure::new(
                LIMIC_ERR_ENDPOINT,
                "the requests of one list belong to different endpoints; wait for each endpoint's own",
            ));
        }
        Ok(Some(Self { requests, endpoint }))
    }

    /// Positions of those that are not `LIMIC_REQUEST_NULL`.
    fn pending(&self) -> impl Iterator<Item = usize> + '_ {
        let entries = self.requests.iter().enumerate();
        entries.filter_map(|(at, request)| (!request.is_null()).then_some(at))
    }

    /// Waits for one of them; gives its position.
    fn await_any(
        &self,
        held: &mut Inside,
        patience: Patience,
    ) -> Result<(usize, Outcome), Failure> {
        for at in self.pending() {
            if let Lies::Here(number) = self.requests[at].lies() {
                let_go(held, patience);
                let outcome = held.done.take(number).ok_or_else(unknown)?;
                return Ok((at, outcome));
            }
        }
        if patience == Patience::Forever && !held.is_shared() {
            let mut ids = core::mem::take(&mut held.ids);
            ids.clear();
            ids.extend(self.pending().map(|at| RequestId(self.requests[at].number)));
            let found = held.raw().wait_any(&ids);
            held.ids = ids;
            let (nth, outcome) = found.ok_or_else(unknown)?;
            let outcome = known(Some(outcome))?.ok_or_else(unknown)?;
            let at = self.pending().nth(nth).ok_or_else(unknown)?;
            return Ok((at, outcome));
        }
        let look = |raw: &dyn Endpoint| {
            let mut ids = self
                .pending()
                .map(|at| (at, RequestId(self.requests[at].number)));
            match ids.find(|(_, id)| raw.is_done(*id)) {
                None => Ok(None),
                Some((at, id)) => Ok(known(raw.test(id))?.map(|outcome| (at, outcome))),
            }
        };
        let found = until(held, patience, |held| match look(held.raw())? {
            None => {
                held.raw().progress();
                look(held.raw())
            }
            found => Ok(found),
        })?;
        let_go(held, patience);
        Ok(found)
    }
}

/// Runs a call on a list of requests and room for their statuses; nothing is done if no request is
/// pending.
///
/// # Safety
/// As [`List::new`], and `statuses` as for [`StatusOut::new`].
#[inline(always)]
unsafe fn on_list(
    requests: *mut limic_request,
    count: c_int,
    statuses: *mut limic_status,
    call: impl FnOnce(&mut Inside, List<'_>, StatusOut) -> Result<(), Failure>,
) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { List::new(requests, count) } {
        Ok(Some(list)) => inside(list.endpoint, |held| {
            // SAFETY: the caller's promise.
            let statuses = unsafe { StatusOut::new(statuses) }?;
            call(held, list, statuses)
        }),
        Ok(None) => 0,
        Err(failure) => failure.report(),
    }
}

/// Waits until one of `count` operations is done.
///
/// - `requests`: of one endpoint; `LIMIC_REQUEST_NULL` entries are passed over. The one that is
///   done becomes `LIMIC_REQUEST_NULL`.
/// - `index`: set to its position; to -1 if no entry is a request.
/// - `timeout_ns`, `status`: as for `limic_wait`.
///
/// Returns what became of that operation, or `LIMIC_ERR_TIMEOUT` (with -1 in `index`).
///
/// # Safety
/// `requests` is valid for `count` entries, `index` is NULL or writable, `status` as for
/// `limic_test`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_wait_any(
    count: c_int,
    requests: *mut limic_request,
    timeout_ns: i64,
    index: *mut c_int,
    status: *mut limic_status,
) -> c_int {
    // SAFETY: the caller's promise.
    let Some(index) = (unsafe { index.as_mut() }) else {
        return Failure::null("index").report();
    };
    *index = -1;
    // SAFETY: the caller's promise.
    let list = match unsafe { List::new(requests, count) } {
        Ok(Some(list)) => list,
        // SAFETY: the caller's promise.
        Ok(None) => return crate::ffi_guard::guarded(|| unsafe { nothing(status) }),
        Err(failure) => return failure.report(),
    };
    inside(list.endpoint, |held| {
        // SAFETY: the caller's promise.
        let status = unsafe { StatusOut::new(status) }?;
        let (at, outcome) = list.await_any(held, Patience::of(timeout_ns))?;
        *index = at as c_int;
        conclude(&mut list.requests[at], status, outcome)
    })
}

/// Waits until at least one of `count` operations is done, and takes all that are.
///
/// - `requests`: as for `limic_wait_any`.
/// - `done`: set to how many are done; to 0 if no entry is a request.
/// - `indices`: room for `count` positions; the first `done` are set.
/// - `statuses`: room for `count`, in the order of `indices`; or NULL.
///
/// Returns `LIMIC_OK`, the first error of an operation that is done (the statuses tell whose), or
/// `LIMIC_ERR_TIMEOUT`.
///
/// # Safety
/// As `limic_wait_any`; `indices` is writable for `count` entries, and `statuses` is NULL or valid
/// for `count` structures, the first of which has its size set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_wait_some(
    count: c_int,
    requests: *mut limic_request,
    timeout_ns: i64,
    done: *mut c_int,
    indices: *mut c_int,
    statuses: *mut limic_status,
) -> c_int {
    // SAFETY: the caller's promise.
    let Some(done) = (unsafe { done.as_mut() }) else {
        return Failure::null("done").report();
    };
    *done = 0;
    if indices.is_null() {
        return Failure::null("indices").report();
    }
    let call = |held: &mut Inside, list: List<'_>, statuses: StatusOut| {
        let mut result = Ok(());
        let mut take = |at: usize, requests: &mut [limic_request], outcome: Outcome| {
            let nth = *done as usize;
            // SAFETY: fewer than `count` were taken before, and the caller promised room for that
            // many.
            unsafe { indices.add(nth).write(at as c_int) };
            *done += 1;
            let concluded = conclude(&mut requests[at], statuses.at(nth), outcome);
            if result.is_ok() {
                result = concluded;
            }
        };
        let (at, outcome) = list.await_any(held, Patience::of(timeout_ns))?;
        take(at, list.requests, outcome);
        for at in 0..list.requests.len() {
            let request = list.requests[at];
            let outcome = match request.lies() {
                _ if request.is_null() => None,
                Lies::Here(number) => held.done.take(number),
                Lies::Transport(id) if held.raw().is_done(id) => held.raw().test(id),
                Lies::Transport(_) => None,
            };
            if let Some(outcome) = outcome {
                take(at, list.requests, outcome);
            }
        }
        result
    };
    // SAFETY: the caller's promise.
    unsafe { on_list(requests, count, statuses, call) }
}

/// Waits until all of `count` operations are done.
///
/// - `requests`: as for `limic_wait_any`; those that are done become `LIMIC_REQUEST_NULL`, also if
///   it returns an error.
/// - `statuses`: room for `count`, in the order of `requests`; or NULL. Those of entries that were
///   `LIMIC_REQUEST_NULL` or are still pending are left as they are.
///
/// Returns `LIMIC_OK`, or the first error: that of an operation (the statuses tell whose; the
/// others are waited for all the same), or `LIMIC_ERR_TIMEOUT` if some are still pending.
///
/// # Safety
/// As `limic_wait_some`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn limic_wait_all(
    count: c_int,
    requests: *mut limic_request,
    timeout_ns: i64,
    statuses: *mut limic_status,
) -> c_int {
    let call = |held: &mut Inside, list: List<'_>, statuses: StatusOut| {
        let mut patience = Patience::of(timeout_ns);
        let mut result = Ok(());
        for (at, request) in list.requests.iter_mut().enumerate() {
            if request.is_null() {
                continue;
            }
            let concluded = match await_one(held, *request, patience) {
                Ok(outcome) => conclude(request, statuses.at(at), outcome),
                Err(failure) => {
                    if failure.code == late().code {
                        // The rest gets one look each: some may be done.
                        patience = Patience::Look;
                    }
                    Err(failure)
                }
            };
            if result.is_ok() {
                result = concluded;
            }
        }
        result
    };
    // SAFETY: the caller's promise.
    unsafe { on_list(requests, count, statuses, call) }
}
