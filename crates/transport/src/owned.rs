//! Owned requests: the buffer moves into the operation and comes back at completion.

use core::fmt;
use core::mem::ManuallyDrop;
use core::time::Duration;

use limic_shm::bytes::LooseMemory;

use crate::error::Outcome;
use crate::handle::Handle;
use crate::raw::{Posted, RequestId, SendOptions};
use crate::region::RegionKey;
use crate::wait::place_of;
use crate::wait::sealed::Waited;
use crate::{Endpoint, Peer, Result, Selector, Status, Tag};

/// Drops the buffer of an abandoned request when the endpoint is through with it.
struct Orphan(LooseMemory);

impl Drop for Orphan {
    fn drop(&mut self) {
        // SAFETY: the endpoint drops it only once the operation is done (`Requests::abandon`).
        drop(unsafe { self.0.rebuild() });
    }
}

struct Owned<'e, E: Endpoint> {
    handle: Handle<'e, E>,
    parts: LooseMemory,
}

impl<'e, E: Endpoint> Owned<'e, E> {
    /// Posts an operation on the buffer. The bytes live on the heap until `rebuild`, which runs
    /// only after completion; a leaked request never frees them. Nobody else has access to the
    /// vector that was taken apart.
    fn start(
        endpoint: &'e E,
        buffer: Vec<u8>,
        post: impl FnOnce(&LooseMemory) -> Result<Posted>,
    ) -> Result<Self> {
        let parts = LooseMemory::of(buffer);
        match post(&parts) {
            Ok(posted) => {
                let handle = Handle { endpoint, posted };
                Ok(Self { handle, parts })
            }
            Err(error) => {
                drop(Orphan(parts));
                Err(error)
            }
        }
    }

    fn finish(self) -> (Outcome, Vec<u8>) {
        let mut this = ManuallyDrop::new(self);
        let outcome = this.handle.wait();
        // SAFETY: the operation is done, and `ManuallyDrop` keeps the destructor from doing it
        // again.
        (outcome, unsafe { this.parts.rebuild() })
    }
}

impl<E: Endpoint> Drop for Owned<'_, E> {
    /// Lets the operation go on by itself: a send is still delivered. The buffer is freed when it
    /// is done.
    fn drop(&mut self) {
        let orphan = Orphan(self.parts);
        match self.handle.pending() {
            Some(id) => self.handle.endpoint.abandon(id, Box::new(orphan)),
            None => self.handle.push_on(),
        }
    }
}

/// A send under way that owns its buffer.
///
/// Dropped before completion, the send goes on and the buffer is freed afterwards.
pub struct OwnedSend<'e, E: Endpoint>(Owned<'e, E>);

/// A receive under way that owns its buffer.
///
/// Dropped before completion, the receive stays posted and its message is lost to others; cancel
/// it first if that is not meant.
pub struct OwnedRecv<'e, E: Endpoint>(Owned<'e, E>);

impl<'e, E: Endpoint> OwnedSend<'e, E> {
    pub(crate) fn start(endpoint: &'e E, to: Peer, tag: Tag, data: Vec<u8>) -> Result<Self> {
        Owned::start(endpoint, data, |parts| {
            let options = SendOptions::WAITED_FOR_LATER;
            // SAFETY: `Owned::start` keeps the bytes, for nobody else, until the operation is done.
            unsafe { endpoint.post_send_with(to, tag, options, &[parts.readable()]) }
        })
        .map(Self)
    }

    pub(crate) fn start_write(
        endpoint: &'e E,
        to: Peer,
        key: RegionKey,
        offset: u64,
        data: Vec<u8>,
    ) -> Result<Self> {
        Owned::start(endpoint, data, |parts| {
            // SAFETY: `Owned::start` keeps the bytes, for nobody else, until the operation is done.
            unsafe { endpoint.post_write(to, key.0, offset, &[parts.readable()]) }
        })
        .map(Self)
    }

    /// Waits until the message is on its way; gives the buffer back.
    ///
    /// # Errors
    /// What became of the send; the buffer is dropped then (see
    /// [`wait_buffer`](Self::wait_buffer)).
    pub fn wait(self) -> Result<Vec<u8>> {
        let (outcome, buffer) = self.0.finish();
        outcome.map(|_| buffer)
    }
}

impl<'e, E: Endpoint> OwnedRecv<'e, E> {
    pub(crate) fn start(endpoint: &'e E, from: &Selector, buffer: Vec<u8>) -> Result<Self> {
        Owned::start(endpoint, buffer, |parts| {
            // SAFETY: `Owned::start` keeps the bytes, for nobody else, until the operation is done.
            unsafe { endpoint.post_recv(from, &[parts.writable()]) }
        })
        .map(Self)
    }

    pub(crate) fn start_read(
        endpoint: &'e E,
        from: Peer,
        key: RegionKey,
        offset: u64,
        buffer: Vec<u8>,
    ) -> Result<Self> {
        Owned::start(endpoint, buffer, |parts| {
            // SAFETY: `Owned::start` keeps the bytes, for nobody else, until the operation is done.
            unsafe { endpoint.post_read(from, key.0, offset, &[parts.writable()]) }
        })
        .map(Self)
    }

    /// Waits for the message; gives its status and the whole buffer, of which the first
    /// `status.len` bytes were written.
    ///
    /// # Errors
    /// What became of the receive; the buffer is dropped then (see
    /// [`wait_buffer`](Self::wait_buffer)).
    pub fn wait(self) -> Result<(Status, Vec<u8>)> {
        let (outcome, buffer) = self.0.finish();
        outcome.map(|status| (status, buffer))
    }
}

/// What both kinds of handles do alike.
macro_rules! handle {
    ($name:ident) => {
        impl<E: Endpoint> fmt::Debug for $name<'_, E> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("state", &self.0.handle.posted)
                    .finish()
            }
        }

        impl<E: Endpoint> $name<'_, E> {
            /// Like [`wait`](Self::wait), but gives the buffer back in any case.
            pub fn wait_buffer(self) -> (Outcome, Vec<u8>) {
                self.0.finish()
            }

            /// Makes progress; true when done. Waiting then returns at once.
            pub fn test(&mut self) -> bool {
                self.0.handle.test()
            }

            /// Waits until it is done or the time is over; true when done. Waiting then returns at
            /// once.
            pub fn wait_timeout(&mut self, timeout: Duration) -> bool {
                self.0.handle.wait_timeout(timeout)
            }

            /// Asks that the operation be cancelled; waiting says what became of it.
            ///
            /// # Errors
            /// [`Error::UnknownRequest`](crate::Error::UnknownRequest) never for a handle of this
            /// endpoint.
            pub fn cancel(&self) -> Result<()> {
                self.0.handle.cancel()
            }
        }

        impl<E: Endpoint> Waited for $name<'_, E> {
            type Output = (Outcome, Vec<u8>);
            fn under_way(&self) -> Option<RequestId> {
                self.0.handle.pending()
            }
            fn is_over(&self) -> bool {
                self.0.handle.is_over()
            }
            fn wait_within(&mut self, timeout: Duration) -> bool {
                self.wait_timeout(timeout)
            }
            fn is_of(&self, endpoint: *const ()) -> bool {
                place_of(self.0.handle.endpoint) == endpoint
            }
            fn complete(mut self, outcome: Option<Outcome>) -> Self::Output {
                self.0.handle.learn(outcome);
                self.0.finish()
            }
        }
    };
}

handle!(OwnedSend);
handle!(OwnedRecv);
