//! Rings under loom together with what messages need beside them.

mod buffers;
mod sleep;
