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
use super::subject::{FLOOR, IMB, LIMIC, PEER_READABLE, Subject, YARDSTICKS};
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
    /// Whose row it is: limic's, or that of its messages from peer-readable memory.
    pub(super) subject: &'static str,
    pub(super) pattern: Pattern,
    pub(super) ranks: u32,
    pub(super) bytes: u64,
    pub(super) unit: &'static str,
    /// Results in the order of the names, the first of which stands for the subject.
    pub(super) results: Vec<Option<Shown>>,
    /// The subject's place among them, counted from 1.
    pub(super) rank: Option<usize>,
    /// The ratio to the best peer: the one that the subject looks worst beside.
    pub(super) ratio: Option<Ratio>,
    /// The result of the best peer, or limic's own reference.
    pub(super) best: Option<Shown>,
    /// The loop of two copies, and the ratio to it.
    pub(super) floor: Option<Shown>,
    pub(super) over_floor: Option<Ratio>,
    /// Intel MPI by IMB, and the ratio of our pattern over Intel MPI to it.
    pub(super) imb: Option<Shown>,
    pub(super) over_imb: Option<Ratio>,
    /// The paths that limic took in these rounds, the most frequent first.
    pub(super) paths: Vec<String>,
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
            let own = |one: &&Subject| [LIMIC, PEER_READABLE].contains(&one.name());
            for subject in subjects.iter().filter(own) {
                let points = samples.points();
                let points = points.filter(|point| subject.has(*point, plan.ranks(point.0)));
                let row = |point| row(plan, samples, distance, subject.name(), point, &names);
                rows.extend(points.map(row));
            }
        }
        Self { run, names, rows }
    }

    pub(super) fn score(&self) -> Score {
        Score::of(self.rows.iter().flat_map(|row| {
            let what = point_name(row.distance, row.pattern, row.bytes);
            let what = match row.subject {
                LIMIC => what,
                other => format!("{what} ({other})"),
            };
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
                let of = |row: &&Row| (row.pattern, row.distance, row.subject);
                rows.filter(move |row| of(row) == (pattern, drawn, LIMIC))
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
    subject: &'static str,
    (pattern, bytes): (Pattern, u64),
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
        mine: subject,
        peers: &peers,
    };
    let cross_check = Point {
        mine: Kind::Intelmpi.title(),
        peers: &[IMB],
        ..point
    };
    let targets = match subject {
        PEER_READABLE => targets::of_peer_readable(pattern, bytes),
        _ => targets::of(plan.comparison, pattern, bytes),
    };
    let shown = |name: &str| Shown::of(samples, pattern, bytes, name);
    let of_row = |name: &'static str| if name == LIMIC { subject } else { name };
    let ratio = point.ratio(Against::Best);
    let paths = samples.paths((pattern, bytes), subject).into_iter();
    Row {
        distance,
        subject,
        pattern,
        ranks: plan.ranks(pattern),
        bytes,
        unit: pattern.unit(),
        results: names.iter().map(|name| shown(of_row(name))).collect(),
        // Against limic's own reference there is no place.
        rank: point.rank().filter(|_| own.is_none()),
        best: ratio.as_ref().and_then(|ratio| shown(ratio.peer)),
        ratio,
        floor: shown(FLOOR),
        over_floor: point.ratio(Against::Floor),
        imb: shown(IMB),
        over_imb: cross_check.ratio(Against::Imb),
        paths: paths.map(str::to_owned).collect(),
        targets: point.judge(plan.judged_by(targets)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::outcome::Outcome;
    use super::*;

    #[test]
    fn messages_from_peer_readable_memory_have_rows_of_their_own_and_are_no_peer() {
        let mut samples = Samples::default();
        let point = (Pattern::Latency, 64 << 10);
        for (name, seconds) in [(LIMIC, 3.0), (PEER_READABLE, 1.0), ("UCX", 2.0)] {
            let outcome = Outcome {
                times: vec![(point.1, seconds)],
                ..Outcome::default()
            };
            samples.take(0, point.0, name, outcome);
        }
        let plan = Plan::new(Comparison::Peers, 2, false, None, None);
        let of = |subject| row(&plan, &samples, None, subject, point, &[LIMIC, "UCX"]);
        let (usual, readable) = (of(LIMIC), of(PEER_READABLE));
        let ratio = |row: &Row| row.ratio.as_ref().map(|ratio| (ratio.peer, ratio.median));
        assert_eq!(ratio(&usual), Some(("UCX", 1.5)));
        assert_eq!(ratio(&readable), Some(("UCX", 0.5)));
        assert_eq!((usual.rank, readable.rank), (Some(2), Some(1)));
        assert_eq!(readable.results[0].map(|shown| shown.median), Some(1e6));
        assert_eq!(readable.targets[0].reached, Some(true));
        assert!(!Against::Best.includes(PEER_READABLE));
    }
}
