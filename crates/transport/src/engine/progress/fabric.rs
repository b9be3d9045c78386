//! What comes over the fabric.

use limic_fabric::Event;
use limic_shm::bytes::Source;

use super::dispatch;
use crate::engine::contact::fabric as contact;
use crate::engine::cx::Cx;
use crate::engine::fabric::{Arrivals, Link};
use crate::engine::protocol::{long_packets, packets};
use crate::raw::RequestId;

/// Events handled before the rings get their turn.
const BATCH: usize = 32;

/// A payload that came in a packet: a private copy.
struct Packet<'a>(&'a [u8]);

// SAFETY: as the bytes within.
unsafe impl Source for Packet<'_> {
    fn len(&self) -> u64 {
        Source::len(self.0)
    }
    unsafe fn get(&self, at: u64, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { Source::get(self.0, at, to, len) }
    }
}

/// Takes the records of a peer.
fn on_arrivals(cx: &mut Cx, from: u32, link: Link, arrivals: &Arrivals) {
    for (form, payload) in arrivals.messages() {
        dispatch::on_record(cx, from, form.kind, form.tag, &Packet(payload));
    }
    if let Some((form, first)) = arrivals.begun() {
        long_packets::on_begun(cx, from, link, form, first);
    }
}

/// Takes what came over the fabric. True if anything did.
pub(crate) fn poll(cx: &mut Cx, arrivals: &mut Arrivals) -> bool {
    let mut moved = false;
    for _ in 0..BATCH {
        let Some((fabric, event)) = cx.fabric.poll(arrivals) else {
            if cx.fabric.leave_alone() {
                continue;
            }
            break;
        };
        let at = |connection| Link { fabric, connection };
        match event {
            Event::Messages => {
                let link = at(arrivals.connection());
                if let Some(from) = cx.fabric.peer_at(link) {
                    on_arrivals(cx, from, link, arrivals);
                }
            }
            Event::More { connection, left } => {
                let link = at(connection);
                match cx.fabric.peer_at(link) {
                    None => cx.fabric.disconnect(link),
                    Some(from) => {
                        if !long_packets::on_more(cx, from, link, left as u64) {
                            break;
                        }
                    }
                }
            }
            Event::Connected {
                connection,
                peer,
                hello,
            } => {
                let link = at(connection);
                let known = cx.fabric.peer_at(link);
                contact::on_connected(cx, link, known, peer, &hello);
            }
            Event::Transferred { token, result } => packets::on_read(cx, RequestId(token), result),
            Event::Failed { connection, why } => {
                if let Some(peer) = cx.fabric.lost(at(connection)) {
                    contact::on_failed(cx, peer, why);
                }
            }
        }
        moved = true;
    }
    if moved {
        // What it would wake up for is taken, and of a peer that sends all the time a network may
        // give notice no longer.
        cx.wakeup.poller.notify();
    }
    if cx.fabric.is_time_to_publish(moved) {
        cx.fabric.publish(&cx.counters);
    }
    moved
}
