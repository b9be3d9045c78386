//! A share of the time for work that peers cause: help with accesses to regions, and visits to
//! connections.
//!
//! An account of the time that the work took. Of the time that passes, one part in so many is taken
//! off it again. Once the account holds more than is allowed at once, the work rests.

use core::time::Duration;

use crate::system::Instant;

/// The most that counts of one piece of work. A process that was not running meanwhile has not used
/// the time.
const LONGEST: Duration = Duration::from_millis(1);

/// An account of the time that something took. It has a bound, and so does each rest.
#[derive(Debug)]
pub struct TimeShare {
    /// Of the time, one part in so many may be taken.
    parts: u32,
    /// The most that may be taken at once.
    at_once: Duration,
    spent: Duration,
    /// Up to when the account counts what time gives back.
    until: Instant,
}

impl TimeShare {
    /// One part in `parts` of the time, and at most so much at once.
    #[must_use]
    pub fn new(parts: u32, at_once: Duration, now: Instant) -> Self {
        Self {
            parts,
            at_once,
            spent: Duration::ZERO,
            until: now,
        }
    }

    /// Of the time, one part in so many may be taken from now on.
    pub fn set_parts(&mut self, parts: u32) {
        self.parts = parts;
    }

    /// A piece of work that took so long has ended.
    pub fn spend(&mut self, took: Duration, ended: Instant) {
        self.give_back(ended);
        self.spent = (self.spent + took.min(LONGEST)).min(self.at_once + LONGEST);
    }

    /// Whether more was taken than may be: then it is worth asking what time it is.
    #[inline]
    #[must_use]
    pub fn is_overdrawn(&self) -> bool {
        self.spent > self.at_once
    }

    /// How long nothing is to be taken from now on, if so.
    pub fn rest(&mut self, now: Instant) -> Option<Duration> {
        self.give_back(now);
        let over = self.spent.saturating_sub(self.at_once);
        (!over.is_zero()).then(|| over * self.parts)
    }

    fn give_back(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.until);
        self.spent = self.spent.saturating_sub(passed / self.parts);
        self.until = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICRO: Duration = Duration::from_micros(1);
    const AT_ONCE: Duration = Duration::from_millis(50);
    const PARTS: [u32; 3] = [2, 4, 8];

    /// What takes so long, whenever it may be done, for so long: what it takes in sum.
    fn take_for(
        share: &mut TimeShare,
        mut now: Instant,
        took: Duration,
        long: Duration,
    ) -> Duration {
        let (end, mut sum) = (now + long, Duration::ZERO);
        while now < end {
            if let Some(rest) = share.rest(now) {
                assert!(rest <= LONGEST * share.parts, "a rest has a bound");
                now += rest;
            } else {
                share.spend(took, now + took);
                now += took;
                sum += took;
            }
        }
        sum
    }

    #[test]
    fn a_flood_has_its_part_of_the_time_and_no_more() {
        for parts in PARTS {
            for took in [MICRO, 100 * MICRO, LONGEST] {
                let now = Instant::now();
                let mut share = TimeShare::new(parts, AT_ONCE, now);
                let long = Duration::from_secs(10);
                let sum = take_for(&mut share, now, took, long);
                assert!(sum <= long / parts + AT_ONCE * 2, "{took:?}: {sum:?}");
                assert!(sum >= long / (parts + 2), "{took:?}: {sum:?}");
            }
        }
    }

    #[test]
    fn many_who_come_at_once_are_not_kept_waiting() {
        let now = Instant::now();
        let mut share = TimeShare::new(8, AT_ONCE, now);
        share.spend(LONGEST, now + LONGEST);
        assert!(!share.is_overdrawn());
        assert_eq!(share.rest(now + LONGEST), None);
    }

    #[test]
    fn after_a_flood_the_account_is_even_in_time() {
        let now = Instant::now();
        let mut share = TimeShare::new(8, AT_ONCE, now);
        take_for(&mut share, now, LONGEST, Duration::from_secs(1));
        let later = now + Duration::from_secs(10);
        assert_eq!(share.rest(later), None);
        assert_eq!(share.spent, Duration::ZERO);
    }
}
