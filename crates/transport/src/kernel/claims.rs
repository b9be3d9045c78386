//! Messages that were taken out of the module's matching, and not received yet.

use std::collections::{HashMap, VecDeque};

use limic_copy::Found;

use crate::raw::{ClaimId, Reserved};
use crate::{Error, Peer, Status};

/// Messages that this endpoint alone knows of.
///
/// # Invariants
/// A message that is kept aside can be claimed.
#[derive(Default)]
pub(super) struct Claims {
    /// Messages with this tag under this mask are kept aside.
    reserved: Option<(u64, u64)>,
    /// Those that have come, and peers that have failed, in order.
    kept: VecDeque<Reserved>,
    /// By the module's names for them.
    claims: HashMap<u64, Found>,
}

impl Claims {
    /// A message was taken out.
    pub(super) fn claimed(&mut self, found: &Found) -> ClaimId {
        self.claims.insert(found.name, *found);
        ClaimId(found.name)
    }

    /// A claimed message is to be received.
    pub(super) fn take(&mut self, claim: ClaimId) -> Option<Found> {
        self.claims.remove(&claim.0)
    }

    /// Messages with this tag under this mask are kept aside from now on.
    pub(super) fn reserve(&mut self, tag: u64, mask: u64) {
        self.reserved = Some((tag, mask));
    }

    /// The tag and the mask of messages that are kept aside, if some are.
    pub(super) fn reserved(&self) -> Option<(u64, u64)> {
        self.reserved
    }

    /// A claimed message is kept aside.
    pub(super) fn keep(&mut self, status: Status, claim: ClaimId) {
        self.kept.push_back(Reserved::Claimed(status, claim));
    }

    /// A peer has failed, which is told where messages are kept aside.
    pub(super) fn ended(&mut self, peer: Peer, why: Error) {
        if self.reserved.is_some() {
            self.kept.push_back(Reserved::Ended(peer, why, 0));
        }
    }

    /// Whether something was kept aside.
    pub(super) fn has_kept(&self) -> bool {
        !self.kept.is_empty()
    }

    /// The oldest of what was kept aside.
    pub(super) fn next_kept(&mut self) -> Option<Reserved> {
        self.kept.pop_front()
    }

    /// The session is over, and the messages with it.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
        self.claims.clear();
    }
}
