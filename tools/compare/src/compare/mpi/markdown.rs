//! The results of the MPIs as a page.

use std::fmt::Write;

use super::super::markdown::{cell, targets};
use super::super::pattern::Pattern;
use super::super::report::distances;
use super::super::table::{bytes, ratio};
use super::report::{Report, Row};

const PATTERNS: [(Pattern, &str); 6] = [
    (
        Pattern::Latency,
        "Ping-pong: time one way, us (less is better)",
    ),
    (
        Pattern::Bandwidth,
        "Windows of 64 messages in one direction: MB/s (more is better)",
    ),
    (
        Pattern::Alltoall,
        "MPI_Alltoall of {ranks}: us (less is better)",
    ),
    (
        Pattern::Allgather,
        "MPI_Allgather of {ranks}: us (less is better)",
    ),
    (
        Pattern::Allreduce,
        "MPI_Allreduce of {ranks}, sum of ints: us (less is better)",
    ),
    (
        Pattern::Barrier,
        "MPI_Barrier of {ranks}: us (less is better)",
    ),
];

pub(super) fn render(report: &Report) -> String {
    let mut text = String::from("# MPIs over limic, and by their own paths\n\n");
    let score = report.score();
    let run = &report.run;
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "Written by `{}`; [benchmarking.md](../benchmarking.md) says how. Each MPI as it comes, and \
         the same with its messages over limic by the libfabric provider. Medians of the \
         steady rounds (*rounds* says how many), with the best and the worst of them in brackets. \
         {} of {} targets are reached.\n",
        run.command(),
        score.reached,
        score.judged
    );
    text.push_str(&run.page_head(&score));
    text.push_str("\n![results over size](mpi.svg)\n");
    for (pattern, title) in PATTERNS {
        let of_pattern = || report.rows.iter().filter(move |row| row.pattern == pattern);
        if let Some(row) = of_pattern().next() {
            let _ = writeln!(text, "\n## {}\n", run.title(title, row.ranks));
        }
        for distance in distances(report.rows.iter().map(|row| row.distance)) {
            for name in report.names() {
                let of = |row: &&Row| row.mpi == name && row.distance == distance;
                let rows: Vec<&Row> = of_pattern().filter(of).collect();
                if !rows.is_empty() {
                    if let Some(distance) = distance {
                        let _ = writeln!(text, "While the CPUs are {}:\n", distance.name());
                    }
                    section(&mut text, name, &rows);
                }
            }
        }
    }
    text
}

fn section(text: &mut String, name: &str, rows: &[&Row]) {
    let _ = writeln!(
        text,
        "| bytes | {name} | {name} over limic | ratio | in rounds | rounds | best rounds | target |\n\
         |---|---|---|---|---|---|---|---|"
    );
    for row in rows {
        // Nothing is in bold, because each line has one ratio.
        let shown = |one| cell(one, f64::NAN);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            bytes(row.bytes),
            shown(row.own),
            shown(row.over_limic),
            ratio(row.ratio.as_ref()).join(" | "),
            targets(&row.targets)
        );
    }
    text.push('\n');
}
