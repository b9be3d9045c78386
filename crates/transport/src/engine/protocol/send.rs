//! A message sets out: at once, or by way of the backlog.

use limic_policy::Path;
use limic_policy::select::SendPlan;
use limic_pools::staging::StagingPool;
use limic_records::{PUT, RegionAccess};

use crate::Result;
use crate::buffer::{SendBuffer, total};
use crate::counters::Event;
use crate::engine::control::counting;
use crate::engine::cx::Cx;
use crate::engine::outbox;
use crate::engine::peer::pair::{PairState, ShmPair};
use crate::engine::peer::table::{BacklogEntry, Channel, PeerState};
use crate::engine::protocol::eager::{Message, push_eager};
use crate::engine::protocol::fast_send::{FastSend, is_inline_length, ring_doorbell, send_fast};
use crate::engine::protocol::fragments::{self, Fragmented};
use crate::engine::protocol::receive::posted;
use crate::engine::protocol::{long_packets, loopback, offer, packets, rma, send_ahead};
use crate::engine::request::{Fragments, Operation, SendStage, Sending, Slot, sent};
use crate::error::Outcome;
use crate::raw::{Posted, RawSlice, RequestId, SendOptions};

/// Sends whole if there is room and nothing waits ahead. True if it did.
///
/// # Safety
/// The slices are readable during the call.
#[inline(always)]
pub(crate) unsafe fn try_send(
    cx: &mut Cx,
    to: u32,
    tag: u64,
    immediate: Option<u64>,
    data: &[RawSlice],
) -> Result<bool> {
    if let (None, [one]) = (immediate, data) {
        if is_inline_length(one.len) {
            // SAFETY: the caller's promise.
            match unsafe { send_fast(cx, to, tag, *one) } {
                FastSend::Sent => return Ok(true),
                FastSend::SentToSleeper => return Ok(ring_doorbell(cx, to)),
                FastSend::No => {}
            }
        }
    }
    // SAFETY: the caller's promise.
    unsafe { send_now(cx, to, tag, immediate, data) }
}

/// The same for all messages that [`send_fast`] does not send.
///
/// # Safety
/// As [`try_send`].
#[inline(always)]
pub(crate) unsafe fn send_now(
    cx: &mut Cx,
    to: u32,
    tag: u64,
    immediate: Option<u64>,
    data: &[RawSlice],
) -> Result<bool> {
    let len = total(data);
    let pool = &mut cx.staging;
    let peer = cx.peers.known(to)?;
    let waits = !peer.backlog.is_empty();
    let PeerState::Up(Channel::Shm(pair)) = &mut peer.state else {
        return Ok(false);
    };
    if waits || !pair.routes.may_go_whole(len) {
        return Ok(false);
    }
    let plan = plan(pair, pool, to, data, len, false);
    if !matches!(plan, SendPlan::Record | SendPlan::Buffer) {
        return Ok(false);
    }
    let message = Message {
        to,
        tag,
        immediate,
        data,
        len,
    };
    // SAFETY: the caller's promise.
    let pushed = unsafe { push_eager(pair, pool, plan, &message) };
    if let Some(path) = pushed {
        cx.counters.sent(&peer.counts, path, len);
    }
    Ok(pushed.is_some())
}

/// How a message leaves by shared memory. `refused`: it has just been tried and did not go.
#[inline(always)]
fn plan(
    pair: &ShmPair,
    pool: &StagingPool,
    to: u32,
    data: &[RawSlice],
    len: u64,
    refused: bool,
) -> SendPlan {
    pair.routes.select(
        len,
        &PairState {
            pair,
            pool,
            to,
            data,
            refused,
        },
    )
}

/// Starts a send that cannot go whole now.
///
/// # Safety
/// As [`Messages::post_send`](crate::raw::Messages::post_send).
#[inline(never)]
pub(crate) unsafe fn post_send_slow(
    cx: &mut Cx,
    to: u32,
    tag: u64,
    options: SendOptions,
    data: &[RawSlice],
) -> Result<Posted> {
    let (immediate, len) = (options.immediate, total(data));
    let peer = cx.peers.alive(to)?;
    if let (true, Some(Channel::Fabric(link))) = (peer.backlog.is_empty(), peer.channel()) {
        let link = *link;
        let may_wait = options.delivered || options.matched;
        // SAFETY: the slices are readable during the call.
        if !may_wait && unsafe { packets::push_now(cx, to, link, tag, immediate, data) } {
            return Ok(Posted::Done(sent(to, tag, len)));
        }
    }
    let peer = cx.peers.alive(to)?;
    let plan = match peer.pair() {
        Some(pair) if peer.backlog.is_empty() && !options.matched => {
            match plan(pair, &cx.staging, to, data, len, true) {
                // It waits for room.
                SendPlan::Buffer if pair.goes_in_record(len) => SendPlan::Record,
                plan => plan,
            }
        }
        // It waits for its turn, and the receiver may have to be asked then; or it waits for its
        // match, which the answer to an offer tells.
        _ => SendPlan::Offer,
    };
    let mut stage = SendStage::Queued;
    match plan {
        SendPlan::Ahead => {
            let message = Message {
                to,
                tag,
                immediate,
                data,
                len,
            };
            // SAFETY: the slices are readable during the call.
            if unsafe { send_ahead::push_send_ahead(cx, &message) } {
                return Ok(Posted::Done(sent(to, tag, len)));
            }
        }
        SendPlan::Buffer | SendPlan::Fragments => {
            let fragmented = Fragmented::eager(tag, data);
            // SAFETY: as above.
            match unsafe { fragments::begin_eager(cx, to, immediate, &fragmented) } {
                Some(at) if at == len => return Ok(Posted::Done(sent(to, tag, len))),
                Some(at) => stage = SendStage::Fragments(Fragments::new(at, len)),
                None => {}
            }
        }
        SendPlan::Record | SendPlan::Offer => {}
    }
    // SAFETY: the caller's promise is the buffer's invariant.
    let data = unsafe { SendBuffer::new(data) };
    let sending = Sending {
        tag,
        immediate,
        delivered: options.delivered,
        matched: options.matched,
        ..Sending::new(to, data, stage)
    };
    if cx.peers.me() == Some(to) {
        return loopback::send_loopback(cx, sending);
    }
    cx.counters.event(Event::Waited);
    let slot = cx.requests.insert(Operation::Send(sending));
    let id = cx.requests.id(slot);
    queue(cx, to, BacklogEntry::Message(id));
    // It may be done by now: queued behind nothing.
    Ok(posted(cx, slot, 0))
}

/// Puts something behind what waits for a peer already, and pushes what can be pushed.
pub(crate) fn queue(cx: &mut Cx, to: u32, entry: BacklogEntry) {
    outbox::enqueue(cx, to, entry);
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
    match sending.stage {
        SendStage::Put { key, offset } => {
            let access = RegionAccess {
                id: id.0,
                key,
                offset,
                len: sending.data.len(),
            };
            outbox::push_control(cx, to, &access.encode(PUT))
        }
        SendStage::Fragments(Fragments { receive: None, .. }) => match cx.peers.channel(to) {
            Some(Channel::Fabric(connection)) => {
                let connection = *connection;
                long_packets::push_eager(cx, connection, slot)
            }
            _ => fragments::push_queued_eager(cx, to, slot),
        },
        SendStage::Queued => match cx.peers.channel(to) {
            Some(Channel::Shm(_)) => push_queued_shm(cx, to, slot),
            Some(Channel::Fabric(connection)) => {
                let connection = *connection;
                packets::push_queued(cx, to, connection, slot)
            }
            Some(Channel::Loopback) | None => false,
        },
        _ => true,
    }
}

/// The turn of a send through shared memory has come. True if it left the backlog.
fn push_queued_shm(cx: &mut Cx, to: u32, slot: Slot) -> bool {
    let pool = &mut cx.staging;
    let Some(peer) = cx.peers.get(to) else {
        return true;
    };
    let PeerState::Up(Channel::Shm(pair)) = &mut peer.state else {
        return false;
    };
    let Some(sending) = cx.requests.sending(slot) else {
        return true;
    };
    if sending.matched {
        return offer::push_offer(cx, to, slot);
    }
    let message = Message {
        to,
        tag: sending.tag,
        immediate: sending.immediate,
        data: sending.data.slices(),
        len: sending.data.len(),
    };
    let plan = plan(pair, pool, to, message.data, message.len, false);
    match plan {
        SendPlan::Record | SendPlan::Buffer => {
            let (tag, len) = (message.tag, message.len);
            // SAFETY: readable by the invariant of `SendBuffer`, and `len` is its length.
            match unsafe { push_eager(pair, pool, plan, &message) } {
                Some(path) => {
                    cx.counters.sent(&peer.counts, path, len);
                    cx.requests.complete(slot, sent(to, tag, len));
                    true
                }
                None if pair.goes_in_record(len) => false,
                // There may be room for its fragments.
                None => fragments::push_queued_eager(cx, to, slot),
            }
        }
        SendPlan::Fragments => fragments::push_queued_eager(cx, to, slot),
        // Ahead of it stood something, so it is too late to go ahead of the receiver.
        SendPlan::Ahead | SendPlan::Offer => offer::push_offer(cx, to, slot),
    }
}

/// Ends a send that the peer may have seen.
pub(crate) fn end_send(cx: &mut Cx, slot: Slot, outcome: Outcome) {
    let id = cx.requests.id(slot);
    cx.fabric.send_is_over(id);
    if let Some(sending) = cx.requests.sending(slot) {
        let pair = cx.peers.pair(sending.to);
        if pair.is_some_and(|pair| pair.copies.is_same_process()) {
            crate::same_process::leave(cx.identity.address.id, id.0);
        }
    }
    cx.requests.complete(slot, outcome);
}

/// A send is done, by this path, as far as this side takes part in it.
pub(crate) fn finish_send(cx: &mut Cx, slot: Slot, path: Path) {
    let Some(sending) = cx.requests.sending(slot) else {
        return;
    };
    let (to, tag, len) = (sending.to, sending.tag, sending.data.len());
    if sending.is_access() {
        rma::access_is_over(cx, to);
    }
    counting::count_sent(cx, to, path, len);
    end_send(cx, slot, sent(to, tag, len));
}
