//! Endpoints meet and part.
//!
//! - `connections`: first contacts over sockets, and what is read there; `accept`: those of others;
//! - `arenas`: descriptors of arenas that messages name;
//! - `handshake`: two endpoints greet each other; `attach`: and map each other's segments;
//! - `fabric`: the same over the fabric;
//! - `failure`: a peer is gone; `stop_writer`: and may be in the middle of a write.

pub(crate) mod accept;
pub(crate) mod arenas;
mod attach;
pub(crate) mod connections;
pub(crate) mod fabric;
pub(crate) mod failure;
pub(crate) mod handshake;
pub(crate) mod stop_writer;
