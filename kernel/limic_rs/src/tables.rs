// SPDX-License-Identifier: GPL-2.0

//! Memory of the matching queues, allocated once per member of a group.

use crate::matching::{Bucket, Full, Link, PostedMemory, PostedNode};
use crate::matching::{EXTRA_LINKS, Storage, UnexpectedMemory, UnexpectedNode};
use kernel::alloc::Flags;
use kernel::prelude::*;

/// Tables of fixed size.
pub(crate) struct Tables {
    posted: KVVec<PostedNode>,
    posted_buckets: KVVec<Bucket>,
    unexpected: KVVec<UnexpectedNode>,
    unexpected_buckets: KVVec<Bucket>,
    links: KVVec<Link>,
}

fn table<T: Clone>(empty: T, len: usize, flags: Flags) -> Result<KVVec<T>> {
    Ok(KVVec::from_elem(empty, len, flags)?)
}

impl Tables {
    /// Room for so many receives and messages.
    pub(crate) fn new(posted: usize, unexpected: usize) -> Result<Self> {
        let flags = GFP_KERNEL_ACCOUNT;
        let buckets = |len: usize| (2 * len).next_power_of_two();
        Ok(Self {
            posted: table(PostedNode::EMPTY, posted, flags)?,
            posted_buckets: table(Bucket::EMPTY, buckets(posted), flags)?,
            unexpected: table(UnexpectedNode::EMPTY, unexpected, flags)?,
            unexpected_buckets: table(Bucket::EMPTY, buckets(unexpected), flags)?,
            links: table(Link::EMPTY, unexpected * EXTRA_LINKS, flags)?,
        })
    }
}

impl Storage for Tables {
    fn posted(&mut self) -> PostedMemory<'_> {
        PostedMemory {
            nodes: &mut self.posted,
            buckets: &mut self.posted_buckets,
        }
    }

    fn unexpected(&mut self) -> UnexpectedMemory<'_> {
        UnexpectedMemory {
            nodes: &mut self.unexpected,
            buckets: &mut self.unexpected_buckets,
            links: &mut self.links,
        }
    }

    fn grow(&mut self, posted: usize, unexpected: usize) -> Result<(), Full> {
        if posted > self.posted.len() {
            return Err(Full::Posted {
                capacity: self.posted.len(),
            });
        }
        if unexpected > self.unexpected.len() {
            return Err(Full::Unexpected {
                capacity: self.unexpected.len(),
            });
        }
        Ok(())
    }
}
