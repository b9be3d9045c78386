//! What a wait does next: spin, yield, then sleep. This is the only place that decides it. And
//! after how long a wait is told to the user.

use core::time::Duration;

use crate::system::Instant;

/// Polls between two looks at the sockets, for new connections and dead peers.
const SOCKETS: u32 = 512;
/// Polls without a pause: the pause instruction takes most of a short message's time. A neighbour
/// on the same core gets the pauses of those who wait longer.
const BUSY_POLLS: u32 = 1000;
/// Yields before sleeping.
const YIELDS: u32 = 16;

/// One step of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Polls again.
    Spin,
    /// Looks at the sockets, and polls again.
    Sockets,
    /// The first yield, then the others: the processor is given away.
    Yield {
        /// It is the first one since something moved.
        first: bool,
    },
    /// Sleeps until somebody rings.
    Sleep,
}

/// How long somebody has waited.
#[derive(Debug, Default)]
pub struct Backoff {
    polls: u32,
    yields: u32,
}

impl Backoff {
    /// Something moved.
    #[inline(always)]
    pub fn reset(&mut self) {
        self.polls = 0;
        self.yields = 0;
    }

    /// The next step, after an idle poll. `limit`: polls before the processor is given away;
    /// `spins`: polls before the endpoint sleeps, at least `limit`.
    #[inline(always)]
    pub fn next(&mut self, limit: u32, spins: u32) -> Step {
        self.polls += 1;
        if self.polls < limit {
            if self.polls > BUSY_POLLS {
                core::hint::spin_loop();
            }
            return self.spin();
        }
        self.give_way(spins)
    }

    #[inline(always)]
    fn spin(&self) -> Step {
        if self.polls % SOCKETS == 0 {
            Step::Sockets
        } else {
            Step::Spin
        }
    }

    #[cold]
    fn give_way(&mut self, spins: u32) -> Step {
        if self.polls < spins {
            // Not to a peer, but to the kernel, which does an adapter's work.
            crate::system::yield_now();
            return self.spin();
        }
        if self.yields < YIELDS {
            self.yields += 1;
            return Step::Yield {
                first: self.yields == 1,
            };
        }
        self.polls = 0;
        // Who was woken up is likely to be woken again soon: spin less than at first, but spin.
        self.yields = YIELDS / 2;
        Step::Sleep
    }
}

/// Since when somebody waits: a call, which counts from its first sleep on, or a ring whose next
/// record is not finished, from the first look on.
#[derive(Clone, Copy, Debug, Default)]
pub enum Patience {
    /// It has not slept or looked yet.
    #[default]
    Fresh,
    /// It slept, or looked, first at this time.
    Since(Instant),
    /// It was said what it waits for.
    Over,
}

impl Patience {
    /// It waits on. True if it is to be said now what it waits for, after so long; 0 is never.
    pub fn is_over(&mut self, patience: Duration) -> bool {
        match self {
            Self::Fresh => *self = Self::Since(Instant::now()),
            Self::Since(since) if !patience.is_zero() && since.elapsed() >= patience => {
                *self = Self::Over;
                return true;
            }
            Self::Since(_) | Self::Over => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(backoff: &mut Backoff, limit: u32, spins: u32) -> Vec<Step> {
        let mut steps = Vec::new();
        while steps.last() != Some(&Step::Sleep) {
            steps.push(backoff.next(limit, spins));
        }
        steps
    }

    #[test]
    fn a_wait_spins_then_yields_then_sleeps() {
        let mut backoff = Backoff::default();
        let all = steps(&mut backoff, 2000, 2000);
        let spun = all
            .iter()
            .take_while(|step| matches!(step, Step::Spin | Step::Sockets));
        assert_eq!(spun.count(), 1999);
        assert_eq!(all.iter().filter(|step| **step == Step::Sockets).count(), 3);
        let yields = all.iter().filter(|step| matches!(step, Step::Yield { .. }));
        assert_eq!(yields.count(), YIELDS as usize);
        assert_eq!(all[1999], Step::Yield { first: true });
    }

    #[test]
    fn who_was_woken_up_yields_less_until_something_moves() {
        let mut backoff = Backoff::default();
        let first = steps(&mut backoff, 10, 10).len();
        assert!(steps(&mut backoff, 10, 10).len() < first);
        backoff.reset();
        assert_eq!(steps(&mut backoff, 10, 10).len(), first);
    }
}
