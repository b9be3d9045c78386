//! limic against its peers at one size.

use serde::Serialize;

use super::contestant::LIMIC;
use super::pattern::Pattern;
use super::samples::{Samples, Spread};
use super::targets::{self, Against, Target};

/// limic over one peer. Of times less is better, of rates more.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Ratio {
    /// The best of the peers that it is about.
    pub(super) peer: &'static str,
    /// Median of the ratios within each round.
    pub(super) median: f64,
    /// Of each side's best round: what is left of the ratio when disturbances are not.
    pub(super) best_rounds: f64,
    /// Smallest and largest ratio within one round.
    pub(super) least: f64,
    pub(super) most: f64,
}

/// A target, and whether it is reached.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Judged {
    pub(super) target: Target,
    /// `None` if there is no peer to compare with, or limic itself failed.
    pub(super) ratio: Option<Ratio>,
    pub(super) reached: Option<bool>,
}

/// The ratio to the best of the peers that `against` is about.
pub(super) fn ratio(
    samples: &Samples,
    pattern: Pattern,
    bytes: u64,
    peers: &[&'static str],
    against: Against,
) -> Option<Ratio> {
    let mine = samples.spread(pattern, bytes, LIMIC)?;
    let of_peer = |name: &&'static str| Some((*name, samples.spread(pattern, bytes, name)?));
    let considered = peers.iter().filter(|name| against.includes(name));
    let (peer, theirs) = considered
        .filter_map(of_peer)
        .min_by(|(_, a), (_, b)| a.median.total_cmp(&b.median))?;
    // Rates are the inverse of times.
    let over = |mine: f64, theirs: f64| {
        if pattern.is_time() {
            mine / theirs
        } else {
            theirs / mine
        }
    };
    let rounds = samples.of(pattern, bytes, LIMIC).iter();
    let rounds = rounds.zip(samples.of(pattern, bytes, peer));
    let of_rounds = rounds.filter_map(|(a, b)| Some(over((*a)?, (*b)?)));
    // Without a round that both finished there is nothing fair to compare.
    let within = Spread::of(of_rounds)?;
    Some(Ratio {
        peer,
        median: within.median,
        best_rounds: over(mine.least, theirs.least),
        least: within.least,
        most: within.most,
    })
}

/// All targets of a pattern and size.
pub(super) fn judge(
    samples: &Samples,
    pattern: Pattern,
    bytes: u64,
    peers: &[&'static str],
) -> Vec<Judged> {
    let targets = targets::of(pattern, bytes).into_iter();
    targets
        .map(|target| {
            let ratio = ratio(samples, pattern, bytes, peers, target.against);
            let reached = ratio.as_ref().map(|ratio| target.reached(ratio.median));
            Judged {
                target,
                ratio,
                reached,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::contestant::Outcome;

    const PEERS: [&str; 3] = ["MPICH", "Intel MPI", "UCX"];

    fn samples(pattern: Pattern, times: &[(&'static str, &[f64])]) -> Samples {
        let mut samples = Samples::new(3);
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

    #[test]
    fn the_best_peer_is_the_one_with_the_best_median() {
        let times: [(&'static str, &[f64]); 3] = [
            ("limic", &[2.0, 2.0, 4.0]),
            ("MPICH", &[4.0, 4.0, 1.0]),
            ("UCX", &[3.0, 2.5, 2.5]),
        ];
        let of = |pattern| {
            let samples = samples(pattern, &times);
            ratio(&samples, pattern, 1 << 20, &PEERS, Against::Best).expect("a ratio")
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
    fn targets_are_judged_against_their_own_peers() {
        let times: [(&'static str, &[f64]); 3] =
            [("limic", &[2.0]), ("Intel MPI", &[2.5]), ("MPICH", &[5.0])];
        let pattern = Pattern::Latency;
        let judged = judge(&samples(pattern, &times), pattern, 1 << 20, &PEERS);
        let reached: Vec<_> = judged.iter().map(|one| one.reached).collect();
        assert_eq!(reached, [Some(true), Some(false)]);
        assert_eq!(judged[1].ratio.as_ref().map(|r| r.peer), Some("MPICH"));
    }

    #[test]
    fn without_a_peer_or_limic_there_is_no_verdict() {
        let pattern = Pattern::Latency;
        let alone = samples(pattern, &[("limic", &[1.0])]);
        assert_eq!(ratio(&alone, pattern, 1 << 20, &PEERS, Against::Best), None);
        let absent = samples(pattern, &[("UCX", &[1.0])]);
        let judged = judge(&absent, pattern, 1 << 20, &PEERS);
        assert!(judged.iter().all(|one| one.reached.is_none()));
    }
}
