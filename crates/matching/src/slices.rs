//! Tables in memory of the caller.

use super::bins::{Bucket, Link};
use super::error::Full;
use super::posted_node::PostedNode;
use super::storage::{PostedMemory, Storage, UnexpectedMemory};
use super::unexpected_node::UnexpectedNode;

/// Tables of fixed size in memory that the caller brings: arrays, statics, pages.
///
/// [`Matcher::reserve`](super::Matcher::reserve) beyond their size is an error.
#[derive(Debug)]
pub struct SliceStorage<'a> {
    /// Nodes and buckets of the posted table.
    pub posted: PostedMemory<'a>,
    /// Nodes, buckets and links of the unexpected table.
    pub unexpected: UnexpectedMemory<'a>,
}

impl<'a> SliceStorage<'a> {
    /// Tables over these slices; their content does not matter.
    #[must_use]
    pub fn new(
        posted: (&'a mut [PostedNode], &'a mut [Bucket]),
        unexpected: (&'a mut [UnexpectedNode], &'a mut [Bucket], &'a mut [Link]),
    ) -> Self {
        Self {
            posted: PostedMemory {
                nodes: posted.0,
                buckets: posted.1,
            },
            unexpected: UnexpectedMemory {
                nodes: unexpected.0,
                buckets: unexpected.1,
                links: unexpected.2,
            },
        }
    }
}

impl Storage for SliceStorage<'_> {
    fn posted(&mut self) -> PostedMemory<'_> {
        PostedMemory {
            nodes: self.posted.nodes,
            buckets: self.posted.buckets,
        }
    }

    fn unexpected(&mut self) -> UnexpectedMemory<'_> {
        UnexpectedMemory {
            nodes: self.unexpected.nodes,
            buckets: self.unexpected.buckets,
            links: self.unexpected.links,
        }
    }

    fn grow(&mut self, posted: usize, unexpected: usize) -> Result<(), Full> {
        if posted > self.posted.nodes.len() {
            return Err(Full::Posted {
                capacity: self.posted.nodes.len(),
            });
        }
        if unexpected > self.unexpected.nodes.len() {
            return Err(Full::Unexpected {
                capacity: self.unexpected.nodes.len(),
            });
        }
        Ok(())
    }
}
