//! Peers over networks: the same records as in shared memory, in packets of a fabric; long messages
//! by reads of the receiver where the network has them, or in packets where it has not, where
//! memory cannot be registered, or lies in several slices.
//!
//! Matching and requests are the same for peers in shared memory and over any fabric, so a receive
//! from any source takes from all.

mod burst;
mod channel;
mod coming;
mod counts;
mod looks;
mod moving;
mod open;

#[cfg(test)]
pub(in crate::engine) use burst::WITHIN;
pub(crate) use channel::FabricChannel;
pub(crate) use coming::Coming;
pub(crate) use limic_fabric::Inbox;

use limic_fabric::{ConnectionFailure, ConnectionId};

use crate::RequestId;

/// A connection with a peer: which of the endpoint's fabrics it is of, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Link {
    fabric: u8,
    connection: ConnectionId,
}

/// Why no connection was begun.
pub(crate) enum NotBegun {
    /// Both endpoints have none in common.
    NoNetwork,
    Failed(ConnectionFailure),
}

/// Something that happened at the networks.
pub(crate) enum Happened {
    /// The inbox has records of this peer.
    Records(u32, Link),
    /// More may be there of the long record of this peer that has begun; so many bytes are missing.
    More(u32, Link, u64),
    /// A connection is ready: with the endpoint of this id, which said this.
    Connected {
        link: Link,
        /// The peer's number, if this endpoint began the connection.
        known: Option<u32>,
        id: u64,
        hello: Vec<u8>,
    },
    /// The read of a receive is over; or why it failed.
    Read(RequestId, Option<String>),
    /// The connection with a peer is over.
    Failed(u32, ConnectionFailure),
    /// Nothing that concerns a peer.
    Nothing,
}
