//! Without the feature `cma` there is no single copy, so nobody offers or asks for half of one.

use super::Core;
use super::requests::{Incoming, Slot};
use crate::buffer::Source;

impl Core {
    pub(crate) fn start_both_sides(&mut self, slot: Slot, incoming: Incoming) {
        self.ask_for_stream(slot, &incoming);
    }

    pub(crate) fn on_both_sides(&mut self, from: u32, _source: &impl Source) {
        self.corrupt(
            from,
            "a request for single copy, which this build does not have",
        );
    }

    pub(crate) fn on_back_done(&mut self, from: u32, _source: &impl Source) {
        self.corrupt(
            from,
            "the end of a single copy, which this build does not have",
        );
    }

    pub(crate) fn read_front(&mut self, _slot: Slot) -> bool {
        true
    }

    pub(crate) fn write_back(&mut self, _slot: Slot) -> bool {
        true
    }

    pub(crate) fn stop_writer(&mut self, _peer: u32, _trusted: bool) {}
}
