//! Reliable connections over libibverbs that stay small: InfiniBand and RoCE by the same calls,
//! and nothing that knows one vendor.
//!
//! - [`objects`]: the verbs as safe values: devices, memory, queues, queue pairs.
//! - [`fabric`]: all connections of an endpoint: contact, packets, transfers, failure.
//! - `watch`: memory that is given back to the kernel, which registrations must not outlive;
//! - [`packet`]: what travels: coalesced messages, cached headers, order across streams.
//! - [`VerbsFabric`]: the same as the seam to networks asks for it (`limic-fabric`).

#[cfg(test)]
#[path = "../../shm/src/process/child.rs"]
mod child;
mod error;
pub mod fabric;
#[cfg(test)]
mod fake;
pub mod objects;
pub mod packet;
mod seam;
mod watch;

/// The calls of libibverbs; tests have adapters of their own.
#[cfg(test)]
use fake as sys;
#[cfg(not(test))]
use rdma_sys as sys;

pub use error::VerbsError;
pub use seam::VerbsFabric;

/// The programs of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
