//! A slow receiver tells its sender, whose messages then go ahead of it (`protocol::send_ahead`).
//!
//! `limic_policy::slow_receiver` says what a message that blocks its sender does to the pace. The
//! receiver tells by a control record, which costs the sender nothing while nothing changes.

use limic_policy::ReceiverPace;
use limic_records::Update;
use limic_shm::system::now_ns;

use crate::Peer;
use crate::counters::Event;
use crate::engine::cx::Cx;
use crate::engine::outbox;

/// A message came before its receive, and its sender waits for that.
pub(crate) fn sender_blocked(cx: &mut Cx, from: u32) {
    if cx.settings.skew() {
        if let Some(pair) = cx.peers.pair(from) {
            pair.pace.own.unexpected_arrived(now_ns);
        }
    }
}

/// Such a message meets its receive.
pub(crate) fn sender_unblocked(cx: &mut Cx, from: u32, behind: u32) {
    if cx.settings.skew() {
        if let Some(pair) = cx.peers.pair(from) {
            let change = pair.pace.own.taken(behind, now_ns());
            announce_pace(cx, from, change);
        }
    }
}

/// Such a message found its receive posted.
pub(crate) fn count_posted(cx: &mut Cx, from: u32) {
    if let Some(pair) = cx.peers.pair(from) {
        if !pair.pace.own.is_calm() {
            let change = pair.pace.own.was_posted();
            announce_pace(cx, from, change);
        }
    }
}

/// The bytes of such a message have arrived.
pub(crate) fn mark_active(cx: &mut Cx, from: u32) {
    if let Some(pair) = cx.peers.pair(from) {
        if !pair.pace.own.is_calm() {
            pair.pace.own.active(now_ns());
        }
    }
}

fn announce_pace(cx: &mut Cx, sender: u32, change: Option<ReceiverPace>) {
    let Some(pace) = change else { return };
    tracing::debug!("messages from {}: {pace:?}", Peer(sender));
    outbox::control(cx, sender, Update::Pace(pace).encode());
}

/// The receiver of this endpoint's messages says how it keeps up with them.
pub(crate) fn on_receiver_pace(cx: &mut Cx, from: u32, pace: ReceiverPace) {
    if !cx.settings.skew() {
        return;
    }
    let Some(pair) = cx.peers.pair(from) else {
        return;
    };
    pair.pace.peer = pace;
    tracing::debug!("{} is now {pace:?}", Peer(from));
    cx.counters.event(Event::SkewChanges);
}
