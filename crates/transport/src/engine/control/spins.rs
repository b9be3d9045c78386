//! How long waits spin.

use crate::engine::cx::Cx;
use crate::settings::{Spin, is_oversubscribed};

/// Polls of a wait that needs the processor for the kernel's work.
const BESIDE_THE_KERNEL: u32 = 4;

/// Spins less with more endpoints than processors: a wait would keep the very peer from running
/// that it waits for.
pub(crate) fn update_spins(cx: &mut Cx) {
    let neighbours = &cx.peers.neighbours;
    let oversubscribed = neighbours.is_crowded() || is_oversubscribed(neighbours.count());
    let mut spins = cx.settings.spin_polls(oversubscribed);
    if cx.fabric.has_peers() {
        // A poll of an adapter's queue takes some ten times as long as one of a ring. What takes
        // longer has its turn less often.
        spins = spins / 8 * cx.fabric.looks.every(cx.peers.shares_memory()).min(8);
    }
    // Where an adapter's work is done by threads of the kernel, those need processors too.
    let few = cx.settings.spin() == Spin::Auto && cx.fabric.needs_processors();
    let limit = if few {
        spins.min(BESIDE_THE_KERNEL)
    } else {
        spins
    };
    cx.wakeup.set_spins(spins, limit);
    cx.wakeup.set_oversubscribed(oversubscribed);
    cx.regions.help.set_shares_processor(oversubscribed);
}
