//! Progress: what comes in is handled, and what waits goes on.
//!
//! - `rings`, `private_input`, `fabric`: what comes through shared memory, through one private ring
//!   there, and over the fabric; `apart`: rings that are not read with the others;
//! - `dispatch`: a record goes to the protocol that it concerns;
//! - `work`: what is to be done that no record brings, and what bounds a sleep.

mod apart;
pub(crate) mod dispatch;
pub(crate) mod fabric;
mod private_input;
pub(crate) mod rings;
pub(crate) mod work;
