//! Staging memory: pages of an endpoint's segment through which messages take their two copies.
//!
//! [`StagingPool`] is the memory of one endpoint, for all of its peers. Some of its buffers are
//! used in turn (`pool`), and some a peer may keep for its reply (`recycled_pool`). [`StagingPair`]
//! is what passes between the endpoint and one peer: it says which buffer a message goes into
//! ([`Target`]), and what becomes of one that was read. A [`BufferDescriptor`] is what one tells
//! the other.
//!
//! # Invariants
//!
//! - Only the owner of a pool hands out its pages. What a peer says of them is checked before it is
//!   used: page, length and generation.
//! - A peer holds no more than its share. What it holds is free again when it is
//!   [forgotten](StagingPool::forget_peer).

mod descriptor;
mod pages;
mod pair;
mod pool;
mod recycled_buffers;
mod recycled_pool;
mod target;

pub use descriptor::{BufferDescriptor, Lease};
pub use pair::{AfterRead, IDLE_LOOKS, Peer, StagingPair};
pub use pool::{StagingBuffer, StagingPool, buffer_window, bytes_of_pages};
pub use recycled_pool::{LONGEST_RECYCLED, MOST_BY_PEER, RecycledPool};
pub use target::Target;
