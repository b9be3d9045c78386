//! Messages are counted by peer and path.

use limic_policy::Path;

use crate::counters::Row;
use crate::engine::cx::Cx;
use crate::engine::peer::table::{Channel, PeerState};

/// From now on, what has to do with a peer is counted for it alone.
pub(crate) fn assign_row(cx: &mut Cx, number: u32) -> Row {
    let Some(peer) = cx.peers.get(number) else {
        return cx.counters.shared_row();
    };
    if !peer.counts.is_own() {
        peer.counts = cx.counters.row(number, peer.address.id);
    }
    peer.counts.clone()
}

/// A message was sent otherwise than at once through a ring.
pub(crate) fn count_sent(cx: &mut Cx, to: u32, path: Path, len: u64) {
    if let Some(peer) = cx.peers.get(to) {
        cx.counters.sent(&peer.counts, path, len);
    }
}

/// A message was received whose bytes came whole without being asked for: as it was delivered, or
/// later, if it was kept. Who reads a private ring counts what it delivers out of it by
/// [`Peers::count_received`](crate::engine::peer::table::Peers::count_received) alone.
pub(crate) fn count_received_eager(cx: &mut Cx, from: u32, len: u64) {
    let Some(peer) = cx.peers.get(from) else {
        return;
    };
    peer.counts.received(1, len);
    match peer.state {
        PeerState::Up(Channel::Fabric(_)) => cx.counters.received(Path::Network, len),
        PeerState::Up(Channel::Loopback) => cx.counters.received(Path::SelfCopy, len),
        // It was there before its sender went.
        PeerState::Failed(_) if peer.was_remote => cx.counters.received(Path::Network, len),
        _ => {}
    }
}

/// A message was received by a path that its receiver takes part in: all of its bytes have been
/// copied. The protocol of that path calls it; `rendezvous::complete_receive` does for most.
pub(crate) fn count_received_by(cx: &mut Cx, from: u32, path: Path, len: u64) {
    cx.peers.count_received(from, 1, len);
    cx.counters.received(path, len);
}
