//! The end of an endpoint.

use super::Engine;
use super::idle::Patience;
use crate::counters;
use crate::error::PeerFailure;

impl Engine {
    /// Closes in good order: what was sent goes out as far as peers take it within the linger time.
    pub(crate) fn close(&mut self) {
        if self.core.closed || self.core.process != std::process::id() {
            return;
        }
        let deadline = std::time::Instant::now() + self.core.settings.linger();
        let mut patience = Patience::default();
        while (self.core.has_sends() || self.core.has_backlog())
            && std::time::Instant::now() < deadline
        {
            if self.progress() {
                patience.reset();
            } else {
                self.be_patient(&mut patience);
            }
        }
        self.core.closed = true;
        self.core.say_goodbye();
        self.core.stop_listening();
        self.core.close_remote(deadline);
        for peer in 0..self.core.peers.len() {
            self.core.fail_peer(peer, PeerFailure::Closed);
        }
        self.bury_dead();
        // What is left needs no peer: receives from anybody, and messages to itself that nobody received.
        for slot in self.core.requests.slots() {
            let id = self.core.requests.id(slot);
            // It can only say that there is no such request.
            let _ = self.core.cancel(id);
        }
        // A peer may still be copying from or into what is left: never free that.
        self.core.requests.leak_abandoned();
        self.core.regions.leak();
        self.core.tally.close();
        counters::at_end::report(self.core.address.id);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
#[path = "closing_tests.rs"]
mod tests;
