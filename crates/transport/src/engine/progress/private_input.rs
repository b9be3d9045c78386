//! One private ring that this endpoint reads.

use limic_records as frame;
use limic_shm::bytes::Source;
use limic_shm::ring::Mapped;
use limic_shm::ring::line::LineConsumer;

use crate::engine::cx::Cx;
use crate::engine::envelope::Envelope;
use crate::engine::help::Piece;
use crate::engine::progress::dispatch;
use crate::engine::progress::rings::{FEW, credit_returned, is_unexpected};
use crate::engine::request::Requests;

/// Records taken from one ring before the others get their turn.
pub(super) const BATCH: usize = 32;

/// A private ring that this endpoint reads, and its sender.
pub(super) struct PrivateInput {
    pub(super) ring: LineConsumer<Mapped>,
    pub(super) number: u32,
    pub(super) peer: u32,
    /// The last look at it found nothing: whoever waits, waits for the next record.
    pub(super) idle: bool,
    /// Looks at it that are timed, unless its peer asks for help again.
    pub(super) timed: u32,
}

impl PrivateInput {
    /// Takes messages that come in the order of the receives in the posted fifo, as long as they
    /// do: how many, and their bytes.
    ///
    /// Lines of this process for each, beside the ring's: its entry in the table of requests, and
    /// its buffer.
    #[inline(never)]
    pub(super) fn deliver_in_order(&mut self, requests: &mut Requests) -> (usize, u64) {
        let (mut taken, mut bytes) = (0, 0);
        let peer = self.peer;
        // As in `ReceiveRings::drain`.
        let most = if self.idle { 1 } else { BATCH };
        while taken < most {
            let mut len = 0;
            let delivered = self.ring.take_if(|record| {
                len = record.len();
                // Each kind has code of its own, so that the first has no word to skip.
                if record.kind & frame::IMMEDIATE == 0 {
                    return record.kind == frame::EAGER
                        && requests.deliver_to_head(Envelope::new(peer, record.tag), record);
                }
                let message = frame::eager(peer, record.kind, record.tag, record);
                message.is_some_and(|(envelope, message)| {
                    len = message.len();
                    requests.deliver_to_head(envelope, &message)
                })
            });
            if !delivered {
                break;
            }
            taken += 1;
            bytes += len;
        }
        (taken, bytes)
    }

    /// Takes records, up to the first message that would have to be kept if the ring is held back,
    /// and until the piece of work that this is, if its time counts, is a long one. True if there
    /// were any.
    pub(super) fn deliver(
        &mut self,
        cx: &mut Cx,
        is_held_back: bool,
        piece: Option<&Piece>,
    ) -> bool {
        let peer = self.peer;
        let (mut taken, mut credited) = (0, false);
        while taken < BATCH {
            match self.ring.peek() {
                Ok(Some(record)) => {
                    let (kind, tag) = (record.kind, record.tag);
                    let is_kept = (is_held_back || cx.matching.is_over_budget())
                        && is_unexpected(cx, peer, kind, tag);
                    if is_kept && is_held_back {
                        break;
                    }
                    if is_kept {
                        taken = taken.max(BATCH - FEW);
                    }
                    dispatch::on_record(cx, peer, kind, tag, &record);
                }
                Ok(None) => break,
                Err(corrupt) => {
                    cx.peers.violated(peer, corrupt.to_string());
                    break;
                }
            }
            credited |= self.ring.pop();
            taken += 1;
            if piece.is_some_and(Piece::is_long) {
                break;
            }
        }
        credit_returned(cx, peer, credited);
        taken > 0
    }
}
