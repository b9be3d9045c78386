//! A blocking receive with nothing in its way: the message goes from the ring, or from the staging
//! buffer that a record names, into the receive buffer, past the queues and the table of requests.
//!
//! That is the same as posting the receive and waiting for it, as long as no other receive is
//! posted (none is older) and no message waits (none came before). Both are looked at again after
//! everything that could have changed them.

use limic_records as frame;
use limic_shm::bytes::{ReceiveBuffer, Source};
use limic_shm::ring::Mapped;
use limic_shm::ring::line::LineConsumer;

use super::fragments;
use crate::Selector;
use crate::engine::cx::Cx;
use crate::engine::progress::dispatch;
use crate::engine::progress::rings::{self, ReceiveRings};
use crate::engine::protocol::{assembly, staged};

/// Looks at the sender's ring in a row, between two turns of everything else.
pub(crate) const PEEKS: u32 = 16;
/// Rounds of looks before the receive is posted.
const ROUNDS: u32 = 32;
/// Polls of a wait that take as long as one round.
const POLLS_PER_ROUND: u32 = 16;
/// Receives between two turns of all peers.
pub(crate) const OTHERS_EVERY: u32 = 64;
/// A message in fragments takes as long as so many short ones.
const FRAGMENTED: u32 = OTHERS_EVERY / 4 - 1;

/// Rounds of looks for an endpoint that polls so often before it yields.
#[inline(always)]
pub(crate) fn rounds(spins: u32) -> u32 {
    ROUNDS.min(spins.div_ceil(POLLS_PER_ROUND))
}

/// What became of a receive past the queues.
pub(crate) enum Bypass {
    /// The message is in the buffer: tag and length.
    Received(u64, u64),
    /// The message has begun: tag, length, and the bytes that are in the buffer.
    Started(u64, u64, u64),
    /// Nothing has come: the receive is to be posted, since it takes longer, or something is in the
    /// way.
    NotTaken,
}

/// What one round of looks found.
pub(crate) enum Round {
    /// What became of the receive, and the number of short messages that take as long, beside the
    /// one that it is.
    Over(Bypass, u32),
    /// The ring is empty.
    Empty,
    /// A record of another kind or tag came; it was handled.
    Other,
}

const NOT_TAKEN: Round = Round::Over(Bypass::NotTaken, 0);

/// Looks at the private ring of a sender, for a receive that is the only one.
///
/// Between the store that publishes the message and the return to the caller: one line that moves,
/// its copy, and two counts.
#[inline(always)]
pub(crate) fn round(
    rings: &mut ReceiveRings,
    cx: &mut Cx,
    source: u32,
    selector: &Selector,
    into: &ReceiveBuffer,
) -> Round {
    if !cx.matching.is_idle(&cx.requests) {
        return NOT_TAKEN;
    }
    let Some(ring) = rings.private_ring_of(source) else {
        return NOT_TAKEN;
    };
    // With more endpoints than processors, the sender may need this one.
    for _ in 0..PEEKS.min(cx.wakeup.spins()) {
        let record = match ring.peek() {
            Ok(Some(record)) => record,
            Ok(None) => {
                // Looks without a pause would take the line away from the sender while it writes
                // it.
                core::hint::spin_loop();
                continue;
            }
            Err(corrupt) => {
                cx.peers.violated(source, corrupt.to_string());
                return NOT_TAKEN;
            }
        };
        let (kind, tag) = (record.kind, record.tag);
        let fits = selector.fits_tag(tag);
        let len = if fits && kind == frame::EAGER {
            let len = record.len();
            into.copy_from(0, len, &record);
            len
        } else if fits && kind == frame::EAGER_STAGED {
            let copied = frame::staged(&record).and_then(|descriptor| {
                let len = descriptor.len();
                staged::copy_buffer(cx, source, descriptor, 0, len, into).map(|()| len)
            });
            match copied {
                Ok(len) => len,
                Err(wrong) => {
                    cx.peers.violated(source, wrong);
                    return NOT_TAKEN;
                }
            }
        } else {
            return other(ring, cx, source, selector, into);
        };
        cx.peers.count_received(source, 1, len);
        rings::credit_returned(cx, source, ring.pop());
        return Round::Over(Bypass::Received(tag, len), 0);
    }
    Round::Empty
}

/// Takes a record that is not a whole message, or not one that matches. Apart, so that all kinds of
/// records do not stand in the way of the most frequent ones.
#[inline(never)]
fn other(
    ring: &mut LineConsumer<Mapped>,
    cx: &mut Cx,
    source: u32,
    selector: &Selector,
    into: &ReceiveBuffer,
) -> Round {
    let Ok(Some(record)) = ring.peek() else {
        return Round::Empty;
    };
    // Both are read anew, like everything in the record.
    let (kind, tag) = (record.kind, record.tag);
    if !selector.fits_tag(tag) || !frame::is_message(kind) {
        dispatch::on_record(cx, source, kind, tag, &record);
        rings::credit_returned(cx, source, ring.pop());
        return Round::Other;
    }
    if kind != frame::EAGER_FRAGMENTED {
        return NOT_TAKEN;
    }
    let Some(len) = fragments::eager_length(&record, into) else {
        return NOT_TAKEN;
    };
    if !assembly::begin_bypass(cx, source) {
        return NOT_TAKEN;
    }
    rings::credit_returned(cx, source, ring.pop());
    let at = fragments::take(ring, cx, source, len, into);
    if at < len {
        return Round::Over(Bypass::Started(tag, len, at), 0);
    }
    assembly::received_bypass(cx, source, len);
    Round::Over(Bypass::Received(tag, len), FRAGMENTED)
}
