//! Both sides at once: the receiver reads blocks from the front while the sender writes blocks
//! from the back, until they meet. Two cores copy one message, each with one copy. In a stream each
//! side copies some messages, and they meet only in one of which the sender is late.
//!
//! Each side claims blocks in a line of its own, which the other one can read and nobody else can
//! write (`splits`). The records only say that there is something to look at: any peer of the two
//! can forge them. What lies between the blocks of the two is sent again by the pipeline.
//!
//! The kernel cannot be asked to take the sender's right to write back. So a receiver that gives
//! up, since its endpoint closes for example, ends the copy in its line, and waits until the block
//! under way is written, before the buffer is its owner's again.

use limic_copy::{RemoteRange, SplitCopy, address_of_room};
use limic_policy::Path;
use limic_records::{ClearToSend, Done, Next, SplitRequest, Violation};
use limic_shm::owner::split::{SplitProgress, SplitTerms};

use crate::engine::control::autotune;
use crate::engine::cx::Cx;
use crate::engine::outbox;
use crate::engine::protocol::{rendezvous, single_copy};
use crate::engine::request::operation::{SplitRead, SplitWrite};
use crate::engine::request::{Incoming, Operation, ReceiveStage, SendStage, Slot};
use crate::raw::RequestId;

/// Bytes of a block: long enough to make a system call worth it, short enough to meet in the
/// middle.
const SHORTEST_BLOCK: u64 = 16 << 10;
const LONGEST_BLOCK: u64 = 128 << 10;

/// Least blocks of a message by itself: each side copies some of them.
const BLOCKS_ALONE: u64 = 4;

/// And of one in a stream, which its sender most often copies all. It begins with the back, so that
/// it is not where the receiver is if that takes all messages into one buffer.
const BLOCKS_IN_STREAM: u64 = 2;

/// Messages of a stream that are with their sender: one goes on when the other one is written.
const MOST_AT_SENDER: usize = 2;

/// The receiver starts. Both sides copy a message by itself. Where this endpoint has other copies
/// to make, as in a stream, each side copies some messages, by fewer and longer calls of the
/// kernel.
pub(crate) fn start_split_copy(cx: &mut Cx, slot: Slot, incoming: Incoming) {
    let is_alone = cx.transfers.copies.is_empty();
    let has_enough = !is_alone && cx.transfers.splits.open_from(incoming.from()) >= MOST_AT_SENDER;
    if has_enough || !open(cx, slot, incoming, is_alone) {
        if let Some(receiving) = cx.requests.known_receive(slot) {
            receiving.stage = ReceiveStage::Reading(incoming);
        }
    }
    cx.transfers.copies.push_back(cx.requests.id(slot));
}

/// Opens a line for a copy, and names it to the sender. False: all lines are in use.
fn open(cx: &mut Cx, slot: Slot, incoming: Incoming, is_alone: bool) -> bool {
    let blocks = match is_alone {
        true => BLOCKS_ALONE,
        false => BLOCKS_IN_STREAM,
    };
    let block = (incoming.wanted / blocks)
        .next_multiple_of(4 << 10)
        .clamp(SHORTEST_BLOCK, LONGEST_BLOCK);
    let receive = cx.requests.id(slot).0;
    let Some(receiving) = cx.requests.known_receive(slot) else {
        return false;
    };
    let opened = address_of_room(receiving.into.slices()).and_then(|address| {
        cx.transfers.splits.open(&SplitTerms {
            sender: incoming.from(),
            send: incoming.remote,
            receive,
            bytes: incoming.wanted,
            address,
            block,
        })
    });
    let Some((line, serial)) = opened else {
        return false;
    };
    let split = SplitRead {
        left_to_sender: !is_alone,
        ..SplitRead::new(line, serial, incoming.wanted, block)
    };
    receiving.stage = ReceiveStage::SplitRead(incoming, split);
    let send = incoming.remote;
    outbox::control(cx, incoming.from(), SplitRequest { send, line }.encode());
    true
}

/// The sender has written a message, and gets another one that nobody has begun, if one waits.
fn open_next(cx: &mut Cx, from: u32) {
    let next = cx.transfers.copies.iter().find_map(|id| {
        let slot = cx.requests.find(*id)?;
        let stage = cx.requests.receiving(slot)?.stage;
        let ReceiveStage::Reading(incoming) = stage else {
            return None;
        };
        let fits = incoming.from() == from && incoming.both_sides && incoming.got == 0;
        fits.then_some((slot, incoming))
    });
    if let Some((slot, incoming)) = next {
        open(cx, slot, incoming, false);
    }
}

/// The sender is asked to write from the back.
///
/// # Errors
/// It is asked for bytes that the message does not have.
pub(crate) fn on_split_copy(cx: &mut Cx, from: u32, asked: SplitRequest) -> Result<(), Violation> {
    let Some(slot) = rendezvous::send_to(cx, from, asked.send) else {
        return Ok(());
    };
    let id = cx.requests.id(slot);
    let Some(sending) = cx.requests.known_send(slot) else {
        return Ok(());
    };
    let (SendStage::Offered { .. }, Some(pair)) = (sending.stage, cx.peers.pair(from)) else {
        return Ok(());
    };
    // The receiver's own words, whoever wrote the record. One that they do not bear out is another
    // peer's, or comes too late.
    let terms = pair.splits.terms(asked.line);
    let Some((serial, terms)) = terms.filter(|(_, terms)| terms.send == asked.send) else {
        return Ok(());
    };
    if terms.bytes > sending.data.len() {
        return Err("a request for bytes outside of the message");
    }
    if !(SHORTEST_BLOCK..=LONGEST_BLOCK).contains(&terms.block) {
        return Err("a request for blocks that are too short or too long");
    }
    if !pair.conditions.capabilities.paths.contains(Path::SplitCopy) {
        // It may not write, or cannot, and the receiver does not know: that one reads alone.
        outbox::answer(cx, from, Done::Written.encode(terms.receive));
        return Ok(());
    }
    let requests = &mut cx.requests;
    let is_over = |send| !is_split_write(requests, send);
    let Some(line) = cx.transfers.splits.take_out(id, from, serial, is_over) else {
        // All lines are in use: the receiver reads alone.
        outbox::answer(cx, from, Done::Written.encode(terms.receive));
        return Ok(());
    };
    if let Some(sending) = cx.requests.known_send(slot) {
        sending.stage = SendStage::SplitWrite(SplitWrite {
            line,
            peer_line: asked.line,
            serial,
            total: terms.bytes,
            block: terms.block,
            own_blocks: 0,
            remote: terms.receive,
            address: terms.address,
            finished: false,
        });
    }
    autotune::note_long_send(cx, from);
    cx.transfers.copies.push_back(id);
    Ok(())
}

fn is_split_write(requests: &mut crate::engine::request::Requests, send: RequestId) -> bool {
    let slot = requests.find(send);
    slot.is_some_and(|slot| match requests.get(slot) {
        Operation::Send(sending) => matches!(sending.stage, SendStage::SplitWrite(_)),
        _ => false,
    })
}

/// Whether the receiver of a send still lets this side write. What another peer says in its name
/// meanwhile, that it has all bytes or wants others, is not so.
pub(crate) fn is_open(cx: &mut Cx, to: u32, stage: SendStage) -> bool {
    let SendStage::SplitWrite(split) = stage else {
        return false;
    };
    let pair = cx.peers.pair(to);
    pair.is_some_and(|pair| pair.splits.shows(split.peer_line, split.serial))
}

/// Reads one block from the front. True if the receive needs no more visits for now.
pub(crate) fn split_read(cx: &mut Cx, slot: Slot) -> bool {
    let Some(receiving) = cx.requests.known_receive(slot) else {
        return true;
    };
    let ReceiveStage::SplitRead(incoming, mut split) = receiving.stage else {
        return true;
    };
    if split.left_to_sender && !cx.transfers.copies.is_empty() {
        // Others are read first, and by then the sender has written it, unless it is busy.
        split.left_to_sender = false;
        receiving.stage = ReceiveStage::SplitRead(incoming, split);
        return false;
    }
    let Some(pair) = cx.peers.pair(incoming.from()) else {
        return true;
    };
    let back = split.peer_blocks.unwrap_or_else(|| {
        let progress = pair.splits.progress(split.serial);
        progress.map_or(0, |progress| progress.claimed)
    });
    let blocks = SplitCopy::new(split.total, split.block).ok();
    let next = |own| blocks.and_then(|blocks| blocks.next_front(own, back));
    let Some(range) = next(split.own_blocks) else {
        split.finished = true;
        receiving.stage = ReceiveStage::SplitRead(incoming, split);
        finish_split(cx, slot);
        return true;
    };
    cx.transfers
        .splits
        .incoming
        .claim(split.line, split.own_blocks + 1);
    let (into, len) = (&receiving.into, range.end - range.start);
    let read = single_copy::read(pair, &incoming, into, range.start, len);
    split.own_blocks += u32::from(read.is_ok());
    split.finished = read.is_err() || next(split.own_blocks).is_none();
    receiving.stage = ReceiveStage::SplitRead(incoming, split);
    if let Err(unread) = read {
        single_copy::note_unread(cx, &incoming, unread);
    }
    if split.finished {
        finish_split(cx, slot);
    }
    split.finished
}

/// Writes one block from the back. True if the send needs no more visits.
pub(crate) fn split_write(cx: &mut Cx, slot: Slot) -> bool {
    let Some(sending) = cx.requests.known_send(slot) else {
        return true;
    };
    let SendStage::SplitWrite(mut split) = sending.stage else {
        return true;
    };
    let to = sending.to;
    let Some(pair) = cx.peers.pair(to) else {
        return true;
    };
    let front = pair.splits.front(split.peer_line);
    let blocks = SplitCopy::new(split.total, split.block).ok();
    let next = |own, front| blocks.and_then(|blocks| blocks.next_back(own, front));
    let mut failed = None;
    if let Some(range) = next(split.own_blocks, front) {
        let claimed = split.own_blocks + 1;
        cx.transfers.splits.outgoing.claim(split.line, claimed);
        // If it lets this side write now, the receiver will see the claim before it gives the
        // buffer back.
        let written = pair
            .splits
            .lets_write(split.peer_line, split.serial)
            .then(|| {
                let remote = RemoteRange {
                    address: split.address,
                    key: 0,
                    len: split.total,
                };
                let len = range.end - range.start;
                // SAFETY: the receiver asked for it, lets this side write, and sees the claim
                // before it gives the buffer back.
                unsafe { pair.copies.write(remote, &sending.data, range.start, len) }
            });
        match written {
            Some(Ok(_)) => {
                cx.transfers.splits.outgoing.done(split.line, claimed);
                split.own_blocks = claimed;
                sending.stage = SendStage::SplitWrite(split);
                // The receiver has gone on meanwhile.
                let front = pair.splits.front(split.peer_line);
                if next(claimed, front).is_some() {
                    return false;
                }
            }
            Some(Err(error)) => failed = Some(error.why),
            None => {}
        }
    }
    leave(cx, slot);
    if let Some(why) = failed {
        rendezvous::demote(cx, to, Path::SplitCopy, &why);
    }
    true
}

/// The sender claims no more blocks of a send, if it takes part in a copy, and says so.
pub(crate) fn leave(cx: &mut Cx, slot: Slot) {
    let Some(sending) = cx.requests.known_send(slot) else {
        return;
    };
    let (to, SendStage::SplitWrite(mut split)) = (sending.to, sending.stage) else {
        return;
    };
    if split.finished {
        return;
    }
    split.finished = true;
    sending.stage = SendStage::SplitWrite(split);
    let outgoing = &cx.transfers.splits.outgoing;
    outgoing.finish(split.line, split.own_blocks);
    outbox::control(cx, to, Done::Written.encode(split.remote));
}

/// The sender's half is done, or the sender takes no part, or another peer says so in its name.
pub(crate) fn on_written(cx: &mut Cx, from: u32, id: u64) {
    let Some(slot) = cx.requests.find(RequestId(id)) else {
        return;
    };
    let Some(receiving) = cx.requests.receiving(slot) else {
        return;
    };
    let ReceiveStage::SplitRead(incoming, mut split) = receiving.stage else {
        return;
    };
    let (true, Some(pair)) = (incoming.from() == from, cx.peers.pair(from)) else {
        return;
    };
    if split.peer_blocks.is_none() && pair.splits.progress(split.serial).is_none() {
        cx.transfers.splits.end(split.line);
        split.peer_blocks = copied(pair.splits.progress(split.serial));
        receiving.stage = ReceiveStage::SplitRead(incoming, split);
    }
    finish_split(cx, slot);
}

/// Blocks that the sender has copied, unless it is in the middle of one. If the copy has ended, or
/// no block is left, it copies no others.
fn copied(progress: Option<SplitProgress>) -> Option<u32> {
    match progress {
        None => Some(0),
        Some(progress) => progress.is_idle().then_some(progress.copied),
    }
}

/// Completes the receive if both sides are done; asks again for what neither copied.
fn finish_split(cx: &mut Cx, slot: Slot) {
    let Some(receiving) = cx.requests.known_receive(slot) else {
        return;
    };
    let ReceiveStage::SplitRead(mut incoming, mut split) = receiving.stage else {
        return;
    };
    // What has too many blocks is in none.
    let blocks = SplitCopy::new(split.total, split.block);
    let left = |theirs| blocks.map_or(0..split.total, |cut| cut.left(split.own_blocks, theirs));
    if let (None, Some(pair)) = (split.peer_blocks, cx.peers.pair(incoming.from())) {
        let progress = pair.splits.progress(split.serial);
        split.peer_blocks = progress.and_then(|progress| progress.finished);
        let pauses = split.finished && copied(progress).is_some();
        if split.peer_blocks.is_none() && pauses {
            // A sender that is busy elsewhere is not waited for.
            cx.transfers.splits.incoming.claim_rest(split.line);
            split.peer_blocks = copied(pair.splits.progress(split.serial));
        }
        receiving.stage = ReceiveStage::SplitRead(incoming, split);
    }
    let Some(theirs) = split.peer_blocks else {
        return;
    };
    let left = left(theirs);
    if !split.finished && !left.is_empty() {
        return;
    }
    cx.transfers.splits.close(split.line);
    incoming.got = incoming.wanted - (left.end - left.start);
    if !left.is_empty() {
        // One copy failed on the way; the bytes between the two come in fragments. That says
        // nothing of the path, and need not: whose copy fails gives the path up.
        incoming.path = Path::Pipeline;
    }
    if let Some(receiving) = cx.requests.known_receive(slot) {
        receiving.stage = ReceiveStage::Assembling(incoming);
    }
    if left.is_empty() {
        open_next(cx, incoming.from());
        return rendezvous::finish_copy(cx, slot, &incoming);
    }
    let id = cx.requests.id(slot);
    let clear = ClearToSend {
        send: incoming.remote,
        receive: id.0,
        start: left.start,
        end: left.end,
        next: Next::Usual,
    };
    outbox::control(cx, incoming.from(), clear.encode());
}
