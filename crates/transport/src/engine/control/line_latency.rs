//! How long a cache line takes from one core to the other is measured between two endpoints:
//! `limic_policy::line_latency` says what follows from it.
//!
//! The receiver of a long message, whose sender waits for its answer and so looks at its ring, asks
//! for it by a record that names a probe word (`limic_shm::line_latency`), and both learn. It waits
//! for the other to come for so long as the estimator says, since the other may be at fragments of
//! other messages. If the peer does not run, or is busy, then nothing comes of it, and it is tried
//! again later. The word is used again only after the peer has said that it has done with it.

use limic_policy::{Distance, LineLatency};
use limic_records::{self as frame, ControlRecord, Violation};
use limic_shm::line_latency::{ARRIVAL_NS, answer, ask, prepare};
use limic_shm::ring::Memory;
use limic_shm::system::now_ns;

use crate::Peer;
use crate::engine::control::{autotune, locality};
use crate::engine::cx::Cx;
use crate::engine::outbox;

/// Before the path of a long message is chosen: measures, if it is time. Costs one branch
/// otherwise.
#[inline]
pub(crate) fn probe_latency_if_due(cx: &mut Cx, from: u32) {
    let Some(pair) = cx.peers.pair(from) else {
        return;
    };
    if pair.latency.count_message() {
        let wait_ns = pair.latency.estimator.wait_ns();
        probe_latency(cx, from, wait_ns);
    }
}

/// Now and then, for peers whose messages are all short: measures one of those from which only such
/// have come since it was looked at last. Less hangs on it, and such a peer need not wait for
/// anything: it is there at once, or not at all.
#[cold]
pub(crate) fn probe_next_peer(cx: &mut Cx) {
    if cx.settings.line_latency() != LineLatency::Measured {
        return;
    }
    let Some(number) = cx.peers.next_to_probe() else {
        return;
    };
    let Some(peer) = cx.peers.get(number) else {
        return;
    };
    let received = peer.counts.traffic().1.messages;
    let pair = peer.pair_mut();
    if pair.is_some_and(|pair| pair.latency.came_short(received)) {
        probe_latency(cx, number, ARRIVAL_NS);
    }
}

#[cold]
fn probe_latency(cx: &mut Cx, from: u32, wait_ns: u64) {
    // With more endpoints than processors the peer does not run beside this one.
    let possible =
        cx.settings.line_latency() == LineLatency::Measured && !cx.wakeup.is_oversubscribed();
    let Some(peer) = cx.peers.get(from) else {
        return;
    };
    let waits = !peer.backlog.is_empty();
    let is_second = cx.identity.address.id > peer.address.id;
    let Some(pair) = peer.pair_mut() else { return };
    if !possible
        || waits
        || pair.conditions.place.is_none()
        || pair.latency.word().is_some()
        || !pair.latency.estimator.is_due(now_ns())
    {
        return;
    }
    let Some(number) = cx.memory.take_word() else {
        return;
    };
    let memory = cx.memory.segment.probe_word(number);
    let Some(line) = memory.as_ref() else { return };
    let word = line.word64(0);
    prepare(word);
    let probe = ControlRecord::new(frame::LATENCY_PROBE, 0, [number.into()]);
    if !pair.out.push_control(&probe) {
        return cx.memory.return_word(number);
    }
    pair.latency.begin(number);
    let ns = ask(word, wait_ns);
    autotune::note_interruption(cx, from);
    latency_measured(cx, from, ns);
    // Both may have asked at the same time, and waited for each other in vain.
    if ns.is_none() && is_second {
        if let Some(pair) = cx.peers.pair(from) {
            pair.latency.estimator.was_asked();
        }
    }
}

/// A peer measures.
///
/// # Errors
/// It has no such word.
pub(crate) fn on_probe(cx: &mut Cx, from: u32, number: u32) -> Result<(), Violation> {
    let Some(pair) = cx.peers.pair(from) else {
        return Ok(());
    };
    let memory = pair.segment.probe_word(number);
    let line = memory.ok_or("a probe word that it does not have")?;
    // Else it has given up already.
    if let Ok(ns) = answer(line.word64(0)) {
        if cx.settings.line_latency() == LineLatency::Measured {
            latency_measured(cx, from, ns);
            if let Some(pair) = cx.peers.pair(from) {
                pair.latency.estimator.was_asked();
            }
        }
    }
    let done = ControlRecord::new(frame::LATENCY_PROBE, 1, [number.into()]);
    outbox::answer(cx, from, done);
    Ok(())
}

/// The peer has done with the word.
///
/// # Errors
/// It was not asked to measure with this word.
pub(crate) fn on_probe_done(cx: &mut Cx, from: u32, number: u32) -> Result<(), Violation> {
    let Some(pair) = cx.peers.pair(from) else {
        return Ok(());
    };
    if pair.latency.word() != Some(number) {
        return Err("the end of a measurement that was not begun");
    }
    pair.latency.end();
    cx.memory.return_word(number);
    Ok(())
}

fn latency_measured(cx: &mut Cx, peer: u32, ns: Option<u32>) {
    let Some(pair) = cx.peers.pair(peer) else {
        return;
    };
    if !pair.latency.measured(ns, now_ns()) {
        return;
    }
    let (ns, distance) = (pair.latency.ns(), pair.latency.distance());
    let before = pair.conditions.locality;
    locality::update_routes(cx, peer);
    let now = cx
        .peers
        .pair(peer)
        .map_or(before, |pair| pair.conditions.locality);
    tracing::debug!("{}: a cache line takes {ns} ns", Peer(peer));
    if now != before {
        let like = match distance {
            Some(Distance::Far) => "as slow as between two caches",
            _ => "as fast as within one cache",
        };
        let why = format!(
            "a cache line is {like}: the rows of {now} hold instead of those of {before} \
             (LIMIC_LINE_LATENCY)"
        );
        cx.counters.reason(None, peer, &why);
    }
}
