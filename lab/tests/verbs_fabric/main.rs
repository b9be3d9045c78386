//! The fabric over Soft-RoCE: connections, packets, transfers, and what happens when a stream or a
//! peer fails.

mod delivery;
mod loss;
mod side;
