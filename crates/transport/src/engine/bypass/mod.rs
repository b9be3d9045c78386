//! Blocking receives with nothing in their way: past the queues and the table of requests.
//!
//! - `receive`: a message that is copied; `fragments`: one that comes in fragments;
//! - `loans`: a message that is taken where it lies.

mod fragments;
pub(crate) mod loans;
pub(crate) mod receive;
