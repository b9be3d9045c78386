//! Senders over a fabric do not see this endpoint's status line, so they are told when it has too
//! many unexpected bytes, and tell it.

use super::FabricChannel;

impl FabricChannel {
    /// Whether a peer is asked before it is sent to.
    pub(crate) fn asks_first(&self, peer: u32) -> bool {
        self.ask_first.contains(&peer)
    }

    /// A peer wants to be asked before it is sent to, or does no longer.
    pub(crate) fn ask_first(&mut self, peer: u32, ask: bool) {
        self.ask_first.retain(|other| *other != peer);
        if ask {
            self.ask_first.push(peer);
        }
    }

    /// This endpoint wants to be asked first, or does no longer: the peers to be told.
    pub(crate) fn tell_over_budget(&mut self, over_budget: bool) -> Vec<u32> {
        if core::mem::replace(&mut self.told, over_budget) == over_budget {
            return Vec::new();
        }
        self.peers.values().copied().collect()
    }

    /// Whether peers were told to ask first.
    pub(crate) fn is_over_budget(&self) -> bool {
        self.told
    }
}
