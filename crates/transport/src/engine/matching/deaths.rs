//! Failures of peers, as receives from any source learn of them: such a receive may have waited for
//! the peer that is gone, so those that are posted fail with it, or else the next one.

use crate::error::PeerFailure;

/// Failures that no receive from any source has reported yet.
///
/// # Invariants
/// There are none while such receives outlive their peers.
#[derive(Default)]
pub(crate) struct Deaths {
    unreported: Vec<(u32, PeerFailure)>,
    any_source_survives: bool,
}

impl Deaths {
    /// A peer has failed, and no receive from any source was there to report that.
    pub(crate) fn report_later(&mut self, peer: u32, why: PeerFailure) {
        if !self.any_source_survives {
            self.unreported.push((peer, why));
        }
    }

    /// A peer that had failed is tried anew.
    pub(crate) fn forget(&mut self, peer: u32) {
        self.unreported.retain(|(other, _)| *other != peer);
    }

    /// Receives from any source do not fail with a peer from now on.
    pub(crate) fn keep_any_source_receives(&mut self) {
        self.any_source_survives = true;
        self.unreported.clear();
    }

    /// Whether receives from any source go on when a peer fails.
    pub(crate) fn any_source_survives(&self) -> bool {
        self.any_source_survives
    }

    /// Whether there is nothing to report.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.unreported.is_empty()
    }

    /// What the next receive from any source reports.
    pub(crate) fn take(&mut self) -> Option<(u32, PeerFailure)> {
        self.unreported.pop()
    }
}
