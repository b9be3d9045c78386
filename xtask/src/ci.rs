//! All checks in order, with the time that each took.

use std::fmt::Write;
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::tally::Tally;
use crate::{checks, console, counts, lab, mpi, peers, programs, setup, suite};

struct Check {
    name: &'static str,
    run: fn(&mut Tally) -> Result<(), Failure>,
}

/// The quick ones first, and then in the order in which later ones reuse what was built.
const CHECKS: [Check; 15] = [
    Check {
        name: "setup",
        run: |_| setup::run(),
    },
    Check {
        name: "fmt",
        run: |_| checks::fmt(),
    },
    Check {
        name: "clippy",
        run: |_| checks::clippy(),
    },
    Check {
        name: "docs",
        run: |_| checks::docs(),
    },
    Check {
        name: "features",
        run: |_| suite::features(),
    },
    Check {
        name: "peers",
        run: |tally| {
            peers::for_tests(tally);
            Ok(())
        },
    },
    Check {
        name: "tests",
        run: suite::tests,
    },
    Check {
        name: "mpi",
        run: |tally| mpi::run(mpi::Extent::Quick, tally),
    },
    Check {
        name: "doctests",
        run: suite::doctests,
    },
    Check {
        name: "examples",
        run: programs::run,
    },
    Check {
        name: "loom",
        run: checks::loom,
    },
    Check {
        name: "miri",
        run: checks::miri,
    },
    Check {
        name: "lab",
        run: lab::ci,
    },
    Check {
        name: "counts",
        run: |tally| {
            setup::valgrind();
            setup::libfabric();
            counts::run(false, tally)
        },
    },
    Check {
        name: "bench",
        run: |_| checks::bench(),
    },
];

/// What became of one check.
enum Outcome {
    Passed(Duration),
    Failed(Duration),
    NotRun,
}

pub(crate) fn run(keep_going: bool, tally: &mut Tally) -> Result<(), Failure> {
    let begin = Instant::now();
    let mut outcomes = Vec::new();
    let mut failed = Vec::new();
    for (number, check) in CHECKS.iter().enumerate() {
        if !failed.is_empty() && !keep_going {
            outcomes.push(Outcome::NotRun);
            continue;
        }
        console::step(&format_args!(
            "[{}/{}] {}",
            number + 1,
            CHECKS.len(),
            check.name
        ));
        let start = Instant::now();
        let result = (check.run)(tally);
        let took = start.elapsed();
        console::step(&format_args!(
            "[{}/{}] {}: {:.1} s",
            number + 1,
            CHECKS.len(),
            check.name,
            took.as_secs_f64()
        ));
        outcomes.push(match result {
            Ok(()) => Outcome::Passed(took),
            Err(failure) => {
                console::error(&format_args!("{}: {failure}", check.name));
                failed.push(check.name);
                Outcome::Failed(took)
            }
        });
    }
    print!("\n{}", summary(&outcomes, begin.elapsed()));
    tally.report(failed.len());
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Failure::Checks(format!(
            "{}; alone: cargo xtask {}",
            failed.join(", "),
            failed.first().map_or("ci", |name| match *name {
                "tests" => "test",
                "lab" => "lab test --short",
                name => name,
            })
        )))
    }
}

fn summary(outcomes: &[Outcome], total: Duration) -> String {
    let mut out = String::new();
    let mut row = |name: &str, verdict: &str, took: Option<Duration>| {
        let seconds = took.map_or_else(|| "-".to_owned(), |t| format!("{:.1} s", t.as_secs_f64()));
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{name:<10} {verdict:<8} {seconds:>9}");
    };
    for (check, outcome) in CHECKS.iter().zip(outcomes) {
        match outcome {
            Outcome::Passed(took) => row(check.name, "ok", Some(*took)),
            Outcome::Failed(took) => row(check.name, "FAILED", Some(*took)),
            Outcome::NotRun => row(check.name, "not run", None),
        }
    }
    row("total", "", Some(total));
    out
}
