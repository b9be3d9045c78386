//! Progress: what comes in is handled, and what waits goes on.
//!
//! - `rings`, `fabric`: what comes through shared memory and over the fabric;
//! - `dispatch`: a record goes to the protocol that it concerns;
//! - `work`: what is to be done that no record brings, and what bounds a sleep.

pub(crate) mod dispatch;
pub(crate) mod fabric;
pub(crate) mod rings;
pub(crate) mod work;
