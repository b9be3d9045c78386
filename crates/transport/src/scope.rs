//! Scoped requests: buffers borrowed for the time of a scope, as with `std::thread::scope`.

mod requests;

use core::fmt;
use core::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::endpoint::slices_of;
use crate::engine_cell::without_unwinding;
use crate::raw::{Owner, Posted, RawSlice, RawSliceMut, RequestId, SendOptions};
use crate::region::RegionKey;
use crate::{Endpoint, Error, Peer, Result, Selector, Tag};

use requests::What;
pub use requests::{ScopedRecv, ScopedSend};

/// Posts operations on buffers that outlive the scope. Made by
/// [`Endpoint::scope`](crate::Endpoint::scope).
///
/// # Invariants
/// Every request made through it, pending or done, carries `owner`, so that [`run`] finds it even
/// if its handle was dropped.
pub struct Scope<'scope, 'env: 'scope, E: Endpoint> {
    endpoint: &'env E,
    owner: u32,
    // Invariant in both lifetimes, for the reasons given at `std::thread::Scope`.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<E: Endpoint> fmt::Debug for Scope<'_, '_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

impl<'scope, 'env, E: Endpoint> Scope<'scope, 'env, E> {
    /// Starts a send; `data` stays borrowed for the scope.
    ///
    /// Over TCP a short one that follows another one at once goes with the next call that waits,
    /// tests or makes progress.
    ///
    /// # Errors
    /// As [`Endpoint::send`].
    #[inline]
    pub fn isend(
        &'scope self,
        to: Peer,
        tag: impl Into<Tag>,
        data: &'scope [u8],
    ) -> Result<ScopedSend<'scope, E>> {
        let (tag, len) = (tag.into(), data.len() as u64);
        let data = RawSlice::from(data);
        // SAFETY: `data` is borrowed during the call.
        let sent = unsafe { self.endpoint.try_send(to, tag, None, &[data]) };
        let what = if sent {
            What::Sent { to, tag, len }
        } else {
            What::UnderWay {
                endpoint: self.endpoint,
                id: self.isend_otherwise(to, tag, data)?,
            }
        };
        Ok(ScopedSend { what })
    }

    /// A send that may not be done when it is posted. The bytes are borrowed for 'scope.
    #[inline(never)]
    fn isend_otherwise(&self, to: Peer, tag: Tag, data: RawSlice) -> Result<RequestId> {
        // SAFETY: the bytes are borrowed for 'scope, and `run` does not end 'scope before every
        // operation of this owner is done.
        let posted = unsafe {
            self.endpoint
                .post_send_slow(to, tag, SendOptions::WAITED_FOR_LATER, &[data])
        }?;
        Ok(self.request(posted))
    }

    fn handle_of(&self, posted: Posted) -> ScopedSend<'scope, E> {
        let what = What::UnderWay {
            endpoint: self.endpoint,
            id: self.request(posted),
        };
        ScopedSend { what }
    }

    /// Starts a send of several slices as one message; over TCP it may wait as in
    /// [`isend`](Self::isend).
    ///
    /// # Errors
    /// As [`Endpoint::send_vectored`].
    pub fn isend_vectored<'data: 'scope>(
        &'scope self,
        to: Peer,
        tag: impl Into<Tag>,
        data: impl IntoIterator<Item = &'data [u8]>,
    ) -> Result<ScopedSend<'scope, E>> {
        let slices = slices_of(data.into_iter())?;
        let (tag, options) = (tag.into(), SendOptions::WAITED_FOR_LATER);
        // SAFETY: as in `isend`.
        let posted = unsafe { self.endpoint.post_send_with(to, tag, options, &slices) }?;
        Ok(self.handle_of(posted))
    }

    /// Starts a receive; the handle's `wait` gives the buffer back, the end of the scope too.
    ///
    /// # Errors
    /// As [`Endpoint::recv`].
    #[inline(always)]
    pub fn irecv(
        &'scope self,
        from: impl Into<Selector>,
        buffer: &'scope mut [u8],
    ) -> Result<ScopedRecv<'scope, E>> {
        let (from, room) = (from.into(), RawSliceMut::from(buffer));
        // SAFETY: the buffer is mutably borrowed for 'scope; the handle keeps it as a raw pointer
        // only, and `run` does not end 'scope before every operation of this owner is done.
        let waits = unsafe {
            self.endpoint
                .post_recv_to_fifo(&from, room, Owner::Scope(self.owner))
        };
        let id = match waits {
            Some(id) => id,
            None => self.irecv_otherwise(&from, room)?,
        };
        Ok(ScopedRecv {
            endpoint: self.endpoint,
            id,
            room,
            buffer: PhantomData,
        })
    }

    /// A receive that may be done when it is posted.
    #[inline(never)]
    fn irecv_otherwise(&self, from: &Selector, room: RawSliceMut) -> Result<RequestId> {
        // SAFETY: as in `irecv`, its only caller.
        let posted = unsafe {
            self.endpoint
                .post_recv_owned(from, &[room], Owner::Scope(self.owner))
        }?;
        Ok(match posted {
            Posted::Pending(id) => id,
            Posted::Done(outcome) => self.endpoint.insert_done(outcome, self.owner),
        })
    }

    /// Starts a receive into several slices, filled in order. The slices come back at the end of
    /// the scope.
    ///
    /// # Errors
    /// As [`Endpoint::recv`].
    pub fn irecv_vectored<'data: 'scope>(
        &'scope self,
        from: impl Into<Selector>,
        buffers: impl IntoIterator<Item = &'data mut [u8]>,
    ) -> Result<ScopedSend<'scope, E>> {
        let slices: Vec<RawSliceMut> = buffers.into_iter().map(RawSliceMut::from).collect();
        // SAFETY: as in `irecv`.
        let posted = unsafe { self.endpoint.post_recv(&from.into(), &slices) }?;
        Ok(self.handle_of(posted))
    }

    /// Starts a read from a region of a peer; the handle's `wait` gives the buffer back, the end of
    /// the scope too.
    ///
    /// # Errors
    /// As [`Endpoint::read`].
    pub fn iread(
        &'scope self,
        peer: Peer,
        key: RegionKey,
        offset: u64,
        into: &'scope mut [u8],
    ) -> Result<ScopedRecv<'scope, E>> {
        let room = RawSliceMut::from(into);
        // SAFETY: as in `irecv`.
        let posted = unsafe { self.endpoint.post_read(peer, key.0, offset, &[room]) }?;
        Ok(ScopedRecv {
            endpoint: self.endpoint,
            id: self.request(posted),
            room,
            buffer: PhantomData,
        })
    }

    /// Starts a write to a region of a peer; it is done when the bytes are in place.
    ///
    /// # Errors
    /// As [`Endpoint::read`].
    pub fn iwrite(
        &'scope self,
        peer: Peer,
        key: RegionKey,
        offset: u64,
        from: &'scope [u8],
    ) -> Result<ScopedSend<'scope, E>> {
        let data = RawSlice::from(from);
        // SAFETY: as in `isend`.
        let posted = unsafe { self.endpoint.post_write(peer, key.0, offset, &[data]) }?;
        Ok(self.handle_of(posted))
    }

    /// The endpoint, for blocking calls between the posts.
    #[must_use]
    pub fn endpoint(&self) -> &'env E {
        self.endpoint
    }

    /// The request of an operation that was just posted, for this scope.
    fn request(&self, posted: Posted) -> RequestId {
        match posted {
            Posted::Pending(id) => {
                // SAFETY: this scope has just started it.
                unsafe { self.endpoint.set_owner(id, self.owner) };
                id
            }
            Posted::Done(outcome) => self.endpoint.insert_done(outcome, self.owner),
        }
    }
}

/// Ends all operations of a scope, also those whose handles were dropped or leaked.
#[inline(never)]
fn end(endpoint: &impl Endpoint, owner: u32, failed: bool) -> Option<Error> {
    let mut first_error = None;
    while let Some(id) = endpoint.owned_by(owner) {
        if failed {
            // It can only say that the request is unknown, and it was found just now.
            let _ = endpoint.cancel(id);
        }
        match endpoint.wait(id) {
            Err(Error::Cancelled) if failed => {}
            Err(error) => first_error = first_error.or(Some(error)),
            Ok(_) => {}
        }
    }
    first_error
}

/// Runs a scope: the one place that ends the borrows of scoped operations.
pub(crate) fn run<'env, E, T, F>(endpoint: &'env E, body: F) -> Result<T>
where
    E: Endpoint,
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env, E>) -> Result<T>,
{
    let scope = Scope {
        endpoint,
        owner: endpoint.new_owner(),
        scope: PhantomData,
        env: PhantomData,
    };
    let result = catch_unwind(AssertUnwindSafe(|| body(&scope)));
    let failed = !matches!(result, Ok(Ok(_)));
    let first_error = match endpoint.owned_by(scope.owner) {
        None => None,
        // A panic would end the borrows of what is still under way.
        Some(_) => without_unwinding(|| end(endpoint, scope.owner, failed)),
    };
    match (result, first_error) {
        (Err(panic), _) => resume_unwind(panic),
        (Ok(Ok(_)), Some(error)) => Err(error),
        (Ok(result), _) => result,
    }
}
