//! Waiting for requests: progress until they are done.

use super::Engine;
use super::idle::Patience;
use crate::error::Outcome;
use crate::raw::RequestId;
use crate::{Error, RegionId, Result};

impl Engine {
    /// Waits for one request.
    #[inline(always)]
    pub(crate) fn wait(&mut self, id: RequestId) -> Outcome {
        if let Some(status) = self.core.requests.take_status(id) {
            self.let_go();
            return Ok(status);
        }
        self.wait_longer(id)
    }

    /// Who has waited may not call again for long: what waits for an entry of a queue pair, which only calls bring on its way, goes
    /// now. It may be the word that a peer waits for.
    #[inline(always)]
    pub(crate) fn let_go(&mut self) {
        if self.core.remote.holds_messages() {
            self.let_go_slowly();
        }
    }

    #[cold]
    fn let_go_slowly(&mut self) {
        let mut patience = Patience::default();
        while self.core.remote.holds_messages() {
            if self.progress() {
                patience.reset();
            } else {
                self.be_patient(&mut patience);
            }
        }
    }

    #[inline(never)]
    fn wait_longer(&mut self, id: RequestId) -> Outcome {
        let mut patience = Patience::default();
        loop {
            // Each time: one that was abandoned meanwhile frees itself, and its slot is another's then.
            let Some(slot) = self.core.requests.find(id) else {
                self.let_go();
                return Err(Error::UnknownRequest);
            };
            if let Some(outcome) = self.core.requests.take_done(slot) {
                self.let_go();
                return outcome;
            }
            if self.progress() {
                patience.reset();
            } else {
                self.be_patient(&mut patience);
            }
        }
    }

    /// Waits for one of several requests.
    pub(crate) fn wait_any(&mut self, ids: &[RequestId]) -> Option<(usize, Outcome)> {
        let found = self.wait_for_any(ids);
        self.let_go();
        found
    }

    fn wait_for_any(&mut self, ids: &[RequestId]) -> Option<(usize, Outcome)> {
        if ids.is_empty() {
            return None;
        }
        let mut patience = Patience::default();
        loop {
            for (at, id) in ids.iter().enumerate() {
                match self.core.requests.find(*id) {
                    None => return Some((at, Err(Error::UnknownRequest))),
                    Some(slot) => {
                        if let Some(outcome) = self.core.requests.take_done(slot) {
                            return Some((at, outcome));
                        }
                    }
                }
            }
            if self.progress() {
                patience.reset();
            } else {
                self.be_patient(&mut patience);
            }
        }
    }

    /// Tests one request.
    #[inline]
    pub(crate) fn test(&mut self, id: RequestId) -> Option<Outcome> {
        let Some(slot) = self.core.requests.find(id) else {
            return Some(Err(Error::UnknownRequest));
        };
        if !self.core.requests.is_done(slot) {
            self.poll();
        }
        self.core.requests.take_done(slot)
    }

    /// A progress call by the application: it may be its only way of waiting, so the sockets get their turn.
    #[inline]
    pub(crate) fn poll(&mut self) -> bool {
        self.poll_but(None)
    }

    /// The same without a look at the private ring of a peer.
    #[inline]
    pub(crate) fn poll_but(&mut self, peer: Option<u32>) -> bool {
        let moved = self.progress_but(peer);
        if !moved && self.calls.is_multiple_of(128) {
            return self.look_at_sockets();
        }
        moved
    }

    /// Ends an exposure, after the accesses under way.
    pub(crate) fn revoke(&mut self, id: RegionId) -> Result<Vec<u8>> {
        self.core.start_revoke(id)?;
        let mut patience = Patience::default();
        loop {
            if let Some(memory) = self.core.revoked(id)? {
                return Ok(memory);
            }
            if self.progress() {
                patience.reset();
            } else {
                self.be_patient(&mut patience);
            }
        }
    }
}
