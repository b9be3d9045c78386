//! Waiting for one of many, or for all.

use crate::error::Outcome;
use crate::raw::{RawEndpoint, RequestId};

/// A handle of an operation under way, scoped or owned.
pub trait Request: Sized {
    /// What waiting for it gives.
    type Output;

    /// The endpoint's name for it, or `None` if it is done.
    fn pending(&self) -> Option<RequestId>;

    /// Takes the result. With `None` it waits for it.
    fn complete(self, outcome: Option<Outcome>) -> Self::Output;
}

/// Waits until one of the requests is done, takes it out of the list (the last one moves into its
/// place), and gives its former position and its result. `None` for an empty list.
pub fn wait_any<E: RawEndpoint, R: Request>(
    endpoint: &E,
    requests: &mut Vec<R>,
) -> Option<(usize, R::Output)> {
    if let Some(at) = requests
        .iter()
        .position(|request| request.pending().is_none())
    {
        return Some((at, requests.swap_remove(at).complete(None)));
    }
    let ids: Vec<RequestId> = requests.iter().filter_map(Request::pending).collect();
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
