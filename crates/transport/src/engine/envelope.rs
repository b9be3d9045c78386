//! What a receiver is told of a message.

pub(crate) use limic_records::Envelope;

use crate::error::Outcome;
use crate::{Error, Peer, Status, Tag};

/// What a receiver is told, by who sent the message and under which tag.
pub(crate) trait Told {
    /// The same of a message that has `len` bytes.
    fn status(&self, len: u64) -> Status;

    /// The outcome of a receive with `room` bytes of room, of a message of `sent` bytes.
    ///
    /// # Errors
    /// [`Error::Truncated`]: the message is longer than the room.
    fn outcome(&self, sent: u64, room: u64) -> Outcome;
}

impl Told for Envelope {
    #[inline(always)]
    fn status(&self, len: u64) -> Status {
        Status {
            peer: Peer(self.from),
            tag: Tag(self.tag),
            len,
            immediate: self.immediate,
        }
    }

    #[inline]
    fn outcome(&self, sent: u64, room: u64) -> Outcome {
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
