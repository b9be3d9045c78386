//! What is measured, of which sizes, and for how long.

use std::time::Duration;

/// How long `--quick` measures, if its first round leaves a choice.
const QUICK: Duration = Duration::from_secs(165);

/// Messages in a window.
pub(super) const WINDOW: u32 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum Pattern {
    /// Ping-pong; one way is half of the round trip
    Latency,
    /// Windows of 64 messages in one direction
    Bandwidth,
    /// Windows of 64 messages in both directions at once
    Bibandwidth,
    /// Messages of 8 bytes in windows of 64
    Rate,
    /// 8 ranks on the two CPUs meet
    Barrier,
    /// 8 ranks on the two CPUs send 1 KiB to each other
    Alltoall,
}

impl Pattern {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Bandwidth => "bandwidth",
            Self::Bibandwidth => "bibandwidth",
            Self::Rate => "rate",
            Self::Barrier => "barrier",
            Self::Alltoall => "alltoall",
        }
    }

    pub(super) fn ranks(self) -> u32 {
        match self {
            Self::Barrier | Self::Alltoall => 8,
            _ => 2,
        }
    }

    /// Whether results are shown as times, of which less is better.
    pub(super) fn is_time(self) -> bool {
        matches!(self, Self::Latency | Self::Barrier | Self::Alltoall)
    }

    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Latency | Self::Barrier | Self::Alltoall => "us",
            Self::Bandwidth | Self::Bibandwidth => "MB/s",
            Self::Rate => "M/s",
        }
    }

    /// What is shown for a message, or an operation, that takes this long.
    pub(super) fn shown(self, bytes: u64, seconds: f64) -> f64 {
        match self {
            Self::Latency | Self::Barrier | Self::Alltoall => seconds * 1e6,
            Self::Bandwidth => bytes as f64 / seconds / 1e6,
            Self::Bibandwidth => 2.0 * bytes as f64 / seconds / 1e6,
            Self::Rate => 1e-6 / seconds,
        }
    }
}

/// How much is measured.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) quick: bool,
    pub(super) rounds: u32,
    /// Of one size in one round.
    pub(super) seconds: f64,
    /// How often a pass is done again because the machine has changed meanwhile.
    pub(super) repeats: u32,
}

impl Plan {
    pub(super) fn new(quick: bool, rounds: Option<u32>) -> Self {
        Self {
            quick,
            rounds: rounds.unwrap_or(if quick { 3 } else { 5 }),
            seconds: if quick { 0.03 } else { 0.06 },
            repeats: if quick { 0 } else { 2 },
        }
    }

    pub(super) fn sizes(&self, pattern: Pattern) -> Vec<u64> {
        const KIB: u64 = 1 << 10;
        let quick = [
            8,
            256,
            KIB,
            4 * KIB,
            16 * KIB,
            64 * KIB,
            256 * KIB,
            1024 * KIB,
            4096 * KIB,
        ];
        let powers = (0..=22).map(|power| 1 << power);
        match pattern {
            Pattern::Rate => vec![8],
            Pattern::Barrier => vec![0],
            Pattern::Alltoall => vec![KIB],
            _ if self.quick => quick.to_vec(),
            Pattern::Latency => std::iter::once(0).chain(powers).collect(),
            Pattern::Bandwidth | Pattern::Bibandwidth => powers.collect(),
        }
    }

    /// Whether another round is likely to end in time, after `done` of them; one is always made.
    pub(super) fn has_time(&self, elapsed: Duration, done: u32) -> bool {
        !self.quick || done == 0 || elapsed + elapsed / done <= QUICK
    }

    /// A run that takes longer than this hangs: far beyond what the slowest peer needs.
    pub(super) fn limit(&self, pattern: Pattern) -> Duration {
        let points = self.sizes(pattern).len() as f64;
        Duration::from_secs_f64(20.0 + points * (10.0 * self.seconds + 0.5))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_shown_in_their_units() {
        assert_eq!(Pattern::Latency.shown(8, 2e-6), 2.0);
        assert_eq!(Pattern::Bandwidth.shown(1 << 20, 1e-3).round(), 1049.0);
        assert_eq!(Pattern::Bibandwidth.shown(500, 1e-6), 1000.0);
        assert_eq!(Pattern::Rate.shown(8, 1e-7).round(), 10.0);
    }

    #[test]
    fn all_powers_of_two_or_a_few() {
        let full = Plan::new(false, None);
        let sizes = full.sizes(Pattern::Latency);
        assert_eq!((sizes.len(), sizes[0], sizes[23]), (24, 0, 4 << 20));
        assert_eq!(full.sizes(Pattern::Bandwidth)[0], 1);
        let quick = Plan::new(true, Some(1));
        assert_eq!(quick.rounds, 1);
        assert!(quick.sizes(Pattern::Latency).len() < 10);
        let seconds = Duration::from_secs;
        assert!(quick.has_time(seconds(500), 0) && full.has_time(seconds(500), 1));
        assert!(quick.has_time(seconds(80), 1) && !quick.has_time(seconds(90), 1));
    }
}
