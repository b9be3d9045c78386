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
pub(crate) use limic_fabric::Arrivals;

use limic_fabric::{ConnectionFailure, ConnectionId};

/// A connection with a peer: which of the endpoint's fabrics it is of, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Link {
    pub(crate) fabric: u8,
    pub(crate) connection: ConnectionId,
}

/// Why no connection was begun.
pub(crate) enum NotBegun {
    /// Both endpoints have none in common.
    NoNetwork,
    Failed(ConnectionFailure),
}
