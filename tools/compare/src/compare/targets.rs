//! The targets of limic, relative to its peers in the same run.

use serde::Serialize;

use super::pattern::{Comparison, Pattern};
use super::subject::{BLOCKING, FLOOR, IMB, Subject, YARDSTICKS};

/// The peers that a target is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Against {
    /// All, of which the best one decides.
    Best,
    IntelMpi,
    /// The loop of two copies, or polled sockets.
    Floor,
    /// Intel MPI by another benchmark.
    Imb,
}

/// A ratio to reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Target {
    pub(super) against: Against,
    /// The time, or rate, of limic over that of the peer.
    pub(super) ratio: f64,
    /// A ratio of times may be at most this. Else it is a ratio of rates, and has to be at least
    /// this.
    pub(super) at_most: bool,
}

impl Against {
    pub(super) fn includes(self, name: &str) -> bool {
        match self {
            Self::Best => !YARDSTICKS.contains(&name) && name != BLOCKING,
            Self::IntelMpi => Subject::is_intel(name),
            Self::Floor => name == FLOOR,
            Self::Imb => name == IMB,
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Best => "",
            Self::IntelMpi => " (Intel MPI)",
            Self::Floor => " (floor)",
            Self::Imb => " (IMB)",
        }
    }
}

impl Target {
    pub(super) fn at_most(against: Against, ratio: f64) -> Self {
        Self {
            against,
            ratio,
            at_most: true,
        }
    }

    pub(super) fn at_least(against: Against, ratio: f64) -> Self {
        Self {
            against,
            ratio,
            at_most: false,
        }
    }

    pub(super) fn reached(&self, ratio: f64) -> bool {
        if self.at_most {
            ratio <= self.ratio
        } else {
            ratio >= self.ratio
        }
    }

    /// `<= 0.80`
    pub(super) fn words(&self) -> String {
        let sign = if self.at_most { "<=" } else { ">=" };
        format!("{sign} {:.2}{}", self.ratio, self.against.words())
    }
}

/// The targets of limic among its peers. Some sizes have none.
pub(super) fn of(comparison: Comparison, pattern: Pattern, bytes: u64) -> Vec<Target> {
    const KIB: u64 = 1 << 10;
    let (at_most, at_least) = (Target::at_most, Target::at_least);
    if comparison == Comparison::Tcp {
        return match pattern {
            Pattern::Latency => vec![at_most(Against::Best, 1.0), at_most(Against::Floor, 1.1)],
            _ => vec![
                at_least(Against::Best, 1.0),
                at_least(Against::Floor, 1.0 / 1.1),
            ],
        };
    }
    match pattern {
        Pattern::Latency if bytes <= 256 => vec![at_most(Against::Best, 0.6)],
        Pattern::Latency if bytes <= 8 * KIB => vec![at_most(Against::Best, 0.65)],
        Pattern::Latency => vec![
            match bytes / KIB {
                ..=16 => at_most(Against::Best, 0.8),
                17..=256 => at_most(Against::IntelMpi, 1.0),
                _ => at_most(Against::IntelMpi, 0.95),
            },
            at_most(Against::Floor, 1.08),
        ],
        Pattern::Bandwidth if bytes <= 32 * KIB => vec![at_least(Against::Best, 1.2)],
        Pattern::Bandwidth => vec![at_least(Against::Best, 1.0)],
        Pattern::Bibandwidth if bytes <= 8 * KIB => vec![at_least(Against::Best, 1.5)],
        Pattern::Bibandwidth => vec![at_least(Against::Best, 1.0)],
        Pattern::Rate => vec![at_least(Against::Best, 3.0)],
        Pattern::Barrier | Pattern::Alltoall => vec![at_most(Against::Best, 0.7)],
        // At any length.
        Pattern::Loan => vec![at_most(Against::Best, 1.5)],
        Pattern::Skew => vec![at_most(Against::Best, 1.2)],
        Pattern::AfterSkew => vec![at_least(Against::Best, 1.0 / 1.1)],
        Pattern::Allgather | Pattern::Allreduce => Vec::new(),
    }
}

/// The targets of limic's messages from peer-readable memory, of 16 KiB to 4 MiB.
pub(super) fn of_peer_readable(pattern: Pattern, bytes: u64) -> Vec<Target> {
    match pattern {
        Pattern::Latency if bytes <= 256 << 10 => vec![Target::at_most(Against::Best, 0.65)],
        Pattern::Latency => vec![Target::at_most(Against::Best, 0.85)],
        Pattern::Bandwidth => vec![Target::at_least(Against::Best, 1.3)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_has_its_target() {
        let peers = |pattern, bytes| of(Comparison::Peers, pattern, bytes);
        let first = |pattern, bytes| peers(pattern, bytes).first().map(Target::words);
        assert_eq!(first(Pattern::Latency, 256).as_deref(), Some("<= 0.60"));
        assert_eq!(first(Pattern::Latency, 512).as_deref(), Some("<= 0.65"));
        assert_eq!(
            first(Pattern::Latency, 16 << 10).as_deref(),
            Some("<= 0.80")
        );
        assert_eq!(
            first(Pattern::Latency, 32 << 10).as_deref(),
            Some("<= 1.00 (Intel MPI)")
        );
        assert_eq!(peers(Pattern::Latency, 4 << 20).len(), 2);
        assert_eq!(
            first(Pattern::Bandwidth, 32 << 10).as_deref(),
            Some(">= 1.20")
        );
        assert_eq!(
            first(Pattern::Bandwidth, 4 << 20).as_deref(),
            Some(">= 1.00")
        );
        assert_eq!(first(Pattern::Rate, 8).as_deref(), Some(">= 3.00"));
        let readable = |pattern, bytes| of_peer_readable(pattern, bytes)[0].words();
        assert_eq!(readable(Pattern::Latency, 256 << 10), "<= 0.65");
        assert_eq!(readable(Pattern::Latency, 512 << 10), "<= 0.85");
        assert_eq!(readable(Pattern::Bandwidth, 16 << 10), ">= 1.30");
        let over_tcp = of(Comparison::Tcp, Pattern::Bandwidth, 8);
        let words: Vec<String> = over_tcp.iter().map(Target::words).collect();
        assert_eq!(words, [">= 1.00", ">= 0.91 (floor)"]);
    }

    #[test]
    fn times_may_not_exceed_and_rates_may_not_fall_short() {
        let of = |pattern| of(Comparison::Peers, pattern, 8)[0];
        let time = of(Pattern::Latency);
        assert!(time.reached(0.6) && !time.reached(0.61));
        let rate = of(Pattern::Rate);
        assert!(rate.reached(3.0) && !rate.reached(2.99));
    }
}
