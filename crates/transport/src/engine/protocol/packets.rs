//! Messages to a peer over the fabric: in packets, or offered to be read.

use limic_fabric::TransferError;
use limic_policy::Path;
use limic_policy::select::network::{self, NetworkPlan};
use limic_records::{self as frame, ControlRecord, Next, OFFSET_BYTES, Offer};
use limic_shm::bytes::{SendBuffer, Sink, Skip, gather, gather_behind, put_words};

use crate::engine::control::counting;
use crate::engine::cx::Cx;
use crate::engine::fabric::Link;
use crate::engine::peer::table::Channel;
use crate::engine::protocol::message::{Attempt, Message};
use crate::engine::protocol::{fragments, offer, rendezvous};
use crate::engine::request::{Fragments, Incoming, ReceiveStage, SendStage, Slot};
use crate::raw::RequestId;

/// Sends a message that goes in one record, if there is room.
///
/// # Safety
/// As for [`attempt`](crate::engine::protocol::attempt::attempt).
pub(crate) unsafe fn attempt(cx: &mut Cx, link: Link, message: &Message<'_>) -> Attempt {
    let Message {
        to,
        immediate,
        data,
        len,
        more,
        ..
    } = *message;
    let len_in_record = frame::message_bytes(len, immediate);
    // What lies in an adapter's queue is lost with this process: the answer to an offer says that
    // it arrived.
    let asks = message.delivered || cx.peers.get(to).is_some_and(|peer| peer.asks_first);
    match network::plan(&cx.fabric.limits(link), len_in_record, data.len(), asks) {
        NetworkPlan::Record => {}
        NetworkPlan::InPlace => return Attempt::InPlace,
        NetworkPlan::Offer => return Attempt::Offer,
    }
    let form = (frame::message_kind(frame::EAGER, immediate), message.tag);
    let pushed = cx
        .fabric
        .push(link, form, len_in_record, more, |bytes| match immediate {
            // SAFETY: the caller's promise, and a record of that length.
            Some(word) => unsafe { gather_behind(word, data, bytes) },
            // SAFETY: as above.
            None => unsafe { gather(data, bytes) },
        });
    if !pushed {
        return Attempt::Waits;
    }
    counting::count_sent(cx, to, Path::Network, len);
    cx.fabric.publish(&cx.counters);
    Attempt::Sent
}

/// Writes `len` bytes of a message from byte `at` on, behind the first `ahead` bytes of a record.
///
/// # Safety
/// The record has so many bytes more.
unsafe fn fill(bytes: &mut impl Sink, ahead: u64, data: &SendBuffer, at: u64, len: u64) {
    let mut rest = Skip {
        inner: bytes,
        skip: ahead,
    };
    // SAFETY: the caller's promise.
    unsafe { data.copy_to(at, len, &mut rest) };
}

/// Offers a long message; the receiver may read it out of registered memory.
pub(super) fn push_offer(cx: &mut Cx, link: Link, slot: Slot) -> bool {
    let (id, limits) = (cx.requests.id(slot), cx.fabric.limits(link));
    let Some(sending) = cx.requests.known_send(slot) else {
        return true;
    };
    let (len, slices) = (sending.data.len(), sending.data.slices());
    let registered = match (network::refuses_read(&limits, len, slices.len()), slices) {
        // SAFETY: the operation holds the bytes until it is over, and `end_send` says so before.
        (None, [one]) => unsafe { cx.fabric.register_send(link, id, *one) },
        _ => None,
    };
    let (address, key) = registered.unwrap_or((0, 0));
    let offer = Offer {
        address,
        key,
        confirm: sending.delivered,
        ..offer::offer_of(sending, id)
    };
    let (tag, immediate) = (sending.tag, sending.immediate);
    let record = ControlRecord::message(frame::READY_TO_SEND, tag, immediate, offer.encode());
    let pushed = cx.fabric.push_control(link, &record);
    if let (true, Some(sending)) = (pushed, cx.requests.known_send(slot)) {
        sending.stage = SendStage::Offered { retracting: false };
    }
    pushed
}

/// Sends the fragments that a receiver asked for: (bytes moved, it is over).
pub(crate) fn push_fragments(cx: &mut Cx, slot: Slot, link: Link) -> (bool, bool) {
    let limits = cx.fabric.limits(link);
    let mut moved = false;
    loop {
        let Some(sending) = cx.requests.known_send(slot) else {
            return (moved, true);
        };
        let SendStage::Fragments(fragments) = sending.stage else {
            return (moved, true);
        };
        let Fragments { at, end, open, .. } = fragments;
        if at == end {
            fragments::all_sent(cx, slot, fragments);
            return (moved, true);
        }
        let data = &sending.data;
        let longest = network::longest_record(&limits, data.slices().len());
        let len = longest.saturating_sub(OFFSET_BYTES).min(end - at);
        let kind = (frame::FRAGMENT_INLINE, fragments.receive.unwrap_or(0));
        let gone = if open {
            cx.fabric.go_on(link, data, at)
        } else if OFFSET_BYTES + len > limits.in_place_from {
            match cx.fabric.begin(link, kind, Some(at), data, (at, len)) {
                Some(gone) => gone,
                None => return (moved, false),
            }
        } else {
            let len_in_record = OFFSET_BYTES + len;
            let pushed = cx.fabric.push(link, kind, len_in_record, false, |bytes| {
                // SAFETY: a record of that length.
                unsafe {
                    put_words(bytes, &[at]);
                    fill(bytes, OFFSET_BYTES, data, at, len);
                }
            });
            if !pushed {
                return (moved, false);
            }
            len
        };
        let open = cx.fabric.left_to_go(link) > 0;
        sending.stage = SendStage::Fragments(Fragments {
            at: at + gone,
            open,
            ..fragments
        });
        moved |= gone > 0;
        if open {
            return (moved, false);
        }
    }
}

/// Starts the transfer of a matched message: a read if both ends are registered, else in packets.
pub(crate) fn accept(cx: &mut Cx, slot: Slot, offer: &Offer, mut incoming: Incoming, link: Link) {
    let id = cx.requests.id(slot);
    let Some(receiving) = cx.requests.known_receive(slot) else {
        return;
    };
    let room = receiving.into.slices();
    incoming.path = network::answer(offer.key != 0, room.len());
    let read = match (incoming.path, room) {
        (Path::NetworkRead, [room]) => {
            let (room, len) = (*room, incoming.wanted as usize);
            // SAFETY: the room is the operation's until `on_read`, or until the peer has failed.
            Some(unsafe { cx.fabric.start_read(link, id, offer, room, len) })
        }
        _ => None,
    };
    match read {
        Some(Ok(())) => {
            if let Some(receiving) = cx.requests.known_receive(slot) {
                receiving.stage = ReceiveStage::Reading(incoming);
            }
            return;
        }
        Some(Err(why)) => tracing::debug!("a message comes in packets: {why}"),
        None => {}
    }
    rendezvous::request_fragments(cx, slot, &incoming, Next::Usual);
}

/// A read is over.
pub(crate) fn on_read(cx: &mut Cx, id: RequestId, result: Result<(), TransferError>) {
    let Some(slot) = cx.requests.find(id) else {
        return;
    };
    let Some(receiving) = cx.requests.receiving(slot) else {
        return;
    };
    let ReceiveStage::Reading(incoming) = receiving.stage else {
        return;
    };
    match result {
        Ok(()) => rendezvous::finish_receive(cx, slot, &incoming),
        Err(why) => {
            tracing::warn!(
                "network-read with peer {}: {why}; using packets",
                incoming.from()
            );
            rendezvous::request_fragments(cx, slot, &incoming, Next::Usual);
        }
    }
}

/// The path for which the fragments of a message count, to or from a peer: in shared memory `path`.
pub(crate) fn network_or(cx: &Cx, peer: u32, path: Path) -> Path {
    match cx.peers.channel(peer) {
        Some(Channel::Fabric(_)) => Path::Network,
        _ => path,
    }
}
