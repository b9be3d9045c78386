//! Waiting for one of many, or for all.

use crate::Endpoint;
use crate::raw::RequestId;

/// A handle of an operation under way, scoped or owned; there are no others. `Output` is what
/// waiting for it gives.
pub trait Request: sealed::Waited {
    /// The endpoint's name for it, or `None` if it is done.
    fn pending(&self) -> Option<RequestId>;
}

impl<R: sealed::Waited> Request for R {
    fn pending(&self) -> Option<RequestId> {
        self.under_way()
    }
}

pub(crate) mod sealed {
    use crate::error::Outcome;
    use crate::raw::RequestId;

    /// What only this crate may do with a handle: who takes a result that is not that of the
    /// operation has its buffer too early.
    pub trait Waited: Sized {
        /// What waiting for it gives.
        type Output;

        /// Its endpoint's name for it, or `None` if it is done.
        fn under_way(&self) -> Option<RequestId>;

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
    let here = place_of(endpoint);
    if let Some(at) = requests
        .iter()
        .position(|request| request.pending().is_none() || !request.is_of(here))
    {
        return Some((at, requests.swap_remove(at).complete(None)));
    }
    let ids: Vec<RequestId> = requests.iter().filter_map(|r| r.pending()).collect();
    let (at, outcome) = endpoint.wait_any(&ids)?;
    Some((at, requests.swap_remove(at).complete(Some(outcome))))
}

/// Waits until all are done; results in the order of the requests.
pub fn wait_all<R: Request>(requests: impl IntoIterator<Item = R>) -> Vec<R::Output> {
    requests
        .into_iter()
        .map(|request| request.complete(None))
        .collect()
}
