//! Everything that was measured of limic and its peers, as it is written to JSON; docs/compare/README.md describes it.

use std::path::Path;

use serde::Serialize;

use super::contestant::{Contestant, LIMIC};
use super::gauge::Distances;
use super::pattern::{Pattern, Plan};
use super::run::{self, Run};
use super::samples::Samples;
use super::table::bytes;
use super::targets::{self, Against};
use super::verdict::{self, Judged, Point, Ratio};
use super::{markdown, plot, write};
use crate::failure::Failure;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    #[serde(flatten)]
    pub(super) run: Run,
    /// The columns, limic first.
    pub(super) names: Vec<&'static str>,
    pub(super) rows: Vec<Row>,
}

/// One pattern at one size.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) pattern: Pattern,
    pub(super) ranks: u32,
    pub(super) bytes: u64,
    pub(super) unit: &'static str,
    /// In the order of the names.
    pub(super) results: Vec<Option<Shown>>,
    /// limic's place among them, from 1 on.
    pub(super) rank: Option<usize>,
    /// To the best peer.
    pub(super) ratio: Option<Ratio>,
    /// What the best peer, or limic's own reference, has reached.
    pub(super) best: Option<Shown>,
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

impl Shown {
    pub(super) fn of(samples: &Samples, pattern: Pattern, bytes: u64, name: &str) -> Option<Self> {
        let spread = samples.spread(pattern, bytes, name)?;
        Some(Self {
            median: pattern.shown(bytes, spread.median),
            best: pattern.shown(bytes, spread.least),
            worst: pattern.shown(bytes, spread.most),
        })
    }
}

impl Report {
    pub(super) fn new(
        run: Run,
        plan: &Plan,
        contestants: &[Contestant],
        samples: &Samples,
    ) -> Self {
        let names: Vec<&'static str> = contestants.iter().map(Contestant::name).collect();
        let distances = Distances::of(&run.passes);
        let samples = &samples.steady(&distances);
        let row = |(pattern, bytes)| row(plan, samples, &distances, pattern, bytes, &names);
        Self {
            rows: samples.points().map(row).collect(),
            run,
            names,
        }
    }

    /// Targets reached, and all that could be judged.
    pub(super) fn score(&self) -> (usize, usize) {
        run::score(self.rows.iter().flat_map(|row| &row.targets))
    }

    /// What is missed, the farthest first.
    pub(super) fn missed(&self) -> Vec<String> {
        let all = self.rows.iter().flat_map(|row| {
            let what = format!("{} {}", row.pattern.name(), bytes(row.bytes));
            let judged = row.targets.iter();
            judged.map(move |one| (what.clone(), one))
        });
        verdict::missed(all)
    }

    /// Writes JSON, Markdown and the plot.
    pub(super) fn write(&self, folder: &Path) -> Result<(), Failure> {
        let json = serde_json::to_string_pretty(self)
            .map_err(|why| Failure::Wrong(format!("results as JSON: {why}")))?;
        write(folder, "results.json", &(json + "\n"))?;
        write(folder, "results.md", &markdown::render(self))?;
        write(folder, "results.svg", &self.plot()?)
    }

    fn plot(&self) -> Result<String, Failure> {
        let panel = |pattern: Pattern| {
            let rows = || self.rows.iter().filter(|row| row.pattern == pattern);
            let line = |(at, name): (usize, &&'static str)| plot::Line {
                name: (*name).to_owned(),
                color: at,
                bold: *name == LIMIC,
                points: rows()
                    .filter_map(|row| Some((row.bytes, row.results[at]?.median)))
                    .collect(),
            };
            plot::Panel {
                title: format!("{}: {}", pattern.name(), self.run.of_machine("cpu")),
                unit: pattern.unit(),
                lines: self.names.iter().enumerate().map(line).collect(),
            }
        };
        let patterns = [Pattern::Latency, Pattern::Bandwidth, Pattern::Bibandwidth];
        plot::render(&patterns.map(panel))
    }
}

fn row(
    plan: &Plan,
    samples: &Samples,
    distances: &Distances,
    pattern: Pattern,
    bytes: u64,
    names: &[&'static str],
) -> Row {
    let own = pattern.reference();
    let others = names.iter().copied().filter(|name| *name != LIMIC);
    let peers: Vec<&'static str> = match own {
        Some(reference) => vec![reference],
        None => others.collect(),
    };
    let point = Point {
        samples,
        distances,
        pattern,
        bytes,
        mine: LIMIC,
        peers: &peers,
    };
    let shown = |name: &str| Shown::of(samples, pattern, bytes, name);
    let ratio = point.ratio(Against::Best);
    Row {
        pattern,
        ranks: plan.ranks(pattern),
        bytes,
        unit: pattern.unit(),
        results: names.iter().map(|name| shown(name)).collect(),
        // There is no place among oneself.
        rank: point.rank().filter(|_| own.is_none()),
        best: ratio.as_ref().and_then(|ratio| shown(ratio.peer)),
        ratio,
        targets: point.judge(targets::of(pattern, bytes)),
    }
}
