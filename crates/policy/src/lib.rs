//! How a message goes: a table of paths by length, locality, pace of the receiver and what the pair
//! can do, and the selector that an endpoint asks.
//!
//! - [`Table`] is a list of [`Row`]s that `limic info` prints, each with where it comes from and
//!   why.
//! - [`select`] makes limits of it once per pair, so that a short message costs two compares. It is
//!   the only place that decides.
//! - [`explain`] runs the same code, and says why in words.
//! - [`autotune`], [`line_latency`] and [`slow_receiver`] are state machines: what endpoints learn
//!   while messages flow. [`UnexpectedBound`] says how many messages may wait for their receives.
//!
//! # Invariants
//!
//! - Nothing here makes a system call, reads a clock or does I/O: times are arguments. Once a
//!   [`Table`] is built, choosing allocates nothing.
//! - Each length of each locality and pace has exactly one row, whatever is laid over a table.
//! - What a file, the environment or the application asks for is not overruled by what is measured.
//!
//! It is no `no_std` crate: [`RowSource::File`] holds the path of a file.

#![forbid(unsafe_code)]

pub mod autotune;
mod builtin;
mod bytes;
mod capabilities;
mod edit;
pub mod explain;
mod latency_probe;
pub mod line_latency;
pub mod named;
mod path;
mod query;
mod question;
mod row;
pub mod select;
pub mod slow_receiver;
mod table;
mod unexpected_bound;

pub use builtin::{
    INLINE_CAPACITY, MAX_FRAGMENT, MIN_FRAGMENT, PIPELINE_FRAGMENT, SLOW_RECEIVER_EAGER,
};
pub use bytes::{ByteSize, ParseByteSizeError};
pub use capabilities::{Capabilities, Refusal};
pub use edit::TableError;
pub use explain::{Explanation, RefusedPath};
pub use latency_probe::LatencyProbe;
pub use line_latency::{Distance, LineLatency, ParseLineLatencyError};
pub use path::{Backend, Copies, ParsePathError, Path, PathParts, PathSet, Protocol};
pub use query::{Locality, Query, ReceiverPace};
pub use question::{History, Question, Receiver, SendMemory};
pub use row::{Row, RowSource};
pub use table::{Table, Thresholds};
pub use unexpected_bound::UnexpectedBound;

/// The program of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
