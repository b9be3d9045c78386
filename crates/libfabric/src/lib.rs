//! Ordered messages between endpoints over a provider of libfabric, as `limic-fabric` asks for
//! them.
//!
//! - [`OfiFabric`]: all connections of an endpoint, [`OfiSettings`]: which provider it uses, and
//!   how patient it is, [`OfiError`]: why there is none;
//! - [`adapter`]: what this machine has that only libfabric may serve; [`found`]: the provider
//!   that would be used; [`is_asking`]: what keeps limic's own provider from being found.
//!
//! An endpoint has one endpoint of libfabric, which reaches all peers and knows of no connections:
//! they are made here, by packets (`packet`). A greeting shows the secret of the endpoint that is
//! called. Each side gives the other a number and a token, which all further packets show.
//!
//! Messages are copied into a packet and posted. While a provider takes no more for a peer, its
//! packets wait here, few of them, and further messages are refused. What comes is received in any
//! case. Long messages are read out of the memory of their senders, where the provider has reads
//! and they are wanted (`reads`). Everything moves when it is polled; a provider may have threads
//! of its own.

#![deny(unsafe_code)]

mod clock;
mod closing;
mod coming;
mod connection;
mod contact;
#[expect(unsafe_code, reason = "objects of C")]
mod device;
mod fabric;
mod going;
mod library;
mod packet;
mod pool;
mod provider;
mod reads;
mod settings;
#[cfg(test)]
mod tests;
mod unasked;

pub use fabric::OfiFabric;
pub use library::is_asking;
pub use provider::{Found, adapter, found};
pub use settings::{OfiError, OfiSettings};
