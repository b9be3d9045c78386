//! When an endpoint looks at its networks.

/// Idle polls of the application between two looks at what comes seldom: at the sockets, and at
/// networks over which no peer is reached.
pub const SELDOM_WHILE_POLLED: u32 = 128;

/// What an endpoint without peers over networks looks at seldom.
const IDLE: u32 = SELDOM_WHILE_POLLED - 1;

/// When an endpoint looks at its networks, and at which.
///
/// # Invariants
/// - It is active from the first peer over a network on, and whenever something was noticed.
/// - `poll_mask` is 0 while it is active, and only then.
#[derive(Clone, Debug)]
pub struct Looks {
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
    /// Whether progress has to look at the networks.
    #[inline(always)]
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.active != 0
    }

    /// Of the number of idle polls, these bits are 0 where there is more to look at: sockets now
    /// and then, and networks each time.
    #[inline(always)]
    #[must_use]
    pub fn poll_mask(&self) -> u32 {
        self.poll_mask
    }

    /// Progress looks at the networks from now on; or at none.
    pub fn set_active(&mut self, active: bool) {
        self.active = usize::from(active);
        self.poll_mask = if active { 0 } else { IDLE };
    }

    /// A peer is reached over a network that is to be polled so often.
    pub fn reached(&mut self, every: u32, is_first: bool) {
        self.set_active(true);
        self.every = if is_first {
            every
        } else {
            self.every.min(every)
        };
    }

    /// Whether a look at the networks is due: one that costs a call of the kernel has its turn now
    /// and then, so that peers in shared memory do not pay for it each time. Without such peers
    /// (`shares` is false) nobody pays.
    #[inline]
    pub fn is_due(&mut self, shares: bool) -> bool {
        self.passed = self.passed.saturating_add(1);
        let due = self.is_active() && self.passed >= self.every(shares);
        self.count = self.count.wrapping_add(u32::from(due));
        due
    }

    /// Progress calls between two looks. `shares`: there are peers in shared memory.
    #[inline]
    #[must_use]
    pub fn every(&self, shares: bool) -> u32 {
        if shares { self.every } else { 1 }
    }

    /// The next progress call looks at all networks.
    pub fn look_now(&mut self) {
        self.passed = self.every;
        self.all = true;
    }

    /// The networks are left alone until they give notice, and then all are looked at.
    pub fn leave_alone(&mut self) {
        self.set_active(false);
        self.all = true;
    }

    /// A look begins.
    #[inline]
    pub fn begin(&mut self) {
        self.passed = 0;
    }

    /// The number of the network that is the next one after so many.
    #[inline]
    #[must_use]
    pub fn turn(&self, after: usize, count: usize) -> usize {
        (self.turn + after) % count
    }

    /// Whether the look is at a network that is to be polled so often. One that has to be looked
    /// at each time does not bring the others' turn forward.
    #[inline]
    #[must_use]
    pub fn is_at(&self, poll_every: u32) -> bool {
        self.all || self.count % (poll_every / self.every).max(1) == 0
    }

    /// This one had something: the others have their turn then.
    #[inline]
    pub fn found(&mut self, number: usize) {
        self.turn = number + 1;
    }

    /// None had anything.
    #[inline]
    pub fn end(&mut self) {
        self.all = false;
    }

    /// Looks so far.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each of two networks is to be polled.
    const EVERY: [u32; 2] = [1, 8];

    /// One progress call; counts which network was looked at.
    fn progress(looks: &mut Looks, polls: &mut [u32; 2]) {
        if looks.is_due(true) {
            looks.begin();
            for number in (0..2).map(|step| looks.turn(step, 2)) {
                polls[number] += u32::from(looks.is_at(EVERY[number]));
            }
            looks.end();
        }
    }

    /// A network that is looked at each time does not make one be looked at more often that costs
    /// a call of the kernel.
    #[test]
    fn a_cheap_network_does_not_bring_forward_the_turn_of_a_dear_one() {
        let mut looks = Looks::default();
        looks.reached(EVERY[0], true);
        looks.reached(EVERY[1], false);
        let mut polls_of = |calls: u32, now: bool| {
            let mut polls = [0; 2];
            if now {
                looks.look_now();
            }
            (0..calls).for_each(|_| progress(&mut looks, &mut polls));
            polls
        };
        assert_eq!(polls_of(1, false), [1, 1], "the first look is at all");
        assert_eq!(polls_of(80, false), [80, 10]);
        assert_eq!(polls_of(1, true), [1, 1]);
    }
}
