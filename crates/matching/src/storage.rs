//! Where the tables live.

use super::bins::{Bucket, Link};
use super::error::Full;
use super::posted_node::PostedNode;
use super::unexpected_node::UnexpectedNode;

/// Links per unexpected message, beside the two in its node, for all 16 classes.
pub const EXTRA_LINKS: usize = 14;

/// Memory of the posted table. The number of nodes is its capacity (at most 2^30).
#[derive(Debug)]
pub struct PostedMemory<'a> {
    /// One per receive.
    pub nodes: &'a mut [PostedNode],
    /// The largest power of two of them is used; once or twice the number of nodes is a good
    /// number. Without buckets the capacity is 0.
    pub buckets: &'a mut [Bucket],
}

/// Memory of the unexpected table. The number of nodes is its capacity (at most 2^27).
#[derive(Debug)]
pub struct UnexpectedMemory<'a> {
    /// One per message.
    pub nodes: &'a mut [UnexpectedNode],
    /// As for the posted table.
    pub buckets: &'a mut [Bucket],
    /// `n` links per node give `2 + n` classes that are indexed, up to [`EXTRA_LINKS`]; may be
    /// empty.
    pub links: &'a mut [Link],
}

/// Memory for the two tables.
///
/// The slices keep their length and their content except in [`Storage::grow`]. A storage that
/// breaks this causes wrong matches or [`Full`], but no panic.
pub trait Storage {
    /// Memory of the posted table.
    fn posted(&mut self) -> PostedMemory<'_>;

    /// Memory of the unexpected table.
    fn unexpected(&mut self) -> UnexpectedMemory<'_>;

    /// Makes room for this many entries in all. The nodes that were there keep their place and
    /// content, new ones are `EMPTY`; the content of buckets and links may be lost.
    ///
    /// # Errors
    /// [`Full`] with the table that cannot be as large. The other one may have grown.
    fn grow(&mut self, posted: usize, unexpected: usize) -> Result<(), Full>;
}
