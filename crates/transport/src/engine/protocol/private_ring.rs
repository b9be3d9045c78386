//! A sender that has much to say gets a ring of its own in the receiver's segment.
//!
//! The receiver grants a ring, and reads it from the record on by which the sender says that it has
//! switched: so the pair's order holds across the switch.

use limic_records::{self as frame, ControlRecord, Violation};
use limic_shm::ring::LINE;
use limic_shm::ring::line::LineProducer;

use crate::counters::Event;
use crate::engine::cx::Cx;
use crate::engine::outbox;
use crate::engine::peer::table::PeerEntry;

/// Records through the shared ring after which a peer gets a private one.
const GRANT_AFTER: u32 = 4;

/// Counts a record that came through the shared ring. Whether its sender is to have a ring of its
/// own.
pub(crate) fn is_earned(peer: &mut PeerEntry) -> bool {
    peer.shared_records = peer.shared_records.saturating_add(1);
    peer.ring.is_none() && peer.shared_records >= GRANT_AFTER
}

/// Gives a peer a ring, if one is free.
pub(crate) fn grant(cx: &mut Cx, to: u32) {
    let Some(ring) = cx.memory.take_ring() else {
        return;
    };
    if let Some(peer) = cx.peers.get(to) {
        peer.ring = Some(ring);
    }
    cx.counters.event(Event::PrivateRings);
    let record = ControlRecord::new(frame::RING_GRANT, 0, [ring.into()]);
    outbox::control(cx, to, record);
}

/// A peer gives this endpoint a ring.
///
/// # Errors
/// The peer has no such ring.
pub(crate) fn on_grant(cx: &mut Cx, from: u32, ring: u32) -> Result<(), Violation> {
    let Some(pair) = cx.peers.pair(from) else {
        return Ok(());
    };
    let lines = pair.segment.shape().ring_bytes / LINE as u32;
    let memory = pair.segment.private_ring(ring);
    let producer = memory.and_then(|memory| LineProducer::new(memory, lines).ok());
    let producer = producer.ok_or("a private ring that it does not have")?;
    pair.out.granted(ring, producer);
    Ok(())
}

/// A peer's further records come through its private ring.
///
/// # Errors
/// It was not given this ring.
pub(crate) fn on_switch(cx: &mut Cx, from: u32, ring: u32) -> Result<(), Violation> {
    if cx.peers.get(from).and_then(|peer| peer.ring) != Some(ring) {
        return Err("a switch to a ring that it was not given");
    }
    cx.memory.ring_switched(ring, from);
    Ok(())
}
