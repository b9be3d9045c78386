//! Both sides at once: the receiver reads blocks from the front while the sender writes blocks
//! from the back, until they meet. Two cores copy one message, each with one copy.
//!
//! The blocks are shared out by a word in the receiver's segment. Whatever the word says, each side
//! reports how many blocks it has copied, and what lies between the two is sent again by the pipeline.
//!
//! The kernel cannot be asked to take the sender's right to write back. So beside that word the sender counts the blocks
//! that it has done with, and a receiver that gives up, since its endpoint closes for example, ends the copy there and waits until
//! the block under way is written, before the buffer is its owner's again.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::time::Instant;

use limic_copy::{BothSides, Meet};
use limic_shm::ring::Memory;

use super::Core;
use super::operations::Halves;
use super::requests::{Incoming, Operation, ReceiveStage, SendStage, Slot};
use super::wire::{self, Control};
use crate::buffer::{Source, words};
use crate::policy::Path;
use crate::single_copy::{RemoteBytes, address_of_room};

/// Bytes of a block: long enough to make a system call worth it, short enough to meet in the middle. Both sides compute it
/// from the length of the message: four blocks of a short one, so that each copies half of it.
const SHORTEST_BLOCK: u64 = 16 << 10;
const LONGEST_BLOCK: u64 = 128 << 10;

/// Place in the line of a meet word where the sender counts the blocks that it has done with.
const WRITTEN: usize = 8;
/// Longer than the copy of a block takes, by far.
const PATIENCE: Duration = Duration::from_millis(500);

fn block(total: u64) -> u64 {
    (total / 4)
        .next_multiple_of(4 << 10)
        .clamp(SHORTEST_BLOCK, LONGEST_BLOCK)
}

impl Core {
    /// The receiver starts: it names a meet word and its room to the sender.
    pub(crate) fn start_both_sides(&mut self, slot: Slot, incoming: Incoming) {
        let address = self
            .requests
            .receiving(slot)
            .and_then(|receiving| address_of_room(receiving.into.slices()));
        let word = self.meets.pop();
        let (Some(address), Some(meet)) = (address, word) else {
            // All words are in use: read alone.
            self.meets.extend(word);
            if let Some(receiving) = self.requests.receiving(slot) {
                receiving.stage = ReceiveStage::Reading(incoming);
            }
            self.work.copies.push_back(slot);
            return;
        };
        if let Some(memory) = self.segment.meet(meet) {
            memory.word64(WRITTEN).store(0, Ordering::Relaxed);
            Meet(memory.word64(0)).reset();
        }
        let halves = Halves::new(meet, incoming.wanted);
        if let Some(receiving) = self.requests.receiving(slot) {
            receiving.stage = ReceiveStage::Front(incoming, halves);
        }
        let id = self.requests.id(slot);
        let words = [
            incoming.remote,
            id.0,
            incoming.wanted,
            u64::from(meet),
            address,
            0,
        ];
        self.control(incoming.from, Control::new(wire::BOTH_SIDES, words));
        self.work.copies.push_back(slot);
    }

    /// The sender is asked to write from the back.
    pub(crate) fn on_both_sides(&mut self, from: u32, source: &impl Source) {
        let [id, remote, total, meet, address, key] = words::<6>(source);
        let Some(slot) = self.send_to(from, id) else {
            return;
        };
        let Some(sending) = self.requests.sending(slot) else {
            return;
        };
        let SendStage::Offered { .. } = sending.stage else {
            return;
        };
        if total > sending.data.len() {
            return self.corrupt(from, "a request for bytes outside of the message");
        }
        sending.stage = SendStage::Back(Halves {
            remote,
            address,
            key,
            ..Halves::new(meet as u32, total)
        });
        self.long_send_answered(from);
        self.work.copies.push_back(slot);
    }

    /// Reads one block from the front. True if the receive needs no more visits for now.
    pub(crate) fn read_front(&mut self, slot: Slot) -> bool {
        let Some(receiving) = self.requests.receiving(slot) else {
            return true;
        };
        let ReceiveStage::Front(incoming, mut halves) = receiving.stage else {
            return true;
        };
        let Some(link) = self.peers.link(incoming.from) else {
            return true;
        };
        let claimed = match (
            BothSides::new(halves.total, block(halves.total)),
            self.segment.meet(halves.meet),
        ) {
            // If somebody has meddled with the word, the rest goes by the pipeline.
            (Ok(blocks), Some(memory)) => {
                match Meet(memory.word64(0)).claim_front(blocks.blocks(), halves.mine) {
                    Ok(Some(index)) => blocks.range(index),
                    _ => None,
                }
            }
            _ => None,
        };
        let Some(range) = claimed else {
            halves.finished = true;
            receiving.stage = ReceiveStage::Front(incoming, halves);
            self.met(slot);
            return true;
        };
        let remote = RemoteBytes {
            address: incoming.address,
            key: incoming.key,
            len: halves.total,
        };
        match link.remote.read(
            remote,
            &receiving.into,
            range.start,
            range.end - range.start,
        ) {
            Ok(_) => {
                halves.mine += 1;
                receiving.stage = ReceiveStage::Front(incoming, halves);
                false
            }
            Err(failed) => {
                halves.finished = true;
                receiving.stage = ReceiveStage::Front(incoming, halves);
                self.demote(incoming.from, Path::BothSides, &failed.why);
                self.met(slot);
                true
            }
        }
    }

    /// Writes one block from the back. True if the send needs no more visits.
    pub(crate) fn write_back(&mut self, slot: Slot) -> bool {
        let Some(sending) = self.requests.sending(slot) else {
            return true;
        };
        let SendStage::Back(mut halves) = sending.stage else {
            return true;
        };
        let to = sending.to;
        let Some(link) = self.peers.link(to) else {
            return true;
        };
        let claimed = match (
            BothSides::new(halves.total, block(halves.total)),
            link.segment.meet(halves.meet),
        ) {
            (Ok(blocks), Some(memory)) => {
                match Meet(memory.word64(0)).claim_back(blocks.blocks(), halves.mine) {
                    Ok(Some(index)) => blocks.range(index).zip(Some(memory)),
                    _ => None,
                }
            }
            _ => None,
        };
        let failed = match claimed {
            Some((range, memory)) => {
                let remote = RemoteBytes {
                    address: halves.address,
                    key: halves.key,
                    len: halves.total,
                };
                let len = range.end - range.start;
                let written = link.remote.write(remote, &sending.data, range.start, len);
                // Release: pairs with the acquire load in `stop_writer`: the bytes are there, or never will be.
                memory
                    .word64(WRITTEN)
                    .store(u64::from(halves.mine) + 1, Ordering::Release);
                match written {
                    Ok(_) => {
                        halves.mine += 1;
                        sending.stage = SendStage::Back(halves);
                        return false;
                    }
                    Err(failed) => Some(failed.why),
                }
            }
            None => None,
        };
        halves.finished = true;
        sending.stage = SendStage::Back(halves);
        let words = [halves.remote, u64::from(halves.mine)];
        if let Some(why) = failed {
            self.demote(to, Path::BothSides, &why);
        }
        self.control(to, Control::new(wire::BACK_DONE, words));
        true
    }

    /// The sender's half is done.
    pub(crate) fn on_back_done(&mut self, from: u32, source: &impl Source) {
        let [id, blocks] = words::<2>(source);
        let Some(slot) = self.requests.find(crate::RequestId(id)) else {
            return;
        };
        let Some(receiving) = self.requests.receiving(slot) else {
            return;
        };
        let ReceiveStage::Front(incoming, mut halves) = receiving.stage else {
            return;
        };
        if incoming.from != from {
            return;
        }
        halves.theirs = Some(u32::try_from(blocks).unwrap_or(u32::MAX));
        receiving.stage = ReceiveStage::Front(incoming, halves);
        self.met(slot);
    }

    /// Before receives from a peer are given up: it claims no further block of them, and has done with those it claimed,
    /// so that it writes there no more. Waits for one block, and for longer only if the peer is stopped in the middle of it.
    /// Then there is no bound: the kernel has no call that ends another process's right to a write it has set out for, so that
    /// a buffer that is given back earlier would be written to while it is its owner's. For a peer whose bytes make no
    /// sense, and who may never count, just [`PATIENCE`] (it could write anywhere in this process if it had the right to write
    /// here).
    pub(crate) fn stop_writer(&mut self, number: u32, trusted: bool) {
        for slot in self.requests.slots() {
            let Operation::Receive(receiving) = self.requests.get(slot) else {
                continue;
            };
            let ReceiveStage::Front(incoming, mut halves) = receiving.stage else {
                continue;
            };
            let memory = self.segment.meet(halves.meet);
            let (true, false, Some(line)) = (incoming.from == number, halves.abandoned, memory)
            else {
                continue;
            };
            let blocks = u32::try_from(halves.total.div_ceil(block(halves.total)));
            let blocks = blocks.unwrap_or(u32::MAX);
            let claimed = Meet(line.word64(0)).end(blocks);
            let trusted = trusted && claimed <= blocks;
            let since = Instant::now();
            let mut told = false;
            // Acquire: pairs with the release store in `write_back`.
            while line.word64(WRITTEN).load(Ordering::Acquire) < u64::from(claimed)
                && self.is_connected(number)
                && (trusted || since.elapsed() < PATIENCE)
            {
                if since.elapsed() > PATIENCE && !core::mem::replace(&mut told, true) {
                    tracing::warn!(
                        "peer {number} is in the middle of a write into this process, and does not go on: is it stopped? \
                         The buffer is given back when that is over, or the peer has ended"
                    );
                }
                rustix::thread::sched_yield();
                // It may say that it closes.
                self.read_connections_of(number);
            }
            // Until it answers, it may look at the word once more.
            halves.abandoned = halves.theirs.is_none() && self.is_connected(number);
            if let Some(receiving) = self.requests.receiving(slot) {
                receiving.stage = ReceiveStage::Front(incoming, halves);
            }
        }
    }

    /// Completes the receive if both halves are done; asks again for what neither copied.
    fn met(&mut self, slot: Slot) {
        let Some(receiving) = self.requests.receiving(slot) else {
            return;
        };
        let ReceiveStage::Front(mut incoming, halves) = receiving.stage else {
            return;
        };
        let (true, Some(theirs)) = (halves.finished, halves.theirs) else {
            return;
        };
        self.meets.push(halves.meet);
        let block = block(halves.total);
        let blocks = halves.total.div_ceil(block);
        let start = (u64::from(halves.mine) * block).min(halves.total);
        let end = (blocks.saturating_sub(u64::from(theirs)) * block).min(halves.total);
        if start >= end {
            incoming.got = incoming.wanted;
            return self.finish_receive(slot, &incoming);
        }
        // One copy failed on the way; the bytes between the halves come through chunks.
        incoming.got = incoming.wanted - (end - start);
        incoming.path = Path::Pipeline;
        if let Some(receiving) = self.requests.receiving(slot) {
            receiving.stage = ReceiveStage::Assembling(incoming);
        }
        let id = self.requests.id(slot);
        let words = [incoming.remote, id.0, start, end];
        self.control(incoming.from, Control::new(wire::CLEAR_TO_SEND, words));
    }
}
