//! A record that has come goes to the protocol that it concerns.

use limic_records::{Frame, Update, Violation};
use limic_shm::bytes::Source;

use crate::engine::contact::arenas;
use crate::engine::control::{line_latency, locality, pace};
use crate::engine::cx::Cx;
use crate::engine::peer::pair::Unasked;
use crate::engine::protocol::{
    arena_message, assembly, private_ring, receive, regions, rendezvous, split_copy,
};

/// Handles a record. A peer whose record makes no sense fails.
#[inline(never)]
pub(crate) fn on_record(cx: &mut Cx, from: u32, kind: u8, tag: u64, record: &impl Source) {
    let handled =
        Frame::decode(from, kind, tag, record).and_then(|frame| on_frame(cx, from, frame));
    if let Err(wrong) = handled {
        cx.peers.violated(from, wrong);
    }
}

#[inline(always)]
fn on_frame<S: Source>(cx: &mut Cx, from: u32, frame: Frame<'_, S>) -> Result<(), Violation> {
    match frame {
        Frame::Eager(envelope, bytes) => receive::on_eager(cx, envelope, &bytes),
        Frame::EagerStaged(envelope, buffer) => receive::on_eager_staged(cx, envelope, buffer),
        Frame::EagerFragmented(envelope, len, waited) => {
            assembly::on_eager_fragmented(cx, envelope, len, waited)
        }
        Frame::FragmentStaged(transfer, buffer) => {
            assembly::on_fragment_staged(cx, from, transfer, buffer)
        }
        Frame::FragmentInline(transfer, bytes) => {
            assembly::on_fragment_inline(cx, from, transfer, &bytes)
        }
        Frame::ReadyToSend(envelope, offer) => {
            if let Some(arena) = offer.arena() {
                need_arena(cx, from, arena);
            }
            receive::on_ready_to_send(cx, envelope, offer)
        }
        Frame::Arena(envelope, message) => {
            need_arena(cx, from, message.arena);
            arena_message::on_arena(cx, envelope, message)
        }
        Frame::ClearToSend(clear) => rendezvous::on_clear_to_send(cx, from, clear),
        Frame::SplitCopy(split) => split_copy::on_split_copy(cx, from, split),
        Frame::Done(id, done) => {
            rendezvous::on_done(cx, from, id, done);
            Ok(())
        }
        Frame::Retract(send) => {
            rendezvous::on_retract(cx, from, send);
            Ok(())
        }
        Frame::Get(access) => {
            regions::on_get(cx, from, access);
            Ok(())
        }
        Frame::Put(access) => {
            regions::on_put(cx, from, access);
            Ok(())
        }
        Frame::Accessed(accessed) => {
            regions::on_accessed(cx, accessed);
            Ok(())
        }
        Frame::RingGrant(ring) => private_ring::on_grant(cx, from, ring),
        Frame::RingSwitch(ring) => private_ring::on_switch(cx, from, ring),
        Frame::Update(update) => {
            on_update(cx, from, update);
            Ok(())
        }
        Frame::LatencyProbe(word) => line_latency::on_probe(cx, from, word),
        Frame::LatencyProbeDone(word) => line_latency::on_probe_done(cx, from, word),
        Frame::ArenaRetired(arena) => {
            if let Some(pair) = cx.peers.pair(from) {
                // One that is not mapped here needs nothing: messages that name it are errors.
                pair.arenas.unmap(arena);
            }
            Ok(())
        }
    }
}

/// A message lies in an arena of the peer.
#[inline(always)]
fn need_arena(cx: &mut Cx, from: u32, arena: u32) {
    let pair = cx.peers.pair(from);
    if pair.is_some_and(|pair| !pair.arenas.is_here(arena)) {
        arenas::fetch(cx, from, arena);
    }
}

fn on_update(cx: &mut Cx, from: u32, update: Update) {
    match update {
        Update::Pace(pace) => pace::on_receiver_pace(cx, from, pace),
        Update::Place(place) => locality::on_relocated(cx, from, place),
        Update::AskFirst(ask) => {
            let Some(peer) = cx.peers.get(from) else {
                return;
            };
            match peer.pair_mut() {
                Some(pair) => pair.unasked = Unasked::default(),
                None => peer.asks_first = ask,
            }
        }
    }
}
