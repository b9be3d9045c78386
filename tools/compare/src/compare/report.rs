//! Everything that was measured of limic and its peers, as it is written to JSON.
//! docs/benchmarking.md describes it.

use std::path::Path;

use limic_peers::Kind;
use limic_runner::Failure;
use serde::Serialize;

use super::machine_state::{Distance, Distances};
use super::pattern::{Comparison, Pattern, Plan};
use super::ratio::{Judged, Point, Ratio, Score};
use super::run::Run;
use super::samples::Samples;
use super::subject::{FLOOR, IMB, LIMIC, Subject, YARDSTICKS};
use super::table::bytes;
use super::targets::{self, Against};
use super::{markdown, plot, show, table, write};

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
    /// Of the rounds that count here; none on a machine that kept one distance.
    pub(super) distance: Option<Distance>,
    pub(super) pattern: Pattern,
    pub(super) ranks: u32,
    pub(super) bytes: u64,
    pub(super) unit: &'static str,
    /// Results in the order of the names.
    pub(super) results: Vec<Option<Shown>>,
    /// limic's place among them, counted from 1.
    pub(super) rank: Option<usize>,
    /// The ratio to the best peer: the one that limic looks worst beside.
    pub(super) ratio: Option<Ratio>,
    /// The result of the best peer, or limic's own reference.
    pub(super) best: Option<Shown>,
    /// The loop of two copies, and the ratio to it.
    pub(super) floor: Option<Shown>,
    pub(super) over_floor: Option<Ratio>,
    /// Intel MPI by IMB, and the ratio of our pattern over Intel MPI to it.
    pub(super) imb: Option<Shown>,
    pub(super) over_imb: Option<Ratio>,
    pub(super) targets: Vec<Judged>,
}

/// A result in the pattern's unit.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Shown {
    pub(super) median: f64,
    /// The results of the best and the worst round.
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
    pub(super) fn new(run: Run, plan: &Plan, subjects: &[Subject], samples: &Samples) -> Self {
        let mut names: Vec<&'static str> = subjects.iter().map(Subject::name).collect();
        let all = plan.comparison == Comparison::Tcp;
        names.retain(|name| all || !YARDSTICKS.contains(name));
        let distances = Distances::of(&run.passes);
        let mut rows = Vec::new();
        for distance in distances.seen() {
            let samples = &samples.at(&distances, distance);
            let row = |(pattern, bytes)| row(plan, samples, distance, pattern, bytes, &names);
            rows.extend(samples.points().map(row));
        }
        Self { run, names, rows }
    }

    pub(super) fn score(&self) -> Score {
        Score::of(self.rows.iter().flat_map(|row| {
            let what = point_name(row.distance, row.pattern, row.bytes);
            row.targets.iter().map(move |one| (what.clone(), one))
        }))
    }

    /// Writes the report into a folder, and shows it.
    pub(super) fn finish(&self, folder: &Path) -> Result<(), Failure> {
        let (page, plot) = (markdown::render(self), self.plot()?);
        write(folder, self.name(), self, page, plot)?;
        show(&table::render(self));
        Ok(())
    }

    /// The name of its files.
    pub(super) fn name(&self) -> &'static str {
        match self.run.comparison {
            Comparison::Tcp => "tcp",
            _ => "results",
        }
    }

    fn plot(&self) -> Result<String, Failure> {
        let drawn = drawn(self.rows.iter().map(|row| row.distance));
        let panel = |pattern: Pattern| {
            let rows = || {
                let rows = self.rows.iter();
                rows.filter(|row| row.pattern == pattern && row.distance == drawn)
            };
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

/// `far latency 64K`
pub(super) fn point_name(distance: Option<Distance>, pattern: Pattern, size: u64) -> String {
    let distance = distance.map_or_else(String::new, |one| format!("{} ", one.name()));
    format!("{distance}{} {}", pattern.name(), bytes(size))
}

/// The distances of some rows, each once, in their order.
pub(super) fn distances(rows: impl Iterator<Item = Option<Distance>>) -> Vec<Option<Distance>> {
    let mut found: Vec<Option<Distance>> = rows.collect();
    found.dedup();
    found
}

/// The one that is in the picture of some rows: the first one, which is near where there are two.
pub(super) fn drawn(mut rows: impl Iterator<Item = Option<Distance>>) -> Option<Distance> {
    rows.next().flatten()
}

fn row(
    plan: &Plan,
    samples: &Samples,
    distance: Option<Distance>,
    pattern: Pattern,
    bytes: u64,
    names: &[&'static str],
) -> Row {
    let own = pattern.reference();
    let others = names.iter().copied().filter(|name| *name != LIMIC);
    let peers: Vec<&'static str> = match own {
        Some(reference) => vec![reference],
        None => others.chain([FLOOR]).collect(),
    };
    let point = Point {
        samples,
        pattern,
        bytes,
        mine: LIMIC,
        peers: &peers,
    };
    let cross_check = Point {
        mine: Kind::Intelmpi.title(),
        peers: &[IMB],
        ..point
    };
    let shown = |name: &str| Shown::of(samples, pattern, bytes, name);
    let ratio = point.ratio(Against::Best);
    Row {
        distance,
        pattern,
        ranks: plan.ranks(pattern),
        bytes,
        unit: pattern.unit(),
        results: names.iter().map(|name| shown(name)).collect(),
        // Against limic's own reference there is no place.
        rank: point.rank().filter(|_| own.is_none()),
        best: ratio.as_ref().and_then(|ratio| shown(ratio.peer)),
        ratio,
        floor: shown(FLOOR),
        over_floor: point.ratio(Against::Floor),
        imb: shown(IMB),
        over_imb: cross_check.ratio(Against::Imb),
        targets: point.judge(plan.judged_by(targets::of(plan.comparison, pattern, bytes))),
    }
}
