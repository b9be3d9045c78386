//! Who sent a message, and under which tag.

use crate::error::Outcome;
use crate::{Error, Peer, Status, Tag};

/// A message as matching sees it, and its immediate word, which receivers are told beside the
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) from: u32,
    pub(crate) tag: u64,
    pub(crate) immediate: Option<u64>,
}

impl Envelope {
    /// A message without an immediate word.
    #[inline(always)]
    pub(crate) const fn new(from: u32, tag: u64) -> Self {
        Self {
            from,
            tag,
            immediate: None,
        }
    }

    /// What a receiver is told of the message if it has `len` bytes.
    #[inline(always)]
    pub(crate) fn status(&self, len: u64) -> Status {
        Status {
            peer: Peer(self.from),
            tag: Tag(self.tag),
            len,
            immediate: self.immediate,
        }
    }

    /// The outcome of a receive with `room` bytes of room, of a message of `sent` bytes.
    ///
    /// # Errors
    /// [`Error::Truncated`]: the message is longer than the room.
    #[inline]
    pub(crate) fn outcome(&self, sent: u64, room: u64) -> Outcome {
        if sent > room {
            return Err(Error::Truncated {
                peer: Peer(self.from),
                tag: Tag(self.tag),
                sent,
                buffer: room,
                immediate: self.immediate,
            });
        }
        Ok(self.status(sent))
    }
}
