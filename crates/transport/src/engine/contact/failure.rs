//! A peer is gone: everything that needed it ends with an error, and nothing else does.

use limic_matching::Source as From;

use super::connections;
use super::stop_writer::stop_writer;
use crate::counters::Event;
use crate::engine::control::{budget, spins};
use crate::engine::cx::Cx;
use crate::engine::matching::unexpected_store::{UnexpectedBody, UnexpectedMessage};
use crate::engine::peer::pair::ShmPair;
use crate::engine::peer::table::{Channel, PeerState};
use crate::engine::protocol::{arena_message, regions, unexpected};
use crate::engine::request::{Operation, ReceiveStage, SendStage};
use crate::error::PeerFailure;
use crate::raw::RequestId;
use crate::{Error, Peer};

/// Ends everything that has to do with a peer. What it had published before is delivered first:
/// the caller has drained the rings.
pub(crate) fn fail_peer(cx: &mut Cx, number: u32, why: PeerFailure) {
    if !cx.peers.is_alive(number) {
        return;
    }
    let is_awaited = stop_writer(cx, number, &why) || regions::accesses(cx, number).is_some();
    copy_out_loans(cx, number);
    let Some((before, ring)) = cx.peers.fail(number, why.clone()) else {
        // What came meanwhile was the reason of its failure.
        return;
    };
    let died = !matches!(why, PeerFailure::Closed | PeerFailure::Forked);
    if died {
        if cx.peers.has_returned(number) {
            tracing::debug!("peer {number}, again: {why}");
        } else {
            tracing::warn!("peer {number}: {why}");
        }
        cx.counters.event(Event::PeersFailed);
        cx.counters.reason(None, number, &why.to_string());
    }
    // Also one that was not answered yet: a late welcome would attach the peer again.
    for index in cx.sockets.of_peer(number) {
        connections::drop_connection(cx, index);
    }
    if !died && !is_awaited {
        // It may have said goodbye over another connection than that which ended first. Nothing is
        // kept for it yet.
        cx.quarantine.leave(number);
    }
    let mut receipt = 0;
    match before {
        PeerState::Up(Channel::Shm(pair)) => {
            receipt = pair.out.receipt();
            if let Some(word) = pair.latency.word() {
                if !cx.quarantine.keep_word(number, word) {
                    cx.memory.return_word(word);
                }
            }
            let ShmPair {
                regions, splits, ..
            } = *pair;
            cx.quarantine.keep_words(number, regions.access, splits);
            spins::update_spins(cx);
            if let Some(ring) = ring {
                cx.peers.notes.left_ring(number, ring);
            }
        }
        PeerState::Up(Channel::Fabric(connection)) => {
            cx.fabric.give_up(connection);
            spins::update_spins(cx);
        }
        PeerState::Up(Channel::Loopback) | PeerState::Unmet { .. } | PeerState::Failed(_) => {}
    }
    if !cx.quarantine.lives(number) {
        cx.staging.forget_peer(number);
        cx.peers.contacts.uncount(number);
    }
    cx.arenas.forget_peer(number);
    fail_operations(cx, number, &why, died);
    // Behind the last of its messages.
    let error = why.of(Peer(number));
    cx.matching.reserve_end(number, &error, receipt);
}

/// Ends the operations that need a peer.
fn fail_operations(cx: &mut Cx, number: u32, why: &PeerFailure, died: bool) {
    let error = why.clone().of(Peer(number));
    let mut slots = cx.matching.unpost_all(&mut cx.requests, From::Is(number));
    if died && !cx.matching.deaths.any_source_survives() {
        // A receive from any source may have waited for this peer.
        let of_any = cx.matching.unpost_all(&mut cx.requests, From::Any);
        if of_any.is_empty() {
            cx.matching.deaths.report_later(number, why.clone());
        }
        slots.extend(of_any);
    }
    for slot in slots {
        cx.requests.complete(slot, Err(error.clone()));
    }
    // Its connections are closed by now: it finds out when it looks at them.
    cx.memory.status.count_given_up();
    forget_offers(cx, number, why);
    for slot in cx.requests.slots() {
        let concerned = match cx.requests.get(slot) {
            Operation::Send(sending) => {
                sending.to == number && sending.stage != SendStage::Loopback
            }
            Operation::Receive(receiving) => receiving.stage.peer() == Some(number),
            Operation::Over => false,
        };
        if concerned {
            fail_operation(cx, slot, &error);
        }
    }
}

fn fail_operation(cx: &mut Cx, slot: u32, error: &Error) {
    if let Operation::Receive(receiving) = cx.requests.get(slot) {
        match receiving.stage {
            ReceiveStage::SplitRead(incoming, split) => {
                let id = cx.requests.id(slot);
                let from = incoming.from();
                if !split.stopped && cx.quarantine.keep_written(from, id, split.serial, error) {
                    return;
                }
                cx.transfers.splits.close(split.line);
            }
            ReceiveStage::Assembling(incoming) if incoming.region.is_some() => {
                return regions::abort_put(cx, slot, &incoming);
            }
            _ => {}
        }
    }
    let id = cx.requests.id(slot);
    cx.fabric.send_is_over(id);
    if let Operation::Send(sending) = cx.requests.get(slot) {
        if let SendStage::Fragments(fragments) = sending.stage {
            let to = sending.to;
            regions::end_access(cx, fragments.region, to);
        }
        // The pair is gone already, so it cannot be asked whether it was in this process.
        limic_copy::same_process::leave(cx.identity.address.id, id.0);
    }
    cx.requests.complete(slot, Err(error.clone()));
}

/// Messages in arenas that a peer had sent before it went are whole: they are copied while the
/// arenas are still mapped. If this process lacked something for that, or they are too much, it
/// says so when they are received: a peer that breaks the rules may have sent the same bytes often.
fn copy_out_loans(cx: &mut Cx, number: u32) {
    for (token, message) in cx.matching.store().in_arenas_of(number) {
        if cx.matching.is_over_all(message.len) {
            let why = "its sender is gone, and with it messages would take more than 32 times \
                       LIMIC_UNEXPECTED_BYTES";
            unexpected::lose(cx, token, arena_message::lost(number, &message, why));
        } else if let Some(bytes) = arena_message::bytes_of(cx, token) {
            budget::count_more(cx, number, bytes.len() as i64);
            let body = UnexpectedBody::Bytes(bytes);
            cx.matching.store().replace(token, body);
        } else if let Some(error) = arena_message::shortage(cx, number, &message) {
            unexpected::lose(cx, token, error);
        }
        // The peer may only have closed this endpoint, or this one closes: nobody reads there any
        // more.
        arena_message::release(cx, number, &message);
    }
}

/// Offers of a peer that is gone can never be fulfilled, and a message that has come in part never
/// ends: they must not match any receive. Those that are claimed fail once they are received, also
/// if the peer is back by then.
fn forget_offers(cx: &mut Cx, number: u32, why: &PeerFailure) {
    let gone = |message: &UnexpectedMessage| message.envelope.from == number && !message.is_here();
    for token in cx.matching.store().find(false, gone) {
        unexpected::withdraw(cx, token);
    }
    let in_arena = |message: &UnexpectedMessage| matches!(message.body, UnexpectedBody::InArena(_));
    let claimed = cx
        .matching
        .store()
        .find(true, |message| gone(message) && !in_arena(message));
    for token in claimed {
        unexpected::lose(cx, token, why.clone().of(Peer(number)));
    }
}

/// Takes back what peers kept that were given up, and whose processes have ended since.
pub(crate) fn release_ended(cx: &mut Cx) {
    while let Some((receive, error)) = cx.quarantine.next_written() {
        if let Some(slot) = cx.requests.find(receive) {
            fail_operation(cx, slot, &error);
        }
    }
    for ended in cx.quarantine.take_ended() {
        cx.memory.return_words(ended.probe_words);
        end_written(cx, ended.written);
        for ring in ended.rings {
            cx.peers.notes.left_ring(ended.peer, ring);
        }
        cx.peers.contacts.uncount(ended.peer);
        // One that has not failed yet will, and is read first.
        if !cx.peers.is_alive(ended.peer) {
            cx.staging.forget_peer(ended.peer);
        }
    }
}

/// Ends receives into which a peer that was taken out of quarantine was writing.
fn end_written(cx: &mut Cx, written: Vec<(RequestId, u64, Error)>) {
    for (receive, _, error) in written {
        if let Some(slot) = cx.requests.find(receive) {
            fail_operation(cx, slot, &error);
        }
    }
}

/// In a forked child nothing is kept for peers: they write to what its parent has.
pub(crate) fn leave_to_parent(cx: &mut Cx) {
    for kept in cx.quarantine.take_all() {
        end_written(cx, kept.written);
    }
}
