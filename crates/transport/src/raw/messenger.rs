//! Blocking messages by the calls of a runtime.

use crate::{Error, Peer, Result, Status, Tag};

/// Sends and receives for a [`Barrier`](crate::Barrier), and waits for each in a way of its own: as
/// a runtime does that lets its other threads in meanwhile.
pub trait Messenger {
    /// What ends a barrier at once.
    type Failure: From<Error>;

    /// Sends a message, and gives what became of it.
    ///
    /// # Errors
    /// Nothing more can be sent or received.
    fn send(&mut self, to: Peer, tag: Tag, message: &[u8]) -> Result<Result<()>, Self::Failure>;

    /// Receives a message of this peer and tag.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    fn recv(
        &mut self,
        from: Peer,
        tag: Tag,
        into: &mut [u8],
    ) -> Result<Result<Status>, Self::Failure>;

    /// Sends to one peer and receives from another at the same time: either may wait for the
    /// other.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    fn exchange(
        &mut self,
        send: (Peer, &[u8]),
        receive: (Peer, &mut [u8]),
        tag: Tag,
    ) -> Result<(Result<()>, Result<Status>), Self::Failure>;
}
