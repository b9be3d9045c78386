//! The end of an endpoint.

use limic_shm::system::Instant;

use super::contact::{accept, connections, failure, stop_writer};
use super::cx::Cx;
use super::protocol::{cancel, loopback, regions};
use crate::counters;
use crate::error::PeerFailure;

/// Says goodbye to all peers, and fails what needs them.
pub(crate) fn leave(cx: &mut Cx, deadline: Instant) {
    cx.identity.close();
    // Who copies already has copied from or into what was there before the end.
    cx.regions.withdraw(&cx.memory.segment);
    connections::say_goodbye(cx, deadline);
    accept::stop_listening(cx);
    let within = deadline.saturating_duration_since(Instant::now());
    cx.fabric.close(within, &cx.counters);
    fail_all(cx, &PeerFailure::Closed);
    stop_writer::let_blocks_end(cx);
}

/// Fails all peers, also those that are named later.
pub(crate) fn fail_all(cx: &mut Cx, why: &PeerFailure) {
    cx.identity.close();
    cx.peers.closed = Some(why.clone());
    for peer in 0..cx.peers.len() {
        failure::fail_peer(cx, peer, why.clone());
    }
}

/// Ends what needs no peer: receives from any source, and messages to itself that nobody received.
pub(crate) fn end(cx: &mut Cx) {
    for slot in cx.requests.slots() {
        let id = cx.requests.id(slot);
        // It can only say that there is no such request.
        let _ = cancel::cancel(cx, id);
        loopback::end_kept(cx, slot);
    }
    // A peer may still be copying from or into what is left: never free that.
    cx.requests.leak_abandoned();
    let accessed: Vec<u64> = (0..cx.peers.len())
        .filter_map(|peer| regions::accesses(cx, peer))
        .collect();
    cx.regions.leak_all_but(&accessed);
    cx.counters.close();
    counters::exit_report::report(cx.identity.address.id);
}
