//! What a pair may do follows from where its two endpoints run, and they may move.
//!
//! An endpoint looks at its CPU when it has waited in vain, and every few thousand calls while it has
//! not: never on the way of a message. If it has moved to another cache or package, it takes the rows
//! for there, and tells its peers.

use crate::Peer;
use crate::counters::Event;
use crate::engine::cx::Cx;
use crate::engine::frame::Update;
use crate::engine::outbox;
use crate::engine::peer::pair::Nearness;
use crate::engine::staging::recycled_buffers;
use crate::policy::select::{LONGEST_EAGER, Routes};
use crate::policy::{Path, ReceiverPace, Thresholds};
use crate::settings::Settings;
use crate::topology::{Locality, Movement, Place};

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
    if pair.is_some_and(|pair| pair.nearness.place.is_some()) {
        outbox::control(cx, peer, Update::Place(place).encode());
    }
}

/// A peer runs somewhere else.
pub(crate) fn on_relocated(cx: &mut Cx, from: u32, place: Place) {
    let Some(pair) = cx.peers.pair(from) else {
        return;
    };
    if pair.nearness.place.is_some() {
        pair.nearness.place = Some(place);
        pair.latency.forget();
        update_routes(cx, from);
    }
}

/// Takes the routes for the place where a pair is now, or for as far as its ends are by measurement.
pub(crate) fn update_routes(cx: &mut Cx, peer: u32) {
    let here = cx.identity.place.place();
    let (settings, longest_fragment) = (&cx.settings, cx.staging.buffer_bytes);
    let Some(pair) = cx.peers.pair(peer) else {
        return;
    };
    let before = pair.nearness.locality;
    let now = match &pair.nearness.place {
        None => Locality::SameProcess,
        Some(there) => {
            let distance = pair.latency.distance();
            settings
                .line_latency()
                .locality(here.locality(there), distance)
        }
    };
    pair.nearness.locality = now;
    let longest_record = pair.out.longest_record();
    pair.routes = routes(settings, &pair.nearness, longest_record, longest_fragment);
    if now != before && pair.routes != Routes::default() {
        tracing::info!(
            "{} was at {before} and is at {now} now: thresholds follow",
            Peer(peer)
        );
    }
}

/// The routes of a pair.
fn routes(
    settings: &Settings,
    nearness: &Nearness,
    longest_record: u64,
    longest_fragment: u64,
) -> Routes {
    let Nearness {
        locality,
        capabilities,
        ..
    } = nearness;
    let policy = settings.policy();
    let thresholds = policy.thresholds(*locality, ReceiverPace::Steady, capabilities);
    // A message that goes ahead lies in an arena, and no ring limits it.
    let mut ahead = *capabilities;
    ahead.max_eager = settings.unexpected_budget_bytes();
    let ahead = policy.thresholds(*locality, ReceiverPace::Slow, &ahead);
    let fragment = u64::from(policy.fragment_bytes(Path::Pipeline, *locality));
    Routes {
        inline_below: thresholds.inline_below,
        record_below: thresholds.eager_below.min(longest_record + 1),
        eager_below: thresholds.eager_below,
        pipeline_below: thresholds.pipeline_below,
        reply_below: reply_below(settings, *locality, thresholds),
        longest_single_buffer: longest_single_buffer(*locality),
        send_ahead_below: ahead.eager_below,
        fragment_bytes: fragment.clamp(64, longest_fragment),
        window: u64::from(settings.pipeline_window()) * longest_fragment,
    }
}

/// The longest message that goes whole in a recycled buffer: longer ones gain more by the overlap of two
/// copies than the records of fragments cost, of which the receiver waits for each. Between cores
/// without a common cache these cost more.
const fn longest_single_buffer(locality: Locality) -> u64 {
    match locality {
        Locality::SamePackage | Locality::OtherPackage => 32 << 10,
        _ => 12 << 10,
    }
}

/// Below how many bytes a reply goes without asking: 0 if shorter messages are to be asked for already.
fn reply_below(settings: &Settings, locality: Locality, thresholds: Thresholds) -> u64 {
    if thresholds.eager_below <= LONGEST_EAGER {
        return 0;
    }
    let below = if locality == Locality::SamePackage {
        // Recycled buffers beat the single copy there too.
        settings.policy().asked_for_from(locality, LONGEST_EAGER)
    } else {
        thresholds.pipeline_below
    };
    below
        .min(recycled_buffers::LONGEST + 1)
        .min(settings.unexpected_budget_bytes().saturating_add(1))
}
