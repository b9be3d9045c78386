//! A peer that writes into this process's memory is stopped before that memory is given back.

use core::sync::atomic::Ordering;
use core::time::Duration;

use limic_copy::RendezvousWord;
use limic_shm::ring::Memory;
use limic_shm::world::{self, Instant};

use super::connections;
use crate::engine::cx::Cx;
use crate::engine::protocol::split_copy::{WRITTEN, block};
use crate::engine::request::{Operation, ReceiveStage};

/// Longer than the copy of a block takes, by far.
const PATIENCE: Duration = Duration::from_millis(500);

/// Before receives from a peer are given up: the peer claims no further block of them, and has done
/// with those that it claimed, so it writes there no more.
///
/// Waits for one block, and for longer only if the peer is stopped in the middle of it. Then there
/// is no bound: the kernel has no call that ends another process's right to a write that it has set
/// out for, so a buffer that is given back earlier would be written to while it is its owner's. For
/// a peer whose bytes make no sense, and that may never count, just [`PATIENCE`] (it could write
/// anywhere in this process if it had the right to write here).
pub(crate) fn stop_writer(cx: &mut Cx, number: u32, trusted: bool) {
    for slot in cx.requests.slots() {
        let Operation::Receive(receiving) = cx.requests.get(slot) else {
            continue;
        };
        let ReceiveStage::SplitRead(incoming, mut split) = receiving.stage else {
            continue;
        };
        let memory = cx.memory.segment.rendezvous_word(split.word);
        let (true, false, Some(line)) = (incoming.from() == number, split.abandoned, memory) else {
            continue;
        };
        let blocks = u32::try_from(split.total.div_ceil(block(split.total)));
        let blocks = blocks.unwrap_or(u32::MAX);
        let claimed = RendezvousWord(line.word64(0)).end(blocks);
        let trusted = trusted && claimed <= blocks;
        let since = Instant::now();
        let mut told = false;
        // Acquire: pairs with the release store in `split_copy::split_write`.
        while line.word64(WRITTEN).load(Ordering::Acquire) < u64::from(claimed)
            && cx.sockets.is_connected(number)
            && (trusted || since.elapsed() < PATIENCE)
        {
            if since.elapsed() > PATIENCE && !core::mem::replace(&mut told, true) {
                tracing::warn!(
                    "peer {number} is in the middle of a write into this process, and does not go on: \
                     is it stopped? The buffer is given back when that is over, or the peer has ended"
                );
            }
            world::yield_now();
            // It may say that it closes.
            connections::read_all_of(cx, number);
        }
        // Until it answers, it may look at the word once more.
        split.abandoned = split.peer_blocks.is_none() && cx.sockets.is_connected(number);
        if let Some(receiving) = cx.requests.receiving(slot) {
            receiving.stage = ReceiveStage::SplitRead(incoming, split);
        }
    }
}
