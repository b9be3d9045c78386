//! The results as a page.

use std::fmt::Write;

use super::imb;
use super::pattern::{Comparison, Pattern};
use super::ratio::Judged;
use super::report::{Report, Row, Shown, distances};
use super::subject::{LIMIC, PEER_READABLE};
use super::table::{bytes, paths, ratio, significant, to_floor, verdict};

const PATTERNS: [(Pattern, &str); 9] = [
    (
        Pattern::Latency,
        "Ping-pong: time one way, us (less is better)",
    ),
    (
        Pattern::Rate,
        "Messages of 8 bytes in windows of 64: millions a second (more is better)",
    ),
    (
        Pattern::Bandwidth,
        "Windows of 64 in one direction: MB/s (more is better)",
    ),
    (
        Pattern::Bibandwidth,
        "Windows of 64 in both directions: MB/s of both together (more is better)",
    ),
    (Pattern::Barrier, "Barrier of {ranks}: us (less is better)"),
    (
        Pattern::Alltoall,
        "All to all, 1 KiB, of {ranks}: us (less is better)",
    ),
    (
        Pattern::Loan,
        "Loans in a ping-pong, against limic's own message of 8 bytes: time one way, us (less is \
         better); no peer has them",
    ),
    (
        Pattern::Skew,
        "A consumer that computes 50 us on each message: the producer's time for a message, us, \
         against limic's eager path (less is better); no peer follows skew",
    ),
    (
        Pattern::AfterSkew,
        "The same two once the consumer computes no more: MB/s, against the better of limic's \
         single copies (more is better)",
    ),
];

/// Whose rows there are, and what titles say of them.
const SUBJECTS: [(&str, &str); 2] = [
    (LIMIC, ""),
    (PEER_READABLE, "; limic from peer-readable memory"),
];

pub(super) fn render(report: &Report) -> String {
    let mut text = match report.run.comparison {
        Comparison::Tcp => "# limic and its peers over TCP, between two network namespaces\n\n",
        _ => "# limic and its peers on one machine\n\n",
    }
    .to_owned();
    let score = report.score();
    let run = &report.run;
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "Written by `{}`; [benchmarking.md](../benchmarking.md) says how. Medians of the \
         steady rounds (*rounds* says how many), with the best and the worst of them in brackets; \
         in bold the best. {} of {} targets are reached.\n",
        run.command(),
        score.reached,
        score.judged
    );
    text.push_str(&run.page_head(&score));
    let extent = match run.comparison {
        Comparison::Tcp => "",
        _ => {
            ", which has ping-pongs and streams in one direction, of at least one byte: other \
              rows have none"
        }
    };
    let _ = writeln!(
        text,
        "\n*To floor* is the ratio to {}{extent}.",
        run.floor()
    );
    let name = report.name();
    let _ = writeln!(text, "\n![time and bandwidth over size]({name}.svg)");
    for (pattern, title) in PATTERNS {
        let found = distances(report.rows.iter().map(|row| row.distance));
        for (subject, memory) in SUBJECTS {
            for distance in &found {
                let of = |row: &&Row| {
                    (row.pattern, row.subject, row.distance) == (pattern, subject, *distance)
                };
                let rows: Vec<&Row> = report.rows.iter().filter(of).collect();
                if !rows.is_empty() {
                    let title = run.title(title, rows[0].ranks);
                    let distance = distance.map_or_else(String::new, |one| {
                        format!("; while the CPUs are {}", one.name())
                    });
                    let title = format!("{title}{memory}{distance}");
                    section(&mut text, report, pattern, &title, &rows);
                }
            }
        }
    }
    text.push_str(&imb::section(report));
    text
}

fn section(text: &mut String, report: &Report, pattern: Pattern, title: &str, rows: &[&Row]) {
    // A subject without a result here has no column.
    let shown: Vec<usize> = (0..report.names.len())
        .filter(|at| rows.iter().any(|row| row.results[*at].is_some()))
        .collect();
    let name = |at: &usize| match report.names[*at] {
        LIMIC => rows[0].subject,
        other => other,
    };
    let mut names: Vec<&str> = shown.iter().map(name).collect();
    names.extend(pattern.reference());
    let _ = writeln!(text, "\n## {title}\n");
    let _ = writeln!(
        text,
        "| bytes | {} | rank | ratio | in rounds | rounds | best rounds | to floor | path | target |",
        names.join(" | ")
    );
    let _ = writeln!(
        text,
        "|---{}|---|---|---|---|---|---|---|---|",
        "|---".repeat(names.len())
    );
    for row in rows {
        let mut results: Vec<Option<Shown>> = shown.iter().map(|at| row.results[*at]).collect();
        results.extend(pattern.reference().map(|_| row.best));
        let medians = results.iter().flatten().map(|result| result.median);
        let best = if pattern.is_time() {
            medians.fold(f64::INFINITY, f64::min)
        } else {
            medians.fold(0.0, f64::max)
        };
        let cells: Vec<String> = results.into_iter().map(|one| cell(one, best)).collect();
        let mut ratios = ratio(row.ratio.as_ref());
        if let Some(ratio) = &row.ratio
            && pattern.reference().is_none()
        {
            ratios[0] = format!("{} ({})", ratios[0], ratio.peer);
        }
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            bytes(row.bytes),
            cells.join(" | "),
            row.rank.map_or("-".to_owned(), |rank| rank.to_string()),
            ratios.join(" | "),
            to_floor(row),
            paths(row),
            targets(&row.targets)
        );
    }
}

/// `<= 0.80: reached`
pub(super) fn targets(judged: &[Judged]) -> String {
    let words = judged
        .iter()
        .map(|one| format!("{}: {}", one.target.words(), verdict(one)));
    words.collect::<Vec<_>>().join("; ")
}

/// A result with its best and worst round, in bold if it is the best of all.
pub(super) fn cell(result: Option<Shown>, best: f64) -> String {
    let Some(result) = result else {
        return "-".to_owned();
    };
    let median = significant(result.median);
    let median = if result.median == best {
        format!("**{median}**")
    } else {
        median
    };
    format!(
        "{median} ({}..{})",
        significant(result.best),
        significant(result.worst)
    )
}
