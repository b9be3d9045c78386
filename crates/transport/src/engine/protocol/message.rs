//! A message that is tried to be sent, and what may come of that.

use limic_shm::bytes::total;

use crate::engine::request::Sending;
use crate::raw::RawSlice;

/// A message to a peer.
#[derive(Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(crate) to: u32,
    pub(crate) tag: u64,
    pub(crate) immediate: Option<u64>,
    pub(crate) data: &'a [RawSlice],
    /// Of all of the data.
    pub(crate) len: u64,
    /// It has to reach its receiver whatever becomes of this process.
    pub(crate) delivered: bool,
    /// Others are likely to follow it, and over a network it may wait for them.
    pub(crate) more: bool,
}

impl<'a> Message<'a> {
    #[inline(always)]
    pub(crate) fn new(to: u32, tag: u64, immediate: Option<u64>, data: &'a [RawSlice]) -> Self {
        Self {
            to,
            tag,
            immediate,
            data,
            len: total(data),
            delivered: false,
            more: false,
        }
    }

    /// The message of a send under way.
    pub(crate) fn of(sending: &'a Sending) -> Self {
        Self {
            delivered: sending.delivered,
            ..Self::new(
                sending.to,
                sending.tag,
                sending.immediate,
                sending.data.slices(),
            )
        }
    }
}

/// When a message is tried, and so what may become of it. A send tries the first two, one after the
/// other. What then waits in the backlog has one of the others, whenever progress comes to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// At once: through shared memory and whole, or not at all.
    Whole,
    /// After that was refused: in fragments, ahead of a slow receiver, or over a network.
    Refused,
    /// As the first in the backlog: in any way but ahead of its receiver.
    Queued,
    /// As the first in the backlog, with all bytes before this one out: in further fragments.
    Remaining(u64),
}

/// What came of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Attempt {
    /// It is out, and counted.
    Sent,
    /// It is out up to this byte.
    Begun(u64),
    /// It waits for room, for its turn, or for its peer: nothing was done.
    Waits,
    /// Its receiver is to be asked.
    Offer,
    /// The network takes it out of its buffer, part by part.
    InPlace,
}
