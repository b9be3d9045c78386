//! Sends, receives and probes, of raw memory.

use super::{
    ClaimId, Owner, Posted, RawSlice, RawSliceMut, RequestId, Requests, SendOptions, Taken,
};
use crate::error::Outcome;
use crate::{Error, Peer, Result, Selector, Status, Tag};

/// Sends, receives and probes.
pub trait Messages: Requests {
    /// Starts a send of the concatenation of `data`.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`](crate::Error::UnknownPeer),
    /// [`Error::PeerFailed`](crate::Error::PeerFailed),
    /// [`Error::NoMemory`](crate::Error::NoMemory); the buffer is then the caller's again.
    ///
    /// # Safety
    /// Every slice is readable, and nobody writes there, until the operation is done. Together they
    /// have no more than `isize::MAX` bytes.
    #[inline]
    unsafe fn post_send(&self, to: Peer, tag: Tag, data: &[RawSlice]) -> Result<Posted> {
        // SAFETY: the caller's promise.
        unsafe { self.post_send_with(to, tag, SendOptions::default(), data) }
    }

    /// Starts a send that carries more than its bytes, or is over later than others.
    ///
    /// # Errors
    /// As [`post_send`](Self::post_send).
    ///
    /// # Safety
    /// As [`post_send`](Self::post_send).
    unsafe fn post_send_with(
        &self,
        to: Peer,
        tag: Tag,
        options: SendOptions,
        data: &[RawSlice],
    ) -> Result<Posted>;

    /// Sends if that needs neither the receiver's help nor a wait: the buffer is the caller's again
    /// at once. False: nothing was sent. Either the message needs more than that, or there is an
    /// error, which the next attempt will meet.
    ///
    /// # Safety
    /// Every slice is readable during the call. Together they have no more than `isize::MAX` bytes.
    unsafe fn try_send(
        &self,
        to: Peer,
        tag: Tag,
        immediate: Option<u64>,
        data: &[RawSlice],
    ) -> bool;

    /// Starts a send that [`try_send`](Self::try_send) has just refused:
    /// [`post_send_with`](Self::post_send_with), which an endpoint may do without a second attempt.
    ///
    /// # Errors
    /// As [`post_send`](Self::post_send).
    ///
    /// # Safety
    /// As [`post_send`](Self::post_send).
    unsafe fn post_send_slow(
        &self,
        to: Peer,
        tag: Tag,
        options: SendOptions,
        data: &[RawSlice],
    ) -> Result<Posted> {
        // SAFETY: the caller's promise.
        unsafe { self.post_send_with(to, tag, options, data) }
    }

    /// Whether messages whose sends are over wait for a network. Only calls send them on.
    fn holds_messages(&self) -> bool {
        false
    }

    /// Sends on what [waits for a network](Self::holds_messages), and gives it some time to go: for
    /// a caller that has waited, and may not call again for long.
    fn flush(&self) {}

    /// Sends and waits: [`post_send`](Self::post_send) and [`wait`](Requests::wait) in one, which
    /// an endpoint may do in less time.
    ///
    /// # Errors
    /// What became of the send.
    ///
    /// # Safety
    /// As [`post_send`](Self::post_send), until it returns.
    unsafe fn send_blocking(&self, to: Peer, tag: Tag, data: &[RawSlice]) -> Result<()> {
        // SAFETY: the caller's promise.
        match unsafe { self.post_send(to, tag, data) }? {
            Posted::Done(outcome) => outcome,
            Posted::Pending(id) => self.wait(id),
        }
        .map(|_| ())
    }

    /// Starts a receive into `into`, filled front to back.
    ///
    /// # Errors
    /// As [`post_send`](Self::post_send).
    ///
    /// # Safety
    /// Every slice is writable, and nobody else touches it, until the operation is done.
    unsafe fn post_recv(&self, selector: &Selector, into: &[RawSliceMut]) -> Result<Posted>;

    /// Starts a receive of this owner: [`post_recv`](Self::post_recv) and then
    /// [`set_owner`](Requests::set_owner) or [`watch`](Requests::watch), which an endpoint may do
    /// in less time.
    ///
    /// # Errors
    /// As [`post_recv`](Self::post_recv).
    ///
    /// # Safety
    /// As [`post_recv`](Self::post_recv).
    unsafe fn post_recv_owned(
        &self,
        selector: &Selector,
        into: &[RawSliceMut],
        owner: Owner,
    ) -> Result<Posted> {
        // SAFETY: the caller's promise.
        let posted = unsafe { self.post_recv(selector, into) }?;
        if let Posted::Pending(id) = &posted {
            match owner {
                Owner::Caller => {}
                // SAFETY: it began just now.
                Owner::Scope(scope) => unsafe { self.set_owner(*id, scope) },
                Owner::List(name) => self.watch(*id, name)?,
            }
        }
        Ok(posted)
    }

    /// Starts a receive of this owner into one part, if nothing is to be done but to wait for its
    /// message: what most receives do, in less time than by
    /// [`post_recv_owned`](Self::post_recv_owned). `None`: nothing was started.
    ///
    /// # Safety
    /// As [`post_recv`](Self::post_recv).
    unsafe fn post_recv_to_fifo(
        &self,
        selector: &Selector,
        into: RawSliceMut,
        owner: Owner,
    ) -> Option<RequestId> {
        let _ = (selector, into, owner);
        None
    }

    /// Posts room for many messages: each takes a part of it, in the order in which they match.
    /// The receive keeps its place among the posted ones until less than `least` bytes of its room
    /// are left. `None`: messages that waited have filled it already.
    ///
    /// [`next_taken`](Self::next_taken) names the messages. The receive itself ends like one that
    /// is watched under `name`, if it is cancelled or its sender fails; else with the last message.
    ///
    /// # Errors
    /// As [`post_send`](Self::post_send), after the messages that were there. `Error::System`
    /// where it is not offered: over the kernel module.
    ///
    /// # Safety
    /// The room is writable, and nobody else touches it, until the receive and the receives of all
    /// of its messages are done.
    unsafe fn post_recv_many(
        &self,
        selector: &Selector,
        room: RawSliceMut,
        least: usize,
        name: u64,
    ) -> Result<Option<RequestId>> {
        let _ = (selector, room, least, name);
        Err(Error::system(
            "a receive for many messages",
            std::io::Error::from(rustix::io::Errno::OPNOTSUPP),
        ))
    }

    /// The next message that has taken a part of such room, in the order in which they did. No
    /// progress.
    fn next_taken(&self) -> Option<Taken> {
        None
    }

    /// Receives and waits: [`post_recv`](Self::post_recv) and [`wait`](Requests::wait) in one,
    /// which an endpoint may do in less time.
    ///
    /// # Errors
    /// What became of the receive.
    ///
    /// # Safety
    /// As [`post_recv`](Self::post_recv), until it returns.
    unsafe fn recv_blocking(&self, selector: &Selector, into: &[RawSliceMut]) -> Outcome {
        // SAFETY: the caller's promise.
        match unsafe { self.post_recv(selector, into) }? {
            Posted::Done(outcome) => outcome,
            Posted::Pending(id) => self.wait(id),
        }
    }

    /// Receives a claimed message.
    ///
    /// # Errors
    /// [`Error::UnknownRequest`](crate::Error::UnknownRequest) for a claim that was used already.
    ///
    /// # Safety
    /// As [`post_recv`](Self::post_recv).
    unsafe fn post_claimed(&self, claim: ClaimId, into: &[RawSliceMut]) -> Result<Posted>;

    /// Makes progress once and looks for a message that has arrived and fits, without taking it.
    ///
    /// # Errors
    /// [`Error::PeerFailed`](crate::Error::PeerFailed) if the selector names a peer that failed.
    fn peek(&self, selector: &Selector) -> Result<Option<Status>>;

    /// Like [`peek`](Self::peek), but takes the message out of matching (MPI's `Improbe`).
    ///
    /// # Errors
    /// As [`peek`](Self::peek).
    fn claim(&self, selector: &Selector) -> Result<Option<(Status, ClaimId)>>;
}
