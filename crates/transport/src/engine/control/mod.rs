//! What the engine learns while messages flow, and changes its routes by.
//!
//! - `autotune`: which candidate moves long messages fastest;
//! - `locality`: where the two ends of a pair run;
//! - `line_latency`: how long a cache line takes from one to the other;
//! - `pace`: whether a receiver keeps up with its sender;
//! - `budget`: whether a receiver holds too many unexpected bytes;
//! - `spins`: how long waits spin; `counting`: what was moved.

pub(crate) mod autotune;
pub(crate) mod budget;
pub(crate) mod counting;
pub(crate) mod line_latency;
pub(crate) mod locality;
pub(crate) mod pace;
pub(crate) mod spins;
