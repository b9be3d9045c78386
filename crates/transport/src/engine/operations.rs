//! What can be under way, and where it stands.

use limic_matching::PostedId;

use crate::buffer::{ReceiveBuffer, SendBuffer};
use crate::error::Outcome;
use crate::kmod::Exposed;
use crate::policy::Path;
use crate::{Peer, Status, Tag};

/// One operation.
pub(crate) enum Operation {
    /// None, or it is done.
    Over,
    /// A send, or a one-sided write.
    Send(Sending),
    /// A receive, or a one-sided read.
    Receive(Receiving),
}

/// A send under way.
pub(crate) struct Sending {
    pub(crate) to: u32,
    pub(crate) tag: u64,
    pub(crate) immediate: Option<u64>,
    pub(crate) data: SendBuffer,
    pub(crate) stage: SendStage,
    /// While the peer may read the bytes through the kernel module.
    pub(crate) exposed: Option<Exposed>,
    /// It is over only when the message reaches its receiver whatever becomes of this process.
    pub(crate) delivered: bool,
}

/// Where a send stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendStage {
    /// Waits for the peer to be attached, or for room in its ring.
    Queued,
    /// Offered; the receiver has not answered.
    Offered {
        /// Cancellation was asked for.
        retracting: bool,
    },
    /// Goes eagerly, in pieces.
    InPieces {
        /// Next byte.
        at: u64,
    },
    /// Goes through chunks.
    Streaming {
        /// The receiver's request.
        remote: u64,
        /// Next byte.
        at: u64,
        /// First byte that is not wanted.
        end: u64,
        /// A one-sided write: done only when the owner says so.
        confirm: bool,
    },
    /// A one-sided write whose bytes are on their way.
    Confirming,
    /// Writes from the back while the receiver reads from the front.
    #[cfg_attr(not(feature = "cma"), expect(dead_code, reason = "single copy only"))]
    Back(Halves),
    /// Writes into the receiver's room through the kernel module.
    Writing {
        /// The receiver's request.
        remote: u64,
        /// The handle of its room.
        handle: u64,
        /// Next byte.
        at: u64,
        /// First byte that is not wanted.
        end: u64,
    },
    /// Lies in this endpoint's own unexpected queue.
    Local,
    /// A one-sided write, waits for the owner of the region.
    Put {
        /// The key of the region.
        key: u64,
        /// Where in the region.
        offset: u64,
    },
}

/// A receive under way.
pub(crate) struct Receiving {
    pub(crate) into: ReceiveBuffer,
    pub(crate) stage: ReceiveStage,
}

/// Where a receive stands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReceiveStage {
    /// In the posted queue.
    Posted {
        /// Its place there.
        id: PostedId,
    },
    /// Comes through chunks.
    Assembling(Incoming),
    /// Is being read out of the sender's memory.
    Reading(Incoming),
    /// Is read from the front while the sender writes from the back.
    #[cfg_attr(
        not(any(feature = "cma", test)),
        expect(dead_code, reason = "single copy only")
    )]
    Front(Incoming, Halves),
    /// The sender writes into its room, which is exposed under this handle of the kernel module.
    Exposed(Incoming, u64),
    /// A one-sided read, waits for the owner of the region.
    Get {
        /// The region's owner.
        from: u32,
        /// Where in the region.
        offset: u64,
        /// Bytes that have come.
        got: u64,
    },
}

impl ReceiveStage {
    /// Whose message it is, of a message that is on its way in.
    pub(crate) fn sender(&self) -> Option<u32> {
        match self {
            Self::Assembling(incoming)
            | Self::Reading(incoming)
            | Self::Front(incoming, _)
            | Self::Exposed(incoming, _) => Some(incoming.from),
            Self::Posted { .. } | Self::Get { .. } => None,
        }
    }
}

/// A long message on its way in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming {
    pub(crate) from: u32,
    pub(crate) tag: u64,
    pub(crate) immediate: Option<u64>,
    /// Length of the message in bytes.
    pub(crate) sent: u64,
    /// Bytes of it that are wanted.
    pub(crate) wanted: u64,
    /// Bytes that have come.
    pub(crate) got: u64,
    /// The sender's request.
    pub(crate) remote: u64,
    /// Where the bytes lie in the sender (single copy).
    pub(crate) address: u64,
    /// Under which handle (single copy by an engine that has handles).
    pub(crate) key: u64,
    /// How it comes.
    pub(crate) path: Path,
    /// Its bytes are written past the caches.
    pub(crate) past_caches: bool,
    /// The sender waits until all of it has come.
    pub(crate) confirm: bool,
    /// For a write into a region of this endpoint: its slot.
    pub(crate) region: Option<u32>,
    /// The spell in which it is measured, if it is; see `policy::adapt`.
    pub(crate) spell: Option<u32>,
}

/// A copy made by both sides: one side's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Halves {
    /// The meet word, in the receiver's segment.
    pub(crate) meet: u32,
    /// Bytes to copy in all.
    pub(crate) total: u64,
    /// Blocks that this side has copied.
    pub(crate) mine: u32,
    /// Blocks that the sender says it has copied (the receiver's view).
    pub(crate) theirs: Option<u32>,
    /// This side found no block left, or failed.
    pub(crate) finished: bool,
    /// The receiver has given up, and the sender may still look at the meet word: no other copy can have it.
    pub(crate) abandoned: bool,
    /// The receiver's request (the sender's view).
    pub(crate) remote: u64,
    /// The receiver's room (the sender's view).
    pub(crate) address: u64,
    /// Its handle.
    pub(crate) key: u64,
}

impl Halves {
    /// A copy that nobody has begun, by the receiver's view.
    #[cfg_attr(
        not(any(feature = "cma", test)),
        expect(dead_code, reason = "single copy only")
    )]
    pub(crate) const fn new(meet: u32, total: u64) -> Self {
        Self {
            meet,
            total,
            mine: 0,
            theirs: None,
            finished: false,
            abandoned: false,
            remote: 0,
            address: 0,
            key: 0,
        }
    }
}

impl Incoming {
    /// What the receive reports when all wanted bytes are there.
    pub(crate) fn outcome(&self) -> Outcome {
        receive_outcome(self.from, self.tag, self.immediate, self.sent, self.wanted)
    }
}

/// The outcome of a receive that delivered the first `room` bytes, or all, of a message.
#[inline]
pub(crate) fn receive_outcome(
    from: u32,
    tag: u64,
    immediate: Option<u64>,
    sent: u64,
    room: u64,
) -> Outcome {
    if sent > room {
        return Err(crate::Error::Truncated {
            peer: Peer(from),
            tag: Tag(tag),
            sent,
            buffer: room,
            immediate,
        });
    }
    Ok(Status {
        peer: Peer(from),
        tag: Tag(tag),
        len: sent,
        immediate,
    })
}
