//! Long messages: an offer is accepted, a path is picked, and the bytes move.
//!
//! The receiver picks the path, since only it knows both buffers. Whatever it picks, the message
//! was matched already, so several long messages of a pair may move at the same time and in any
//! order.

use limic_copy::address_of_room;
use limic_policy::Path;
use limic_policy::autotune::Candidate;
use limic_policy::select::{self, Offered};
use limic_records::{ClearToSend, Done, Next, Offer, Violation};

use crate::counters::Event;
use crate::engine::control::{autotune, counting, line_latency};
use crate::engine::cx::Cx;
use crate::engine::envelope::Envelope;
use crate::engine::outbox;
use crate::engine::peer::table::Channel;
use crate::engine::protocol::{fragments, packets, regions, rma, send, split_copy, unexpected};
use crate::engine::request::{Fragments, Incoming, ReceiveStage, SendStage, Slot};
use crate::error::PeerFailure;
use crate::raw::RequestId;
use crate::{Error, Peer};

/// Matches an offer with a receive and starts the transfer. `expected`: the receive was posted
/// before the offer was seen.
pub(crate) fn accept(cx: &mut Cx, slot: Slot, envelope: Envelope, offer: &Offer, expected: bool) {
    let Some(receiving) = cx.requests.known_receive(slot) else {
        return;
    };
    let room = receiving.into.len();
    let whole = address_of_room(receiving.into.slices()).is_some();
    let incoming = Incoming {
        expected,
        ..Incoming::of_offer(envelope, offer, room)
    };
    let from = envelope.from;
    receiving.stage = ReceiveStage::Assembling(incoming);
    if incoming.wanted == 0 {
        return finish_receive(cx, slot, &incoming);
    }
    match cx.peers.channel(from) {
        Some(Channel::Shm(_)) => accept_shm(cx, slot, offer, incoming, whole),
        Some(Channel::Fabric(connection)) => {
            let connection = *connection;
            packets::accept(cx, slot, offer, incoming, connection);
        }
        // Its sender is gone, and so is the offer.
        Some(Channel::Loopback) | None => {
            let failure = cx.peers.get(from).and_then(|peer| peer.failure().cloned());
            let error = failure.unwrap_or(PeerFailure::Died).of(Peer(from));
            cx.requests.complete(slot, Err(error));
        }
    }
}

/// Starts the transfer of a message whose sender shares memory with this endpoint. `whole`: the
/// receive buffer has one address.
fn accept_shm(cx: &mut Cx, slot: Slot, offer: &Offer, mut incoming: Incoming, whole: bool) {
    let from = incoming.from();
    line_latency::probe_latency_if_due(cx, from);
    choose(cx, offer, &mut incoming, whole);
    match incoming.path {
        // The sender exposes its bytes only where they are likely to be read: from the next message
        // on.
        Path::Kmod if offer.key == 0 => request_fragments(cx, slot, &incoming, Next::Exposed),
        _ if incoming.both_sides => split_copy::start_split_copy(cx, slot, incoming),
        Path::Cma | Path::Kmod | Path::PeerReadable => {
            if let Some(receiving) = cx.requests.known_receive(slot) {
                receiving.stage = ReceiveStage::Reading(incoming);
            }
            cx.transfers.copies.push_back(cx.requests.id(slot));
        }
        Path::SameProcess if copy_in_process(cx, slot, offer, &incoming) => {
            finish_receive(cx, slot, &incoming);
        }
        _ => {
            let next = choose_next(cx, &incoming);
            request_fragments(cx, slot, &incoming, next);
        }
    }
}

/// Copies the bytes out of the sender's buffer in this process. False if that send is over.
fn copy_in_process(cx: &mut Cx, slot: Slot, offer: &Offer, incoming: &Incoming) -> bool {
    let peer = cx.peers.get(incoming.from());
    let peer_id = peer.map_or(0, |peer| peer.address.id);
    cx.requests.known_receive(slot).is_some_and(|receiving| {
        limic_copy::same_process::copy(peer_id, offer.send, &receiving.into, incoming.wanted)
    })
}

/// Notes how the bytes of a matched long message come, and the spell that measures it, if one does.
/// `whole`: the receive buffer has one address.
fn choose(cx: &mut Cx, offer: &Offer, incoming: &mut Incoming, whole: bool) {
    let (from, len) = (incoming.from(), incoming.wanted);
    let Some(pair) = cx.peers.pair(from) else {
        return;
    };
    let offered = Offered {
        len,
        vectored: offer.vectored,
        peer_readable: offer.peer_readable,
        whole,
        pace: pair.pace.own.pace(),
    };
    let (locality, capabilities) = (pair.conditions.locality, pair.conditions.capabilities);
    let query = offered.query(locality, capabilities);
    let (path, tunable) = select::answer(cx.settings.policy(), &query);
    // A room in several slices has other paths, which one in one piece must not learn from.
    let (candidate, sample) = if tunable && whole {
        autotune::autotuned(cx, from, len, path, query.capabilities.paths)
    } else {
        (Candidate::by(path), None)
    };
    let (path, table) = (candidate.path, cx.settings.policy());
    incoming.sample = sample;
    incoming.path = path;
    incoming.non_temporal = candidate.non_temporal;
    incoming.both_sides = select::is_shared(table, &offered, path, locality, capabilities);
}

/// How the sender of a message that comes in fragments is to go on with the next ones. They may
/// come without an offer where this one had a receive that waited for it, as in a ping-pong, or in
/// a stream: if each is offered, nothing moves from the end of one receive until the answer for the
/// next one has its first fragment. In a stream they lie in the staging pool and in the ring until
/// the application has posted receives and waits for them.
///
/// `Next::Unasked` changes nothing for this message: the sender notes it in [`on_clear_to_send`],
/// and `Routes::select` asks for it at the next ones (`SendState::is_granted`).
fn choose_next(cx: &mut Cx, incoming: &Incoming) -> Next {
    let Some(pair) = cx.peers.pair(incoming.from()) else {
        return Next::Usual;
    };
    let autotuner = pair.autotuner.as_ref();
    // In a stream, another one waits beside it.
    let is_awaited = incoming.expected || pair.pace.own.waiting() > 0;
    // What goes without an offer is not measured, and takes no other path. So this one's has to be
    // the fastest, and not only the one that is left for it, in several slices say.
    let is_settled = match incoming.sample {
        None => pair.routes.goes_in_fragments(incoming.sent),
        Some(_) => autotuner.is_some_and(|autotuner| {
            let available = pair.conditions.capabilities.paths;
            autotuner.is_settled(incoming.sent, incoming.path, available)
        }),
    };
    // Where such a message came too early not long ago, the next one may again.
    if is_awaited && is_settled && !pair.staging.is_penalized(&pair.out) {
        Next::Unasked
    } else {
        Next::Usual
    }
}

/// Asks the sender for the rest of a message in fragments, and says how the next ones are to go.
pub(crate) fn request_fragments(cx: &mut Cx, slot: Slot, incoming: &Incoming, next: Next) {
    let path = packets::network_or(cx, incoming.from(), Path::Pipeline);
    if incoming.path != path {
        autotune::note_fallback(cx, incoming);
    }
    if let Some(receiving) = cx.requests.known_receive(slot) {
        receiving.stage = ReceiveStage::Assembling(Incoming { path, ..*incoming });
    }
    let clear = ClearToSend {
        send: incoming.remote,
        receive: cx.requests.id(slot).0,
        start: incoming.got,
        end: incoming.wanted,
        next,
    };
    outbox::control(cx, incoming.from(), clear.encode());
}

/// All wanted bytes are in the receive buffer, and the sender is told: its buffer is free.
pub(crate) fn finish_receive(cx: &mut Cx, slot: Slot, incoming: &Incoming) {
    let done = Done::Received(incoming.path).encode(incoming.remote);
    outbox::control(cx, incoming.from(), done);
    complete_receive(cx, slot, incoming);
}

/// All wanted bytes were copied out of the sender's memory. If it has left meanwhile, the buffer
/// may have been its owner's again while it was read.
pub(crate) fn finish_copy(cx: &mut Cx, slot: Slot, incoming: &Incoming) {
    let from = incoming.from();
    let Some(pair) = cx.peers.pair(from) else {
        return;
    };
    // What a peer that has died has left behind stays as it is while it can be read, and each read
    // has made sure that it is the peer's.
    let Some(given_up) = pair.status.given_up() else {
        return finish_receive(cx, slot, incoming);
    };
    if cx.sockets.has_news(from) {
        if let Some(receiving) = cx.requests.known_receive(slot) {
            receiving.stage = ReceiveStage::Reading(*incoming);
        }
        let receive = cx.requests.id(slot);
        return cx.peers.notes.was_read(from, receive, given_up);
    }
    finish_heard(cx, slot, incoming, given_up);
}

/// The same of a receive that waited until progress had read what the sender has said.
pub(crate) fn on_heard(cx: &mut Cx, receive: RequestId, given_up: u64) {
    let Some(slot) = cx.requests.find(receive) else {
        return;
    };
    let stage = cx.requests.receiving(slot).map(|receiving| receiving.stage);
    if let Some(ReceiveStage::Reading(incoming)) = stage {
        finish_heard(cx, slot, &incoming, given_up);
    }
}

/// A sender that has closed, or has given this endpoint up, has said so by now: then the receive
/// fails with it.
fn finish_heard(cx: &mut Cx, slot: Slot, incoming: &Incoming, given_up: u64) {
    let from = incoming.from();
    if cx.peers.is_gone(from) {
        return;
    }
    if cx.sockets.has_unread(from) && cx.sockets.has_news(from) {
        // Something that it said is unread, for want of a descriptor, and its last words may lie
        // behind. A sender that has left sends no fragments.
        autotune::note_interruption(cx, from);
        let again = Incoming {
            got: 0,
            ..*incoming
        };
        return request_fragments(cx, slot, &again, Next::Usual);
    }
    if let Some(pair) = cx.peers.pair(from) {
        pair.status.others_were_given_up(given_up);
    }
    finish_receive(cx, slot, incoming);
}

/// All wanted bytes are in the receive buffer. The sender is not told: it sent them itself, or
/// [`finish_receive`] tells it.
pub(crate) fn complete_receive(cx: &mut Cx, slot: Slot, incoming: &Incoming) {
    let from = incoming.from();
    autotune::note_long_received(cx, incoming);
    if incoming.region.is_some() {
        // It counts with the peer that writes.
        return regions::finish_put(cx, slot, incoming);
    }
    cx.requests.complete(slot, incoming.outcome());
    counting::count_received_by(cx, from, incoming.path, incoming.sent);
    if incoming.path == Path::EagerFragments {
        // Its sender is likely to look at its ring now: for an answer, or for room.
        line_latency::probe_latency_if_due(cx, from);
    }
}

/// The receiver wants the bytes in fragments.
///
/// # Errors
/// It asks for bytes that the message does not have.
pub(crate) fn on_clear_to_send(
    cx: &mut Cx,
    from: u32,
    clear: ClearToSend,
) -> Result<(), Violation> {
    let Some(slot) = send_to(cx, from, clear.send) else {
        return Ok(());
    };
    let outlives = cx.peers.channel(from).is_some_and(Channel::outlives_sender);
    let stage = cx.requests.sending(slot).map(|sending| sending.stage);
    if stage.is_none_or(|stage| split_copy::is_open(cx, from, stage)) {
        return Ok(());
    }
    let Some(sending) = cx.requests.known_send(slot) else {
        return Ok(());
    };
    if clear.start > clear.end || clear.end > sending.data.len() {
        return Err("a request for bytes outside of the message");
    }
    // What the receiver does not read is not open to it any longer.
    sending.exposed = None;
    let len = sending.data.len();
    split_copy::leave(cx, slot);
    if let Some(pair) = cx.peers.pair(from) {
        pair.copies.note_kmod(clear.next == Next::Exposed);
        if clear.next == Next::Unasked {
            pair.unasked.grant(len);
        }
    }
    let Some(sending) = cx.requests.known_send(slot) else {
        return Ok(());
    };
    let confirm = match sending.stage {
        SendStage::Offered { .. } | SendStage::SplitWrite(_) => sending.delivered && !outlives,
        SendStage::Put { .. } => true,
        _ => return Ok(()),
    };
    sending.stage = SendStage::Fragments(Fragments {
        receive: Some(clear.receive),
        confirm,
        ..Fragments::new(clear.start, clear.end)
    });
    autotune::note_long_send(cx, from);
    fragments::begin_asked(cx, from, slot);
    Ok(())
}

/// A send that this peer may speak about.
pub(crate) fn send_to(cx: &mut Cx, from: u32, id: u64) -> Option<Slot> {
    let slot = cx.requests.find(RequestId(id))?;
    (cx.requests.sending(slot)?.to == from).then_some(slot)
}

/// A request that this endpoint and the peer both take part in is done at the peer.
pub(crate) fn on_done(cx: &mut Cx, from: u32, id: u64, done: Done) {
    match done {
        Done::Received(path) => on_received(cx, from, id, path),
        Done::Retracted => on_retracted(cx, from, id),
        Done::Written => split_copy::on_written(cx, from, id),
        Done::Nothing | Done::NoRegion | Done::OutOfRegion(_) => {
            rma::on_answer(cx, from, id, done);
        }
    }
}

/// The receiver has all it wants.
fn on_received(cx: &mut Cx, from: u32, id: u64, path: Path) {
    let Some(slot) = send_to(cx, from, id) else {
        return;
    };
    let stage = cx.requests.sending(slot).map(|sending| sending.stage);
    if stage.is_none_or(|stage| split_copy::is_open(cx, from, stage)) {
        return;
    }
    // The rest of a record that has begun would never go, and nothing could go behind it.
    if let Some(SendStage::Fragments(_)) = stage {
        return cx
            .peers
            .violated(from, "that it has received what is on its way");
    }
    if let Some(pair) = cx.peers.pair(from) {
        pair.copies.note_kmod(path == Path::Kmod);
    }
    split_copy::leave(cx, slot);
    autotune::note_long_send(cx, from);
    send::finish_send(cx, slot, path);
}

/// The sender takes an offer back: agreed if nobody has matched it.
pub(crate) fn on_retract(cx: &mut Cx, from: u32, id: u64) {
    // A claimed message is matched, and not found.
    let Some(token) = cx.matching.store().offered(from, id) else {
        return;
    };
    unexpected::withdraw(cx, token);
    outbox::answer(cx, from, Done::Retracted.encode(id));
}

/// The receiver agreed that the offer is taken back.
fn on_retracted(cx: &mut Cx, from: u32, id: u64) {
    let Some(slot) = send_to(cx, from, id) else {
        return;
    };
    let retracting = SendStage::Offered { retracting: true };
    if cx
        .requests
        .sending(slot)
        .is_some_and(|sending| sending.stage == retracting)
    {
        send::end_send(cx, slot, Err(Error::Cancelled));
    }
}

/// Single copy failed for a pair: never again, and the message goes on in fragments.
pub(crate) fn demote(cx: &mut Cx, peer: u32, path: Path, why: &str) {
    if let Some(pair) = cx.peers.pair(peer) {
        if !pair.conditions.capabilities.paths.contains(path) {
            // Several messages were to go by it.
            return;
        }
        for needs_it in pair.copies.demote(path, why) {
            pair.conditions.capabilities.demote(*needs_it);
        }
    }
    tracing::warn!("{path} to peer {peer}: {why}; using pipeline");
    cx.counters.event(Event::Demotions);
    cx.counters.reason(Some(path), peer, why);
}
