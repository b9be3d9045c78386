//! A message that does not go whole at once sets out, most by way of the backlog.

use limic_policy::Path;
use limic_records::{PUT, RegionAccess};
use limic_shm::bytes::SendBuffer;

use crate::Result;
use crate::counters::Event;
use crate::engine::control::counting;
use crate::engine::cx::Cx;
use crate::engine::outbox;
use crate::engine::peer::table::{BacklogEntry, Channel};
use crate::engine::protocol::attempt::attempt;
use crate::engine::protocol::message::{Attempt, Message, Turn};
use crate::engine::protocol::receive::posted;
use crate::engine::protocol::{long_packets, loopback, offer, rma};
use crate::engine::request::{Fragments, Operation, SendStage, Sending, Slot, sent};
use crate::error::Outcome;
use crate::raw::{Owner, Posted, RawSlice, RequestId, SendOptions};

/// Starts a send that did not go whole at once.
///
/// # Errors
/// The peer is not known, or has failed; or there is no memory for a message to oneself.
///
/// # Safety
/// As [`Messages::post_send`](crate::raw::Messages::post_send).
#[inline(never)]
pub(crate) unsafe fn post(
    cx: &mut Cx,
    to: u32,
    tag: u64,
    options: SendOptions,
    data: &[RawSlice],
) -> Result<Posted> {
    let SendOptions {
        immediate,
        delivered,
        matched,
        more,
    } = options;
    cx.peers.alive(to)?;
    let message = Message {
        delivered,
        more,
        ..Message::new(to, tag, immediate, data)
    };
    let mut is_offer = false;
    // The answer to an offer tells of its match.
    let stage = match matched {
        true => SendStage::Queued,
        // SAFETY: the slices are readable during the call.
        false => match unsafe { attempt(cx, &message, Turn::Refused) } {
            Attempt::Sent => return Ok(Posted::Done(sent(to, tag, message.len))),
            Attempt::Begun(at) => SendStage::Fragments(Fragments::new(at, message.len)),
            Attempt::Offer => {
                // Nothing is queued in front of it. What goes over a network goes in bursts.
                is_offer = matches!(cx.peers.channel(to), Some(Channel::Shm(_)));
                SendStage::Queued
            }
            Attempt::Waits | Attempt::InPlace => SendStage::Queued,
        },
    };
    // SAFETY: the caller's promise is the buffer's invariant.
    let data = unsafe { SendBuffer::new(data) };
    let sending = Sending {
        tag,
        immediate,
        delivered,
        matched,
        ..Sending::new(to, data, stage)
    };
    if cx.peers.me() == Some(to) {
        return loopback::send_loopback(cx, sending);
    }
    cx.counters.event(Event::Waited);
    let slot = cx.requests.insert(Operation::Send(sending));
    let id = cx.requests.id(slot);
    if !(is_offer && offer::push_offer(cx, to, slot)) {
        queue(cx, to, BacklogEntry::Message(id));
    }
    // It may be done by now: queued behind nothing.
    Ok(posted(cx, slot, Owner::Caller))
}

/// Puts something behind what waits for a peer already, and pushes what can be pushed.
pub(crate) fn queue(cx: &mut Cx, to: u32, entry: BacklogEntry) {
    cx.peers.enqueue(to, entry);
    flush(cx, to);
}

/// Pushes a peer's backlog as far as there is room. True if anything went.
pub(crate) fn flush(cx: &mut Cx, to: u32) -> bool {
    let mut moved = false;
    let connection = match cx.peers.channel(to) {
        Some(Channel::Fabric(connection)) => Some(*connection),
        Some(Channel::Shm(_)) => None,
        Some(Channel::Loopback) | None => return false,
    };
    let several = cx.peers.get(to).is_some_and(|peer| peer.backlog.len() > 1);
    if let (true, Some(connection)) = (several, connection) {
        cx.fabric.end_burst();
        cx.fabric.cork(connection);
    }
    while let Some(peer) = cx.peers.get(to) {
        let gone = match peer.backlog.front().copied() {
            None => break,
            Some(BacklogEntry::Control(record) | BacklogEntry::Answer(record)) => {
                outbox::push_control(cx, to, &record)
            }
            Some(BacklogEntry::Message(id)) => push_queued(cx, to, id),
        };
        if !gone {
            break;
        }
        moved = true;
        if let Some(peer) = cx.peers.get(to) {
            peer.pop_backlog();
        }
    }
    if let Some(connection) = connection {
        cx.fabric.uncork(connection);
        cx.fabric.publish(&cx.counters);
    }
    moved
}

/// The turn of a queued send has come. True if it left the backlog.
fn push_queued(cx: &mut Cx, to: u32, id: RequestId) -> bool {
    // Cancelled meanwhile: nothing to push.
    let Some(slot) = cx.requests.find(id) else {
        return true;
    };
    let Some(sending) = cx.requests.sending(slot) else {
        return true;
    };
    let turn = match sending.stage {
        SendStage::Put { key, offset } => {
            let access = RegionAccess {
                id: id.0,
                key,
                offset,
                len: sending.data.len(),
            };
            return outbox::push_control(cx, to, &access.encode(PUT));
        }
        SendStage::Queued if sending.matched => return offer::push_offer(cx, to, slot),
        SendStage::Queued => Turn::Queued,
        SendStage::Fragments(Fragments {
            receive: None, at, ..
        }) => Turn::Remaining(at),
        _ => return true,
    };
    // Taken out, so that the context is free meanwhile.
    let Operation::Send(mut sending) = core::mem::replace(cx.requests.get(slot), Operation::Over)
    else {
        return true;
    };
    let (tag, len) = (sending.tag, sending.data.len());
    // SAFETY: readable by the invariant of `SendBuffer`, and `len` is its length.
    let came = unsafe { attempt(cx, &Message::of(&sending), turn) };
    if let Attempt::Begun(at) = came {
        sending.stage = SendStage::Fragments(Fragments::new(at, len));
    }
    *cx.requests.get(slot) = Operation::Send(sending);
    match came {
        Attempt::Sent => {
            cx.requests.complete(slot, sent(to, tag, len));
            true
        }
        Attempt::Begun(_) | Attempt::Waits => false,
        Attempt::Offer => offer::push_offer(cx, to, slot),
        Attempt::InPlace => long_packets::push_eager(cx, to, slot),
    }
}

/// Ends a send that the peer may have seen.
pub(crate) fn end_send(cx: &mut Cx, slot: Slot, outcome: Outcome) {
    let id = cx.requests.id(slot);
    cx.fabric.send_is_over(id);
    if let Some(sending) = cx.requests.sending(slot) {
        let pair = cx.peers.pair(sending.to);
        if pair.is_some_and(|pair| pair.copies.is_same_process()) {
            limic_copy::same_process::leave(cx.identity.address.id, id.0);
        }
    }
    cx.requests.complete(slot, outcome);
}

/// A send is done, by this path, as far as this side takes part in it.
pub(crate) fn finish_send(cx: &mut Cx, slot: Slot, path: Path) {
    let Some(sending) = cx.requests.known_send(slot) else {
        return;
    };
    let (to, tag, len) = (sending.to, sending.tag, sending.data.len());
    if sending.is_access() {
        rma::access_is_over(cx, to);
    }
    counting::count_sent(cx, to, path, len);
    end_send(cx, slot, sent(to, tag, len));
}
