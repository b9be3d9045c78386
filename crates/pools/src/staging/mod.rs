//! Staging memory: pages of an endpoint's segment through which messages take their two copies.
//!
//! - `pool`: buffers that are used in turn (fifo); `recycled_pool`: buffers that a peer may keep
//!   for its reply; `pages`: which pages are taken;
//! - `pair`: the buffers that pass between this endpoint and one peer; `target`: which of them, or
//!   of the pool, a message goes into; `recycled_buffers`: those that this endpoint may write next.

pub(crate) mod pages;
pub(crate) mod pair;
pub(crate) mod pool;
pub(crate) mod recycled_buffers;
pub(crate) mod recycled_pool;
pub(crate) mod target;
