//! Ordered messages between endpoints over TCP, as `limic-fabric` asks for them.
//!
//! - [`TcpFabric`]: all connections of an endpoint, [`TcpSettings`]: how patient it is, and where
//!   it listens;
//! - [`interface`]: the addresses of this machine, and which one peers are told.
//!
//! There is one connection to each peer. Whoever begins says a greeting, which shows the secret of
//! the endpoint that is called; nothing else of it is believed before. If both begin at once, one
//! rule decides at both ends which connection stays (`contact`).
//!
//! A message is copied into the buffer of its connection and written at once. While the socket
//! takes no more, further messages are refused, so that they wait where they are. What comes is
//! read in any case.

#![deny(unsafe_code)]

mod called;
mod clock;
mod closing;
mod connection;
mod contact;
mod fabric;
mod greeting;
pub mod interface;
mod looking;
mod moving;
mod outgoing;
mod place;
mod reading;
mod record;
mod sockets;
#[cfg(test)]
mod tests;

pub use fabric::{TcpFabric, TcpSettings};
