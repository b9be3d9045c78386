//! Which path a message takes: a pure table from (size, locality, skew, buffer kind, what the pair
//! can do) to (path, chunk bytes).
//!
//! The table is a list of [`Row`]s that `limic info` prints, each with where it comes from and
//! why. Nothing here does I/O or, once a [`Table`] is built, allocates. A sender asks
//! [`Table::thresholds`] once per pair, so that a short message costs two compares, and
//! [`Table::choose`] for the lengths above. [`Table::explain`] answers the same question in words.
//!
//! The shape is the hybrid of K6 (shared memory for short messages, single copy above a threshold
//! that can be set), with the topology-aware rows of H3 and the skew-aware rows of H4.

#![forbid(unsafe_code)]

pub(crate) mod autotune;
mod builtin;
mod bytes;
mod capabilities;
mod edit;
mod explain;
pub(crate) mod line_latency;
mod path;
mod query;
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
pub use path::{ParsePathError, Path, PathSet};
pub use query::{BufferKind, Locality, ParseLocalityError, Query, ReceiverPace};
pub use row::{ParseWhenError, Row, RowSource, When};
pub use table::{Choice, Table, Thresholds};
