//! All checks in order, with the time that each took.

use std::fmt::Write;
use std::time::{Duration, Instant};

use limic_runner::{Failure, Job, Summary, console, folders, setup};

use crate::{checks, counts, examples, fuzz, lines, long, packaging, simulate, stalls, suite};

/// A check, and its name.
type Check = (&'static str, fn(&mut Summary) -> Result<(), Failure>);

/// The quick checks first, then in an order in which later ones reuse what was built.
const CHECKS: [Check; 21] = [
    ("setup", |_| setup::run()),
    ("fmt", |_| checks::fmt()),
    ("lines", |_| lines::run()),
    ("clippy", |_| checks::clippy()),
    ("docs", |_| checks::docs()),
    ("features", suite::features),
    ("msrv", packaging::oldest_rust),
    ("package", packaging::package),
    ("peers", |summary| {
        limic_peers::install_for_tests(summary);
        Ok(())
    }),
    ("tests", suite::tests),
    ("mpi", |summary| {
        summary.include(Job::tool("limic-compare", 60).args(["mpi", "--quick"]))
    }),
    ("doctests", suite::doctests),
    ("examples", examples::run),
    ("loom", checks::loom),
    ("simulate", simulate::check),
    ("miri", checks::miri),
    ("fuzz", fuzz::check),
    ("lab", |summary| {
        summary.include(Job::tool("limic-lab", 180).arg("ci"))
    }),
    ("counts", |summary| counts::run(false, summary)),
    ("stalls", |summary| stalls::run(false, summary)),
    ("bench", |_| checks::bench()),
];

/// On demand, behind the others.
const LONG: [Check; 3] = [
    ("rates", long::rates),
    ("sanitizer", long::sanitizer),
    ("aarch64", long::aarch64),
];

/// The outcome of one check.
enum Outcome {
    Passed(Duration),
    Failed(Duration),
    NotRun,
}

pub(crate) fn run(keep_going: bool, long: bool) -> Result<(), Failure> {
    let mut checks = CHECKS.to_vec();
    if long {
        checks.extend(LONG);
    }
    let mut summary = Summary::default();
    let begin = Instant::now();
    let room = free_room();
    let mut outcomes = Vec::new();
    let mut failed = Vec::new();
    for (number, (name, check)) in checks.iter().enumerate() {
        if !failed.is_empty() && !keep_going {
            outcomes.push(Outcome::NotRun);
            continue;
        }
        console::step(&format_args!("[{}/{}] {}", number + 1, checks.len(), name));
        let start = Instant::now();
        let result = check(&mut summary);
        let took = start.elapsed();
        console::step(&format_args!(
            "[{}/{}] {}: {:.1} s",
            number + 1,
            checks.len(),
            name,
            took.as_secs_f64()
        ));
        outcomes.push(match result {
            Ok(()) => Outcome::Passed(took),
            Err(failure) => {
                console::error(&format_args!("{name}: {failure}"));
                failed.push((*name, failure));
                Outcome::Failed(took)
            }
        });
    }
    print!("\n{}", table(&checks, &outcomes, begin.elapsed()));
    // A full disk fails in words of whoever wrote last.
    println!(
        "room in the build folder: {room} before, {} now",
        free_room()
    );
    summary.report(failed.len());
    if failed.is_empty() {
        Ok(())
    } else {
        // Once more, at the end: what lies between is long.
        let reasons = failed.iter().map(|(name, failure)| {
            let alone = match *name {
                "tests" => "xtask test".to_owned(),
                "lab" => "xtask lab test --short".to_owned(),
                "rates" => "test --release -p limic-tests --test rate_under_attack".to_owned(),
                name => format!("xtask {name}"),
            };
            format!("\n{name}: {failure}\nalone: cargo {alone}")
        });
        Err(Failure::Checks(reasons.collect()))
    }
}

/// What is left of the disk that programs are built on.
fn free_room() -> String {
    rustix::fs::statvfs(folders::target()).map_or_else(
        |why| format!("unknown ({why})"),
        |disk| format!("{} MiB", (disk.f_bavail * disk.f_frsize) >> 20),
    )
}

fn table(checks: &[Check], outcomes: &[Outcome], total: Duration) -> String {
    let mut out = String::new();
    let mut row = |name: &str, verdict: &str, took: Option<Duration>| {
        let seconds = took.map_or_else(|| "-".to_owned(), |t| format!("{:.1} s", t.as_secs_f64()));
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{name:<10} {verdict:<8} {seconds:>9}");
    };
    for ((name, _), outcome) in checks.iter().zip(outcomes) {
        match outcome {
            Outcome::Passed(took) => row(name, "ok", Some(*took)),
            Outcome::Failed(took) => row(name, "FAILED", Some(*took)),
            Outcome::NotRun => row(name, "not run", None),
        }
    }
    row("total", "", Some(total));
    out
}
