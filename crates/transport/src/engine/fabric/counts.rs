//! What the fabrics have counted goes into the endpoint's counters.

use limic_fabric::Counts;

use super::FabricChannel;
use crate::counters::{Event, Recorder};

/// Idle looks after which what was counted is written down: what went since that had waited for
/// room.
const PUBLISH_EVERY: u32 = 64;

impl FabricChannel {
    /// Whether there may be more to write down after a look at which something moved, or nothing.
    pub(crate) fn is_time_to_publish(&self, moved: bool) -> bool {
        moved || self.looks.count() % PUBLISH_EVERY == 0
    }

    /// Writes down what the fabrics have counted since the last time. Whoever has sent something
    /// does so too: it may be the last call for long.
    pub(crate) fn publish(&self, counters: &Recorder) {
        if self.fabrics.is_empty() {
            // They are closed, or the parent's: what was written down last stays.
            return;
        }
        let mut counts = Counts::default();
        for fabric in &self.fabrics {
            counts += fabric.counts();
        }
        if counts == self.counted.get() {
            return;
        }
        let before = self.counted.replace(counts);
        counters.events(Event::Refused, counts.refused - before.refused);
        for (event, count) in [
            (Event::NetworkMessages, counts.messages),
            (Event::NetworkPackets, counts.packets),
            (Event::RingMessages, counts.ring_messages),
            (Event::RingPauses, counts.ring_pauses),
            (Event::RegistrationHits, counts.registrations_found),
            (Event::RegistrationMisses, counts.registrations_made),
        ] {
            // They only grow.
            counters.at_least(event, count);
        }
    }
}
