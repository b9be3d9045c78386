//! Locality by what the hardware does: how long a cache line takes from one endpoint to the
//! other.
//!
//! What the topology says may be wrong, and then for minutes: a virtual machine shows two CPUs
//! below one cache while the hypervisor runs them on two dies. So the hand-over itself is measured,
//! and decides.

use core::fmt;
use core::str::FromStr;

use super::Locality;

/// By so much it must be less, or more, to end the other belief.
const MARGIN_NS: u32 = 10;

/// Where the locality of two processes comes from (`LIMIC_LINE_LATENCY`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LineLatency {
    /// The hand-over of a cache line is measured while messages flow, and corrects the topology.
    #[default]
    Measured,
    /// The topology is believed.
    Topology,
    /// Nothing is measured: it takes so many nanoseconds, one way.
    Nanoseconds(u32),
}

impl fmt::Display for LineLatency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Measured => f.write_str("measured"),
            Self::Topology => f.write_str("topology"),
            Self::Nanoseconds(ns) => write!(f, "{ns}"),
        }
    }
}

/// The text is neither a word that is known nor a number of nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a hand-over; accepted: measured, topology, or nanoseconds")]
pub struct ParseLineLatencyError(String);

impl FromStr for LineLatency {
    type Err = ParseLineLatencyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim().to_ascii_lowercase().as_str() {
            "measured" => Ok(Self::Measured),
            "topology" => Ok(Self::Topology),
            number => number
                .parse()
                .map(Self::Nanoseconds)
                .map_err(|_| ParseLineLatencyError(text.to_owned())),
        }
    }
}

impl LineLatency {
    /// The locality of two processes that are at `topology` by the topology, and `measured` far
    /// apart, if that is known. Cores are near below `near_below_ns` nanoseconds.
    #[must_use]
    pub fn locality(
        self,
        topology: Locality,
        measured: Option<Distance>,
        near_below_ns: u32,
    ) -> Locality {
        let distance = match self {
            Self::Measured => measured,
            Self::Topology => None,
            Self::Nanoseconds(ns) => Some(Distance::of(ns, near_below_ns, None)),
        };
        match (distance, topology) {
            (_, Locality::Itself | Locality::SameProcess) | (None, _) => topology,
            (Some(Distance::Near), _) => Locality::SharedCache,
            (Some(Distance::Far), topology) => topology.max(Locality::SamePackage),
        }
    }
}

/// Whether two cores hand lines over as if they shared a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// As within one cache.
    Near,
    /// As between two.
    Far,
}

impl Distance {
    /// What `ns` nanoseconds say, one way, where cores are near below `limit`, and `believed` was
    /// believed before.
    const fn of(ns: u32, limit: u32, believed: Option<Self>) -> Self {
        let limit = match believed {
            None => limit,
            Some(Self::Near) => limit + MARGIN_NS,
            Some(Self::Far) => limit - MARGIN_NS,
        };
        if ns < limit { Self::Near } else { Self::Far }
    }
}

/// When the next measurement is due, and what the last ones said: a state machine without clock or
/// I/O.
#[derive(Clone, Copy, Debug)]
pub struct LatencyEstimator {
    near_below_ns: u32,
    distance: Option<Distance>,
    /// What the last measurement said, if it was something else.
    doubt: Option<Distance>,
    due_ns: u64,
    /// Measurements in a row that came to nothing, since the peer was not there.
    missed: u32,
}

/// Between two measurements. One takes some 6 us, and the wait for the peer.
const EVERY_NS: u64 = 50_000_000;
/// After a measurement that contradicts the last one, and where nothing is known yet: what is true
/// is known soon.
const SOON_NS: u64 = 1_000_000;
/// So much later comes the turn of the one that was asked: two that wait for each other do not
/// meet.
const TURN_NS: u64 = 10_000_000;
/// The longest pause, while the peer is never there.
const MOST_NS: u64 = EVERY_NS << 5;
/// How long the peer is waited for at first: it comes between two pieces of a message.
const PATIENCE_NS: u64 = 60_000;
/// Doublings of that, one for each wait in which the peer does not come: one that sends as much as
/// this endpoint does comes when its window is used up, and where the hand-over is not what both
/// believe that takes several times as long. Where something is known, the pauses become longer
/// only afterwards.
const MOST_PATIENT: u32 = 3;

/// A pause of `pause` nanoseconds after so many doublings.
fn doubled(pause: u64, doublings: u32) -> u64 {
    pause
        .saturating_mul(1_u64.checked_shl(doublings).unwrap_or(u64::MAX))
        .min(MOST_NS)
}

impl LatencyEstimator {
    /// Nothing is known yet. Cores are near below `near_below_ns` nanoseconds, of which there are
    /// more than 10.
    #[must_use]
    pub const fn new(near_below_ns: u32) -> Self {
        Self {
            near_below_ns,
            distance: None,
            doubt: None,
            due_ns: 0,
            missed: 0,
        }
    }

    /// What is believed; `None` if nothing is known.
    #[inline]
    #[must_use]
    pub const fn distance(&self) -> Option<Distance> {
        self.distance
    }

    /// Whether it is time to measure.
    #[inline]
    #[must_use]
    pub const fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.due_ns
    }

    /// How long to wait for the peer this time.
    #[must_use]
    pub const fn wait_ns(&self) -> u64 {
        let times = if self.missed < MOST_PATIENT {
            self.missed
        } else {
            MOST_PATIENT
        };
        PATIENCE_NS << times
    }

    /// A hand-over took `ns` nanoseconds, or nothing came of it. True if something else is believed
    /// now: at once if nothing was, else after two measurements that agree.
    pub fn measured(&mut self, ns: Option<u32>, now_ns: u64) -> bool {
        let Some(ns) = ns else {
            self.missed = self.missed.saturating_add(1);
            let pause = match self.distance {
                Some(_) => doubled(EVERY_NS, self.missed.saturating_sub(MOST_PATIENT)),
                None => doubled(SOON_NS, self.missed),
            };
            self.due_ns = now_ns + pause;
            return false;
        };
        self.missed = 0;
        self.due_ns = now_ns + EVERY_NS;
        let said = Some(Distance::of(ns, self.near_below_ns, self.distance));
        let doubted = self.doubt.take();
        if said == self.distance {
            return false;
        }
        if self.distance.is_some() && doubted != said {
            self.doubt = said;
            self.due_ns = now_ns + SOON_NS;
            return false;
        }
        self.distance = said;
        true
    }

    /// It was the peer that asked for the last measurement, and it asks for the next one too. Or
    /// both have asked in vain, and it is the peer's turn.
    pub fn was_asked(&mut self) {
        self.due_ns = self.due_ns.saturating_add(TURN_NS);
    }

    /// One of the two has moved: nothing is known any more.
    pub fn forget(&mut self) {
        *self = Self::new(self.near_below_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const LIMIT_NS: u32 = 50;

    #[test]
    fn the_one_that_asked_asks_again() {
        let [mut asks, mut is_asked] = [LatencyEstimator::new(LIMIT_NS); 2];
        asks.measured(Some(170), 0);
        is_asked.measured(Some(170), 0);
        is_asked.was_asked();
        assert!(asks.is_due(50 * MS) && !is_asked.is_due(59 * MS));
        // Unless it has nothing to ask any more.
        assert!(is_asked.is_due(60 * MS));
    }

    #[test]
    fn the_first_measurement_counts_and_later_ones_in_pairs() {
        let mut estimator = LatencyEstimator::new(LIMIT_NS);
        assert!(estimator.is_due(0));
        assert!(estimator.measured(Some(170), 0));
        assert_eq!(estimator.distance(), Some(Distance::Far));
        assert!(!estimator.is_due(49 * MS) && estimator.is_due(50 * MS));
        // One that says otherwise is doubted, and looked at again soon.
        assert!(!estimator.measured(Some(30), 50 * MS));
        assert_eq!(estimator.distance(), Some(Distance::Far));
        assert!(estimator.is_due(51 * MS));
        assert!(!estimator.measured(Some(180), 51 * MS));
        assert!(!estimator.measured(Some(30), 101 * MS));
        assert!(estimator.measured(Some(35), 102 * MS));
        assert_eq!(estimator.distance(), Some(Distance::Near));
        estimator.forget();
        assert!(estimator.is_due(0) && estimator.distance().is_none());
    }

    #[test]
    fn what_lies_near_the_limit_decides_only_where_nothing_is_known() {
        for limit in [LIMIT_NS, 90] {
            let (under, over) = (limit - 1, limit);
            for (first, distance) in [(under, Distance::Near), (over, Distance::Far)] {
                let mut estimator = LatencyEstimator::new(limit);
                assert!(estimator.measured(Some(first), 0));
                assert_eq!(estimator.distance(), Some(distance));
                for ns in [under, over, under, over] {
                    assert!(!estimator.measured(Some(ns), 0) && !estimator.measured(Some(ns), 0));
                }
                assert_eq!(estimator.distance(), Some(distance));
                // What was known is forgotten, and the limit stays.
                estimator.forget();
                assert!(estimator.measured(Some(first), 0));
                assert_eq!(estimator.distance(), Some(distance));
            }
        }
    }

    #[test]
    fn a_peer_that_is_never_there_is_asked_ever_more_seldom() {
        let mut estimator = LatencyEstimator::new(LIMIT_NS);
        let mut now = 0;
        let mut was_asked = 0;
        while now < 60_000 * MS {
            if estimator.is_due(now) {
                was_asked += 1;
                assert!(!estimator.measured(None, now));
            }
            now += MS;
        }
        assert!((10..60).contains(&was_asked), "{was_asked}");
        assert_eq!(estimator.wait_ns(), PATIENCE_NS << MOST_PATIENT);
        assert!(estimator.measured(Some(30), now));
        assert!(estimator.is_due(now + 50 * MS));
        assert_eq!(estimator.wait_ns(), PATIENCE_NS);
    }

    #[test]
    fn a_known_peer_that_is_busy_is_waited_for_longer_and_not_asked_more_seldom_at_first() {
        let mut estimator = LatencyEstimator::new(LIMIT_NS);
        assert!(estimator.measured(Some(30), 0));
        for doublings in 0..MOST_PATIENT {
            let now = u64::from(doublings) * EVERY_NS;
            assert_eq!(estimator.wait_ns(), PATIENCE_NS << doublings);
            assert!(!estimator.measured(None, now));
            assert!(estimator.is_due(now + EVERY_NS));
        }
        assert!(!estimator.measured(None, 0));
        assert!(!estimator.is_due(EVERY_NS) && estimator.is_due(2 * EVERY_NS));
    }

    #[test]
    fn the_measured_corrects_the_topology_and_a_wish_both() {
        use Locality::{OtherPackage, SamePackage, SameProcess, SharedCache};
        let (near, far) = (Some(Distance::Near), Some(Distance::Far));
        for (setting, topology, measured, locality) in [
            (LineLatency::Measured, SharedCache, None, SharedCache),
            (LineLatency::Measured, SharedCache, far, SamePackage),
            (LineLatency::Measured, OtherPackage, far, OtherPackage),
            (LineLatency::Measured, OtherPackage, near, SharedCache),
            (LineLatency::Measured, SameProcess, far, SameProcess),
            (LineLatency::Topology, SharedCache, far, SharedCache),
            (
                LineLatency::Nanoseconds(180),
                SharedCache,
                near,
                SamePackage,
            ),
            (LineLatency::Nanoseconds(25), SamePackage, far, SharedCache),
        ] {
            assert_eq!(
                setting.locality(topology, measured, LIMIT_NS),
                locality,
                "{setting} {topology} {measured:?}"
            );
        }
    }

    #[test]
    fn settings_come_back() {
        for setting in [
            LineLatency::Measured,
            LineLatency::Topology,
            LineLatency::Nanoseconds(180),
        ] {
            assert_eq!(setting.to_string().parse(), Ok(setting));
        }
        let error = "far".parse::<LineLatency>().expect_err("no such word");
        assert!(error.to_string().contains("'far'"), "{error}");
    }
}
