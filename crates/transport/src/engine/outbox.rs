//! What goes to a peer behind everything that waits for it.

use limic_records::ControlRecord;

use super::cx::Cx;
use super::peer::table::{BacklogEntry, Channel, PeerState};

/// Answers that wait for one peer at a time: those to records that it may send again and again,
/// whatever this endpoint does. A peer that keeps the rules takes its answers, and few wait.
pub(crate) const MOST_ANSWERS: u16 = u16::MAX;

/// Sends a control record, behind the backlog if there is one.
pub(crate) fn control(cx: &mut Cx, to: u32, record: ControlRecord) {
    if !goes_at_once(cx, to, &record) {
        cx.peers.enqueue(to, BacklogEntry::Control(record));
    }
}

/// Answers a record of a peer. One that takes none of too many answers is given up.
pub(crate) fn answer(cx: &mut Cx, to: u32, record: ControlRecord) {
    if goes_at_once(cx, to, &record) {
        return;
    }
    let Some(peer) = cx.peers.get(to) else {
        return;
    };
    if peer.answers == MOST_ANSWERS {
        return cx.peers.violated(
            to,
            format!("more records while {MOST_ANSWERS} answers waited for it"),
        );
    }
    peer.answers += 1;
    cx.peers.enqueue(to, BacklogEntry::Answer(record));
}

/// Pushes a control record, unless a backlog stands in front of it. True if nothing is left to do.
fn goes_at_once(cx: &mut Cx, to: u32, record: &ControlRecord) -> bool {
    let Some(peer) = cx.peers.get(to) else {
        return true;
    };
    peer.backlog.is_empty() && push_control(cx, to, record)
}

/// Pushes a control record. False: no room now, or no way to the peer yet.
pub(crate) fn push_control(cx: &mut Cx, to: u32, record: &ControlRecord) -> bool {
    let Some(peer) = cx.peers.get(to) else {
        return true;
    };
    match &mut peer.state {
        PeerState::Up(Channel::Shm(pair)) => pair.out.push_control(record),
        PeerState::Up(Channel::Fabric(connection)) => cx.fabric.push_control(*connection, record),
        PeerState::Unmet { .. } => false,
        PeerState::Up(Channel::Loopback) | PeerState::Failed(_) => true,
    }
}
