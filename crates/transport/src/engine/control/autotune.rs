//! Long messages are measured by their receiver, and take the path that is faster:
//! `limic_policy::autotune` decides.
//!
//! A spell of messages costs two looks at a clock. Of the spells of shorter messages only some are
//! measured. Paths that a file, the environment or the application asks for are neither
//! measured nor changed.

use limic_policy::autotune::{Autotuner, Candidate, LEAST_BYTES, Switch};
use limic_policy::{ByteSize, Path, PathSet};
use limic_shm::ring::NON_TEMPORAL;
use limic_shm::system::now_ns;

use crate::Peer;
use crate::counters::TunedPath;
use crate::engine::control::pace;
use crate::engine::cx::Cx;
use crate::engine::request::Incoming;

/// The candidate for a message for which the table says `table`, and the spell that
/// measures it.
pub(crate) fn autotuned(
    cx: &mut Cx,
    from: u32,
    len: u64,
    table: Path,
    available: PathSet,
) -> (Candidate, Option<u32>) {
    // With more endpoints than processors, it would measure who runs when.
    if len < LEAST_BYTES || !cx.settings.autotune() || cx.wakeup.is_oversubscribed() {
        return (Candidate::by(table), None);
    }
    let Some(pair) = cx.peers.pair(from) else {
        return (Candidate::by(table), None);
    };
    let autotuner = pair
        .autotuner
        .get_or_insert_with(|| Box::new(Autotuner::new(NON_TEMPORAL)));
    let (candidate, sample, switch) = autotuner.start(len, table, available, now_ns);
    note(from, switch);
    (candidate, Some(sample))
}

/// What is known of the messages from a peer.
#[inline]
fn autotuner(cx: &mut Cx, from: u32) -> Option<&mut Autotuner> {
    cx.peers.pair(from)?.autotuner.as_deref_mut()
}

/// A peer takes part in a long message to it, or has it.
#[inline]
pub(crate) fn note_long_send(cx: &mut Cx, from: u32) {
    if let Some(autotuner) = autotuner(cx, from) {
        autotuner.answered(now_ns);
    }
}

/// Time goes to something else than messages from this peer.
pub(crate) fn note_interruption(cx: &mut Cx, from: u32) {
    if let Some(autotuner) = autotuner(cx, from) {
        autotuner.interrupted();
    }
}

/// A message that was to come by another path goes in fragments.
pub(crate) fn note_fallback(cx: &mut Cx, incoming: &Incoming) {
    if let Some(sample) = incoming.sample {
        if let Some(autotuner) = autotuner(cx, incoming.from()) {
            autotuner.fell_back(sample);
        }
    }
}

/// A long message has arrived.
#[inline]
pub(crate) fn note_long_received(cx: &mut Cx, incoming: &Incoming) {
    let from = incoming.from();
    pace::mark_active(cx, from);
    if let Some(sample) = incoming.sample {
        if let Some(autotuner) = autotuner(cx, from) {
            note(from, autotuner.finish(sample, incoming.wanted, now_ns));
        }
    }
}

/// What is autotuned now, for the counters.
pub(crate) fn tuned(cx: &Cx) -> Vec<TunedPath> {
    let tuners = cx
        .peers
        .iter()
        .filter_map(|(number, peer)| Some((number, peer.pair()?.autotuner.as_ref()?)));
    tuners
        .flat_map(|(number, autotuner)| {
            autotuner
                .tuned()
                .map(move |(from_bytes, candidate)| TunedPath {
                    peer: Peer(number),
                    from_bytes,
                    path: candidate.path,
                    non_temporal: candidate.non_temporal,
                })
        })
        .collect()
}

fn note(from: u32, switch: Option<Switch>) {
    if let Some(Switch {
        from_bytes,
        before,
        now,
    }) = switch
    {
        tracing::info!(
            "messages of {} and more from {}: {now} is faster than {before} here, and is taken; limic tune measures all",
            ByteSize(from_bytes),
            Peer(from)
        );
    }
}
