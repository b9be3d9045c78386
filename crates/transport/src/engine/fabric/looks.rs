//! When the networks are looked at.

use super::FabricChannel;
use crate::engine::SOCKETS_WHILE_POLLED;

/// What an endpoint without peers over networks looks at seldom.
pub(super) const IDLE: u32 = SOCKETS_WHILE_POLLED - 1;

impl FabricChannel {
    /// Whether progress has to look at the networks: an endpoint without peers there is told by
    /// its event set when one comes.
    #[inline(always)]
    pub(crate) fn is_active(&self) -> bool {
        self.active != 0
    }

    /// Of the number of polls in vain, these bits are 0 where there is more to look at: sockets now
    /// and then, and networks each time.
    #[inline(always)]
    pub(crate) fn poll_mask(&self) -> u32 {
        self.poll_mask
    }

    pub(super) fn set_active(&mut self, active: bool) {
        self.active = usize::from(active);
        self.poll_mask = if active { 0 } else { IDLE };
    }

    /// Whether a look at the networks is due: one that costs a call of the kernel has its turn now
    /// and then, so that peers in shared memory do not pay for it each time.
    pub(crate) fn is_due(&mut self) -> bool {
        self.passed = self.passed.saturating_add(1);
        let due = self.is_active() && self.passed >= self.every;
        self.looks = self.looks.wrapping_add(u32::from(due));
        due
    }

    /// Progress calls between two looks at the networks.
    pub(crate) fn looks_every(&self) -> u32 {
        self.every
    }

    /// The next progress call looks at all networks.
    pub(crate) fn look_now(&mut self) {
        self.passed = self.every;
        self.all = true;
    }

    /// The event set says that something is there.
    pub(crate) fn notice(&mut self) {
        self.set_active(!self.fabrics.is_empty());
        self.look_now();
        for fabric in &mut self.fabrics {
            fabric.notice();
        }
    }

    /// The sockets have their turn, and with them the deadlines of networks that are left alone.
    pub(crate) fn look_at_deadlines(&mut self) {
        if !self.is_active() && self.patience().is_some() {
            self.notice();
        }
    }

    /// Nothing more was found. Without peers the networks are left alone until they give notice,
    /// whoever calls there and says nothing: true if they were asked for that just now, so that one
    /// more look is due.
    pub(crate) fn rest(&mut self) -> bool {
        if !self.is_active() || self.has_peers() {
            return false;
        }
        self.set_active(false);
        self.all = true;
        self.arm_all();
        true
    }

    /// The endpoint is about to sleep. Networks that are left alone have been asked for notice.
    pub(crate) fn arm(&mut self) {
        if self.is_active() {
            self.look_now();
            self.arm_all();
        }
    }

    pub(super) fn arm_all(&mut self) {
        for fabric in &mut self.fabrics {
            if let Err(error) = fabric.arm() {
                tracing::warn!("no notice of what comes over a network: {error}");
            }
        }
    }
}

#[cfg(test)]
#[path = "looks_tests.rs"]
mod tests;
