//! The line latency between the two CPUs at this moment: the time to hand one cache line over.
//!
//! On a virtual machine it changes several times over when the hypervisor moves a virtual CPU to
//! another part of the machine, and stays so for seconds or minutes. Results from before and after
//! such a change cannot be compared.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use limic_runner::timeout;
use serde::{Deserialize, Serialize};

use super::pattern::Pattern;
use super::samples::Spread;

/// Between two readings of one machine, there is no larger factor.
const CHANGED: f64 = 1.3;

/// For one reading.
const LIMIT: Duration = Duration::from_secs(20);

/// Whether the machine has changed between two readings.
pub(crate) fn changed(a: f64, b: f64) -> bool {
    a.max(b) > CHANGED * a.min(b)
}

/// One pass of a pattern through all subjects, and the line latency before the pass, between the
/// subjects and after the pass.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Pass {
    /// Counted from 1.
    pub(super) round: u32,
    pub(super) pattern: Pattern,
    /// None if nothing could be read.
    pub(super) line_latency_us_least: Option<f64>,
    pub(super) line_latency_us_most: Option<f64>,
    /// The time of the pass, repetitions included.
    pub(super) seconds: f64,
}

impl Pass {
    /// Begins after this reading.
    pub(super) fn new(round: u32, pattern: Pattern, reading: Option<f64>) -> Self {
        Self {
            round,
            pattern,
            line_latency_us_least: reading,
            line_latency_us_most: reading,
            seconds: 0.0,
        }
    }

    /// Takes in a further reading.
    pub(super) fn read(&mut self, reading: Option<f64>) {
        let Some(us) = reading else { return };
        self.line_latency_us_least =
            Some(self.line_latency_us_least.map_or(us, |least| least.min(us)));
        self.line_latency_us_most = Some(self.line_latency_us_most.map_or(us, |most| most.max(us)));
    }

    /// Whether the machine changed meanwhile, as far as it is known.
    pub(super) fn changed(&self) -> bool {
        match (self.line_latency_us_least, self.line_latency_us_most) {
            (Some(least), Some(most)) => changed(least, most),
            _ => false,
        }
    }
}

/// The distance of the CPUs, on a machine that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Distance {
    Near,
    Far,
}

/// The distance in each round of each pattern. On a machine that did not change there is none.
#[derive(Debug, Default)]
pub(super) struct Distances {
    /// The line latency that parts near from far, in microseconds.
    border: Option<f64>,
    passes: Vec<Pass>,
}

impl Distances {
    pub(super) fn of(passes: &[Pass]) -> Self {
        let changing = spread(passes).filter(|us| changed(us.least, us.most));
        Self {
            // The middle on a logarithmic scale.
            border: changing.map(|us| (us.least * us.most).sqrt()),
            passes: passes.to_vec(),
        }
    }

    /// None also for a pass in which the distance changed. `round` is counted from 0.
    pub(super) fn at(&self, pattern: Pattern, round: usize) -> Option<Distance> {
        let border = self.border?;
        let pass = self.pass(pattern, round)?;
        match (pass.line_latency_us_least?, pass.line_latency_us_most?) {
            (_, most) if most < border => Some(Distance::Near),
            (least, _) if least >= border => Some(Distance::Far),
            _ => None,
        }
    }

    /// Whether the distance changed while a pattern was measured, so that not all subjects met the
    /// same machine.
    pub(super) fn changed(&self, pattern: Pattern, round: usize) -> bool {
        self.pass(pattern, round).is_some_and(Pass::changed)
    }

    fn pass(&self, pattern: Pattern, round: usize) -> Option<&Pass> {
        let pattern = pattern.measured_with().unwrap_or(pattern);
        let mut passes = self.passes.iter();
        passes.find(|pass| pass.pattern == pattern && pass.round as usize == round + 1)
    }

    /// The number of passes at each distance, in words.
    fn words(&self) -> Option<String> {
        let border = self.border?;
        let line_latencies = |want: Option<Distance>| -> Vec<f64> {
            let all = self.passes.iter();
            let of = all.filter(|p| self.at(p.pattern, p.round as usize - 1) == want);
            of.filter_map(|pass| pass.line_latency_us_least).collect()
        };
        let words = |want: Distance, name: &str| {
            let us = line_latencies(Some(want));
            let median = Spread::of(us.iter().copied())?.median;
            Some(format!("{} {name} (median {median:.3} us)", us.len()))
        };
        let mut parts: Vec<String> = [(Distance::Near, "near"), (Distance::Far, "far")]
            .into_iter()
            .filter_map(|(want, name)| words(want, name))
            .collect();
        let between = line_latencies(None).len();
        if between > 0 {
            parts.push(format!("{between} from the one to the other"));
        }
        Some(format!(
            "passes, parted at a line latency of {border:.3} us: {}",
            parts.join(", ")
        ))
    }
}

/// Reads the line latency in microseconds, by `limic perf floor`.
pub(crate) fn read(limic: &Path, cpus: &[usize; 2]) -> Option<f64> {
    parse(&floor(limic, cpus)?)
}

/// limic's description of the machine.
pub(super) fn machine(limic: &Path, cpus: &[usize; 2]) -> Option<serde_json::Value> {
    let mut floor: serde_json::Value = serde_json::from_str(&floor(limic, cpus)?).ok()?;
    Some(floor["machine"].take())
}

fn floor(limic: &Path, cpus: &[usize; 2]) -> Option<String> {
    let mut command = Command::new(limic);
    command.args(["perf", "floor", "--sizes", "64", "--rounds", "3"]);
    command.args(["--seconds-per-point", "0.03", "--json", "-"]);
    let ended = timeout::run(command, cpus, LIMIT);
    ended.failure.is_none().then_some(ended.out)
}

#[derive(Deserialize)]
struct Floor {
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    path: String,
    time_us_min: f64,
}

fn parse(json: &str) -> Option<f64> {
    let floor: Floor = serde_json::from_str(json).ok()?;
    let row = floor
        .rows
        .into_iter()
        .find(|row| row.path == "cache-line")?;
    (row.time_us_min > 0.0).then_some(row.time_us_min)
}

/// The readings of all passes, in microseconds.
pub(super) fn spread(passes: &[Pass]) -> Option<Spread> {
    let readings = passes
        .iter()
        .flat_map(|pass| [pass.line_latency_us_least, pass.line_latency_us_most]);
    Spread::of(readings.flatten())
}

/// Doubts that the readings raise about the results.
pub(super) fn warnings(passes: &[Pass]) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(all) = spread(passes)
        && changed(all.least, all.most)
    {
        warnings.push(format!(
            "the CPUs did not keep their distance: the line latency was {:.3} to {:.3} us (median \
             {:.3}), so times differ between rounds; ratios are taken within each round, and shown \
             for each distance",
            all.least, all.most, all.median
        ));
        warnings.extend(Distances::of(passes).words());
    }
    let changed = passes.iter().filter(|pass| pass.changed()).count();
    if changed > 0 {
        warnings.push(format!(
            "that changed within {changed} of {} passes of a pattern through all peers, which \
             count only where there is no steady one",
            passes.len()
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(before: f64, after: f64) -> Pass {
        let mut pass = Pass::new(1, Pattern::Rate, Some(before));
        pass.read(Some(after));
        pass
    }

    #[test]
    fn a_machine_that_changes_is_noticed() {
        assert!(!pass(0.06, 0.07).changed());
        assert!(pass(0.06, 0.18).changed() && pass(0.18, 0.06).changed());
        assert!(!Pass::new(1, Pattern::Rate, None).changed());
        assert!(warnings(&[pass(0.06, 0.07)]).is_empty());
        assert_eq!(warnings(&[pass(0.06, 0.07), pass(0.17, 0.18)]).len(), 2);
        assert_eq!(warnings(&[pass(0.06, 0.18)]).len(), 3);
    }

    #[test]
    fn rounds_are_near_far_or_neither() {
        let mut passes = [pass(0.03, 0.031), pass(0.18, 0.17), pass(0.03, 0.18)];
        for (round, pass) in (1..).zip(&mut passes) {
            pass.round = round;
        }
        let distances = Distances::of(&passes);
        let at = [0, 1, 2, 3].map(|round| distances.at(Pattern::Rate, round));
        assert_eq!(at, [Some(Distance::Near), Some(Distance::Far), None, None]);
        assert_eq!(distances.at(Pattern::Latency, 0), None);
        let changed = [0, 1, 2, 3].map(|round| distances.changed(Pattern::Rate, round));
        assert_eq!(changed, [false, false, true, false]);
        let calm = Distances::of(&passes[..1]);
        assert_eq!(calm.at(Pattern::Rate, 0), None);
    }

    #[test]
    fn the_floor_is_read() {
        let json = r#"{"rows": [{"path": "memcpy", "time_us_min": 1.0},
            {"path": "cache-line", "time_us_min": 0.06}]}"#;
        assert_eq!(parse(json), Some(0.06));
        assert_eq!(parse(r#"{"rows": []}"#), None);
    }
}
