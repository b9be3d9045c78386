//! What becomes of operations that were posted.

use core::fmt::Debug;
use std::any::Any;

use super::RequestId;
use super::sealed::Sealed;
use crate::Result;
use crate::error::Outcome;

/// Operations that were posted: waiting, lists of completions, owners.
pub trait Requests: Debug + Send + Sealed {
    /// Makes progress if the request is pending; `Some` if it is done, which also frees it.
    fn test(&self, request: RequestId) -> Option<Outcome>;

    /// Whether the request is done, without progress and without freeing it.
    fn is_done(&self, request: RequestId) -> bool;

    /// A number that is another one after an operation is done or a message has come before its
    /// receive. No progress.
    fn news(&self) -> u64;

    /// Makes progress until the request is done, and frees it. Spins, then yields, then sleeps.
    fn wait(&self, request: RequestId) -> Outcome;

    /// Makes progress until one of the requests is done; frees it and gives its position.
    /// `None` for an empty list.
    fn wait_any(&self, requests: &[RequestId]) -> Option<(usize, Outcome)>;

    /// Asks that a request be cancelled. It still completes: with
    /// [`Error::Cancelled`](crate::Error::Cancelled), or as usual if it was too late.
    ///
    /// # Errors
    /// [`Error::UnknownRequest`](crate::Error::UnknownRequest).
    fn cancel(&self, request: RequestId) -> Result<()>;

    /// Has the request listed as soon as it is done: [`next_completed`](Self::next_completed) then
    /// gives its outcome with `name`, and frees it. For callers with many requests that ask for
    /// whichever has ended: a completion queue. Such a request is not to be waited for in another
    /// way.
    ///
    /// # Errors
    /// [`Error::UnknownRequest`](crate::Error::UnknownRequest), also for one that was
    /// [abandoned](Self::abandon).
    fn watch(&self, request: RequestId, name: u64) -> Result<()>;

    /// The next of the watched requests that are done, in the order of their ends. No progress.
    fn next_completed(&self) -> Option<(u64, Outcome)>;

    /// The request that was watched under `name` and is not done. Looks through all of them: for
    /// cancellation.
    fn watched(&self, name: u64) -> Option<RequestId>;

    /// Enters an operation that was done when it was posted, so that it can be waited for like
    /// others, and belongs to a scope (any number but 0).
    fn insert_done(&self, outcome: Outcome, owner: u32) -> RequestId;

    /// A number for a new scope.
    fn new_owner(&self) -> u32;

    /// Marks a pending request as belonging to a scope (any number but 0).
    ///
    /// # Safety
    /// No other scope owns the request: a scope ends when none is left that it owns, and frees
    /// their buffers.
    unsafe fn set_owner(&self, request: RequestId, owner: u32);

    /// Some request, done or not, that belongs to the scope.
    fn owned_by(&self, owner: u32) -> Option<RequestId>;

    /// Keeps `buffer` alive until the request is done: what an owned request does when it is
    /// dropped early. It is dropped in a later call of
    /// [`progress`](crate::Endpoint::progress), [`sleep`](crate::Endpoint::sleep), `cancel` or
    /// `abandon`, or with the endpoint; a panic of its `Drop` ends there. Another call for the same
    /// request adds its buffer. A wait for the request fails with
    /// [`Error::UnknownRequest`](crate::Error::UnknownRequest) when it is done.
    fn abandon(&self, request: RequestId, buffer: Box<dyn Any + Send>);
}
