//! What a pair may do follows from where its two endpoints run, and they may move.
//!
//! An endpoint looks at its CPU when nothing has come for a while, and every few thousand calls
//! while something does: never on the way of a message. If it has moved to another cache or
//! package, it takes the rows for there, and tells its peers.

use limic_policy::select::{self, Routes};
use limic_records::Update;
use limic_shm::processor;
use limic_topology::{Locality, Movement, Place};

use crate::Peer;
use crate::counters::Event;
use crate::engine::cx::Cx;
use crate::engine::outbox;
use crate::engine::peer::pair::Unasked;

/// Looks on which CPU this endpoint runs.
#[cold]
pub(crate) fn check_cpu(cx: &mut Cx) {
    match cx.identity.place.check() {
        Movement::Same => {}
        Movement::Migrated => cx.counters.event(Event::Migrations),
        Movement::Moved => {
            cx.counters.event(Event::Migrations);
            cx.counters.event(Event::Relocations);
            relocated(cx);
        }
    }
}

fn relocated(cx: &mut Cx) {
    for peer in 0..cx.peers.len() {
        if let Some(pair) = cx.peers.pair(peer) {
            pair.latency.forget();
        }
        update_routes(cx, peer);
        announce_place(cx, peer);
    }
}

/// Tells a peer in another process where this endpoint runs.
pub(crate) fn announce_place(cx: &mut Cx, peer: u32) {
    let place = cx.identity.place.place();
    let pair = cx.peers.pair(peer);
    if pair.is_some_and(|pair| pair.conditions.place.is_some()) {
        outbox::control(cx, peer, Update::Place(place).encode());
    }
}

/// A peer runs somewhere else.
pub(crate) fn on_relocated(cx: &mut Cx, from: u32, place: Place) {
    let Some(pair) = cx.peers.pair(from) else {
        return;
    };
    if pair.conditions.place.is_some() {
        pair.conditions.place = Some(place);
        pair.latency.forget();
        update_routes(cx, from);
    }
}

/// Takes the routes for the place where a pair is now, or for as far as its ends are by
/// measurement.
pub(crate) fn update_routes(cx: &mut Cx, peer: u32) {
    let here = cx.identity.place.place();
    let (settings, buffer_bytes) = (&cx.settings, cx.staging.buffer_bytes);
    let Some(pair) = cx.peers.pair(peer) else {
        return;
    };
    let before = pair.conditions.locality;
    let now = match &pair.conditions.place {
        None => Locality::SameProcess,
        Some(there) => {
            let (topology, distance) = (here.locality(there), pair.latency.distance());
            settings
                .line_latency()
                .locality(topology, distance, processor::near_below_ns())
        }
    };
    pair.conditions.locality = now;
    let routes = Routes::new(&select::Pair {
        table: settings.policy(),
        locality: now,
        far_by_memory: processor::far_by_memory(),
        capabilities: pair.conditions.capabilities,
        longest_record: pair.out.longest_record(),
        fragment_bytes: settings.pipeline_fragment(),
        buffer_bytes,
        window: settings.pipeline_window(),
        unexpected_budget: settings.unexpected_budget_bytes(),
    });
    let met_before = core::mem::replace(&mut pair.routes, routes) != Routes::default();
    if now != before {
        // What the receiver has said held where the two were.
        pair.unasked = Unasked::default();
        if met_before {
            tracing::info!(
                "{} was at {before} and is at {now} now: thresholds follow",
                Peer(peer)
            );
        }
    }
}
