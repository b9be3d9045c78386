//! The raw form of an endpoint: what a path implementation provides and a C caller uses.
//!
//! Applications use the safe [`Endpoint`](crate::Endpoint) trait alone.

mod loans;
mod regions;
mod slices;

use core::fmt::Debug;
use std::any::Any;

use crate::error::Outcome;
use crate::{Peer, Result, Selector, Status, Tag};

pub use loans::{Hold, RawLoan, RawLoaned};
pub use regions::{Access, RegionId};
pub use slices::{RawSlice, RawSliceMut};

/// A pending operation of one endpoint: a slot and the slot's generation, so that a stale one is
/// recognised.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestId(pub u64);

/// A message that a matched probe took out of the queues.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ClaimId(pub u64);

/// What posting an operation gives.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Posted {
    /// It is already complete; the buffer is the caller's again.
    Done(Outcome),
    /// It goes on; the buffer is the endpoint's until the request is done.
    Pending(RequestId),
}

/// What a send carries beside its bytes, and when it is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendOptions {
    /// A word that the receiver finds in [`Status::immediate`]: InfiniBand's immediate data,
    /// libfabric's remote completion data.
    pub immediate: Option<u64>,
    /// The send is over only when the message reaches its receiver whatever becomes of this
    /// process. On one node that is so for all messages; what goes to other nodes waits until it is
    /// received, also if it is short.
    pub delivered: bool,
}

/// One end of the transport, in terms of raw memory.
///
/// # Safety
/// An implementation touches the memory of a posted operation only between the post and the moment
/// in which it reports the operation done (`Posted::Done`, or `Some` from `test`, or the return of
/// `wait`), and writes only within the slices that it was given. It drops no buffer of an abandoned
/// operation earlier.
pub unsafe trait RawEndpoint: Debug + Send {
    /// Starts a send of the concatenation of `data`.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`](crate::Error::UnknownPeer),
    /// [`Error::PeerFailed`](crate::Error::PeerFailed),
    /// [`Error::NoMemory`](crate::Error::NoMemory); the buffer is then the caller's again.
    ///
    /// # Safety
    /// Every slice is readable, and nobody writes there, until the operation is done.
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
    /// at once. `None`: it would, and nothing was sent.
    ///
    /// # Errors
    /// As [`post_send`](Self::post_send).
    ///
    /// # Safety
    /// Every slice is readable during the call.
    unsafe fn try_send(
        &self,
        to: Peer,
        tag: Tag,
        immediate: Option<u64>,
        data: &[RawSlice],
    ) -> Result<Option<Status>>;

    /// Sends one slice if that needs neither the receiver's help nor a wait, as
    /// [`try_send`](Self::try_send) does, in less time. False: nothing was sent, be it that it
    /// would need more, or an error, which the next attempt will meet.
    ///
    /// # Safety
    /// The slice is readable during the call.
    #[inline]
    unsafe fn try_send_slice(&self, to: Peer, tag: Tag, data: RawSlice) -> bool {
        let _ = (to, tag, data);
        false
    }

    /// Starts a send that [`try_send`](Self::try_send) or [`try_send_slice`](Self::try_send_slice)
    /// has just refused: [`post_send`](Self::post_send), which an endpoint may do without a second
    /// attempt.
    ///
    /// # Errors
    /// As [`post_send`](Self::post_send).
    ///
    /// # Safety
    /// As [`post_send`](Self::post_send).
    unsafe fn post_send_slow(&self, to: Peer, tag: Tag, data: &[RawSlice]) -> Result<Posted> {
        // SAFETY: the caller's promise.
        unsafe { self.post_send(to, tag, data) }
    }

    /// Sends and waits: [`post_send`](Self::post_send) and [`wait`](Self::wait) in one, which an
    /// endpoint may do in less time.
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

    /// Starts a receive of a scope: [`post_recv`](Self::post_recv) and
    /// [`set_owner`](Self::set_owner) in one, which an endpoint may do in less time.
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
        owner: u32,
    ) -> Result<Posted> {
        // SAFETY: the caller's promise.
        let posted = unsafe { self.post_recv(selector, into) }?;
        if let Posted::Pending(id) = &posted {
            // SAFETY: it began just now.
            unsafe { self.set_owner(*id, owner) };
        }
        Ok(posted)
    }

    /// Enters an operation that was done when it was posted, so that it can be waited for like
    /// others, and belongs to a scope (any number but 0).
    fn insert_done(&self, outcome: Outcome, owner: u32) -> RequestId;

    /// Starts a receive of a scope into one piece, if nothing is to be done but to wait for its
    /// message: what most receives do, in less time than by
    /// [`post_recv_owned`](Self::post_recv_owned). `None`: nothing was started.
    ///
    /// # Safety
    /// As [`post_recv`](Self::post_recv).
    unsafe fn post_recv_to_fifo(
        &self,
        selector: &Selector,
        into: RawSliceMut,
        owner: u32,
    ) -> Option<RequestId> {
        let _ = (selector, into, owner);
        None
    }

    /// Receives and waits: [`post_recv`](Self::post_recv) and [`wait`](Self::wait) in one, which an
    /// endpoint may do in less time.
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

    /// Makes progress if the request is pending; `Some` if it is done, which also frees it.
    fn test(&self, request: RequestId) -> Option<Outcome>;

    /// Whether the request is done, without progress and without freeing it.
    fn is_done(&self, request: RequestId) -> bool;

    /// The sender of the message that is on its way into a receive. `None` for other requests, and
    /// over [`KernelEndpoint`](crate::KernelEndpoint), where a message comes at once.
    fn sender_of(&self, request: RequestId) -> Option<Peer>;

    /// Has the request listed as soon as it is done: [`next_completed`](Self::next_completed) then
    /// gives its outcome with `name`, and frees it. For callers with many requests that ask for
    /// whichever has ended: a completion queue. Such a request is not to be waited for in another
    /// way.
    ///
    /// # Errors
    /// [`Error::UnknownRequest`](crate::Error::UnknownRequest).
    fn watch(&self, request: RequestId, name: u64) -> Result<()>;

    /// The next of the watched requests that are done, in the order of their ends. No progress.
    fn next_completed(&self) -> Option<(u64, Outcome)>;

    /// The request that was watched under `name` and is not done. Looks through all of them: for
    /// cancellation.
    fn watched(&self, name: u64) -> Option<RequestId>;

    /// From now on, receives and probes from any source do not fail because a peer died: only those
    /// that name it do, as libfabric and UCX have it. Otherwise a death fails all receives from any
    /// source that are posted, or the next one if none is.
    fn keep_any_source_receives(&self);

    /// Keeps messages whose tag agrees with `tag` in the bits of `mask` out of matching from now
    /// on, unless a receive is posted for them. For the messages of a runtime to itself.
    fn reserve_tags(&self, tag: Tag, mask: u64);

    /// The oldest message that [`reserve_tags`](Self::reserve_tags) kept, already claimed. No
    /// progress.
    fn take_reserved(&self) -> Option<(Status, ClaimId)>;

    /// Whether the settings ask that this peer is met when the job starts, not at the first message
    /// (`LIMIC_VERBS_CONNECT`).
    ///
    /// # Errors
    /// [`Error::UnknownPeer`](crate::Error::UnknownPeer).
    fn connects_at_start(&self, peer: Peer) -> Result<bool>;

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

    /// Marks a pending request as belonging to a scope (any number but 0).
    ///
    /// # Safety
    /// No other scope owns the request: a scope ends when none is left that it owns, and frees
    /// their buffers.
    unsafe fn set_owner(&self, request: RequestId, owner: u32);

    /// A number for a new scope.
    fn new_owner(&self) -> u32;

    /// Some request, done or not, that belongs to the scope.
    fn owned_by(&self, owner: u32) -> Option<RequestId>;

    /// Keeps `buffer` alive until the request is done: what an owned request does when it is
    /// dropped early. It is dropped in a later call of
    /// [`progress`](crate::Endpoint::progress), [`sleep`](crate::Endpoint::sleep), `cancel` or
    /// `abandon`, or with the endpoint; a panic of its `Drop` ends there. Another call for the same
    /// request adds its buffer. A wait for the request fails with
    /// [`Error::UnknownRequest`](crate::Error::UnknownRequest) when it is done.
    fn abandon(&self, request: RequestId, buffer: Box<dyn Any + Send>);

    /// Exposes memory for reading and writing by peers, under the returned key. The endpoint owns
    /// the memory until [`revoke`](Self::revoke) gives it back.
    ///
    /// # Errors
    /// [`Error::NoMemory`](crate::Error::NoMemory) if the table of regions is full.
    fn expose(&self, memory: Vec<u8>) -> Result<(RegionId, u64)>;

    /// Exposes memory that stays the caller's; [`revoke`](Self::revoke) gives an empty vector for
    /// it. Without a `key`, peers name it by a random one; a key that the caller picks is not 0,
    /// and none of another region. Peers name its first byte by the offset `origin`: 0, or its
    /// address. Its length may reach beyond what is mapped (a whole address space): an access to
    /// memory that is not there then fails, or faults as the owner's own would.
    ///
    /// # Errors
    /// [`Error::KeyInUse`](crate::Error::KeyInUse), and as [`expose`](Self::expose).
    ///
    /// # Safety
    /// What is mapped of the memory may be read and written by others, as `access` says, and nobody
    /// holds a reference to it, until [`revoke`](Self::revoke) has returned.
    unsafe fn expose_raw(
        &self,
        memory: RawSliceMut,
        key: Option<u64>,
        access: Access,
        origin: u64,
    ) -> Result<(RegionId, u64)>;

    /// Copies out of an own region.
    ///
    /// # Errors
    /// [`Error::OutOfRegion`](crate::Error::OutOfRegion),
    /// [`Error::UnknownRequest`](crate::Error::UnknownRequest).
    fn region_read(&self, region: RegionId, offset: u64, into: &mut [u8]) -> Result<()>;

    /// Copies into an own region.
    ///
    /// # Errors
    /// As [`region_read`](Self::region_read).
    fn region_write(&self, region: RegionId, offset: u64, from: &[u8]) -> Result<()>;

    /// Ends the exposure, waits for accesses under way, and returns the memory.
    ///
    /// # Errors
    /// [`Error::UnknownRequest`](crate::Error::UnknownRequest).
    fn revoke(&self, region: RegionId) -> Result<Vec<u8>>;

    /// Starts a read of a peer's region (one-sided).
    ///
    /// # Errors
    /// [`Error::UnknownRegion`](crate::Error::UnknownRegion),
    /// [`Error::OutOfRegion`](crate::Error::OutOfRegion), and as [`post_send`](Self::post_send).
    ///
    /// # Safety
    /// As [`post_recv`](Self::post_recv).
    unsafe fn post_read(
        &self,
        peer: Peer,
        key: u64,
        offset: u64,
        into: &[RawSliceMut],
    ) -> Result<Posted>;

    /// Starts a write to a peer's region (one-sided). Done means that the bytes are in place.
    ///
    /// # Errors
    /// As [`post_read`](Self::post_read).
    ///
    /// # Safety
    /// As [`post_send`](Self::post_send).
    unsafe fn post_write(
        &self,
        peer: Peer,
        key: u64,
        offset: u64,
        from: &[RawSlice],
    ) -> Result<Posted>;

    /// Lends room in the segment.
    ///
    /// # Errors
    /// [`Error::NoMemory`](crate::Error::NoMemory) with the limit that was hit.
    fn borrow_loan(&self, len: usize) -> Result<RawLoan>;

    /// Sends the first `len` bytes of a loan without copying them; the loan is gone in any case.
    ///
    /// # Errors
    /// As [`post_send`](Self::post_send).
    ///
    /// # Safety
    /// The loan is one of this endpoint's ([`borrow_loan`](Self::borrow_loan)), as it gave it, and
    /// at least `len` bytes long; nobody touches its bytes any more.
    unsafe fn post_loan(&self, to: Peer, tag: Tag, loan: RawLoan, len: usize) -> Result<Posted>;

    /// Sends a loan and waits: [`post_loan`](Self::post_loan) and [`wait`](Self::wait) in one,
    /// which an endpoint may do in less time.
    ///
    /// # Errors
    /// What became of the send.
    ///
    /// # Safety
    /// As [`post_loan`](Self::post_loan).
    unsafe fn send_loan(&self, to: Peer, tag: Tag, loan: RawLoan, len: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        let posted = unsafe { self.post_loan(to, tag, loan, len) }?;
        crate::endpoint::finish(self, posted).map(|_| ())
    }

    /// Takes a loan back unsent.
    ///
    /// # Safety
    /// As [`post_loan`](Self::post_loan).
    unsafe fn return_loan(&self, loan: RawLoan);

    /// Takes an arrived message that fits in place if it was sent as a loan; else `Ok(None)` if
    /// there is none yet. A message sent in another way is first copied into memory of the
    /// endpoint.
    ///
    /// # Errors
    /// As [`peek`](Self::peek).
    fn take_loan(&self, selector: &Selector) -> Result<Option<RawLoaned>>;

    /// Waits for such a message: [`take_loan`](Self::take_loan) again and again, with sleep
    /// between, which an endpoint may do in less time.
    ///
    /// # Errors
    /// As [`peek`](Self::peek).
    fn take_loan_blocking(&self, selector: &Selector) -> Result<RawLoaned>;

    /// Whether a call of this endpoint is under way. Only a signal handler, or what runs in one
    /// when the process ends, can find it so; it must make no other call of the endpoint then,
    /// which would panic.
    fn is_busy(&self) -> bool;
}
