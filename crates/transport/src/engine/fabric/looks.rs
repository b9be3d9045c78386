//! When the networks are looked at.

use super::FabricChannel;

/// Idle polls of the application between two looks at what comes seldom: at the sockets, and at
/// networks over which no peer is reached.
pub(crate) const SELDOM_WHILE_POLLED: u32 = 128;

/// What an endpoint without peers over networks looks at seldom.
const IDLE: u32 = SELDOM_WHILE_POLLED - 1;

/// When an endpoint looks at its networks, and at which.
///
/// # Invariants
/// - It is active from the first peer over a network on, and whenever something was noticed.
/// - `poll_mask` is 0 while it is active, and only then.
pub(super) struct Looks {
    /// The networks are polled by progress. 1 or 0, in a word as wide as the lengths that progress
    /// looks at with it, so that one comparison serves for all.
    active: usize,
    /// Of the number of idle polls, these bits are 0 where there is more to look at.
    poll_mask: u32,
    /// Progress calls between two looks, where peers share memory too.
    every: u32,
    /// Progress calls since the last look.
    passed: u32,
    /// Looks so far.
    count: u32,
    /// The look under way, or the next one, is at all networks.
    all: bool,
    /// Which network is asked first at the next look.
    turn: usize,
}

impl Default for Looks {
    fn default() -> Self {
        Self {
            active: 0,
            poll_mask: IDLE,
            every: 1,
            passed: 0,
            count: 0,
            all: true,
            turn: 0,
        }
    }
}

impl Looks {
    pub(super) fn set_active(&mut self, active: bool) {
        self.active = usize::from(active);
        self.poll_mask = if active { 0 } else { IDLE };
    }

    /// A peer is reached over a network that is to be polled so often.
    pub(super) fn reached(&mut self, every: u32, is_first: bool) {
        self.set_active(true);
        self.every = if is_first {
            every
        } else {
            self.every.min(every)
        };
    }

    /// Progress calls between two looks. `shares`: there are peers in shared memory.
    fn every(&self, shares: bool) -> u32 {
        if shares { self.every } else { 1 }
    }

    /// The next progress call looks at all networks.
    fn look_now(&mut self) {
        self.passed = self.every;
        self.all = true;
    }

    pub(super) fn begin(&mut self) {
        self.passed = 0;
    }

    /// The number of the network that is the next one after so many.
    pub(super) fn turn(&self, after: usize, count: usize) -> usize {
        (self.turn + after) % count
    }

    /// Whether the look is at a network that is to be polled so often. One that has to be looked
    /// at each time does not bring the others' turn forward.
    pub(super) fn is_at(&self, poll_every: u32) -> bool {
        self.all || self.count % (poll_every / self.every).max(1) == 0
    }

    /// This one had something: the others have their turn then.
    pub(super) fn found(&mut self, number: usize) {
        self.turn = number + 1;
    }

    /// None had anything.
    pub(super) fn end(&mut self) {
        self.all = false;
    }

    /// Looks so far.
    pub(super) fn count(&self) -> u32 {
        self.count
    }
}

impl FabricChannel {
    /// Whether progress has to look at the networks: an endpoint without peers there is told by
    /// its event set when one comes.
    #[inline(always)]
    pub(crate) fn is_active(&self) -> bool {
        self.looks.active != 0
    }

    /// Of the number of idle polls, these bits are 0 where there is more to look at: sockets now
    /// and then, and networks each time.
    #[inline(always)]
    pub(crate) fn poll_mask(&self) -> u32 {
        self.looks.poll_mask
    }

    /// Whether a look at the networks is due: one that costs a call of the kernel has its turn now
    /// and then, so that peers in shared memory do not pay for it each time. Without such peers
    /// (`shares` is false) nobody pays.
    pub(crate) fn is_due(&mut self, shares: bool) -> bool {
        let looks = &mut self.looks;
        looks.passed = looks.passed.saturating_add(1);
        let due = looks.active != 0 && looks.passed >= looks.every(shares);
        looks.count = looks.count.wrapping_add(u32::from(due));
        due
    }

    /// Progress calls between two looks at the networks.
    pub(crate) fn looks_every(&self, shares: bool) -> u32 {
        self.looks.every(shares)
    }

    /// The next progress call looks at all networks.
    pub(crate) fn look_now(&mut self) {
        self.looks.look_now();
    }

    /// The event set says that something is there.
    pub(crate) fn notice(&mut self) {
        self.looks.set_active(!self.fabrics.is_empty());
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
        self.looks.set_active(false);
        self.looks.all = true;
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
