//! The patterns that are measured, their sizes, and the time for each.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::table::bytes;
use super::targets::Target;

/// The time limit with `--quick`.
const QUICK: Duration = Duration::from_secs(160);

/// The time limit without it.
const FULL: Duration = Duration::from_secs(13 * 60);

/// Messages in a window.
pub(super) const WINDOW: u32 = 64;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The two kinds of comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Comparison {
    /// limic with MPIs, UCX and libfabric.
    Peers,
    /// Each MPI with itself over limic.
    Mpi,
    /// limic with the same layers and bare sockets, over TCP between two network namespaces.
    Tcp,
}

impl Comparison {
    /// The option that asks for it, in words.
    pub(super) fn option(self) -> &'static str {
        match self {
            Self::Peers => "without --mpi and --tcp",
            Self::Mpi => "with --mpi",
            Self::Tcp => "with --tcp",
        }
    }

    /// For names of files.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Peers => "peers",
            Self::Mpi => "mpi",
            Self::Tcp => "tcp",
        }
    }

    /// The patterns that it knows, in the order in which they are measured.
    pub(super) fn patterns(self) -> &'static [Pattern] {
        match self {
            Self::Peers => &[
                Pattern::Latency,
                Pattern::Rate,
                Pattern::Bandwidth,
                Pattern::Bibandwidth,
                Pattern::Barrier,
                Pattern::Alltoall,
                Pattern::Loan,
                Pattern::Skew,
            ],
            Self::Mpi => &[
                Pattern::Latency,
                Pattern::Bandwidth,
                Pattern::Alltoall,
                Pattern::Allgather,
                Pattern::Allreduce,
                Pattern::Barrier,
            ],
            Self::Tcp => &[Pattern::Latency, Pattern::Bandwidth],
        }
    }
}

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Pattern {
    /// Ping-pong; one way is half of the round trip
    Latency,
    /// Windows of 64 messages in one direction
    Bandwidth,
    /// Windows of 64 messages in both directions at once
    Bibandwidth,
    /// Messages of 8 bytes in windows of 64
    Rate,
    /// 8 ranks on two CPUs, or one on each of more, meet
    Barrier,
    /// Each rank sends a block to each: 8 ranks on two CPUs, or one on each of more; with --mpi
    /// always one on each
    Alltoall,
    /// With --mpi: each rank sends its block to all
    Allgather,
    /// With --mpi: all ranks get the sums
    Allreduce,
    /// limic's loans in a ping-pong, against its own message of 8 bytes
    Loan,
    /// limic's producer before a slow consumer, and their bandwidth afterwards
    Skew,
    /// The second half of [`Self::Skew`], measured with it.
    #[value(skip)]
    AfterSkew,
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
            Self::Allgather => "allgather",
            Self::Allreduce => "allreduce",
            Self::Loan => "loan",
            Self::Skew => "skew",
            Self::AfterSkew => "after-skew",
        }
    }

    /// The result of limic's own that it is compared with where no peer has the like.
    pub(super) fn reference(self) -> Option<&'static str> {
        match self {
            Self::Loan => Some("own 8-byte message"),
            Self::Skew => Some("own eager path"),
            Self::AfterSkew => Some("own single copy"),
            _ => None,
        }
    }

    /// The pattern whose runs give this one's results too.
    pub(super) fn measured_with(self) -> Option<Self> {
        (self == Self::AfterSkew).then_some(Self::Skew)
    }

    /// Whether results are times, of which less is better.
    pub(super) fn is_time(self) -> bool {
        matches!(self.unit(), "us")
    }

    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Bandwidth | Self::Bibandwidth | Self::AfterSkew => "MB/s",
            Self::Rate => "M/s",
            _ => "us",
        }
    }

    /// The number that is shown for a message, or an operation, that takes this long.
    pub(super) fn shown(self, bytes: u64, seconds: f64) -> f64 {
        match self {
            Self::Bandwidth | Self::AfterSkew => bytes as f64 / seconds / 1e6,
            Self::Bibandwidth => 2.0 * bytes as f64 / seconds / 1e6,
            Self::Rate => 1e-6 / seconds,
            _ => seconds * 1e6,
        }
    }
}

/// Sizes of a pattern that are measured in one pass. Few enough that the machine often stays as it
/// is meanwhile.
#[derive(Clone, Debug)]
pub(super) struct Portion {
    pub(super) pattern: Pattern,
    /// At least one, in order.
    pub(super) sizes: Vec<u64>,
}

impl Portion {
    /// The most sizes in one pass: those of a quick comparison.
    const MOST: usize = 9;

    /// The first size and the last one.
    pub(super) fn ends(&self) -> (u64, u64) {
        let first = self.sizes.first().copied().unwrap_or_default();
        (first, self.sizes.last().copied().unwrap_or(first))
    }

    /// `latency 0 to 64`
    pub(super) fn title(&self) -> String {
        let (name, (first, last)) = (self.pattern.name(), self.ends());
        if first == last {
            return name.to_owned();
        }
        format!("{name} {} to {}", bytes(first), bytes(last))
    }
}

/// The extent of a measurement.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) comparison: Comparison,
    pub(super) quick: bool,
    /// How many CPUs there are. On more than two, each has a rank.
    pub(super) cpus: usize,
    /// Steady rounds at each distance that the machine shows.
    pub(super) rounds: u32,
    /// Time for one size in one round.
    pub(super) seconds: f64,
    /// No pass begins that is likely to end after this time.
    pub(super) limit: Duration,
    /// Whether the limit cuts even the first round short.
    pub(super) strict: bool,
}

impl Plan {
    /// Steady rounds of a whole comparison.
    pub(super) const ROUNDS: u32 = 5;

    /// `seconds` is how long to measure in all, if that was asked for.
    pub(super) fn new(
        comparison: Comparison,
        cpus: usize,
        quick: bool,
        rounds: Option<u32>,
        seconds: Option<u64>,
    ) -> Self {
        let usual = if quick { QUICK } else { FULL };
        Self {
            comparison,
            quick,
            cpus,
            rounds: rounds.unwrap_or(if quick { 3 } else { Self::ROUNDS }),
            seconds: if quick { 0.03 } else { 0.06 },
            limit: seconds.map_or(usual, Duration::from_secs),
            strict: seconds.is_some(),
        }
    }

    pub(super) fn ranks(&self, pattern: Pattern) -> u32 {
        match (pattern, self.comparison) {
            _ if self.cpus > 2 => self.cpus as u32,
            (Pattern::Barrier, _) | (Pattern::Alltoall, Comparison::Peers) => 8,
            _ => 2,
        }
    }

    /// Whether each rank of a pattern has a CPU of its own.
    pub(super) fn one_each(&self, pattern: Pattern) -> bool {
        self.ranks(pattern) as usize == self.cpus
    }

    /// Those of some targets that hold here: they are of one pair, and of ranks on two CPUs.
    pub(super) fn judged_by(&self, targets: Vec<Target>) -> Vec<Target> {
        if self.cpus > 2 { Vec::new() } else { targets }
    }

    /// The sizes of a pattern, in portions of nearly one length.
    pub(super) fn portions(&self, pattern: Pattern) -> Vec<Portion> {
        let sizes = self.sizes(pattern);
        let portion = |sizes: &[u64]| Portion {
            pattern,
            sizes: sizes.to_vec(),
        };
        let count = sizes.len().div_ceil(Portion::MOST);
        let length = sizes.len().div_ceil(count);
        sizes.chunks(length).map(portion).collect()
    }

    fn sizes(&self, pattern: Pattern) -> Vec<u64> {
        let powers = |from: u32, to: u32| (from..=to).map(|power| 1 << power);
        match pattern {
            Pattern::Rate => vec![8],
            Pattern::Barrier => vec![0],
            Pattern::Alltoall if self.comparison == Comparison::Peers => vec![KIB],
            Pattern::Loan => vec![8, MIB, 64 * MIB],
            Pattern::Skew | Pattern::AfterSkew => vec![16 * KIB, 64 * KIB],
            Pattern::Alltoall | Pattern::Allgather | Pattern::Allreduce if self.quick => {
                vec![KIB, 16 * KIB, 128 * KIB, MIB]
            }
            Pattern::Alltoall | Pattern::Allgather | Pattern::Allreduce => powers(10, 20).collect(),
            Pattern::Latency | Pattern::Bandwidth | Pattern::Bibandwidth => match self.comparison {
                Comparison::Peers if self.quick => {
                    let kibs = [1, 4, 16, 64, 256, 1024, 4096].map(|n| n * KIB);
                    [8, 256].into_iter().chain(kibs).collect()
                }
                Comparison::Mpi | Comparison::Tcp if self.quick => {
                    let kibs = [1, 16, 64, 256, 1024, 4096].map(|n| n * KIB);
                    std::iter::once(8).chain(kibs).collect()
                }
                Comparison::Peers if pattern == Pattern::Latency => {
                    std::iter::once(0).chain(powers(0, 22)).collect()
                }
                Comparison::Peers => powers(0, 22).collect(),
                Comparison::Mpi | Comparison::Tcp => powers(3, 22).collect(),
            },
        }
    }

    /// Whether a pass of the `expected` time fits in after the time that this run has `spent`.
    pub(super) fn has_time(&self, spent: Duration, expected: Duration, first_round: bool) -> bool {
        first_round && !self.strict || spent + expected <= self.limit
    }

    /// A run that takes longer hangs. The slowest peer needs far less.
    pub(super) fn patience(&self, portion: &Portion) -> Duration {
        let points = portion.sizes.len() as f64;
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
        assert!(Pattern::Loan.is_time() && !Pattern::AfterSkew.is_time());
    }

    #[test]
    fn all_powers_of_two_or_a_few() {
        let full = Plan::new(Comparison::Peers, 2, false, None, None);
        let sizes = full.sizes(Pattern::Latency);
        assert_eq!((sizes.len(), sizes[0], sizes[23]), (24, 0, 4 << 20));
        assert_eq!(full.sizes(Pattern::Bandwidth)[0], 1);
        let quick = Plan::new(Comparison::Peers, 2, true, Some(1), None);
        assert_eq!(quick.rounds, 1);
        assert!(quick.sizes(Pattern::Latency).len() < 10);
        assert_eq!(quick.portions(Pattern::Latency).len(), 1);
        let portions = full.portions(Pattern::Latency);
        let titles: Vec<String> = portions.iter().map(Portion::title).collect();
        assert_eq!(
            titles,
            ["latency 0 to 64", "latency 128 to 16K", "latency 32K to 4M"]
        );
        assert_eq!(full.portions(Pattern::Rate)[0].title(), "rate");
        let mpi = Plan::new(Comparison::Mpi, 2, false, None, None);
        assert_eq!(
            (mpi.ranks(Pattern::Alltoall), full.ranks(Pattern::Alltoall)),
            (2, 8)
        );
        assert_eq!(mpi.sizes(Pattern::Allreduce).len(), 11);
        let many = Plan::new(Comparison::Peers, 16, false, None, None);
        assert_eq!(
            (many.ranks(Pattern::Latency), many.ranks(Pattern::Barrier)),
            (16, 16)
        );
    }

    #[test]
    fn time_is_bounded_and_the_first_round_is_made_unless_a_time_was_asked_for() {
        let seconds = Duration::from_secs;
        let quick = Plan::new(Comparison::Peers, 2, true, None, None);
        assert!(quick.has_time(seconds(100), seconds(20), false));
        assert!(!quick.has_time(seconds(150), seconds(20), false));
        assert!(quick.has_time(seconds(150), seconds(20), true));
        let asked = Plan::new(Comparison::Peers, 2, true, None, Some(45));
        assert!(!asked.has_time(seconds(40), seconds(10), true));
    }
}
