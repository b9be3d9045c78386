//! A peer that writes into this process's memory is stopped before that memory is given back.

use core::time::Duration;

use limic_shm::system::{self, Instant};

use super::failure;
use crate::engine::cx::Cx;
use crate::engine::request::operation::SplitRead;
use crate::engine::request::{Incoming, ReceiveStage, Slot};
use crate::error::PeerFailure;
use crate::warning;

/// Longer than the copy of a block takes, by far.
const LEAVES_AFTER: Duration = Duration::from_millis(500);

/// Before receives from a peer are given up: the peer claims no further block of them. A receive of
/// which it is in the middle of a block waits for that in quarantine, whatever was said in the
/// peer's name: the kernel has no call that ends another process's right to a write that it has set
/// out for, so a buffer that is given back earlier would be written to while it is its owner's.
///
/// In a forked child nobody writes: the block goes to its parent.
///
/// True if a receive has to wait.
pub(crate) fn stop_writer(cx: &mut Cx, number: u32, why: &PeerFailure) -> bool {
    let mut waits = false;
    for (slot, incoming, mut split) in split_reads(cx, number) {
        cx.transfers.splits.end(split.line);
        split.stopped = *why == PeerFailure::Forked || !is_writing(cx, number, split.serial);
        waits |= !split.stopped;
        if let Some(receiving) = cx.requests.known_receive(slot) {
            receiving.stage = ReceiveStage::SplitRead(incoming, split);
        }
    }
    waits
}

/// Whether a peer may be in the middle of a block, so that its receive has to wait.
pub(crate) fn is_awaited(cx: &mut Cx, number: u32) -> bool {
    !split_reads(cx, number).is_empty()
}

/// Receives into which a peer may write.
fn split_reads(cx: &mut Cx, number: u32) -> Vec<(Slot, Incoming, SplitRead)> {
    let slots = cx.requests.slots().into_iter();
    let split_reads = slots.filter_map(|slot| match cx.requests.receiving(slot)?.stage {
        ReceiveStage::SplitRead(incoming, split) => Some((slot, incoming, split)),
        _ => None,
    });
    split_reads
        .filter(|(_, incoming, split)| incoming.from() == number && !split.stopped)
        .collect()
}

/// Whether the sender of a split copy that has ended is still in the middle of a block.
fn is_writing(cx: &mut Cx, number: u32, serial: u64) -> bool {
    let pair = cx.peers.pair(number);
    let progress = pair.and_then(|pair| pair.splits.progress(serial));
    progress.is_some_and(|progress| !progress.is_idle())
}

/// An endpoint that closes waits for the blocks that are under way: no longer than [`LEAVES_AFTER`]
/// in all, if a peer is stopped in the middle of one.
pub(crate) fn let_blocks_end(cx: &mut Cx) {
    let since = Instant::now();
    while let Some(peer) = cx.quarantine.writer() {
        if since.elapsed() >= LEAVES_AFTER {
            return warning::say(&format!(
                "peer {peer} is in the middle of a write into this process, and does not go on: is \
                 it stopped? The buffer is given back when that is over, or the peer has ended"
            ));
        }
        system::yield_now();
        failure::release_ended(cx);
    }
}
