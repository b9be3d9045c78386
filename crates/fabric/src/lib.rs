//! What limic asks of a network: one trait, [`Fabric`], and the words that both sides of it use.
//!
//! - [`Fabric`]: all connections of an endpoint over one network;
//! - [`Event`], [`Arrivals`]: what happened, and the messages that came;
//! - [`Part`], [`Parts`]: where an endpoint is reached over each of its networks;
//! - [`Looks`]: when an endpoint looks at which of its networks.
//!
//! A fabric moves messages with a kind and a tag. Those of one connection arrive once and in the
//! order sent, or the connection fails. It has no threads: everything moves in [`Fabric::poll`].
//!
//! Where a fabric can, long messages go out of the memory of the application, and come into it
//! ([`Fabric::begin`], [`Fabric::receive`]).

#![deny(unsafe_code)]

mod arrivals;
mod event;
mod fabric;
mod limits;
mod looks;
mod parts;

pub use arrivals::{Arrivals, Form};
pub use event::{ConnectionFailure, ConnectionId, Counts, Event, SendRefused, TransferError};
pub use fabric::{Fabric, MOST_STRETCHES, RemoteRange, Stretch};
pub use limits::Limits;
pub use looks::{Looks, SELDOM_WHILE_POLLED};
pub use parts::{Network, PARTS, Part, Parts};
