//! The peers of this endpoint.
//!
//! - `table`: all peers; `entry`: one of them, and how it is reached;
//! - `pair`: a peer that shares memory with this endpoint; `copies`: single copy between the two;
//! - `accesses`: those to peers' regions with their help;
//! - `neighbours`: who shares the machine's processors with this endpoint;
//! - `notes`: what progress is to do about peers; `contacts`: who made the first contact;
//! - `sockets`: connections to peers, and what of them is `paused`; `greeting`: what two endpoints
//!   say when they meet; `inquiry`: a question to a peer that seems to hold something up;
//! - `quarantine`: what peers left behind that failed while their processes live.

mod accesses;
mod contacts;
pub(crate) mod copies;
mod entry;
pub(crate) mod greeting;
pub(crate) mod inquiry;
mod neighbours;
pub(crate) mod notes;
pub(crate) mod pair;
pub(crate) mod quarantine;
pub(crate) mod sockets;
pub(crate) mod table;
