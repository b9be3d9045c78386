//! What can be under way, and where it stands.

use limic_copy::Exposed;
use limic_matching::PostedId;
use limic_policy::Path;
use limic_records::Offer;
use limic_shm::bytes::{ReceiveBuffer, SendBuffer};

use crate::engine::envelope::{Envelope, Told};
use crate::error::Outcome;
use crate::raw::RequestId;
use crate::{Peer, Status, Tag};

/// One operation.
pub(crate) enum Operation {
    /// None, or a completed one.
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
    /// The send completes only when the message reaches its receiver whatever becomes of this
    /// process.
    pub(crate) delivered: bool,
    /// The send completes only when a receive has taken the message.
    pub(crate) matched: bool,
}

impl Sending {
    /// A send without a tag, an immediate word or wishes about its end.
    pub(crate) fn new(to: u32, data: SendBuffer, stage: SendStage) -> Self {
        Self {
            to,
            tag: 0,
            immediate: None,
            data,
            stage,
            exposed: None,
            delivered: false,
            matched: false,
        }
    }

    /// Whether it is a one-sided write with the help of the region's owner, who confirms each.
    pub(crate) fn is_access(&self) -> bool {
        let confirmed = match self.stage {
            SendStage::Put { .. } | SendStage::Confirming => true,
            SendStage::Fragments(fragments) => fragments.confirm,
            _ => false,
        };
        confirmed && !self.delivered
    }
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
    /// Goes in fragments.
    Fragments(Fragments),
    /// All bytes are on their way, and the receiver has to confirm them.
    Confirming,
    /// Writes from the back while the receiver reads from the front.
    SplitWrite(SplitWrite),
    /// Waits in this endpoint's own unexpected queue.
    Loopback,
    /// A one-sided write that waits for the owner of the region.
    Put {
        /// The key of the region.
        key: u64,
        /// Where in the region.
        offset: u64,
    },
}

/// Where a send in fragments stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragments {
    /// The request of the receiver that asked; `None` for an eager message.
    pub(crate) receive: Option<u64>,
    /// Next byte.
    pub(crate) at: u64,
    /// First byte that is not wanted.
    pub(crate) end: u64,
    /// A record has begun whose rest has to go first, over a network where long ones go in parts.
    pub(crate) open: bool,
    /// The send completes only when the receiver says so.
    pub(crate) confirm: bool,
    /// For a read of a region of this endpoint by a peer: the region's position.
    pub(crate) region: Option<u32>,
}

impl Fragments {
    /// Bytes from `at` to `end`, as of an eager message.
    pub(crate) const fn new(at: u64, end: u64) -> Self {
        Self {
            receive: None,
            at,
            end,
            open: false,
            confirm: false,
            region: None,
        }
    }
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
        /// Its position there.
        id: PostedId,
    },
    /// Comes in fragments.
    Assembling(Incoming),
    /// Is being read out of the sender's memory, or was.
    Reading(Incoming),
    /// Is read from the front while the sender writes from the back.
    SplitRead(Incoming, SplitRead),
    /// A one-sided read that waits for the owner of the region.
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
    /// The sender of a message that is on its way in.
    pub(crate) fn sender(&self) -> Option<u32> {
        match self {
            Self::Assembling(incoming) | Self::Reading(incoming) | Self::SplitRead(incoming, _) => {
                Some(incoming.from())
            }
            Self::Posted { .. } | Self::Get { .. } => None,
        }
    }

    /// The peer that the operation needs, if it waits for one alone.
    pub(crate) fn peer(&self) -> Option<u32> {
        match self {
            Self::Get { from, .. } => Some(*from),
            stage => stage.sender(),
        }
    }
}

/// A message on its way in whose bytes come after its match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming {
    pub(crate) envelope: Envelope,
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
    /// Under which key (single copy with keys).
    pub(crate) key: u64,
    /// How the bytes come.
    pub(crate) path: Path,
    /// The sender may copy a part of them.
    pub(crate) both_sides: bool,
    /// The receive buffer is written with non-temporal stores.
    pub(crate) non_temporal: bool,
    /// The sender waits until all bytes have come.
    pub(crate) confirm: bool,
    /// For a write into a region of this endpoint: the region's position.
    pub(crate) region: Option<u32>,
    /// The spell that measures it, if one does; see `limic_policy::autotune`.
    pub(crate) sample: Option<u32>,
    /// Its receive was posted before its offer was seen.
    pub(crate) expected: bool,
}

impl Incoming {
    /// An eager message of `len` bytes for a receive with room for `room`, of which nothing has
    /// come.
    pub(crate) fn new(envelope: Envelope, len: u64, room: u64) -> Self {
        Self {
            envelope,
            sent: len,
            wanted: len.min(room),
            got: 0,
            remote: 0,
            address: 0,
            key: 0,
            path: Path::EagerFragments,
            both_sides: false,
            non_temporal: false,
            confirm: false,
            region: None,
            sample: None,
            expected: false,
        }
    }

    /// A message that was offered.
    pub(crate) fn of_offer(envelope: Envelope, offer: &Offer, room: u64) -> Self {
        Self {
            remote: offer.send,
            address: offer.address,
            key: offer.key,
            confirm: offer.confirm,
            path: Path::Pipeline,
            ..Self::new(envelope, offer.len, room)
        }
    }

    /// The peer that it comes from.
    pub(crate) fn from(&self) -> u32 {
        self.envelope.from
    }

    /// What the receive reports when all wanted bytes are there.
    pub(crate) fn outcome(&self) -> Outcome {
        self.envelope.outcome(self.sent, self.wanted)
    }
}

/// An eager message that is coming in fragments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EagerAssembly {
    pub(crate) to: Destination,
    /// Bytes that have come, and the length of the message.
    pub(crate) at: u64,
    pub(crate) len: u64,
}

/// Where the fragments of an eager message go.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Destination {
    /// The buffer of a receive.
    Receive(RequestId),
    /// An unexpected message, by its token.
    Unexpected(u32),
}

/// The receiver's view of a copy that both sides make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SplitRead {
    /// This endpoint's line of `splits`, and the copy's serial number.
    pub(crate) line: u32,
    pub(crate) serial: u64,
    /// Bytes to copy in all, and those of a block.
    pub(crate) total: u64,
    pub(crate) block: u64,
    /// Blocks that this side has copied.
    pub(crate) own_blocks: u32,
    /// Blocks that the sender has copied, once that is known.
    pub(crate) peer_blocks: Option<u32>,
    /// This side lets the sender copy while it has others to read.
    pub(crate) left_to_sender: bool,
    /// This side found no block left, or failed.
    pub(crate) finished: bool,
    /// This side gave up, and the sender writes no more.
    pub(crate) stopped: bool,
}

impl SplitRead {
    /// A copy that nobody has begun.
    pub(crate) const fn new(line: u32, serial: u64, total: u64, block: u64) -> Self {
        Self {
            line,
            serial,
            total,
            block,
            own_blocks: 0,
            peer_blocks: None,
            left_to_sender: false,
            finished: false,
            stopped: false,
        }
    }
}

/// The sender's view of a copy that both sides make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SplitWrite {
    /// This endpoint's line of `splits`.
    pub(crate) line: u32,
    /// The receiver's line, and the copy's serial number.
    pub(crate) peer_line: u32,
    pub(crate) serial: u64,
    /// Bytes to copy in all, and those of a block.
    pub(crate) total: u64,
    pub(crate) block: u64,
    /// Blocks that this side has copied.
    pub(crate) own_blocks: u32,
    /// The receiver's request.
    pub(crate) remote: u64,
    /// The receiver's buffer.
    pub(crate) address: u64,
    /// This side claims no more blocks, and has said so.
    pub(crate) finished: bool,
}

/// The outcome of a send that went well.
#[inline(always)]
pub(crate) fn sent(to: u32, tag: u64, len: u64) -> Outcome {
    Ok(Status {
        peer: Peer(to),
        tag: Tag(tag),
        len,
        immediate: None,
    })
}
