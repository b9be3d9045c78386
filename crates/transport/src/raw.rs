//! An endpoint in terms of raw memory: what a C interface and a libfabric provider use.
//!
//! Applications use the safe [`Endpoint`](crate::Endpoint) trait alone. Here is a trait for each
//! use: [`Messages`], [`Requests`], [`OneSided`], [`Loans`], [`Runtime`]. A runtime that waits
//! by itself is a [`Messenger`] to what is made of messages.

mod inbox;
mod loans;
mod messages;
mod messenger;
mod one_sided;
mod regions;
mod requests;
mod runtime;

use crate::error::Outcome;
use crate::{Error, Peer, Status};

pub use crate::polling::{longest_sleep, poll_before, poll_until};
pub(crate) use inbox::Full;
pub use inbox::Inbox;
#[doc(inline)]
pub use limic_shm::bytes::{RawSlice, RawSliceMut};
pub use loans::{Hold, Loans, RawLoan, RawLoaned};
pub use messages::Messages;
pub use messenger::Messenger;
pub use one_sided::OneSided;
pub(crate) use regions::part;
pub use regions::{Access, RegionId};
pub use requests::Requests;
pub use runtime::Runtime;

/// A pending operation of one endpoint: a slot and the slot's generation, so that a stale one is
/// recognised.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestId(pub u64);

/// A message that a matched probe took out of the queues.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ClaimId(pub u64);

/// What [`Runtime::take_reserved`] gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reserved {
    /// A message that is claimed, and is to be received.
    Claimed(Status, ClaimId),
    /// A peer has failed, for this reason, and no such message comes from it any more. Its last
    /// [receipt](Runtime::receipt_of).
    Ended(Peer, Error, u64),
    /// How often the region under this key was accessed, if the runtime wants to
    /// [know](Runtime::report_accesses). Peers that access the region without its owner say so. A
    /// false word counts as an access, if the region allows such an access.
    Accessed(u64, Accesses),
}

/// How often a region was accessed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Accesses {
    /// Reads.
    pub reads: u64,
    /// Writes, whose bytes are in place.
    pub writes: u64,
}

/// Whose a pending operation is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// Who has its id, and asks for its outcome.
    Caller,
    /// A scope, by its number, which is not 0.
    Scope(u32),
    /// Nobody: it is listed under this name when it is done, as if it were
    /// [watched](Requests::watch).
    List(u64),
}

/// What posting an operation gives.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Posted {
    /// It is already complete; the buffer is the caller's again.
    Done(Outcome),
    /// It goes on; the buffer is the endpoint's until the request is done.
    Pending(RequestId),
}

/// A message for which a receive for many has given a part of its room:
/// [`Messages::post_recv_many`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    /// The name of the receive.
    pub name: u64,
    /// Where the part begins.
    pub start: *mut u8,
    /// The sender.
    pub from: Peer,
    /// The receive is over: too little of its room is left.
    pub last: bool,
    /// The receive of this message.
    pub posted: Posted,
}

// SAFETY: the address is only told, never used by the crate.
unsafe impl Send for Taken {}

/// What a send carries beside its bytes, and when it is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendOptions {
    /// A word that the receiver finds in [`Status::immediate`](crate::Status::immediate):
    /// InfiniBand's immediate data, libfabric's remote completion data.
    pub immediate: Option<u64>,
    /// The send is over only when the message reaches its receiver whatever becomes of this
    /// process. On one node that is so for all messages; what goes to other nodes waits until it is
    /// received, also if it is short.
    pub delivered: bool,
    /// The send is over only when a receive has taken the message: MPI's synchronous mode. A look
    /// at the message takes nothing. Endpoints over the kernel module refuse it.
    pub matched: bool,
    /// Another send to this peer is likely to follow at once. Over a network on which each call
    /// costs much, this one may wait for it, until a call makes progress.
    pub more: bool,
}

impl SendOptions {
    /// Of a send that its caller waits for later.
    pub const WAITED_FOR_LATER: Self = Self {
        immediate: None,
        delivered: false,
        matched: false,
        more: true,
    };
}

/// One end of the transport, in terms of raw memory: all of what this module has traits for.
///
/// It cannot be implemented outside of this crate.
///
/// # Safety
/// An implementation touches the memory of a posted operation only between the post and the moment
/// in which it reports the operation done (`Posted::Done`, or `Some` from `test`, or the return of
/// `wait`), and writes only within the slices that it was given. It drops no buffer of an abandoned
/// operation earlier.
pub unsafe trait RawEndpoint: Messages + Requests + OneSided + Loans + Runtime {}

pub(crate) mod sealed {
    /// Keeps the raw interface to the endpoints of this crate.
    pub trait Sealed {}
}
