//! Peers over verbs: the same records as in shared memory, in packets of the fabric; long messages
//! by RDMA reads of the receiver, or in packets where memory cannot be registered or lies in
//! several slices.
//!
//! Matching and requests are the same for peers in shared memory and over the fabric, so a receive
//! from any source takes from both.

#[cfg(not(feature = "ibverbs"))]
mod absent;
#[cfg(feature = "ibverbs")]
mod verbs;

#[cfg(not(feature = "ibverbs"))]
pub(crate) use absent::{FabricChannel, Inbox};
#[cfg(feature = "ibverbs")]
pub(crate) use limic_ibverbs::fabric::Inbox;
#[cfg(feature = "ibverbs")]
pub(crate) use verbs::FabricChannel;

use crate::RequestId;
use crate::error::PeerFailure;

/// Something that happened at the adapters.
#[cfg_attr(
    not(feature = "ibverbs"),
    expect(dead_code, reason = "nothing happens without adapters")
)]
pub(crate) enum Happened {
    /// The inbox has records of this peer.
    Records(u32),
    /// A connection is ready: with the endpoint of this id, which said this.
    Connected {
        connection: u32,
        /// The peer's number, if this endpoint began the connection.
        known: Option<u32>,
        id: u64,
        hello: Vec<u8>,
    },
    /// The read of a receive is over; or why it failed.
    Read(RequestId, Option<String>),
    /// The connection with a peer is over.
    Failed(u32, PeerFailure),
    /// Nothing that concerns a peer.
    Nothing,
}
