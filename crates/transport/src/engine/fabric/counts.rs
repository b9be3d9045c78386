//! What the fabrics have counted goes into the endpoint's counters.

use limic_fabric::Counts;

use super::FabricChannel;
use crate::counters::{Event, Recorder};

impl FabricChannel {
    /// Writes down what the fabrics have counted since the last time.
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
