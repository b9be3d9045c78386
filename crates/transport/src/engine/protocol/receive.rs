//! A message arrives, and meets its receive or waits for it; a receive meets its message.

use limic_policy::Path;
use limic_pools::staging::BufferDescriptor;
use limic_records::{Offer, Violation};
use limic_shm::bytes::{ReceiveBuffer, SingleSlice, Source};

use crate::engine::control::{budget, counting, pace};
use crate::engine::cx::Cx;
use crate::engine::envelope::{Envelope, Told};
use crate::engine::matching::many::ManyRoom;
use crate::engine::matching::posted::query;
use crate::engine::matching::unexpected::kept_bytes;
use crate::engine::matching::unexpected_store::{UnexpectedBody, UnexpectedMessage};
use crate::engine::protocol::{arena_message, assembly, packets, rendezvous, staged, unexpected};
use crate::engine::request::{Incoming, Operation, ReceiveStage, Receiving, Slot, sent};
use crate::raw::{ClaimId, Owner, Posted, RawSliceMut, RequestId};
use crate::{Error, Outcome, Peer, Result, Selector, Status};

/// [`receive_unexpected`] of a message that was looked at before.
#[inline(never)]
pub(crate) fn receive_probed(cx: &mut Cx, token: u32, into: ReceiveBuffer) -> Posted {
    receive_unexpected(cx, token, into, Owner::Caller)
}

/// Receives an unexpected message.
#[inline(always)]
pub(crate) fn receive_unexpected(
    cx: &mut Cx,
    token: u32,
    into: ReceiveBuffer,
    owner: Owner,
) -> Posted {
    match cx.matching.store().take(token) {
        None => Posted::Done(Err(Error::UnknownRequest)),
        Some(UnexpectedMessage {
            envelope,
            body: UnexpectedBody::Bytes(bytes),
            ..
        }) => receive_kept(cx, envelope, bytes, &into),
        Some(other) => receive_unkept(cx, (other, owner), into),
    }
}

/// Receives a message of which all bytes were kept.
#[inline(always)]
fn receive_kept(cx: &mut Cx, envelope: Envelope, bytes: Vec<u8>, into: &ReceiveBuffer) -> Posted {
    let len = bytes.len() as u64;
    into.copy_from(0, len, &bytes[..]);
    budget::count_taken(cx, envelope.from, len as i64);
    cx.matching.store().recycle(bytes);
    counting::count_received_eager(cx, envelope.from, len);
    Posted::Done(envelope.outcome(len, into.len()))
}

/// Receives a message of which less than all bytes were kept. It comes in a tuple, so that who
/// receives one of which all are there does not copy it.
#[inline(never)]
fn receive_unkept(
    cx: &mut Cx,
    (message, owner): (UnexpectedMessage, Owner),
    into: ReceiveBuffer,
) -> Posted {
    let here = message.is_here();
    cx.matching.store().forget_offer(&message);
    let UnexpectedMessage {
        envelope,
        len,
        body,
    } = message;
    let from = envelope.from;
    if let Some(behind) = body.blocks_sender() {
        pace::sender_unblocked(cx, from, behind);
    }
    if !here {
        if let Some(why) = cx.peers.get(from).and_then(|peer| peer.failure().cloned()) {
            // Claimed before its sender went, and the bytes went with it.
            budget::count_taken(cx, from, kept_bytes(&body));
            return Posted::Done(Err(why.of(Peer(from))));
        }
    }
    match body {
        UnexpectedBody::Bytes(bytes) => receive_kept(cx, envelope, bytes, &into),
        UnexpectedBody::Partial(bytes) => {
            let incoming = Incoming {
                path: packets::network_or(cx, from, Path::EagerFragments),
                ..Incoming::new(envelope, len, into.len())
            };
            assembly::receive_partial(cx, incoming, bytes, into, owner)
        }
        UnexpectedBody::InArena(place) => {
            budget::count_taken(cx, from, 0);
            let copied = arena_message::copy_out(cx, from, place, &into);
            Posted::Done(copied.and(envelope.outcome(len, into.len())))
        }
        UnexpectedBody::Offered(offer) => {
            budget::count_taken(cx, from, 0);
            let stage = ReceiveStage::Assembling(Incoming::of_offer(envelope, &offer, into.len()));
            let slot = cx
                .requests
                .insert(Operation::Receive(Receiving { into, stage }));
            rendezvous::accept(cx, slot, envelope, &offer, false);
            posted(cx, slot, owner)
        }
        UnexpectedBody::Lost(error) => {
            budget::count_taken(cx, from, 0);
            Posted::Done(Err(*error))
        }
        UnexpectedBody::Loopback(id) => {
            budget::count_taken(cx, from, 0);
            Posted::Done(receive_loopback(cx, envelope, id, &into))
        }
    }
}

/// Copies a message of this endpoint to itself, and ends its send.
fn receive_loopback(
    cx: &mut Cx,
    envelope: Envelope,
    send: RequestId,
    into: &ReceiveBuffer,
) -> Outcome {
    let slot = cx.requests.find(send);
    let Some((slot, sending)) = slot.and_then(|slot| Some((slot, cx.requests.sending(slot)?)))
    else {
        debug_assert!(false, "a cancelled send takes its message along");
        return Err(Error::UnknownRequest);
    };
    let (me, len) = (envelope.from, sending.data.len());
    into.copy_from_send(&sending.data, into.len());
    cx.requests.complete(slot, sent(me, envelope.tag, len));
    // Nobody rings for it, and another thread may poll for its send.
    cx.wakeup.poller.notify();
    counting::count_received_by(cx, me, Path::SelfCopy, len);
    envelope.outcome(len, into.len())
}

/// What became of an operation that was begun.
pub(crate) fn posted(cx: &mut Cx, slot: Slot, owner: Owner) -> Posted {
    match cx.requests.take_done(slot) {
        Some(outcome) => Posted::Done(outcome),
        None => {
            cx.requests.set_owner(slot, owner);
            Posted::Pending(cx.requests.id(slot))
        }
    }
}

/// Receives a claimed message.
///
/// # Safety
/// As [`Messages::post_recv`](crate::raw::Messages::post_recv).
pub(crate) unsafe fn post_claimed(
    cx: &mut Cx,
    claim: ClaimId,
    into: &[RawSliceMut],
) -> Result<Posted> {
    let token = cx
        .matching
        .store()
        .claimed(claim)
        .ok_or(Error::UnknownRequest)?;
    // SAFETY: the caller's promise is the buffer's invariant.
    Ok(receive_probed(cx, token, unsafe {
        ReceiveBuffer::new(into)
    }))
}

/// No message matches. A source that is named and was not met yet is contacted, since one that is
/// gone would never send any.
pub(crate) fn nothing_yet<T>(cx: &mut Cx, selector: &Selector) -> Result<Option<T>> {
    cx.matching.check(&cx.peers, selector)?;
    if let Some(source) = selector.source {
        cx.peers.seek(source.0);
    }
    Ok(None)
}

/// The oldest message that matches, left where it is.
pub(crate) fn probe(cx: &mut Cx, selector: &Selector) -> Result<Option<Status>> {
    match cx.matching.probe(&query(selector)) {
        Some(token) => Ok(cx
            .matching
            .store()
            .get(token)
            .map(UnexpectedMessage::status)),
        None => nothing_yet(cx, selector),
    }
}

/// The oldest message that matches, taken out of the queue.
pub(crate) fn claim(cx: &mut Cx, selector: &Selector) -> Result<Option<(Status, ClaimId)>> {
    match cx.matching.take_unexpected(&query(selector)) {
        Some(token) => {
            let store = cx.matching.store();
            let status = store.get(token).map(UnexpectedMessage::status);
            Ok(status.zip(store.claim(token)))
        }
        None => nothing_yet(cx, selector),
    }
}

/// Starts a receive.
///
/// # Safety
/// As [`Messages::post_recv`](crate::raw::Messages::post_recv).
#[inline]
pub(crate) unsafe fn post_recv(
    cx: &mut Cx,
    selector: &Selector,
    into: &[RawSliceMut],
    owner: Owner,
) -> Result<Posted> {
    if let [one] = into {
        // SAFETY: the caller's promise.
        if let Some(id) = unsafe { post_to_fifo(cx, selector, *one, owner) } {
            return Ok(Posted::Pending(id));
        }
    }
    // SAFETY: the caller's promise is the buffer's invariant.
    let into = unsafe { ReceiveBuffer::new(into) };
    post_slow(cx, selector, into, owner)
}

/// Starts a receive into one slice, if nothing is to be done but to wait for a message in the fifo.
///
/// # Safety
/// As [`post_recv`].
#[inline(always)]
pub(crate) unsafe fn post_to_fifo(
    cx: &mut Cx,
    selector: &Selector,
    into: RawSliceMut,
    owner: Owner,
) -> Option<RequestId> {
    // SAFETY: the caller's promise is the room's invariant.
    let room = unsafe { SingleSlice::new(into) };
    cx.matching
        .post_to_fifo(&mut cx.requests, &cx.peers, selector, room, owner)
}

/// Starts a receive where a message may wait, or where nothing can ever arrive.
#[inline(never)]
fn post_slow(
    cx: &mut Cx,
    selector: &Selector,
    into: ReceiveBuffer,
    owner: Owner,
) -> Result<Posted> {
    let query = query(selector);
    if let Some(token) = cx.matching.take_unexpected(&query) {
        return Ok(receive_unexpected(cx, token, into, owner));
    }
    cx.matching.check(&cx.peers, selector)?;
    let id = cx.matching.post(&mut cx.requests, &query, into, owner)?;
    Ok(Posted::Pending(id))
}

/// Posts room for many messages. `None`: those that waited have filled it.
///
/// # Safety
/// As [`Messages::post_recv_many`](crate::raw::Messages::post_recv_many).
pub(crate) unsafe fn post_many(
    cx: &mut Cx,
    selector: &Selector,
    room: RawSliceMut,
    least: usize,
    name: u64,
) -> Result<Option<RequestId>> {
    let query = query(selector);
    // SAFETY: the caller's promise is the room's invariant.
    let mut room = ManyRoom::new(unsafe { SingleSlice::new(room) }, least, name);
    while let Some(token) = cx.matching.take_unexpected(&query) {
        let store = cx.matching.store();
        let (from, len) = store
            .get(token)
            .map_or((0, 0), |message| (message.envelope.from, message.len));
        let (part, last) = room.cut(len);
        let posted = receive_probed(cx, token, part.into());
        let taken = room.taken(part, from, last, posted);
        cx.matching.many().note(taken);
        if last {
            return Ok(None);
        }
    }
    cx.matching.check(&cx.peers, selector)?;
    let id = cx.matching.post_many(&mut cx.requests, &query, room)?;
    cx.requests.watch(id, name)?;
    Ok(Some(id))
}

/// A whole message came in a record.
///
/// # Errors
/// There is no memory to keep it.
#[inline(always)]
pub(crate) fn on_eager(
    cx: &mut Cx,
    envelope: Envelope,
    source: &impl Source,
) -> Result<(), Violation> {
    if cx.requests.deliver_to_head(envelope, source) || deliver_eager(cx, envelope, source) {
        counting::count_received_eager(cx, envelope.from, source.len());
    }
    Ok(())
}

/// As [`on_eager`], for a message that is not for the head of the posted fifo. True if it was
/// delivered and the caller has to count it: `on_eager` does so at once, and who drains a private
/// ring counts all messages of a turn together. What is kept counts when it is received.
#[inline(always)]
pub(crate) fn deliver_eager(cx: &mut Cx, envelope: Envelope, source: &impl Source) -> bool {
    let Envelope { from, tag, .. } = envelope;
    let len = source.len();
    let Some(slot) = cx.matching.take_posted(&mut cx.requests, from, tag, len) else {
        keep_or_fail(cx, envelope, source);
        return false;
    };
    let status = envelope.status(source.len());
    if !cx.requests.deliver_posted(slot, status, source) {
        deliver_slow(cx, slot, envelope, source);
    }
    true
}

#[cold]
fn keep_or_fail(cx: &mut Cx, envelope: Envelope, source: &impl Source) {
    if let Err(wrong) = unexpected::keep_bytes(cx, envelope, source) {
        cx.peers.violated(envelope.from, wrong);
    }
}

/// Delivers to a posted receive that has too little room, or room in several slices, or that
/// somebody had a look at meanwhile.
#[cold]
fn deliver_slow(cx: &mut Cx, slot: Slot, envelope: Envelope, source: &impl Source) {
    let len = source.len();
    if let Some(receiving) = cx.requests.known_receive(slot) {
        receiving.into.copy_from(0, len, source);
        let outcome = envelope.outcome(len, receiving.into.len());
        cx.requests.complete(slot, outcome);
    }
}

/// A whole message came in a staging buffer.
///
/// # Errors
/// What is wrong with what the peer said.
#[inline]
pub(crate) fn on_eager_staged(
    cx: &mut Cx,
    envelope: Envelope,
    descriptor: BufferDescriptor,
) -> Result<(), Violation> {
    let handled = staged::read_buffer(cx, envelope.from, descriptor, |cx, window| {
        on_eager(cx, envelope, window)
    })?;
    handled.unwrap_or(Ok(()))
}

/// A long message is offered.
///
/// # Errors
/// There is no memory to keep the offer.
pub(crate) fn on_ready_to_send(
    cx: &mut Cx,
    envelope: Envelope,
    offer: Offer,
) -> Result<(), Violation> {
    let Envelope { from, tag, .. } = envelope;
    match cx
        .matching
        .take_posted(&mut cx.requests, from, tag, offer.len)
    {
        Some(slot) => {
            pace::count_posted(cx, from);
            rendezvous::accept(cx, slot, envelope, &offer, true);
        }
        None => {
            let message = UnexpectedMessage {
                envelope,
                len: offer.len,
                body: UnexpectedBody::Offered(offer),
            };
            let token = unexpected::keep(cx, message)?;
            if !cx.matching.store().note_offer(token) {
                return Err(unexpected::NO_MEMORY);
            }
        }
    }
    Ok(())
}
