//! What measurements share, those of the command as those that make the papers' figures anew: how
//! sizes and ranks are asked for ([`options`], [`sizes`], [`lanes`]), how ranks find each other and
//! agree ([`ranks`], [`control`]), what messages contain ([`content`]), what a number was measured
//! on ([`machine`]), and how numbers are shown ([`numbers`], [`outputs`], [`plot`]).

pub mod content;
pub mod control;
mod error;
pub mod lanes;
pub mod machine;
pub mod numbers;
pub mod options;
pub mod outputs;
pub mod plot;
pub mod ranks;
pub mod sizes;

/// Version of limic.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

pub use error::{BAD_USAGE, MeasureError};
