//! When the networks are looked at: [`Looks`] says whether one has its turn.

#[cfg(doc)]
use limic_fabric::Looks;

use super::FabricChannel;

impl FabricChannel {
    /// The event set says that something is there.
    pub(crate) fn notice(&mut self) {
        self.looks.set_active(!self.fabrics.is_empty());
        self.looks.look_now();
        for fabric in &mut self.fabrics {
            fabric.notice();
        }
    }

    /// The sockets have their turn, and with them the deadlines of networks that are left alone.
    pub(crate) fn look_at_deadlines(&mut self) {
        if !self.looks.is_active() && self.longest_sleep().is_some() {
            self.notice();
        }
    }

    /// Nothing more was found. Without peers the networks are left alone until they give notice,
    /// whoever calls there and says nothing: true if they were asked for that just now, so that one
    /// more look is due.
    pub(crate) fn leave_alone(&mut self) -> bool {
        if !self.looks.is_active() || self.has_peers() {
            return false;
        }
        self.looks.leave_alone();
        self.arm_all();
        true
    }

    /// The endpoint is about to sleep. Networks that are left alone have been asked for notice.
    pub(crate) fn arm(&mut self) {
        if self.looks.is_active() {
            self.looks.look_now();
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
