//! How much of the time visits to connections may take.
//!
//! Any process of the network namespace can connect, and each peer can send over its connection, as
//! often as it likes: each time this endpoint has something to read. So it keeps an account of the
//! time that this takes. Once that is overdrawn, the endpoint rests from such visits, and sleeps on
//! its doorbell and its networks alone.

use core::time::Duration;
use std::os::fd::AsFd;

use limic_shm::control::{Event, EventSet, Trigger};
use limic_shm::world::Instant;

use super::{DOORBELL, Happened, NETWORK, Sockets};

/// Of the time, one part in so many is for visits.
const PARTS: u32 = 8;
/// What visits may take at once, as where many peers meet at the start of a job.
const AT_ONCE: Duration = Duration::from_millis(50);
/// What one visit counts at most: who was not running meanwhile has not used the time.
const LONGEST: Duration = Duration::from_millis(1);

/// An account of the time that visits took. It has a bound, and so does each rest.
#[derive(Debug)]
pub(crate) struct Visits {
    spent: Duration,
    /// Up to when the account counts what time gives back.
    until: Instant,
}

impl Visits {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            spent: Duration::ZERO,
            until: now,
        }
    }

    /// A visit that began at one time has ended at another.
    pub(crate) fn spend(&mut self, begun: Instant, ended: Instant) {
        self.give_back(ended);
        let took = ended.saturating_duration_since(begun).min(LONGEST);
        self.spent = (self.spent + took).min(AT_ONCE + LONGEST);
    }

    /// Whether visits have taken more than they may: then it is worth asking what time it is.
    #[inline]
    pub(crate) fn is_overdrawn(&self) -> bool {
        self.spent > AT_ONCE
    }

    /// How long no visit is to be made from now on, if so.
    pub(crate) fn rest(&mut self, now: Instant) -> Option<Duration> {
        self.give_back(now);
        let over = self.spent.saturating_sub(AT_ONCE);
        (!over.is_zero()).then(|| over * PARTS)
    }

    fn give_back(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.until);
        self.spent = self.spent.saturating_sub(passed / PARTS);
        self.until = now;
    }
}

impl Sockets {
    /// Waits for something to happen; gives what did, and the buffer in which it lies, to be given
    /// back. While the endpoint rests from visits, nothing happens but bells and news of networks.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> (Vec<Event>, usize) {
        let mut events = core::mem::take(&mut self.event_buffer);
        if self.is_parents {
            // What happens there is for the parent.
            std::thread::sleep(timeout.unwrap_or_default());
            return (events, 0);
        }
        let (set, timeout) = match (self.rest(), &self.quiet) {
            (Some(rest), Some(quiet)) => {
                let timeout = timeout.map_or(rest, |timeout| timeout.min(rest));
                (quiet, Some(timeout))
            }
            _ => (&self.events, timeout),
        };
        let count = set.wait(timeout, &mut events).unwrap_or(0);
        if events[..count].iter().any(|event| event.token == DOORBELL) {
            self.is_deaf = !self.doorbell.silence();
            if self.is_deaf {
                self.forget_doorbell();
            }
        }
        (events, count)
    }

    /// How long the endpoint rests from visits, if it does.
    fn rest(&mut self) -> Option<Duration> {
        if !self.visits.is_overdrawn() {
            return None;
        }
        let rest = self.visits.rest(Instant::now())?;
        if self.quiet.is_none() {
            // Without a descriptor for it there is no rest.
            self.quiet = self.make_quiet().ok();
        }
        Some(rest)
    }

    /// A doorbell that was shut down would wake this endpoint all the time.
    fn forget_doorbell(&self) {
        for set in core::iter::once(&self.events).chain(&self.quiet) {
            // It fails only where the doorbell is not in the set.
            let _ = self.doorbell.unwatch(set);
        }
    }

    fn make_quiet(&self) -> std::io::Result<EventSet> {
        let quiet = EventSet::new()?;
        if !self.is_deaf {
            self.doorbell.watch(&quiet, DOORBELL)?;
        }
        for network in &self.networks {
            quiet.add(network.as_fd(), NETWORK, Trigger::Level)?;
        }
        Ok(quiet)
    }

    /// When a visit to connections begins, if these events ask for one.
    pub(crate) fn begin_visit(&self, events: &[Event]) -> Option<Instant> {
        let mut happened = events.iter().map(|event| Happened::from(*event));
        let is_visit =
            happened.any(|happened| !matches!(happened, Happened::Wake | Happened::Network));
        is_visit.then(Instant::now)
    }

    /// A visit that began at this time is over.
    pub(crate) fn end_visit(&mut self, begun: Instant) {
        self.visits.spend(begun, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICRO: Duration = Duration::from_micros(1);

    /// Visits that take so long, whenever they may be made, for so long: what they take in sum.
    fn visit_for(
        visits: &mut Visits,
        mut now: Instant,
        took: Duration,
        long: Duration,
    ) -> Duration {
        let (end, mut sum) = (now + long, Duration::ZERO);
        while now < end {
            if let Some(rest) = visits.rest(now) {
                assert!(rest <= LONGEST * PARTS, "a rest has a bound");
                now += rest;
            } else {
                visits.spend(now, now + took);
                now += took;
                sum += took;
            }
        }
        sum
    }

    #[test]
    fn a_flood_has_its_part_of_the_time_and_no_more() {
        for took in [MICRO, 100 * MICRO, LONGEST] {
            let now = Instant::now();
            let mut visits = Visits::new(now);
            let long = Duration::from_secs(10);
            let sum = visit_for(&mut visits, now, took, long);
            assert!(sum <= long / PARTS + AT_ONCE * 2, "{took:?}: {sum:?}");
            assert!(sum >= long / (PARTS + 2), "{took:?}: {sum:?}");
        }
    }

    #[test]
    fn many_who_come_at_once_are_not_kept_waiting() {
        let now = Instant::now();
        let mut visits = Visits::new(now);
        visits.spend(now, now + LONGEST);
        assert!(!visits.is_overdrawn());
        assert_eq!(visits.rest(now + LONGEST), None);
    }

    #[test]
    fn after_a_flood_the_account_is_even_in_time() {
        let now = Instant::now();
        let mut visits = Visits::new(now);
        visit_for(&mut visits, now, LONGEST, Duration::from_secs(1));
        let later = now + Duration::from_secs(10);
        assert_eq!(visits.rest(later), None);
        assert_eq!(visits.spent, Duration::ZERO);
    }
}
