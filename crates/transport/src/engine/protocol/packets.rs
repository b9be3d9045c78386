//! Messages to a peer over the fabric: in packets, or offered to be read.

use crate::buffer::{SendBuffer, Sink, Skip, put_words};
use crate::engine::cx::Cx;
use crate::engine::fabric::Link;
use crate::engine::frame::{self, ControlRecord, IMMEDIATE_BYTES, OFFSET_BYTES, Offer};
use crate::engine::peer::table::Channel;
use crate::engine::protocol::{fragments, rendezvous, send};
use crate::engine::request::{Fragments, Incoming, ReceiveStage, SendStage, Slot};
use crate::policy::Path;
use crate::raw::RequestId;

/// Shorter messages than this are not worth a registration at each end.
const WORTH_REGISTERING: u64 = 16 << 10;

/// The turn of a queued send has come. True if it left the backlog.
pub(crate) fn push_queued(cx: &mut Cx, to: u32, link: Link, slot: Slot) -> bool {
    let longest = cx.fabric.longest_record(link);
    let asks_first = cx.fabric.asks_first(to);
    let Some(sending) = cx.requests.sending(slot) else {
        return true;
    };
    let (tag, len, immediate) = (sending.tag, sending.data.len(), sending.immediate);
    let ahead = immediate.map_or(0, |_| IMMEDIATE_BYTES);
    // What lies in an adapter's queue is lost with this process: the answer to an offer says that
    // it arrived.
    if sending.delivered || asks_first || len + ahead > longest {
        return push_offer(cx, link, slot);
    }
    let form = (frame::message_kind(frame::EAGER, immediate), tag);
    let data = &sending.data;
    let pushed = cx.fabric.push(link, form, ahead + len, |bytes| {
        if let Some(word) = immediate {
            put_words(bytes, &[word]);
        }
        fill(bytes, ahead, data, 0, len);
    });
    if pushed {
        send::finish_send(cx, slot, Path::RcEager);
    }
    pushed
}

/// Writes `len` bytes of a message from byte `at` on, behind the first `ahead` bytes of a record.
fn fill(bytes: &mut impl Sink, ahead: u64, data: &SendBuffer, at: u64, len: u64) {
    let mut rest = Skip {
        inner: bytes,
        skip: ahead,
    };
    data.copy_to(at, len, &mut rest);
}

/// Offers a long message; the receiver may read it out of registered memory.
fn push_offer(cx: &mut Cx, link: Link, slot: Slot) -> bool {
    let id = cx.requests.id(slot);
    let Some(sending) = cx.requests.sending(slot) else {
        return true;
    };
    let len = sending.data.len();
    let registered = match sending.data.slices() {
        // SAFETY: the operation holds the bytes until it is over, and `end_send` says so before.
        [one] if len >= WORTH_REGISTERING => unsafe { cx.fabric.register_send(link, id, *one) },
        _ => None,
    };
    let (address, key) = registered.unwrap_or((0, 0));
    let offer = Offer {
        len,
        send: id.0,
        address,
        key,
        peer_readable: false,
        vectored: sending.data.slices().len() != 1,
        confirm: sending.delivered,
    };
    let (tag, immediate) = (sending.tag, sending.immediate);
    let record = ControlRecord::message(frame::READY_TO_SEND, tag, immediate, offer.encode());
    let pushed = cx.fabric.push_control(link, &record);
    if let (true, Some(sending)) = (pushed, cx.requests.sending(slot)) {
        sending.stage = SendStage::Offered { retracting: false };
    }
    pushed
}

/// Sends the fragments that a receiver asked for: (bytes moved, it is over).
pub(crate) fn push_fragments(cx: &mut Cx, slot: Slot, link: Link) -> (bool, bool) {
    let most = cx.fabric.longest_record(link).saturating_sub(OFFSET_BYTES);
    let mut moved = false;
    loop {
        let Some(sending) = cx.requests.sending(slot) else {
            return (moved, true);
        };
        let SendStage::Fragments(fragments) = sending.stage else {
            return (moved, true);
        };
        let Fragments { at, end, .. } = fragments;
        if at == end {
            fragments::all_sent(cx, slot, fragments.confirm);
            return (moved, true);
        }
        let len = most.min(end - at);
        let form = (frame::FRAGMENT_INLINE, fragments.receive.unwrap_or(0));
        let data = &sending.data;
        let pushed = cx.fabric.push(link, form, OFFSET_BYTES + len, |bytes| {
            put_words(bytes, &[at]);
            fill(bytes, OFFSET_BYTES, data, at, len);
        });
        if !pushed {
            return (moved, false);
        }
        sending.stage = SendStage::Fragments(Fragments {
            at: at + len,
            ..fragments
        });
        moved = true;
    }
}

/// Starts the transfer of a matched message: a read if both ends are registered, else in packets.
pub(crate) fn accept(cx: &mut Cx, slot: Slot, offer: &Offer, mut incoming: Incoming, link: Link) {
    let id = cx.requests.id(slot);
    let room = match cx.requests.receiving(slot) {
        Some(receiving) => match receiving.into.slices() {
            [one] if offer.key != 0 => Some(*one),
            _ => None,
        },
        None => return,
    };
    let len = incoming.wanted as usize;
    let read = room.map(|room| {
        // SAFETY: the room is the operation's until `on_read`, or until the peer has failed.
        unsafe { cx.fabric.start_read(link, id, offer, room, len) }
    });
    match read {
        Some(Ok(())) => {
            incoming.path = Path::RcRendezvous;
            if let Some(receiving) = cx.requests.receiving(slot) {
                receiving.stage = ReceiveStage::Reading(incoming);
            }
            return;
        }
        Some(Err(why)) => tracing::debug!("a message comes in packets: {why}"),
        None => {}
    }
    rendezvous::request_fragments(cx, slot, &incoming, false);
}

/// A read is over.
pub(crate) fn on_read(cx: &mut Cx, id: RequestId, failed: Option<String>) {
    let Some(slot) = cx.requests.find(id) else {
        return;
    };
    let Some(receiving) = cx.requests.receiving(slot) else {
        return;
    };
    let ReceiveStage::Reading(incoming) = receiving.stage else {
        return;
    };
    match failed {
        None => rendezvous::finish_receive(cx, slot, &incoming),
        Some(why) => {
            tracing::warn!(
                "rc-rendezvous with peer {}: {why}; using packets",
                incoming.from()
            );
            rendezvous::request_fragments(cx, slot, &incoming, false);
        }
    }
}

/// The path of a message's fragments.
pub(crate) fn fragments_path(cx: &Cx, peer: u32) -> Path {
    cx.peers
        .channel(peer)
        .map_or(Path::Pipeline, Channel::fragments_path)
}
