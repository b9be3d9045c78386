//! Single copies under way: read by the receiver alone, or by both sides at once.
//!
//! Each visit copies a bounded part, so that an endpoint that moves gigabytes still answers
//! others.

use limic_copy::{Failed, MOST_TOGETHER, RemoteRange};
use limic_policy::Path;
use limic_records::Next;
use limic_shm::bytes::{ReceiveBuffer, Skip};

use crate::engine::cx::Cx;
use crate::engine::peer::pair::ShmPair;
use crate::engine::protocol::{arena_message, rendezvous, split_copy};
use crate::engine::request::{Incoming, Operation, ReceiveStage, SendStage, Slot};

/// Bytes per visit.
pub(crate) const COPY_STEP: u64 = 2 << 20;

/// Longer messages are read alone.
const LONGEST_TOGETHER: u64 = 512 << 10;

/// Parts that are copied in a turn. Between turns the rings are read: the other side has copied
/// something, or asks for a part of it.
const MOST_PARTS: usize = 4;

/// Moves some single copies on, each by one part, or several short ones. True if there were any.
pub(crate) fn push_copies(cx: &mut Cx) -> bool {
    let mut parts = 0;
    for _ in 0..cx.transfers.copies.len() {
        if parts == MOST_PARTS {
            break;
        }
        let Some(id) = cx.transfers.copies.pop_front() else {
            break;
        };
        let Some(slot) = cx.requests.find(id) else {
            continue;
        };
        let over = match cx.requests.get(slot) {
            Operation::Receive(receiving) => match receiving.stage {
                ReceiveStage::Reading(_) => read_together(cx, slot) || read_step(cx, slot),
                ReceiveStage::SplitRead(..) => split_copy::split_read(cx, slot),
                _ => true,
            },
            Operation::Send(sending) => match sending.stage {
                SendStage::SplitWrite(_) => split_copy::split_write(cx, slot),
                _ => true,
            },
            _ => true,
        };
        parts += 1;
        if !over {
            cx.transfers.copies.push_back(id);
        }
    }
    parts > 0
}

/// Where the bytes of a message lie.
fn remote_of(incoming: &Incoming) -> RemoteRange {
    RemoteRange {
        address: incoming.address,
        key: incoming.key,
        len: incoming.wanted,
    }
}

/// Why bytes could not be read.
pub(super) enum Unread {
    /// The backend has failed.
    Failed(Failed),
    /// The arena could not be mapped.
    Unmapped,
    /// The sender has no such bytes in an arena.
    Outside,
}

/// Reads up to `most` bytes of a message from byte `at` on, out of the sender's memory, or out of
/// what this process has mapped of it.
pub(super) fn read(
    pair: &ShmPair,
    incoming: &Incoming,
    into: &ReceiveBuffer,
    at: u64,
    most: u64,
) -> Result<u64, Unread> {
    let remote = remote_of(incoming);
    if incoming.path != Path::PeerReadable {
        let read = pair.copies.read(incoming.path, remote, into, at, most);
        return read.map_err(Unread::Failed);
    }
    let arena = remote.key as u32;
    let Some(bytes) = pair.arenas.bytes(arena, remote.address, remote.len) else {
        return Err(match pair.arenas.was_missed(arena) {
            true => Unread::Unmapped,
            false => Unread::Outside,
        });
    };
    let part = most.min(remote.len.saturating_sub(at));
    let source = Skip {
        inner: &bytes,
        skip: at,
    };
    into.copy_part(at, part, &source, remote.len);
    Ok(part)
}

/// What could not be read has to come in fragments, which need neither a permission nor a
/// descriptor.
pub(super) fn note_unread(cx: &mut Cx, incoming: &Incoming, unread: Unread) {
    let from = incoming.from();
    match unread {
        Unread::Failed(failed) => rendezvous::demote(cx, from, incoming.path, &failed.why),
        Unread::Unmapped => {}
        Unread::Outside => cx.peers.violated(from, arena_message::OUTSIDE),
    }
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
    let unread = match read(pair, &incoming, into, got, COPY_STEP) {
        Ok(0) if got < incoming.wanted => Unread::Failed(Failed {
            copied: 0,
            why: "it gave no bytes, and no reason".to_owned(),
        }),
        Ok(copied) => return go_on(cx, slot, incoming, copied),
        Err(unread) => unread,
    };
    if let Unread::Failed(failed) = &unread {
        incoming.got += failed.copied;
    }
    let is_wrong = matches!(unread, Unread::Outside);
    note_unread(cx, &incoming, unread);
    if !is_wrong {
        rendezvous::request_fragments(cx, slot, &incoming, Next::Usual);
    }
    true
}

/// A message that may be read by one call of the kernel with others of its sender, and where to.
fn beside_others(cx: &Cx, slot: Slot) -> Option<(Incoming, &ReceiveBuffer)> {
    let (incoming, into) = cx.requests.reading(slot)?;
    // Of those by split copy the sender gets another one when it has written one.
    let fits = incoming.path == Path::Cma
        && incoming.got == 0
        && incoming.wanted <= LONGEST_TOGETHER
        && into.slices().len() == 1;
    fits.then_some((incoming, into))
}

/// Reads a message together with those of its sender that wait behind it: the call itself costs as
/// much as some KiB. False: there are none.
fn read_together(cx: &mut Cx, first: Slot) -> bool {
    let Some((of_first, _)) = beside_others(cx, first) else {
        return false;
    };
    let from = of_first.from();
    if cx.peers.pair(from).is_none() {
        return false;
    }
    let (mut slots, mut count) = ([first; MOST_TOGETHER], 1);
    while count < MOST_TOGETHER {
        let next = cx.transfers.copies.front().copied();
        let next = next.and_then(|id| cx.requests.find(id));
        let fits = next.filter(|slot| {
            // What was measured of one spell has to be of that spell alone.
            let other = beside_others(cx, *slot);
            other.is_some_and(|(other, _)| other.from() == from && other.sample == of_first.sample)
        });
        let Some(slot) = fits else { break };
        cx.transfers.copies.pop_front();
        slots[count] = slot;
        count += 1;
    }
    let slots = &slots[..count];
    let (Some(first), true) = (cx.requests.reading(first), count > 1) else {
        return false;
    };
    let mut messages = [(remote_of(&first.0), first.1); MOST_TOGETHER];
    for (message, slot) in messages.iter_mut().zip(slots) {
        if let Some((incoming, into)) = cx.requests.reading(*slot) {
            *message = (remote_of(&incoming), into);
        }
    }
    let Some(pair) = cx.peers.pair(from) else {
        return false;
    };
    let lengths = messages.map(|(remote, _)| remote.len);
    let (mut copied, mut why) = match pair.copies.read_together(&messages[..count]) {
        Ok(copied) => (copied, None),
        Err(failed) => (failed.copied, Some(failed.why)),
    };
    for (slot, len) in slots.iter().zip(lengths) {
        let part = copied.min(len);
        copied -= part;
        let Some((mut incoming, _)) = cx.requests.reading(*slot) else {
            continue;
        };
        if part == incoming.wanted {
            go_on(cx, *slot, incoming, part);
        } else {
            incoming.got += part;
            if let Some(why) = why.take() {
                rendezvous::demote(cx, from, incoming.path, &why);
            }
            rendezvous::request_fragments(cx, *slot, &incoming, Next::Usual);
        }
    }
    true
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
