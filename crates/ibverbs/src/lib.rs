//! Reliable connections over libibverbs that stay small: InfiniBand, RoCE and iWARP by the same calls, and nothing
//! that knows one vendor (U1).
//!
//! - [`objects`]: the verbs as safe values: devices, memory, queues, queue pairs.

mod error;
pub mod objects;

pub use error::VerbsError;
