//! Which processes have made the first contact for peers that may have a mapping here.

use std::collections::HashMap;

/// First contacts that count for a process, by its pid.
///
/// # Invariants
/// A process counts for as many peers as it has in `by_peer`, and is not known if for none.
#[derive(Default)]
pub(crate) struct Contacts {
    by_peer: HashMap<u32, i32>,
    of_process: HashMap<i32, u32>,
}

impl Contacts {
    /// A process has made the first contact for an endpoint that was not known.
    pub(crate) fn count(&mut self, peer: u32, pid: i32) {
        self.by_peer.insert(peer, pid);
        *self.of_process.entry(pid).or_default() += 1;
    }

    /// Nothing of a peer is mapped here any more.
    pub(crate) fn uncount(&mut self, peer: u32) {
        let Some(pid) = self.by_peer.remove(&peer) else {
            return;
        };
        if let Some(count) = self.of_process.get_mut(&pid) {
            *count -= 1;
            if *count == 0 {
                self.of_process.remove(&pid);
            }
        }
    }

    /// Endpoints that count for a process now.
    pub(crate) fn by(&self, pid: i32) -> u32 {
        self.of_process.get(&pid).copied().unwrap_or(0)
    }
}
