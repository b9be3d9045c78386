//! A peer that writes into this process's memory is stopped before that memory is given back.

use core::time::Duration;

use limic_shm::world::{self, Instant};

use super::connections;
use crate::engine::cx::Cx;
use crate::engine::request::{Operation, ReceiveStage};
use crate::warning;

/// Longer than the copy of a block takes, by far.
const PATIENCE: Duration = Duration::from_millis(500);

/// What is known of a peer that is to be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// It may not know yet that it is given up: this endpoint closes, or there are records in its
    /// name that make no sense, which may be another peer's. If it is still in the middle of a
    /// block, the receive waits for that in quarantine, and nothing else.
    Unaware,
    /// It has ended, or has closed or given this endpoint up in its own progress, where it is in
    /// the middle of nothing. So is one that has broken the rules over its own socket: it could
    /// write anywhere in this process if it had the right to write here, so that nothing is gained
    /// by waiting for it.
    Through,
}

/// Before receives from a peer are given up: the peer claims no further block of them, and has done
/// with those that it claimed, so it writes there no more.
///
/// Waits for one block, and for no more than [`PATIENCE`] for all receives together if the peer is
/// stopped in the middle of it. The kernel has no call that ends another process's right to a write
/// that it has set out for, so a buffer that is given back earlier would be written to while it is
/// its owner's: see [`Writer`].
pub(crate) fn stop_writer(cx: &mut Cx, number: u32, writer: Writer) {
    let since = Instant::now();
    for slot in cx.requests.slots() {
        let Operation::Receive(receiving) = cx.requests.get(slot) else {
            continue;
        };
        let ReceiveStage::SplitRead(incoming, mut split) = receiving.stage else {
            continue;
        };
        if incoming.from() != number || split.stopped {
            continue;
        }
        cx.transfers.splits.incoming.end(split.line);
        while is_writing(cx, number, split.serial)
            && cx.sockets.is_connected(number)
            && since.elapsed() < PATIENCE
        {
            world::yield_now();
            // It may say that it closes.
            connections::read_all_of(cx, number);
        }
        split.stopped = writer == Writer::Through || !is_writing(cx, number, split.serial);
        if let Some(receiving) = cx.requests.receiving(slot) {
            receiving.stage = ReceiveStage::SplitRead(incoming, split);
        }
    }
    if is_awaited(cx, number) {
        warning::say(&format!(
            "peer {number} is in the middle of a write into this process, and does not go on: is it \
             stopped? The buffer is given back when that is over, or the peer has ended"
        ));
    }
}

/// Whether a peer that was to be stopped is still in the middle of a block, so that its receive has
/// to wait.
pub(crate) fn is_awaited(cx: &mut Cx, number: u32) -> bool {
    cx.requests.slots().into_iter().any(|slot| {
        let receiving = cx.requests.receiving(slot);
        receiving.is_some_and(|receiving| match receiving.stage {
            ReceiveStage::SplitRead(incoming, split) => incoming.from() == number && !split.stopped,
            _ => false,
        })
    })
}

/// Whether the sender of a split copy that has ended is still in the middle of a block.
fn is_writing(cx: &mut Cx, number: u32, serial: u64) -> bool {
    let pair = cx.peers.pair(number);
    let progress = pair.and_then(|pair| pair.splits.progress(serial));
    progress.is_some_and(|progress| !progress.is_idle)
}
