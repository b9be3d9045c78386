//! One subject against others at one size.

use std::collections::BTreeSet;

use serde::Serialize;

use super::pattern::Pattern;
use super::samples::{Samples, Spread};
use super::table::{rounds, times};
use super::targets::{Against, Target};

/// The result of one subject over that of another one. Of times less is better, of rates more.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Ratio {
    /// The name of the other one: of the peers in question, the one that this looks worst beside.
    pub(super) peer: &'static str,
    /// Rounds in which both finished.
    pub(super) rounds: usize,
    /// Median of the ratios within each round.
    pub(super) median: f64,
    /// The ratio of the best round of each side, which leaves disturbances out.
    pub(super) best_rounds: f64,
    /// Smallest and largest ratio within one round.
    pub(super) least: f64,
    pub(super) most: f64,
}

/// The targets that are reached, and those that are missed.
#[derive(Debug)]
pub(super) struct Score {
    pub(super) reached: usize,
    pub(super) judged: usize,
    /// Missed targets in words, the farthest first.
    pub(super) missed: Vec<String>,
}

/// A target, and whether it is reached.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Judged {
    pub(super) target: Target,
    /// `None` if there is no round that limic and a peer finished.
    pub(super) ratio: Option<Ratio>,
    /// Rounds in which limic failed and a peer did not.
    pub(super) failed: usize,
    /// `None` if there is no peer to compare with. A target is missed if limic failed in a round.
    pub(super) reached: Option<bool>,
}

impl Ratio {
    /// A warning where the ratio comes from little.
    pub(super) fn basis(&self) -> &'static str {
        if self.rounds == 1 {
            " in one round"
        } else {
            ""
        }
    }
}

impl Judged {
    /// The ratio, with as many digits as tell it from the target.
    pub(super) fn figure(&self, ratio: &Ratio) -> String {
        let text = times(ratio.median);
        if text == times(self.target.ratio) {
            format!("{:.4}", ratio.median)
        } else {
            text
        }
    }

    /// What limic failed in, in words.
    pub(super) fn failure(&self) -> Option<String> {
        (self.failed > 0).then(|| format!("it failed in {}", rounds(self.failed)))
    }

    /// The factor by which the target is missed; 1 or less if it is reached.
    pub(super) fn shortfall(&self) -> Option<f64> {
        let ratio = self.ratio.as_ref()?.median;
        Some(if self.target.at_most {
            ratio / self.target.ratio
        } else {
            self.target.ratio / ratio
        })
    }
}

impl Score {
    /// Counts targets, each of which comes with its pattern and size in words.
    pub(super) fn of<'a>(all: impl Iterator<Item = (String, &'a Judged)>) -> Self {
        let all: Vec<(String, &Judged)> = all.filter(|(_, one)| one.reached.is_some()).collect();
        let reached = all.iter().filter(|(_, one)| one.reached == Some(true));
        Self {
            reached: reached.count(),
            judged: all.len(),
            missed: missed(all.into_iter()),
        }
    }
}

fn missed<'a>(all: impl Iterator<Item = (String, &'a Judged)>) -> Vec<String> {
    let mut missed: Vec<(f64, String)> = all
        .filter(|(_, judged)| judged.reached == Some(false))
        .filter_map(|(what, judged)| {
            if let Some(failure) = judged.failure() {
                let words = format!("{what}: {failure}, wanted {}", judged.target.words());
                return Some((f64::INFINITY, words));
            }
            let ratio = judged.ratio.as_ref()?;
            let words = format!(
                "{what}: {} of {}{}, wanted {}",
                judged.figure(ratio),
                ratio.peer,
                ratio.basis(),
                judged.target.words()
            );
            Some((judged.shortfall()?, words))
        })
        .collect();
    missed.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let line = |(factor, words): (f64, String)| {
        if factor.is_finite() {
            format!("{words}; missed {factor:.2} times")
        } else {
            words
        }
    };
    missed.into_iter().map(line).collect()
}

/// The subjects that are compared at one size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point<'a> {
    pub(super) samples: &'a Samples,
    pub(super) pattern: Pattern,
    pub(super) bytes: u64,
    /// The subject whose ratios are wanted.
    pub(super) mine: &'static str,
    pub(super) peers: &'a [&'static str],
}

impl Point<'_> {
    /// The ratio to the peer of `against` that the subject looks worst beside.
    pub(super) fn ratio(&self, against: Against) -> Option<Ratio> {
        let ratios = self.ratios(against).into_iter();
        ratios.max_by(|a, b| self.behind(a).total_cmp(&self.behind(b)))
    }

    /// The ratio to each peer of `against`. A peer that finished far fewer rounds than others has
    /// none: few rounds may all have been lucky ones.
    fn ratios(&self, against: Against) -> Vec<Ratio> {
        let mut ratios: Vec<Ratio> = self
            .against(against)
            .filter_map(|peer| self.ratio_to(peer))
            .collect();
        let most = ratios.iter().map(|ratio| ratio.rounds).max().unwrap_or(0);
        ratios.retain(|ratio| 2 * ratio.rounds > most);
        ratios
    }

    fn against(&self, against: Against) -> impl Iterator<Item = &'static str> {
        let peers = self.peers.iter().copied();
        peers.filter(move |name| against.includes(name))
    }

    /// By how many times the subject is slower, in the median.
    fn behind(&self, ratio: &Ratio) -> f64 {
        if self.pattern.is_time() {
            ratio.median
        } else {
            1.0 / ratio.median
        }
    }

    fn ratio_to(&self, peer: &'static str) -> Option<Ratio> {
        let (samples, pattern, bytes) = (self.samples, self.pattern, self.bytes);
        let mine = samples.spread(pattern, bytes, self.mine)?;
        let theirs = samples.spread(pattern, bytes, peer)?;
        // Rates are the inverse of times.
        let over = |mine: f64, theirs: f64| {
            if pattern.is_time() {
                mine / theirs
            } else {
                theirs / mine
            }
        };
        let rounds = samples.of(pattern, bytes, self.mine).iter();
        let rounds = rounds.zip(samples.of(pattern, bytes, peer));
        let of_rounds: Vec<f64> = rounds
            .filter_map(|(a, b)| Some(over((*a)?, (*b)?)))
            .collect();
        // A comparison is fair only within rounds that both finished.
        let within = Spread::of(of_rounds.iter().copied())?;
        Some(Ratio {
            peer,
            rounds: of_rounds.len(),
            median: within.median,
            best_rounds: over(mine.least, theirs.least),
            least: within.least,
            most: within.most,
        })
    }

    /// Rounds that a peer of `against` finished, and the subject did not.
    fn failed(&self, against: Against) -> usize {
        let finished = |name: &str| {
            let rounds = self.samples.of(self.pattern, self.bytes, name).iter();
            let rounds = rounds.enumerate().filter(|(_, result)| result.is_some());
            rounds.map(|(round, _)| round).collect::<BTreeSet<usize>>()
        };
        let theirs: BTreeSet<usize> = self.against(against).flat_map(finished).collect();
        theirs.difference(&finished(self.mine)).count()
    }

    pub(super) fn judge(&self, targets: Vec<Target>) -> Vec<Judged> {
        let judged = targets.into_iter().map(|target| {
            let ratio = self.ratio(target.against);
            let failed = self.failed(target.against);
            let reached = ratio.as_ref().map(|ratio| target.reached(ratio.median));
            Judged {
                target,
                ratio,
                failed,
                reached: if failed > 0 { Some(false) } else { reached },
            }
        });
        judged.collect()
    }

    /// The subject's place among all by its ratios to them, 1 for the best.
    pub(super) fn rank(&self) -> Option<usize> {
        let ratios = self.ratios(Against::Best);
        let better = ratios.iter().filter(|ratio| self.behind(ratio) > 1.0);
        let result = self.samples.spread(self.pattern, self.bytes, self.mine);
        result.map(|_| 1 + better.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::machine_state::{Distance, Distances, Pass};
    use crate::compare::outcome::Outcome;
    use crate::compare::pattern::{Comparison, Portion};
    use crate::compare::subject::{FLOOR, LIMIC};
    use crate::compare::targets;

    const PEERS: [&str; 4] = ["MPICH", "Intel MPI", "UCX", FLOOR];

    fn samples(pattern: Pattern, times: &[(&'static str, &[f64])]) -> Samples {
        let mut samples = Samples::default();
        for (name, rounds) in times {
            for (round, seconds) in rounds.iter().enumerate() {
                let outcome = Outcome {
                    times: vec![(1 << 20, *seconds)],
                    ..Outcome::default()
                };
                samples.take(round, pattern, name, outcome);
            }
        }
        samples
    }

    fn point(samples: &Samples, pattern: Pattern) -> Point<'_> {
        Point {
            samples,
            pattern,
            bytes: 1 << 20,
            mine: LIMIC,
            peers: &PEERS,
        }
    }

    #[test]
    fn the_best_peer_is_the_one_with_the_worst_ratio() {
        let times: [(&'static str, &[f64]); 3] = [
            ("limic", &[2.0, 2.0, 4.0]),
            ("MPICH", &[4.0, 4.0, 1.0]),
            ("UCX", &[3.0, 2.5, 2.5]),
        ];
        let of = |pattern| {
            let samples = samples(pattern, &times);
            let point = point(&samples, pattern);
            assert_eq!(point.rank(), Some(1));
            point.ratio(Against::Best).expect("a ratio")
        };
        let time = of(Pattern::Latency);
        assert_eq!(
            (time.peer, time.median, time.best_rounds),
            ("UCX", 0.8, 0.8)
        );
        assert_eq!((time.least, time.most), (2.0 / 3.0, 1.6));
        let rate = of(Pattern::Bandwidth);
        assert_eq!((rate.median, rate.least, rate.most), (1.25, 0.625, 1.5));
    }

    #[test]
    fn a_peer_that_is_faster_in_most_rounds_decides_whatever_its_median() {
        // MPICH has the best median, though limic is faster in two rounds of three.
        let times: [(&'static str, &[f64]); 4] = [
            ("limic", &[1.0, 2.0, 6.0]),
            ("MPICH", &[4.0, 2.1, 1.5]),
            ("Intel MPI", &[0.9, 3.0, 5.0]),
            ("UCX", &[0.1]),
        ];
        for pattern in [Pattern::Latency, Pattern::Bandwidth] {
            let samples = samples(pattern, &times);
            let point = point(&samples, pattern);
            let ratio = point.ratio(Against::Best).expect("a ratio");
            // Intel MPI is faster in two. One round of UCX says nothing.
            assert_eq!((ratio.peer, point.rank()), ("Intel MPI", Some(2)));
        }
    }

    #[test]
    fn each_distance_has_a_ratio_of_its_steady_rounds() {
        let portion = Portion {
            pattern: Pattern::Latency,
            sizes: vec![1 << 20],
        };
        let pass = |round, us| Pass::new(round, &portion, Some(us));
        let mut passes = [pass(1, 0.03), pass(2, 0.18), pass(3, 0.17)];
        let times: [(&'static str, &[f64]); 2] =
            [("limic", &[1.0, 3.0, 4.0]), ("UCX", &[2.0, 2.0, 2.0])];
        let samples = samples(Pattern::Latency, &times);
        let ratio = |passes: &[Pass], distance| {
            let samples = samples.at(&Distances::of(passes), Some(distance));
            let ratio = point(&samples, Pattern::Latency).ratio(Against::Best);
            ratio.map(|ratio| (ratio.median, ratio.rounds))
        };
        assert_eq!(ratio(&passes, Distance::Near), Some((0.5, 1)));
        assert_eq!(ratio(&passes, Distance::Far), Some((1.75, 2)));
        // A round in which the machine changed counts nowhere.
        passes[2].read(Some(0.03));
        assert_eq!(ratio(&passes, Distance::Far), Some((1.5, 1)));
        passes[0].read(Some(0.18));
        assert_eq!(ratio(&passes, Distance::Near), None);
    }

    #[test]
    fn targets_are_judged_against_their_own_peers_and_misses_are_ranked() {
        let times: [(&'static str, &[f64]); 3] =
            [("limic", &[2.0]), ("Intel MPI", &[1.9]), (FLOOR, &[1.0])];
        let pattern = Pattern::Latency;
        let samples = samples(pattern, &times);
        let judged =
            point(&samples, pattern).judge(targets::of(Comparison::Peers, pattern, 1 << 20));
        let reached: Vec<_> = judged.iter().map(|one| one.reached).collect();
        assert_eq!(reached, [Some(false), Some(false)]);
        assert_eq!(judged[1].ratio.as_ref().map(|r| r.peer), Some(FLOOR));
        // The loop has no place among the peers.
        assert_eq!(point(&samples, pattern).rank(), Some(2));
        let score = Score::of(judged.iter().map(|one| ("latency 1M".to_owned(), one)));
        let missed = score.missed;
        assert!(
            missed[0].starts_with("latency 1M: 2.00 of floor"),
            "{missed:?}"
        );
        assert!(missed[1].ends_with("missed 1.11 times"), "{missed:?}");
    }

    #[test]
    fn without_a_peer_there_is_no_verdict_and_a_failure_is_a_miss() {
        let pattern = Pattern::Latency;
        let alone = samples(pattern, &[("limic", &[1.0])]);
        assert_eq!(point(&alone, pattern).ratio(Against::Best), None);
        let absent = samples(pattern, &[(FLOOR, &[1.0])]);
        let point = point(&absent, pattern);
        let judged = point.judge(targets::of(Comparison::Peers, pattern, 1 << 20));
        // There is no Intel MPI.
        let reached: Vec<_> = judged.iter().map(|one| one.reached).collect();
        assert_eq!(reached, [None, Some(false)]);
        let score = Score::of(judged.iter().map(|one| ("latency 1M".to_owned(), one)));
        let missed = score.missed;
        assert_eq!(missed.len(), 1);
        assert!(missed[0].starts_with("latency 1M: it failed"), "{missed:?}");
    }

    #[test]
    fn a_target_is_missed_if_a_round_failed() {
        let pattern = Pattern::Latency;
        let times: [(&'static str, &[f64]); 2] = [("limic", &[1.0]), (FLOOR, &[1.0, 1.0, 1.0])];
        let samples = samples(pattern, &times);
        let floor = Target::at_most(Against::Floor, 1.08);
        let judged = &point(&samples, pattern).judge(vec![floor])[0];
        assert_eq!((judged.reached, judged.failed), (Some(false), 2));
        let score = Score::of([("latency 1M".to_owned(), judged)].into_iter());
        let words = "latency 1M: it failed in 2 rounds, wanted <= 1.08 (floor)";
        assert_eq!((score.reached, score.missed), (0, vec![words.to_owned()]));
    }
}
