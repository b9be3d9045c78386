//! What comes over the fabric.

use limic_shm::bytes::Source;

use super::dispatch;
use crate::engine::contact::fabric as contact;
use crate::engine::cx::Cx;
use crate::engine::fabric::{Happened, Inbox};
use crate::engine::protocol::{long_packets, packets};

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

/// Takes what came over the fabric. True if anything did.
pub(crate) fn poll(cx: &mut Cx, inbox: &mut Inbox) -> bool {
    let mut moved = false;
    for _ in 0..BATCH {
        let Some(happened) = cx.fabric.poll(inbox) else {
            if cx.fabric.leave_alone() {
                continue;
            }
            break;
        };
        moved |= !matches!(happened, Happened::More(..));
        match happened {
            Happened::Records(from, link) => {
                for (form, payload) in inbox.messages() {
                    dispatch::on_record(cx, from, form.kind, form.tag, &Packet(payload));
                }
                if let Some((form, first)) = inbox.begun() {
                    long_packets::on_begun(cx, from, link, form, first);
                }
            }
            Happened::More(from, link, left) => {
                if !long_packets::on_more(cx, from, link, left) {
                    break;
                }
                moved = true;
            }
            Happened::Connected {
                link,
                known,
                id,
                hello,
            } => contact::on_connected(cx, link, known, id, &hello),
            Happened::Read(id, failed) => packets::on_read(cx, id, failed),
            Happened::Failed(peer, why) => contact::on_failed(cx, peer, why),
            Happened::Nothing => {}
        }
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
