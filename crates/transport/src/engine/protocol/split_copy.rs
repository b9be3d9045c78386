//! Both sides at once: the receiver reads blocks from the front while the sender writes blocks
//! from the back, until they meet. Two cores copy one message, each with one copy.
//!
//! The blocks are shared out by a word in the receiver's segment. Whatever the word says, each side
//! reports how many blocks it has copied, and what lies between the two is sent again by the
//! pipeline.
//!
//! The kernel cannot be asked to take the sender's right to write back. So beside that word the
//! sender counts the blocks that it has done with, and a receiver that gives up, since its endpoint
//! closes for example, ends the copy there and waits until the block under way is written, before
//! the buffer is its owner's again.

use crate::engine::control::autotune;
use crate::engine::outbox;
use crate::engine::protocol::rendezvous;
use core::sync::atomic::Ordering;

use limic_copy::{RendezvousWord, SplitCopy};
use limic_shm::ring::Memory;

use crate::engine::cx::Cx;
use crate::engine::frame::{ClearToSend, Done, SplitRequest, Violation};
use crate::engine::request::operation::SplitState;
use crate::engine::request::{Incoming, ReceiveStage, SendStage, Slot};
use crate::policy::Path;
use crate::single_copy::{RemoteBytes, address_of_room};

/// Bytes of a block: long enough to make a system call worth it, short enough to meet in the
/// middle. Both sides compute it from the length of the message: four blocks of a short one, so
/// that each copies half of it.
const SHORTEST_BLOCK: u64 = 16 << 10;
const LONGEST_BLOCK: u64 = 128 << 10;

/// Place in the line of a meet word where the sender counts the blocks that it has done with.
pub(crate) const WRITTEN: usize = 8;
pub(crate) fn block(total: u64) -> u64 {
    (total / 4)
        .next_multiple_of(4 << 10)
        .clamp(SHORTEST_BLOCK, LONGEST_BLOCK)
}

/// The receiver starts: it names a meet word and its room to the sender.
pub(crate) fn start_split_copy(cx: &mut Cx, slot: Slot, incoming: Incoming) {
    let address = cx
        .requests
        .receiving(slot)
        .and_then(|receiving| address_of_room(receiving.into.slices()));
    let word = cx.memory.take_word();
    let (Some(address), Some(meet)) = (address, word) else {
        // All words are in use: read alone.
        cx.memory.return_words(word);
        if let Some(receiving) = cx.requests.receiving(slot) {
            receiving.stage = ReceiveStage::Reading(incoming);
        }
        cx.transfers.copies.push_back(slot);
        return;
    };
    if let Some(memory) = cx.memory.segment.rendezvous_word(meet) {
        memory.word64(WRITTEN).store(0, Ordering::Relaxed);
        RendezvousWord(memory.word64(0)).reset();
    }
    let split = SplitState::new(meet, incoming.wanted);
    if let Some(receiving) = cx.requests.receiving(slot) {
        receiving.stage = ReceiveStage::SplitRead(incoming, split);
    }
    let id = cx.requests.id(slot);
    let split = SplitRequest {
        send: incoming.remote,
        receive: id.0,
        bytes: incoming.wanted,
        word: meet,
        address,
    };
    outbox::control(cx, incoming.from(), split.encode());
    cx.transfers.copies.push_back(slot);
}

/// The sender is asked to write from the back.
///
/// # Errors
/// It is asked for bytes that the message does not have.
pub(crate) fn on_split_copy(cx: &mut Cx, from: u32, split: SplitRequest) -> Result<(), Violation> {
    let Some(slot) = rendezvous::send_to(cx, from, split.send) else {
        return Ok(());
    };
    let Some(sending) = cx.requests.sending(slot) else {
        return Ok(());
    };
    let SendStage::Offered { .. } = sending.stage else {
        return Ok(());
    };
    if split.bytes > sending.data.len() {
        return Err("a request for bytes outside of the message");
    }
    sending.stage = SendStage::SplitWrite(SplitState {
        remote: split.receive,
        address: split.address,
        ..SplitState::new(split.word, split.bytes)
    });
    autotune::note_long_send(cx, from);
    cx.transfers.copies.push_back(slot);
    Ok(())
}

/// Reads one block from the front. True if the receive needs no more visits for now.
pub(crate) fn split_read(cx: &mut Cx, slot: Slot) -> bool {
    let Some(receiving) = cx.requests.receiving(slot) else {
        return true;
    };
    let ReceiveStage::SplitRead(incoming, mut split) = receiving.stage else {
        return true;
    };
    let Some(pair) = cx.peers.pair(incoming.from()) else {
        return true;
    };
    let claimed = match (
        SplitCopy::new(split.total, block(split.total)),
        cx.memory.segment.rendezvous_word(split.word),
    ) {
        // If somebody has meddled with the word, the rest goes by the pipeline.
        (Ok(blocks), Some(memory)) => {
            match RendezvousWord(memory.word64(0)).claim_front(blocks.blocks(), split.own_blocks) {
                Ok(Some(index)) => blocks.range(index),
                _ => None,
            }
        }
        _ => None,
    };
    let Some(range) = claimed else {
        split.finished = true;
        receiving.stage = ReceiveStage::SplitRead(incoming, split);
        finish_split(cx, slot);
        return true;
    };
    let remote = RemoteBytes {
        address: incoming.address,
        key: incoming.key,
        len: split.total,
    };
    match pair.copies.read(
        Path::Cma,
        remote,
        &receiving.into,
        range.start,
        range.end - range.start,
    ) {
        Ok(_) => {
            split.own_blocks += 1;
            receiving.stage = ReceiveStage::SplitRead(incoming, split);
            false
        }
        Err(failed) => {
            split.finished = true;
            receiving.stage = ReceiveStage::SplitRead(incoming, split);
            rendezvous::demote(cx, incoming.from(), Path::SplitCopy, &failed.why);
            finish_split(cx, slot);
            true
        }
    }
}

/// Writes one block from the back. True if the send needs no more visits.
pub(crate) fn split_write(cx: &mut Cx, slot: Slot) -> bool {
    let Some(sending) = cx.requests.sending(slot) else {
        return true;
    };
    let SendStage::SplitWrite(mut split) = sending.stage else {
        return true;
    };
    let to = sending.to;
    let Some(pair) = cx.peers.pair(to) else {
        return true;
    };
    let claimed = match (
        SplitCopy::new(split.total, block(split.total)),
        pair.segment.rendezvous_word(split.word),
    ) {
        (Ok(blocks), Some(memory)) => {
            match RendezvousWord(memory.word64(0)).claim_back(blocks.blocks(), split.own_blocks) {
                Ok(Some(index)) => blocks.range(index).zip(Some(memory)),
                _ => None,
            }
        }
        _ => None,
    };
    let failed = match claimed {
        Some((range, memory)) => {
            let remote = RemoteBytes {
                address: split.address,
                key: 0,
                len: split.total,
            };
            let len = range.end - range.start;
            let written = pair.copies.write(remote, &sending.data, range.start, len);
            // Release: pairs with the acquire load in `contact::stop_writer`: the bytes are there,
            // or never will be.
            memory
                .word64(WRITTEN)
                .store(u64::from(split.own_blocks) + 1, Ordering::Release);
            match written {
                Ok(_) => {
                    split.own_blocks += 1;
                    sending.stage = SendStage::SplitWrite(split);
                    return false;
                }
                Err(failed) => Some(failed.why),
            }
        }
        None => None,
    };
    split.finished = true;
    sending.stage = SendStage::SplitWrite(split);
    let written = Done::Written(split.own_blocks).encode(split.remote);
    if let Some(why) = failed {
        rendezvous::demote(cx, to, Path::SplitCopy, &why);
    }
    outbox::control(cx, to, written);
    true
}

/// The sender's half is done.
pub(crate) fn on_written(cx: &mut Cx, from: u32, id: u64, blocks: u32) {
    let Some(slot) = cx.requests.find(crate::RequestId(id)) else {
        return;
    };
    let Some(receiving) = cx.requests.receiving(slot) else {
        return;
    };
    let ReceiveStage::SplitRead(incoming, mut split) = receiving.stage else {
        return;
    };
    if incoming.from() != from {
        return;
    }
    split.peer_blocks = Some(blocks);
    receiving.stage = ReceiveStage::SplitRead(incoming, split);
    finish_split(cx, slot);
}

/// Completes the receive if both split are done; asks again for what neither copied.
fn finish_split(cx: &mut Cx, slot: Slot) {
    let Some(receiving) = cx.requests.receiving(slot) else {
        return;
    };
    let ReceiveStage::SplitRead(mut incoming, split) = receiving.stage else {
        return;
    };
    let (true, Some(theirs)) = (split.finished, split.peer_blocks) else {
        return;
    };
    cx.memory.return_word(split.word);
    let block = block(split.total);
    let blocks = split.total.div_ceil(block);
    let start = (u64::from(split.own_blocks) * block).min(split.total);
    let end = (blocks.saturating_sub(u64::from(theirs)) * block).min(split.total);
    if start >= end {
        incoming.got = incoming.wanted;
        return rendezvous::finish_copy(cx, slot, &incoming);
    }
    // One copy failed on the way; the bytes between the split come through chunks.
    incoming.got = incoming.wanted - (end - start);
    incoming.path = Path::Pipeline;
    if let Some(receiving) = cx.requests.receiving(slot) {
        receiving.stage = ReceiveStage::Assembling(incoming);
    }
    let id = cx.requests.id(slot);
    let clear = ClearToSend {
        send: incoming.remote,
        receive: id.0,
        start,
        end,
        expose: false,
    };
    outbox::control(cx, incoming.from(), clear.encode());
}
