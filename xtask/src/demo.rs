//! The main job: two and four ranks exchange messages over every path within this machine, but for
//! that of the kernel module.

mod measured;
mod table;

use std::collections::BTreeSet;

use limic_runner::folders::target;
use limic_runner::{Failure, Job, console, setup};

use self::measured::{Info, Report};

const TWO_RANKS: (&str, &str) = ("2", "8,1K,16K,256K,1M");
/// Four ranks often share cores, so that long messages would take minutes.
const FOUR_RANKS: (&str, &str) = ("4", "8,1K,16K,256K");
const PATHS: &str = "hybrid,inline,eager,pipeline,cma,split-copy,loan,peer-readable,process";

pub(crate) fn run() -> Result<(), Failure> {
    console::step(&"[1/4] setup");
    setup::run()?;
    console::step(&"[2/4] build");
    Job::cargo(&["build", "--release", "--package", "limic-cli"], 20).run()?;

    console::step(&"[3/4] verify: every byte of every message, 2 and 4 ranks");
    // The command fails if a byte differs, and so does this.
    let once = [
        "--check",
        "--iterations",
        "1",
        "--warmup",
        "0",
        "--rounds",
        "1",
    ];
    let reuse = ["--reuse", "on"];
    perf("bandwidth", TWO_RANKS, &once)?;
    perf("pairs", FOUR_RANKS, &[&once[..], &reuse].concat())?;

    console::step(&"[4/4] measure");
    let brief = ["--seconds-per-point", "0.1", "--rounds", "3"];
    let latency = perf("latency", TWO_RANKS, &brief)?;
    let bandwidth = perf("bandwidth", TWO_RANKS, &brief)?;
    let pairs = perf("pairs", FOUR_RANKS, &[&brief[..], &reuse].concat())?;

    let info: Info = measured::read(Job::new(limic(), 1).args(["info", "--json"]))?;
    print!("\n{}", table::render(&latency, &bandwidth, &pairs)?);
    let reports = [&latency, &bandwidth, &pairs];
    let notes: BTreeSet<&String> = reports.iter().flat_map(|report| &report.notes).collect();
    for note in notes {
        println!("note: {note}");
    }
    for line in info.left_out() {
        println!("{line}");
    }
    println!("All bytes received were checked, and right.");
    Ok(())
}

fn limic() -> std::path::PathBuf {
    target().join("release/limic")
}

fn perf(pattern: &str, (ranks, sizes): (&str, &str), more: &[&str]) -> Result<Report, Failure> {
    let words = [
        "perf", pattern, "--ranks", ranks, "--sizes", sizes, "--paths", PATHS, "--json", "-",
    ];
    measured::read(Job::new(limic(), 5).args(words).args(more))
}
