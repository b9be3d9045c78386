//! Everything that was measured of the MPIs, as it is written to JSON. docs/benchmarking.md
//! describes it.

use std::path::Path;

use limic_runner::Failure;
use serde::Serialize;

use super::super::machine_state::{Distance, Distances};
use super::super::pattern::{Pattern, Plan};
use super::super::ratio::{Judged, Point, Ratio, Score};
use super::super::report::{Shown, drawn, point_name};
use super::super::run::Run;
use super::super::samples::Samples;
use super::super::targets::Against;
use super::super::{plot, show, write};
use super::{Duel, goals, markdown, table};

/// The patterns in the plot.
const DRAWN: [Pattern; 5] = [
    Pattern::Latency,
    Pattern::Bandwidth,
    Pattern::Alltoall,
    Pattern::Allgather,
    Pattern::Allreduce,
];

#[derive(Debug, Serialize)]
pub(in super::super) struct Report {
    #[serde(flatten)]
    pub(super) run: Run,
    pub(super) rows: Vec<Row>,
}

/// One MPI in one pattern at one size.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    /// Of the rounds that count here; none on a machine that kept one distance.
    pub(super) distance: Option<Distance>,
    pub(super) mpi: &'static str,
    pub(super) pattern: Pattern,
    pub(super) ranks: u32,
    pub(super) bytes: u64,
    pub(super) unit: &'static str,
    /// The result by its own path.
    pub(super) own: Option<Shown>,
    pub(super) over_limic: Option<Shown>,
    /// The ratio of the second result to the first one.
    pub(super) ratio: Option<Ratio>,
    pub(super) targets: Vec<Judged>,
}

impl Report {
    pub(in super::super) fn new(run: Run, plan: &Plan, duels: &[Duel], samples: &Samples) -> Self {
        let distances = Distances::of(&run.passes);
        let mut rows = Vec::new();
        for distance in distances.seen() {
            rows.extend(Self::rows(
                plan,
                duels,
                samples.at(&distances, distance),
                distance,
            ));
        }
        Self { run, rows }
    }

    fn rows(plan: &Plan, duels: &[Duel], samples: Samples, distance: Option<Distance>) -> Vec<Row> {
        let samples = &samples;
        let mut rows = Vec::new();
        for (pattern, bytes) in samples.points() {
            for duel in duels {
                let shown = |name| Shown::of(samples, pattern, bytes, name);
                let (own, over_limic) = (shown(duel.own), shown(duel.over));
                if own.is_none() && over_limic.is_none() {
                    continue;
                }
                let point = Point {
                    samples,
                    pattern,
                    bytes,
                    mine: duel.over,
                    peers: &[duel.own],
                };
                rows.push(Row {
                    distance,
                    mpi: duel.own,
                    pattern,
                    ranks: plan.ranks(pattern),
                    bytes,
                    unit: pattern.unit(),
                    own,
                    over_limic,
                    ratio: point.ratio(Against::Best),
                    targets: point.judge(plan.judged_by(goals::of(duel.kind, pattern, bytes))),
                });
            }
        }
        rows
    }

    pub(super) fn score(&self) -> Score {
        Score::of(self.rows.iter().flat_map(|row| {
            let what = point_name(row.distance, row.pattern, row.bytes);
            let what = format!("{what} over limic");
            row.targets.iter().map(move |one| (what.clone(), one))
        }))
    }

    /// Writes the report into a folder, and shows it.
    pub(in super::super) fn finish(&self, folder: &Path) -> Result<(), Failure> {
        write(folder, "mpi", self, markdown::render(self), self.plot()?)?;
        show(&table::render(self));
        Ok(())
    }

    /// Names in the order in which they come first.
    pub(super) fn names(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for row in &self.rows {
            if !names.contains(&row.mpi) {
                names.push(row.mpi);
            }
        }
        names
    }

    fn plot(&self) -> Result<String, Failure> {
        let names = self.names();
        let drawn = drawn(self.rows.iter().map(|row| row.distance));
        let panel = |pattern: Pattern| {
            let mut lines = Vec::new();
            for (color, name) in names.iter().enumerate() {
                let rows = || {
                    let rows = self.rows.iter();
                    rows.filter(move |row| {
                        let here = row.distance == drawn && row.pattern == pattern;
                        here && row.mpi == *name
                    })
                };
                lines.push(plot::Line {
                    name: (*name).to_owned(),
                    color,
                    bold: false,
                    points: rows()
                        .filter_map(|row| Some((row.bytes, row.own?.median)))
                        .collect(),
                });
                lines.push(plot::Line {
                    name: format!("{name} over limic"),
                    color,
                    bold: true,
                    points: rows()
                        .filter_map(|row| Some((row.bytes, row.over_limic?.median)))
                        .collect(),
                });
            }
            plot::Panel {
                title: format!("{}: {}", pattern.name(), self.run.of_machine("cpu")),
                unit: pattern.unit(),
                lines,
            }
        };
        plot::render(&DRAWN.map(panel))
    }
}
