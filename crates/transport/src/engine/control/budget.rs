//! Bytes of unexpected messages are counted, and senders learn when they are too many.

use limic_shm::ring::Memory;
use limic_shm::sync::Ordering;

use crate::engine::cx::Cx;
use crate::engine::frame::Update;
use crate::engine::outbox;

/// Counts bytes that are kept, and tells senders if their messages are to be offered from now on,
/// or no longer.
pub(crate) fn count_bytes(cx: &mut Cx, change: i64) {
    let Some(over_budget) = cx.matching.count_bytes(&mut cx.counters, change) else {
        return;
    };
    for peer in cx.fabric.tell_over_budget(over_budget) {
        outbox::control(cx, peer, Update::OverBudget(over_budget).encode());
    }
    // Relaxed: senders look at it now and then, and nothing hangs on the order.
    cx.memory
        .segment
        .status()
        .word32(0)
        .store(u32::from(over_budget), Ordering::Relaxed);
}
