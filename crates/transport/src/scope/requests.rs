//! The handles of a scope's operations.

use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

#[cfg(doc)]
use crate::Error;
use crate::error::Outcome;
use crate::polling::within;
use crate::raw::{RawSliceMut, RequestId};
use crate::wait::place_of;
use crate::wait::sealed::Waited;
use crate::{Endpoint, Peer, Result, Status, Tag};

/// A send (or a vectored receive) within a scope. Dropping it leaves the operation to the scope's
/// end.
///
/// Three words.
pub struct ScopedSend<'scope, E: Endpoint> {
    // A stream of short messages goes as fast as there is little to store: see `protocol::send`.
    pub(super) what: What<'scope, E>,
}

const _: () = assert!(size_of::<ScopedSend<'_, crate::HybridEndpoint>>() == 24);

pub(super) enum What<'scope, E> {
    /// It was done at once.
    Sent { to: Peer, tag: Tag, len: u64 },
    /// The endpoint knows what becomes of it.
    UnderWay { endpoint: &'scope E, id: RequestId },
}

impl<E> What<'_, E> {
    fn id(&self) -> Option<RequestId> {
        match self {
            Self::UnderWay { id, .. } => Some(*id),
            Self::Sent { .. } => None,
        }
    }
}

/// A receive within a scope. Dropping it leaves the operation to the scope's end.
///
/// Four words: what it became lies with the endpoint until it is asked for.
pub struct ScopedRecv<'scope, E: Endpoint> {
    pub(super) endpoint: &'scope E,
    pub(super) id: RequestId,
    pub(super) room: RawSliceMut,
    pub(super) buffer: PhantomData<&'scope mut [u8]>,
}

impl<E: Endpoint> fmt::Debug for ScopedSend<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedSend")
            .field("request", &self.what.id())
            .finish_non_exhaustive()
    }
}

impl<E: Endpoint> fmt::Debug for ScopedRecv<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedRecv")
            .field("request", &self.id)
            .finish_non_exhaustive()
    }
}

impl<E: Endpoint> ScopedSend<'_, E> {
    /// Waits until the buffer may be used again.
    ///
    /// # Errors
    /// What became of the operation.
    #[inline]
    pub fn wait(self) -> Outcome {
        match self.what {
            What::UnderWay { endpoint, id } => endpoint.wait(id),
            What::Sent { to, tag, len } => Ok(Status {
                peer: to,
                tag,
                len,
                immediate: None,
            }),
        }
    }

    /// Makes progress; true when done. [`wait`](Self::wait) then returns at once.
    pub fn test(&mut self) -> bool {
        match self.what {
            What::UnderWay { endpoint, id } => test(endpoint, id),
            What::Sent { .. } => true,
        }
    }

    /// Waits until it is done or the time is over; true when done. [`wait`](Self::wait) then
    /// returns at once.
    pub fn wait_timeout(&mut self, timeout: Duration) -> bool {
        match self.what {
            What::UnderWay { endpoint, id } => within(endpoint, timeout, || test(endpoint, id)),
            What::Sent { .. } => true,
        }
    }

    /// Asks that the send be cancelled; [`wait`](Self::wait) says what became of it.
    ///
    /// # Errors
    /// [`Error::UnknownRequest`] never for a handle of this endpoint.
    pub fn cancel(&self) -> Result<()> {
        match self.what {
            What::UnderWay { endpoint, id } => cancel(endpoint, id),
            What::Sent { .. } => Ok(()),
        }
    }
}

/// Makes progress if the request is not done, or a network has not taken what was sent; whether it
/// is done then.
fn test(endpoint: &impl Endpoint, id: RequestId) -> bool {
    let is_done = endpoint.is_done(id);
    if is_done && !endpoint.holds_messages() {
        return true;
    }
    endpoint.progress();
    is_done || endpoint.is_done(id)
}

/// Asks that a request be cancelled that may be done.
fn cancel(endpoint: &impl Endpoint, id: RequestId) -> Result<()> {
    if endpoint.is_done(id) {
        Ok(())
    } else {
        endpoint.cancel(id)
    }
}

impl<'scope, E: Endpoint> ScopedRecv<'scope, E> {
    /// Waits for the message; gives its status and the whole buffer back.
    ///
    /// # Errors
    /// What became of the operation; the buffer then comes back with the end of the scope.
    #[inline]
    pub fn wait(self) -> Result<(Status, &'scope mut [u8])> {
        let outcome = self.endpoint.wait(self.id);
        self.result(outcome)
    }

    #[inline]
    fn result(self, outcome: Outcome) -> Result<(Status, &'scope mut [u8])> {
        let (room, status) = (self.room, outcome?);
        // SAFETY: made from a `&'scope mut [u8]` that nobody else has, and the operation is done,
        // so the endpoint touches it no more.
        let buffer = unsafe { core::slice::from_raw_parts_mut(room.start, room.len) };
        Ok((status, buffer))
    }

    /// Makes progress; true when done. [`wait`](Self::wait) then returns at once.
    pub fn test(&mut self) -> bool {
        test(self.endpoint, self.id)
    }

    /// Waits until it is done or the time is over; true when done. [`wait`](Self::wait) then
    /// returns at once.
    pub fn wait_timeout(&mut self, timeout: Duration) -> bool {
        within(self.endpoint, timeout, || test(self.endpoint, self.id))
    }

    /// Asks that the receive be cancelled; [`wait`](Self::wait) says what became of it.
    ///
    /// # Errors
    /// [`Error::UnknownRequest`] never for a handle of this endpoint.
    pub fn cancel(&self) -> Result<()> {
        cancel(self.endpoint, self.id)
    }
}

impl<E: Endpoint> Waited for ScopedSend<'_, E> {
    type Output = Outcome;
    fn under_way(&self) -> Option<RequestId> {
        match self.what {
            What::UnderWay { endpoint, id } if !endpoint.is_done(id) => Some(id),
            _ => None,
        }
    }
    fn is_over(&self) -> bool {
        self.under_way().is_none()
    }
    fn wait_within(&mut self, timeout: Duration) -> bool {
        self.wait_timeout(timeout)
    }
    fn is_of(&self, endpoint: *const ()) -> bool {
        match self.what {
            What::UnderWay { endpoint: of, .. } => place_of(of) == endpoint,
            // Nobody waits for it.
            What::Sent { .. } => true,
        }
    }
    fn complete(self, outcome: Option<Outcome>) -> Self::Output {
        outcome.unwrap_or_else(|| self.wait())
    }
}

impl<'scope, E: Endpoint> Waited for ScopedRecv<'scope, E> {
    type Output = Result<(Status, &'scope mut [u8])>;
    fn under_way(&self) -> Option<RequestId> {
        Some(self.id).filter(|id| !self.endpoint.is_done(*id))
    }
    fn is_over(&self) -> bool {
        self.under_way().is_none()
    }
    fn wait_within(&mut self, timeout: Duration) -> bool {
        self.wait_timeout(timeout)
    }
    fn is_of(&self, endpoint: *const ()) -> bool {
        place_of(self.endpoint) == endpoint
    }
    fn complete(self, outcome: Option<Outcome>) -> Self::Output {
        match outcome {
            Some(outcome) => self.result(outcome),
            None => self.wait(),
        }
    }
}
