//! Matched probe: a message taken out of matching, to be received later.

use core::fmt;

use crate::error::Outcome;
use crate::raw::{ClaimId, RawSliceMut};
use crate::{Endpoint, Result, Status};

/// A message that only the holder of this value can receive (MPI's `Mprobe`).
///
/// Dropped without being received, the message is received into nothing, so that its sender
/// completes.
#[must_use = "the message is thrown away if it is not received"]
pub struct Claimed<'e, E: Endpoint> {
    endpoint: &'e E,
    status: Status,
    id: Option<ClaimId>,
}

impl<E: Endpoint> fmt::Debug for Claimed<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claimed")
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

impl<'e, E: Endpoint> Claimed<'e, E> {
    pub(crate) fn new(endpoint: &'e E, status: Status, id: ClaimId) -> Self {
        Self {
            endpoint,
            status,
            id: Some(id),
        }
    }

    /// Its sender, its tag and its length.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    /// Receives it.
    ///
    /// # Errors
    /// As [`Endpoint::recv`](crate::Endpoint::recv).
    pub fn recv(mut self, buffer: &mut [u8]) -> Outcome {
        self.receive(buffer)
    }

    /// Receives it into a new buffer of its length.
    ///
    /// # Errors
    /// As [`Endpoint::recv`](crate::Endpoint::recv); [`Error::NoMemory`](crate::Error::NoMemory) if
    /// the buffer cannot be had.
    pub fn recv_vec(mut self) -> Result<Vec<u8>> {
        let no_memory = || {
            crate::Error::NoMemory(format!(
                "a buffer of {} bytes for a claimed message",
                self.status.len
            ))
        };
        let len = usize::try_from(self.status.len).map_err(|_| no_memory())?;
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(len).map_err(|_| no_memory())?;
        buffer.resize(len, 0);
        self.receive(&mut buffer)?;
        Ok(buffer)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Outcome {
        let Some(id) = self.id.take() else {
            return Err(crate::Error::UnknownRequest);
        };
        // SAFETY: `buffer` is borrowed until this call returns, which is after completion.
        let posted = unsafe { self.endpoint.post_claimed(id, &[RawSliceMut::from(buffer)]) }?;
        crate::handle::finish(self.endpoint, posted)
    }
}

impl<E: Endpoint> Drop for Claimed<'_, E> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        // SAFETY: no slice is given, so nothing is written.
        let posted = unsafe { self.endpoint.post_claimed(id, &[]) };
        if let Ok(crate::raw::Posted::Pending(request)) = posted {
            self.endpoint.abandon(request, Box::new(()));
        }
    }
}
