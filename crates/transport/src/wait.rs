//! Waiting for one of many, or for all.

use core::time::Duration;

use limic_shm::system::Instant;

use crate::Endpoint;
use crate::error::Outcome;
use crate::polling::within;
use crate::raw::RequestId;

/// A handle of an operation under way, scoped, owned or of a loan; there are no others. `Output` is
/// what waiting for it gives.
pub trait Request: sealed::Waited {
    /// The endpoint's name for it, or `None` if it is done. It makes no progress: over TCP a short
    /// send that is done may wait for the next call that does.
    fn pending(&self) -> Option<RequestId>;
}

impl<R: sealed::Waited> Request for R {
    fn pending(&self) -> Option<RequestId> {
        self.under_way()
    }
}

pub(crate) mod sealed {
    use core::time::Duration;

    use crate::error::Outcome;
    use crate::raw::RequestId;

    /// What only this crate may do with a handle: a caller that takes a result which is not that of
    /// the operation has its buffer too early.
    pub trait Waited: Sized {
        /// What waiting for it gives.
        type Output;

        /// Its endpoint's name for it, or `None` if it is done.
        fn under_way(&self) -> Option<RequestId>;

        /// Whether it is done, as far as its endpoint knows. No progress.
        fn is_over(&self) -> bool;

        /// Waits until it is done or the time is over; whether it is done.
        fn wait_within(&mut self, timeout: Duration) -> bool;

        /// Whether it is of the endpoint at this address.
        fn is_of(&self, endpoint: *const ()) -> bool;

        /// Takes the result: the outcome, if its endpoint has told it already, or else that for
        /// which it waits.
        fn complete(self, outcome: Option<Outcome>) -> Self::Output;
    }
}

/// The address by which handles know their endpoint.
pub(crate) fn place_of<E>(endpoint: &E) -> *const () {
    core::ptr::from_ref(endpoint).cast()
}

/// Waits until one of the requests is done, takes it out of the list (the last one moves into its
/// place), and gives its former position and its result. `None` for an empty list. One of another
/// endpoint is waited for alone.
pub fn wait_any<E: Endpoint, R: Request>(
    endpoint: &E,
    requests: &mut Vec<R>,
) -> Option<(usize, R::Output)> {
    let (at, outcome) = wait_first(endpoint, requests)?;
    Some((at, requests.swap_remove(at).complete(outcome)))
}

/// The position of the first request that is done, after as long as it takes, and its outcome if
/// it was taken.
fn wait_first<E: Endpoint, R: Request>(
    endpoint: &E,
    requests: &[R],
) -> Option<(usize, Option<Outcome>)> {
    let here = place_of(endpoint);
    let mut few = [RequestId(0); FEW];
    let mut many = Vec::new();
    if requests.len() > FEW {
        many.resize(requests.len(), RequestId(0));
    }
    let ids = if many.is_empty() {
        &mut few[..requests.len()]
    } else {
        &mut many[..]
    };
    for (at, (id, request)) in ids.iter_mut().zip(requests).enumerate() {
        match request.pending() {
            Some(pending) if request.is_of(here) => *id = pending,
            _ => return Some((at, None)),
        }
    }
    let (at, outcome) = endpoint.wait_any(ids)?;
    Some((at, Some(outcome)))
}

/// So many requests are waited for without an allocation.
const FEW: usize = 32;

/// As [`wait_any`]; `None` also if none is done within the time.
pub fn wait_any_timeout<E: Endpoint, R: Request>(
    endpoint: &E,
    requests: &mut Vec<R>,
    timeout: Duration,
) -> Option<(usize, R::Output)> {
    let at = first_over(endpoint, requests, timeout)?;
    Some((at, requests.swap_remove(at).complete(None)))
}

/// Waits until at least one of the requests is done, takes all that are done out of the list, and
/// gives their former positions and their results. The others keep their order. Empty for an empty
/// list. One of another endpoint is waited for alone.
pub fn wait_some<E: Endpoint, R: Request>(
    endpoint: &E,
    requests: &mut Vec<R>,
) -> Vec<(usize, R::Output)> {
    match wait_first(endpoint, requests) {
        Some((first, outcome)) => take_over(requests, first, outcome),
        None => Vec::new(),
    }
}

/// As [`wait_some`]; empty also if none is done within the time.
pub fn wait_some_timeout<E: Endpoint, R: Request>(
    endpoint: &E,
    requests: &mut Vec<R>,
    timeout: Duration,
) -> Vec<(usize, R::Output)> {
    match first_over(endpoint, requests, timeout) {
        Some(first) => take_over(requests, first, None),
        None => Vec::new(),
    }
}

/// Takes all that are done out of the list. The one at `first` is, whose outcome may be known.
fn take_over<R: Request>(
    requests: &mut Vec<R>,
    first: usize,
    mut outcome: Option<Outcome>,
) -> Vec<(usize, R::Output)> {
    let mut over = Vec::new();
    let mut left = Vec::with_capacity(requests.len());
    for (at, request) in requests.drain(..).enumerate() {
        if at == first {
            over.push((at, request.complete(outcome.take())));
        } else if request.is_over() {
            over.push((at, request.complete(None)));
        } else {
            left.push(request);
        }
    }
    *requests = left;
    over
}

/// The position of a request that is done, or becomes so within the time.
fn first_over<E: Endpoint, R: Request>(
    endpoint: &E,
    requests: &mut [R],
    timeout: Duration,
) -> Option<usize> {
    if requests.is_empty() {
        return None;
    }
    let here = place_of(endpoint);
    if let Some(at) = requests.iter().position(|request| !request.is_of(here)) {
        return requests[at].wait_within(timeout).then_some(at);
    }
    let mut at = None;
    within(endpoint, timeout, || {
        at = requests.iter().position(R::is_over);
        if at.is_none() {
            endpoint.progress();
            at = requests.iter().position(R::is_over);
        }
        at.is_some()
    });
    at
}

/// Waits until all are done; results in the order of the requests.
pub fn wait_all<R: Request>(requests: impl IntoIterator<Item = R>) -> Vec<R::Output> {
    requests
        .into_iter()
        .map(|request| request.complete(None))
        .collect()
}

/// Waits until all are done or the time is over; true when all are. [`wait_all`] then returns at
/// once.
pub fn wait_all_timeout<R: Request>(requests: &mut [R], timeout: Duration) -> bool {
    // A time beyond what the clock can say never comes.
    let deadline = Instant::now().checked_add(timeout);
    requests.iter_mut().all(|request| {
        let left = deadline.map_or(Duration::MAX, |deadline| {
            deadline.saturating_duration_since(Instant::now())
        });
        request.wait_within(left)
    })
}
