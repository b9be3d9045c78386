//! Everything that was measured, as it is written to JSON; docs/compare/README.md describes it.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::contestant::{Contestant, LIMIC};
use super::gauge::{self, Pass};
use super::load::Load;
use super::pattern::{Pattern, Plan};
use super::samples::Samples;
use super::targets::Against;
use super::verdict::{self, Judged, Ratio};
use super::{markdown, plot, write};
use crate::failure::Failure;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Of limic and of all peers.
    pub(super) versions: Vec<String>,
    /// The columns, limic first.
    pub(super) names: Vec<&'static str>,
    /// As `limic perf` describes it.
    pub(super) machine: Value,
    pub(super) cpus: [usize; 2],
    pub(super) quick: bool,
    pub(super) rounds: u32,
    pub(super) seconds_per_point: f64,
    pub(super) load: Load,
    /// In the order in which they were made.
    pub(super) passes: Vec<Pass>,
    pub(super) rows: Vec<Row>,
    /// Peers that could not be had, and why.
    pub(super) missing: Vec<String>,
    /// Runs that failed, and why.
    pub(super) failures: Vec<String>,
    /// What makes the figures doubtful.
    pub(super) warnings: Vec<String>,
    /// Variables that steer limic.
    pub(super) settings: Vec<String>,
}

/// One pattern at one size.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) pattern: &'static str,
    pub(super) ranks: u32,
    pub(super) bytes: u64,
    pub(super) unit: &'static str,
    /// In the order of the names.
    pub(super) results: Vec<Option<Shown>>,
    /// To the best peer.
    pub(super) ratio: Option<Ratio>,
    pub(super) targets: Vec<Judged>,
}

/// A result in the pattern's unit.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Shown {
    pub(super) median: f64,
    /// Of the best and the worst round.
    pub(super) best: f64,
    pub(super) worst: f64,
}

impl Report {
    pub(super) fn new(
        plan: &Plan,
        contestants: &[Contestant],
        cpus: &[usize; 2],
        samples: &Samples,
        load: Load,
        passes: Vec<Pass>,
    ) -> Self {
        let names: Vec<&'static str> = contestants.iter().map(Contestant::name).collect();
        let peers: Vec<&'static str> = names.iter().copied().filter(|n| *n != LIMIC).collect();
        let settings = std::env::vars()
            .filter(|(name, _)| name.starts_with("LIMIC_"))
            .map(|(name, value)| format!("{name}={value}"));
        let mut warnings = load.warnings();
        warnings.extend(gauge::warnings(&passes));
        let mut report = Self {
            versions: contestants
                .iter()
                .map(|one| one.title().to_owned())
                .collect(),
            machine: samples.machine().cloned().unwrap_or(Value::Null),
            cpus: *cpus,
            quick: plan.quick,
            rounds: passes.iter().map(|pass| pass.round).max().unwrap_or(0),
            seconds_per_point: plan.seconds,
            warnings,
            load,
            rows: Vec::new(),
            missing: Vec::new(),
            passes,
            failures: samples.failures(),
            settings: settings.collect(),
            names,
        };
        let points = samples.points();
        report.rows = points
            .map(|(pattern, bytes)| row(samples, pattern, bytes, &report.names, &peers))
            .collect();
        report
    }

    /// Targets reached, and all that could be judged.
    pub(super) fn score(&self) -> (usize, usize) {
        let judged = self.rows.iter().flat_map(|row| &row.targets);
        let judged: Vec<bool> = judged.filter_map(|one| one.reached).collect();
        (
            judged.iter().filter(|reached| **reached).count(),
            judged.len(),
        )
    }

    /// A text of the machine's description.
    pub(super) fn of_machine(&self, key: &str) -> String {
        match &self.machine[key] {
            Value::String(text) => text.clone(),
            Value::Null => "unknown".to_owned(),
            other => other.to_string(),
        }
    }

    /// Writes JSON, Markdown and the plot.
    pub(super) fn write(&self, folder: &Path) -> Result<(), Failure> {
        let json = serde_json::to_string_pretty(self)
            .map_err(|why| Failure::Wrong(format!("results as JSON: {why}")))?;
        write(folder, "results.json", &(json + "\n"))?;
        write(folder, "results.md", &markdown::render(self))?;
        write(folder, "results.svg", &plot::render(self)?)
    }
}

fn row(
    samples: &Samples,
    pattern: Pattern,
    bytes: u64,
    names: &[&'static str],
    peers: &[&'static str],
) -> Row {
    let shown = |name: &&'static str| {
        let spread = samples.spread(pattern, bytes, name)?;
        Some(Shown {
            median: pattern.shown(bytes, spread.median),
            best: pattern.shown(bytes, spread.least),
            worst: pattern.shown(bytes, spread.most),
        })
    };
    Row {
        pattern: pattern.name(),
        ranks: pattern.ranks(),
        bytes,
        unit: pattern.unit(),
        results: names.iter().map(shown).collect(),
        ratio: verdict::ratio(samples, pattern, bytes, peers, Against::Best),
        targets: verdict::judge(samples, pattern, bytes, peers),
    }
}
