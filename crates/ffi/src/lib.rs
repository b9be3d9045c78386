//! What every C interface of limic needs: no panic crosses it, and no old handle is believed.
//!
//! [`guard`] runs the body of a function that C calls. [`Slab`] keeps the things that C names by
//! number. [`text_of`] makes lines of the log's events.

#![forbid(unsafe_code)]

mod guard;
mod slab;
mod text;

pub use guard::{Panic, guard};
pub use slab::Slab;
pub use text::text_of;
