//! How a message goes: a table of paths by length, locality, pace of the receiver and what the pair
//! can do, and the selector that an endpoint asks.
//!
//! The table is a list of [`Row`]s that `limic info` prints, each with where it comes from and why.
//! Nothing here does I/O or, once a [`Table`] is built, allocates. `select` makes limits of it once
//! per pair, so that a short message costs two compares. [`Settings::explain`] runs the same code
//! and says why.
//!
//! [`Settings::explain`]: crate::Settings::explain

#![forbid(unsafe_code)]

pub(crate) mod autotune;
mod builtin;
mod bytes;
mod capabilities;
mod edit;
pub(crate) mod explain;
pub(crate) mod line_latency;
mod path;
mod query;
mod question;
mod row;
pub(crate) mod select;
pub(crate) mod slow_receiver;
mod table;

pub use builtin::{INLINE_CAPACITY, SLOW_RECEIVER_EAGER};
pub(crate) use builtin::{MAX_FRAGMENT, MIN_FRAGMENT, fragment_bytes as built_in_fragment};
pub use bytes::{ByteSize, ParseByteSizeError};
pub use capabilities::{Capabilities, Refusal};
pub use edit::TableError;
pub use explain::{Explanation, RefusedPath};
pub use line_latency::{Distance, LineLatency, ParseLineLatencyError};
pub use path::{Backend, Copies, ParsePathError, Parts, Path, PathSet, Protocol};
pub use query::{Locality, ParseLocalityError, ParsePaceError, Query, ReceiverPace};
pub use question::{History, Question, Receiver, SendMemory};
pub use row::{Row, RowSource};
pub use table::{Choice, Table, Thresholds};
