//! The results as a page.

use std::fmt::Write;

use super::pattern::Pattern;
use super::report::{Report, Row, Shown};
use super::table::{bytes, load, significant, verdict};

const PATTERNS: [(Pattern, &str); 6] = [
    (
        Pattern::Latency,
        "Ping-pong: time one way, us (less is better)",
    ),
    (
        Pattern::Bandwidth,
        "Windows of 64 in one direction: MB/s (more is better)",
    ),
    (
        Pattern::Bibandwidth,
        "Windows of 64 in both directions: MB/s of both together (more is better)",
    ),
    (
        Pattern::Rate,
        "Messages of 8 bytes in windows of 64: millions a second (more is better)",
    ),
    (
        Pattern::Barrier,
        "Barrier of 8 ranks on the two CPUs: us (less is better)",
    ),
    (
        Pattern::Alltoall,
        "All to all, 1 KiB, of 8 ranks on the two CPUs: us (less is better)",
    ),
];

pub(super) fn render(report: &Report) -> String {
    let mut text = String::from("# limic and its peers on one machine\n\n");
    let (reached, judged) = report.score();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "Written by `cargo xtask compare{}`; [README.md](README.md) says how it measures. Medians of {} rounds, with the best and \
         the worst round in brackets; in bold the best. {reached} of {judged} targets are reached.\n",
        if report.quick { " --quick" } else { "" },
        report.rounds
    );
    machine(&mut text, report);
    for (kind, lines) in [
        ("Doubtful", &report.warnings),
        ("Failed", &report.failures),
        ("Could not be had", &report.missing),
    ] {
        for line in lines {
            let _ = writeln!(text, "- {kind}: {line}");
        }
    }
    text.push_str("\n![time and bandwidth over size](results.svg)\n");
    for (pattern, title) in PATTERNS {
        let rows: Vec<&Row> = report
            .rows
            .iter()
            .filter(|row| row.pattern == pattern.name())
            .collect();
        if !rows.is_empty() {
            section(&mut text, report, pattern, title, &rows);
        }
    }
    text
}

fn machine(text: &mut String, report: &Report) {
    let caches = report.machine["caches"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let cache = |cache: &serde_json::Value| {
        let size = bytes(cache["bytes"].as_u64().unwrap_or(0));
        let cpus = cache["cpus"].as_str().unwrap_or("?");
        format!(
            "L{} {} {size} (CPUs {cpus})",
            cache["level"],
            cache["kind"].as_str().unwrap_or("")
        )
    };
    let caches: Vec<String> = caches.iter().map(cache).collect();
    let topology = &report.machine["topology"];
    let mut line = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "- {name}: {value}");
    };
    line("Date", report.of_machine("date"));
    line(
        "CPU",
        format!(
            "{}, {} cores, {} CPUs",
            report.of_machine("cpu"),
            topology["cores"],
            topology["cpus"]
        ),
    );
    line("Caches", caches.join(", "));
    line(
        "Kernel",
        format!(
            "{}, hypervisor: {}",
            report.of_machine("kernel"),
            report.of_machine("hypervisor")
        ),
    );
    line(
        "Measured on",
        format!("CPUs {} and {}", report.cpus[0], report.cpus[1]),
    );
    line("Versions", report.versions.join(", "));
    line("Load", load(report));
    if !report.settings.is_empty() {
        line("Settings", report.settings.join(" "));
    }
}

fn section(text: &mut String, report: &Report, pattern: Pattern, title: &str, rows: &[&Row]) {
    // Who has nothing to show here has no column.
    let shown: Vec<usize> = (0..report.names.len())
        .filter(|at| rows.iter().any(|row| row.results[*at].is_some()))
        .collect();
    let names: Vec<&str> = shown.iter().map(|at| report.names[*at]).collect();
    let _ = writeln!(text, "\n## {title}\n");
    let _ = writeln!(
        text,
        "| bytes | {} | ratio | in rounds | best rounds | target |",
        names.join(" | ")
    );
    let _ = writeln!(text, "|---{}|---|---|---|---|", "|---".repeat(names.len()));
    for row in rows {
        let results = shown.iter().map(|at| row.results[*at]);
        let medians = results.clone().flatten().map(|result| result.median);
        let best = if pattern.is_time() {
            medians.fold(f64::INFINITY, f64::min)
        } else {
            medians.fold(0.0, f64::max)
        };
        let cells: Vec<String> = results.map(|result| cell(result, best)).collect();
        let ratio = row.ratio.as_ref().map_or_else(
            || "- | - | -".to_owned(),
            |r| {
                format!(
                    "{:.2} ({}) | {:.2}..{:.2} | {:.2}",
                    r.median, r.peer, r.least, r.most, r.best_rounds
                )
            },
        );
        let targets = row.targets.iter();
        let targets: Vec<String> = targets
            .map(|one| format!("{}: {}", one.target.words(), verdict(one)))
            .collect();
        let _ = writeln!(
            text,
            "| {} | {} | {ratio} | {} |",
            bytes(row.bytes),
            cells.join(" | "),
            targets.join("; ")
        );
    }
}

fn cell(result: Option<Shown>, best: f64) -> String {
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
