//! What the benches and the counted program have in common: two endpoints that have met.

mod pair;

pub use pair::{Pair, TAG};
