//! Single copies under way: read by the receiver alone, or by both sides at once.
//!
//! Each visit copies a bounded part, so that an endpoint that moves gigabytes still answers
//! others.

use limic_copy::RemoteRange;
use limic_policy::Path;
use limic_records::Next;
use limic_shm::bytes::Skip;

use crate::engine::cx::Cx;
use crate::engine::protocol::{arena_message, rendezvous, split_copy};
use crate::engine::request::{Incoming, Operation, ReceiveStage, SendStage, Slot};

/// Bytes per visit.
pub(crate) const COPY_STEP: u64 = 2 << 20;

/// Copies that are visited in a turn. Records that come meanwhile have others made by the other
/// side, or wait for the end of one.
const MOST_VISITS: usize = 4;

/// Moves single copies on, each by one part. True if bytes moved.
pub(crate) fn push_copies(cx: &mut Cx) -> bool {
    let mut moved = false;
    for _ in 0..cx.transfers.copies.len().min(MOST_VISITS) {
        let Some(slot) = cx.transfers.copies.pop_front() else {
            break;
        };
        let over = match cx.requests.get(slot) {
            Operation::Receive(receiving) => match receiving.stage {
                ReceiveStage::Reading(_) => read_step(cx, slot),
                ReceiveStage::SplitRead(..) => split_copy::split_read(cx, slot),
                _ => true,
            },
            Operation::Send(sending) => match sending.stage {
                SendStage::SplitWrite(_) => split_copy::split_write(cx, slot),
                _ => true,
            },
            _ => true,
        };
        moved = true;
        if !over {
            cx.transfers.copies.push_back(slot);
        }
    }
    moved
}

/// Reads the next part out of the sender's memory. True if the receive needs no more visits.
fn read_step(cx: &mut Cx, slot: Slot) -> bool {
    let Some(receiving) = cx.requests.known_receive(slot) else {
        return true;
    };
    let ReceiveStage::Reading(mut incoming) = receiving.stage else {
        return true;
    };
    let Some(pair) = cx.peers.pair(incoming.from()) else {
        return true;
    };
    let (into, got) = (&receiving.into, incoming.got);
    let remote = RemoteRange {
        address: incoming.address,
        key: incoming.key,
        len: incoming.wanted,
    };
    if incoming.path == Path::PeerReadable {
        let Some(bytes) = pair
            .arenas
            .bytes(remote.key as u32, remote.address, remote.len)
        else {
            if pair.arenas.was_missed(remote.key as u32) {
                // Fragments need no descriptor.
                rendezvous::request_fragments(cx, slot, &incoming, Next::Usual);
            } else {
                cx.peers.violated(incoming.from(), arena_message::OUTSIDE);
            }
            return true;
        };
        let part = COPY_STEP.min(remote.len.saturating_sub(got));
        let source = Skip {
            inner: &bytes,
            skip: got,
        };
        into.copy_part(got, part, &source, remote.len);
        return go_on(cx, slot, incoming, part);
    }
    let read = pair
        .copies
        .read(incoming.path, remote, into, got, COPY_STEP);
    let (copied, failed) = match read {
        Ok(0) if incoming.got < incoming.wanted => {
            (0, Some("it gave no bytes, and no reason".to_owned()))
        }
        Ok(copied) => (copied, None),
        Err(failed) => (failed.copied, Some(failed.why)),
    };
    if let Some(why) = failed {
        incoming.got += copied;
        rendezvous::demote(cx, incoming.from(), incoming.path, &why);
        rendezvous::request_fragments(cx, slot, &incoming, Next::Usual);
        return true;
    }
    go_on(cx, slot, incoming, copied)
}

/// So many bytes more have come. True if that was all.
fn go_on(cx: &mut Cx, slot: Slot, mut incoming: Incoming, copied: u64) -> bool {
    incoming.got += copied;
    if let Some(receiving) = cx.requests.known_receive(slot) {
        receiving.stage = ReceiveStage::Reading(incoming);
    }
    let all = incoming.got >= incoming.wanted;
    if all {
        rendezvous::finish_copy(cx, slot, &incoming);
    }
    all
}
