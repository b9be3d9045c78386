//! The results of all rounds.

use std::collections::BTreeMap;

use serde::Serialize;

use super::contestant::Outcome;
use super::pattern::Pattern;

/// Times by pattern, size and contestant, each with a place for every round.
#[derive(Debug)]
pub(super) struct Samples {
    rounds: usize,
    times: BTreeMap<(Pattern, u64), OfAll>,
    /// The last failure of each.
    failures: BTreeMap<(Pattern, &'static str), String>,
    given_up: Vec<(Pattern, &'static str)>,
    machine: Option<serde_json::Value>,
}

/// Seconds in each round, by contestant.
type OfAll = BTreeMap<&'static str, Vec<Option<f64>>>;

/// Seconds of one message or operation over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Spread {
    /// Of some numbers, if there are any.
    pub(super) fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
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
    pub(super) fn new(rounds: usize) -> Self {
        Self {
            rounds,
            times: BTreeMap::new(),
            failures: BTreeMap::new(),
            given_up: Vec::new(),
            machine: None,
        }
    }

    /// Keeps what a run gave.
    pub(super) fn take(
        &mut self,
        round: usize,
        pattern: Pattern,
        name: &'static str,
        outcome: Outcome,
    ) {
        for (bytes, seconds) in outcome.times {
            let of_size = self.times.entry((pattern, bytes)).or_default();
            let rounds = of_size
                .entry(name)
                .or_insert_with(|| vec![None; self.rounds]);
            rounds[round] = Some(seconds);
        }
        if let Some(why) = outcome.failure {
            self.failures.insert((pattern, name), why);
        }
        if outcome.hung {
            self.given_up.push((pattern, name));
        }
        self.machine = self.machine.take().or(outcome.machine);
    }

    /// Whether it hung in this pattern; waiting for it in each round helps nobody.
    pub(super) fn given_up(&self, pattern: Pattern, name: &str) -> bool {
        self.given_up
            .iter()
            .any(|(p, n)| *p == pattern && *n == name)
    }

    /// Patterns and sizes with a result of anybody, in order.
    pub(super) fn points(&self) -> impl Iterator<Item = (Pattern, u64)> {
        self.times.keys().copied()
    }

    /// Seconds of each round.
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

    /// What failed, in words.
    pub(super) fn failures(&self) -> Vec<String> {
        let failures = self.failures.iter();
        failures
            .map(|((pattern, name), why)| format!("{name}, {}: {why}", pattern.name()))
            .collect()
    }

    /// limic's description of the machine.
    pub(super) fn machine(&self) -> Option<&serde_json::Value> {
        self.machine.as_ref()
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
    fn rounds_keep_their_places_and_one_that_hung_is_given_up() {
        let mut samples = Samples::new(3);
        let outcome = |seconds, hung: bool| Outcome {
            times: vec![(8, seconds)],
            failure: hung.then(|| "hung".to_owned()),
            hung,
            machine: None,
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
        assert_eq!(samples.failures(), ["a, rate: hung"]);
    }
}
