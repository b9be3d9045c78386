//! Messages that were taken out of the module's matching, and not received yet.

use std::collections::{HashMap, VecDeque};

use limic_copy::Found;

use crate::Status;
use crate::raw::ClaimId;

/// Messages that this endpoint alone knows of.
///
/// # Invariants
/// A message that is kept aside can be claimed.
#[derive(Default)]
pub(super) struct Claims {
    /// Messages with this tag under this mask are kept aside.
    reserved: Option<(u64, u64)>,
    /// Those that have come, in order.
    kept: VecDeque<(Status, ClaimId)>,
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
        self.kept.push_back((status, claim));
    }

    /// The oldest message that was kept aside.
    pub(super) fn next_kept(&mut self) -> Option<(Status, ClaimId)> {
        self.kept.pop_front()
    }

    /// The session is over, and the messages with it.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
        self.claims.clear();
    }
}
