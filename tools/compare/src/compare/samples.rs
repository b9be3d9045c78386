//! The results of all rounds.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::machine_state::{Distance, Distances};
use super::outcome::Outcome;
use super::pattern::Pattern;
use super::subject::LIMIC;
use super::table::rounds;

/// Times by pattern, size and subject, each with a place for every round.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Samples {
    times: Rounds<f64>,
    /// The paths that limic took.
    paths: Rounds<String>,
    failures: BTreeMap<(Pattern, &'static str), Failures>,
    given_up: Vec<(Pattern, &'static str)>,
    machine: Option<serde_json::Value>,
}

/// The rounds in which a subject failed in a pattern, and the last reason.
type Failures = (BTreeSet<usize>, String);

/// Something of each round, by pattern, size and subject.
type Rounds<T> = BTreeMap<(Pattern, u64), BTreeMap<&'static str, Vec<Option<T>>>>;

/// Puts it in its place.
fn enter<T: Clone>(
    rounds: &mut Rounds<T>,
    point: (Pattern, u64),
    name: &'static str,
    round: usize,
    value: T,
) {
    let places = rounds.entry(point).or_default().entry(name).or_default();
    places.resize(places.len().max(round + 1), None);
    places[round] = Some(value);
}

/// Keeps what is of these rounds, and the points that have any.
fn keep<T>(rounds: &mut Rounds<T>, holds: impl Fn((Pattern, u64), usize) -> bool) {
    rounds.retain(|point, all| {
        for (round, place) in all.values_mut().flat_map(|of| of.iter_mut().enumerate()) {
            place.take_if(|_| !holds(*point, round));
        }
        all.values().flatten().any(Option::is_some)
    });
}

/// The median and the range of some numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// None without a number.
    pub(crate) fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = numbers.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let middle = (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0;
        Some(Self {
            median: middle,
            least,
            most,
        })
    }
}

impl Samples {
    /// Takes in the results of a run.
    pub(super) fn take(
        &mut self,
        round: usize,
        pattern: Pattern,
        name: &'static str,
        outcome: Outcome,
    ) {
        for (bytes, seconds) in outcome.times {
            enter(&mut self.times, (pattern, bytes), name, round, seconds);
        }
        for (pattern, bytes, seconds) in outcome.also {
            enter(&mut self.times, (pattern, bytes), name, round, seconds);
        }
        for (pattern, bytes, seconds) in outcome.references {
            let name = pattern.reference().unwrap_or(LIMIC);
            enter(&mut self.times, (pattern, bytes), name, round, seconds);
        }
        for (bytes, path) in outcome.paths {
            enter(&mut self.paths, (pattern, bytes), name, round, path);
        }
        if let Some(why) = outcome.failure {
            let failures = self.failures.entry((pattern, name)).or_default();
            failures.0.insert(round);
            failures.1 = why;
        }
        if outcome.hung {
            self.given_up.push((pattern, name));
        }
        self.machine = self.machine.take().or(outcome.machine);
    }

    /// The rounds at a distance alone, and the points that have any.
    pub(super) fn at(&self, distances: &Distances, distance: Option<Distance>) -> Self {
        let mut kept = self.clone();
        let holds = |point, round| distances.holds(point, round, distance);
        keep(&mut kept.times, holds);
        keep(&mut kept.paths, holds);
        kept
    }

    /// Whether a subject hung in this pattern. It is not waited for again.
    pub(super) fn given_up(&self, pattern: Pattern, name: &str) -> bool {
        self.given_up
            .iter()
            .any(|(p, n)| *p == pattern && *n == name)
    }

    /// Patterns and sizes with a result of any subject, in order.
    pub(super) fn points(&self) -> impl Iterator<Item = (Pattern, u64)> {
        self.times.keys().copied()
    }

    /// The seconds in each round.
    pub(super) fn of(&self, pattern: Pattern, bytes: u64, name: &str) -> &[Option<f64>] {
        let found = self
            .times
            .get(&(pattern, bytes))
            .and_then(|of| of.get(name));
        found.map_or(&[], Vec::as_slice)
    }

    pub(super) fn spread(&self, pattern: Pattern, bytes: u64, name: &str) -> Option<Spread> {
        Spread::of(self.of(pattern, bytes, name).iter().copied().flatten())
    }

    /// The paths that limic took, that of the most rounds first.
    pub(super) fn paths(&self, point: (Pattern, u64), name: &str) -> Vec<&str> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let found = self.paths.get(&point).and_then(|of| of.get(name));
        for path in found.into_iter().flatten().flatten() {
            *counts.entry(path).or_default() += 1;
        }
        let mut paths: Vec<&str> = counts.keys().copied().collect();
        paths.sort_by_key(|path| std::cmp::Reverse(counts[path]));
        paths
    }

    /// The failures, in words.
    pub(super) fn failures(&self) -> Vec<String> {
        let failures = self.failures.iter();
        failures
            .map(|((pattern, name), (failed, why))| {
                let count = rounds(failed.len());
                format!("{name}, {}, {count}: {why}", pattern.name())
            })
            .collect()
    }

    /// limic's description of the machine.
    pub(super) fn machine(&self) -> Option<&serde_json::Value> {
        self.machine.as_ref()
    }
}

/// [`Rounds`] for a file.
type StoredRounds<T> = Vec<(Pattern, u64, String, Vec<Option<T>>)>;

fn store<T: Clone>(rounds: &Rounds<T>) -> StoredRounds<T> {
    let of_all = rounds.iter().flat_map(|((pattern, bytes), all)| {
        let of = |(name, rounds): (&&'static str, &Vec<Option<T>>)| {
            (*pattern, *bytes, (*name).to_owned(), rounds.clone())
        };
        all.iter().map(of)
    });
    of_all.collect()
}

/// What was stored, of the names that are known.
fn restore<T>(
    stored: StoredRounds<T>,
    known: impl Fn(Pattern, &str) -> Option<&'static str>,
) -> Rounds<T> {
    let mut restored = Rounds::new();
    for (pattern, bytes, name, rounds) in stored {
        if let Some(name) = known(pattern, &name) {
            let of_all: &mut BTreeMap<_, _> = restored.entry((pattern, bytes)).or_default();
            of_all.insert(name, rounds);
        }
    }
    restored
}

/// [`Samples`] for a file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Stored {
    times: StoredRounds<f64>,
    paths: StoredRounds<String>,
    failures: Vec<(Pattern, String, Failures)>,
    given_up: Vec<(Pattern, String)>,
    machine: Option<serde_json::Value>,
}

impl Samples {
    pub(super) fn store(&self) -> Stored {
        let failures = self.failures.iter();
        let failures = failures.map(|((p, name), of)| (*p, (*name).to_owned(), of.clone()));
        let given_up = self.given_up.iter();
        Stored {
            times: store(&self.times),
            paths: store(&self.paths),
            failures: failures.collect(),
            given_up: given_up.map(|(p, name)| (*p, (*name).to_owned())).collect(),
            machine: self.machine.clone(),
        }
    }

    /// Takes up what was stored. Only results of these `names` and of the references count.
    pub(super) fn restore(stored: Stored, names: &[&'static str]) -> Self {
        let known = |pattern: Pattern, name: &str| {
            let all = names.iter().copied().chain(pattern.reference());
            all.into_iter().find(|known| *known == name)
        };
        let mut samples = Self {
            times: restore(stored.times, known),
            paths: restore(stored.paths, known),
            ..Self::default()
        };
        for (pattern, name, failures) in stored.failures {
            if let Some(name) = known(pattern, &name) {
                samples.failures.insert((pattern, name), failures);
            }
        }
        for (pattern, name) in stored.given_up {
            samples
                .given_up
                .extend(known(pattern, &name).map(|name| (pattern, name)));
        }
        samples.machine = stored.machine;
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_extremes() {
        let spread = Spread::of([3.0, 1.0, 2.0]).expect("numbers");
        assert_eq!((spread.median, spread.least, spread.most), (2.0, 1.0, 3.0));
        assert_eq!(Spread::of([4.0, 1.0]).expect("numbers").median, 2.5);
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn rounds_keep_their_places_and_a_subject_that_hung_is_given_up() {
        let mut samples = Samples::default();
        let outcome = |seconds, hung: bool| Outcome {
            times: vec![(8, seconds)],
            failure: hung.then(|| "hung".to_owned()),
            hung,
            ..Outcome::default()
        };
        samples.take(0, Pattern::Rate, "a", outcome(1.0, false));
        samples.take(2, Pattern::Rate, "a", outcome(3.0, true));
        assert_eq!(
            samples.of(Pattern::Rate, 8, "a"),
            [Some(1.0), None, Some(3.0)]
        );
        assert_eq!(samples.of(Pattern::Rate, 8, "b"), []);
        assert!(samples.given_up(Pattern::Rate, "a"));
        assert!(!samples.given_up(Pattern::Latency, "a"));
        assert_eq!(samples.failures(), ["a, rate, one round: hung"]);
        samples.take(3, Pattern::Rate, "a", outcome(1.0, true));
        assert_eq!(samples.failures(), ["a, rate, 2 rounds: hung"]);
    }

    #[test]
    fn the_path_of_most_rounds_is_named_first() {
        let mut samples = Samples::default();
        for (round, path) in ["cma", "split-copy", "split-copy"].into_iter().enumerate() {
            let outcome = Outcome {
                paths: vec![(8, path.to_owned())],
                ..Outcome::default()
            };
            samples.take(round, Pattern::Latency, LIMIC, outcome);
        }
        let point = (Pattern::Latency, 8);
        assert_eq!(samples.paths(point, LIMIC), ["split-copy", "cma"]);
        assert!(samples.paths(point, "UCX").is_empty());
        // No pass was steady.
        let none = samples.at(&Distances::default(), None);
        assert!(none.paths(point, LIMIC).is_empty());
    }

    #[test]
    fn what_is_stored_comes_back() {
        let mut samples = Samples::default();
        let outcome = Outcome {
            times: vec![(8, 1.5)],
            paths: vec![(8, "send-ahead".to_owned())],
            also: vec![(Pattern::AfterSkew, 8, 0.5)],
            references: vec![(Pattern::Skew, 8, 2.5)],
            failure: Some("partly".to_owned()),
            hung: true,
            machine: Some("x".into()),
        };
        samples.take(1, Pattern::Skew, LIMIC, outcome);
        let text = serde_json::to_string(&samples.store()).expect("JSON");
        let stored = serde_json::from_str(&text).expect("the same");
        let again = Samples::restore(stored, &[LIMIC]);
        assert_eq!(again, samples);
        assert_eq!(
            again.of(Pattern::Skew, 8, "own eager path"),
            [None, Some(2.5)]
        );
        let stored = serde_json::from_str(&text).expect("the same");
        assert_eq!(
            Samples::restore(stored, &[]).of(Pattern::Skew, 8, LIMIC),
            []
        );
    }
}
