//! What unexpected messages take is counted, and senders learn when it is too much.

use limic_records::Update;

use crate::engine::cx::Cx;
use crate::engine::outbox;

/// A message of a peer is kept, or so many bytes of it.
pub(crate) fn count_kept(cx: &mut Cx, from: u32, bytes: i64) {
    count(cx, from, (bytes, 1));
    if cx.matching.is_over_cap() {
        hold_back(cx, from);
    }
}

/// So many more bytes are kept of a message that is kept already.
pub(crate) fn count_more(cx: &mut Cx, from: u32, bytes: i64) {
    count(cx, from, (bytes, 0));
}

/// A message, of which so many bytes were kept, is kept no longer.
#[inline]
pub(crate) fn count_taken(cx: &mut Cx, from: u32, bytes: i64) {
    count(cx, from, (-bytes, -1));
}

/// Counts, and tells senders if their messages are to be offered from now on, or no longer.
#[inline]
fn count(cx: &mut Cx, from: u32, change: (i64, i64)) {
    if let Some(over_budget) = cx.matching.count(&mut cx.counters, from, change) {
        tell(cx, over_budget);
    }
}

/// Senders over a network do not see this endpoint's status line: each is told.
#[cold]
fn tell(cx: &mut Cx, over_budget: bool) {
    for peer in cx.fabric.all_peers() {
        outbox::control(cx, peer, Update::AskFirst(over_budget).encode());
    }
    cx.memory.status.tell_over_budget(over_budget);
}

/// A peer whose message was kept beyond the cap waits with the next ones, if it is over its share
/// and has a ring in which they can wait. Without a ring it fails in the end.
#[cold]
fn hold_back(cx: &mut Cx, from: u32) {
    let myself = cx.peers.me() == Some(from);
    if myself || !cx.matching.is_over_share(from, cx.peers.reached()) {
        return;
    }
    let has_ring = cx.peers.get(from).is_some_and(|peer| peer.has_switched);
    if has_ring {
        cx.peers.notes.hold_back(from);
    } else if cx.matching.is_over_all(0) {
        cx.peers.violated(
            from,
            "more messages than memory is given to (LIMIC_UNEXPECTED_BYTES), before their receives",
        );
    }
}
