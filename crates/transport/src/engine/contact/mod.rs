//! Endpoints meet and part.
//!
//! - `connections`: first contacts over sockets, and what is read there; `accept`: those of others;
//! - `handshake`: two endpoints greet each other; `attach`: and map each other's segments;
//! - `fabric`: the same over the fabric;
//! - `failure`: a peer is gone; `stop_writer`: and may be in the middle of a write.

pub(crate) mod accept;
mod attach;
pub(crate) mod connections;
pub(crate) mod fabric;
pub(crate) mod failure;
pub(crate) mod handshake;
pub(crate) mod inquiry;
mod stop_writer;
