//! `cargo xtask compare`: the same patterns over limic and over other layers, on the same two CPUs in
//! turn.
//!
//! [`pattern`] says what is measured, [`contestant`] runs it ([`pairs`] where a server and a client are
//! needed), [`samples`] keeps the results of all rounds, [`verdict`] compares them with the [`targets`],
//! and [`table`], [`markdown`], [`plot`] and the JSON of [`report`] show them. [`load`] and
//! [`gauge`] watch what else the machine does.

mod contestant;
mod cpus;
mod gauge;
mod leftovers;
mod load;
mod markdown;
mod pairs;
mod pattern;
mod plot;
mod report;
mod samples;
mod table;
mod targets;
mod verdict;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::console;
use crate::failure::Failure;
use crate::job::{Job, root};
use crate::peers::{Kind, Mpi, Tool};
use crate::setup;

use contestant::Contestant;
use gauge::Pass;
use load::Watch;
use pattern::{Pattern, Plan};
use report::Report;
use samples::Samples;

/// Measure limic against MPICH, Open MPI, Intel MPI, UCX and libfabric on this machine.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A few sizes and rounds, in less than 3 minutes
    #[arg(long)]
    quick: bool,

    /// Which to compare with
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "LIST",
        default_value = "mpich,openmpi,intelmpi,ucx,libfabric"
    )]
    peers: Vec<Wanted>,

    /// Patterns to run
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "LIST",
        default_value = "latency,bandwidth,bibandwidth,rate,barrier,alltoall"
    )]
    patterns: Vec<Pattern>,

    /// Rounds; each goes through all patterns, and each pattern through all peers [default: 5; with
    /// --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,

    /// The two CPUs [default: the first two cores that may be used]
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1)]
    cpus: Vec<usize>,

    /// Folder for results.json, results.md and results.svg [default: docs/compare; with --quick
    /// target/compare]
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Wanted {
    Mpich,
    Openmpi,
    Intelmpi,
    Ucx,
    Libfabric,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let cpus = cpus::choose(&args.cpus)?;
    let plan = Plan::new(args.quick, args.rounds);
    let output = folder(args)?;
    console::step(&"[1/4] setup");
    setup::run()?;
    console::step(&"[2/4] build");
    Job::cargo(&["build", "--release", "--package", "limic-cli"], 20).run_aside()?;
    console::step(&"[3/4] peers");
    let mut missing = Vec::new();
    let mut contestants = vec![Contestant::limic()?];
    for wanted in &args.peers {
        match prepare(*wanted) {
            Ok(contestant) => {
                console::detail(&contestant.title());
                contestants.push(contestant);
            }
            Err((name, why)) => {
                console::detail(&format_args!("{name} could not be had: {why}"));
                missing.push(format!("{name}: {why}"));
            }
        }
    }
    if contestants.len() == 1 {
        let list = missing.join("\n");
        return Err(Failure::Missing(format!(
            "there is nothing to compare with:\n{list}"
        )));
    }

    console::step(&format_args!(
        "[4/4] {} rounds on CPUs {} and {}",
        plan.rounds, cpus[0], cpus[1]
    ));
    let watch = Watch::start();
    if let Some(warning) = watch.before().warning() {
        console::detail(&format_args!("warning: {warning}"));
    }
    let (samples, passes) = measure(&args.patterns, &plan, &contestants, &cpus);
    let load = watch.finish();
    let mut report = Report::new(&plan, &contestants, &cpus, &samples, load, passes);
    report.missing = missing;
    print!("{}", table::render(&report));
    report.write(&output)?;
    console::detail(&format_args!("written to {}", output.display()));
    Ok(())
}

/// Where results go; it is made now, so that minutes of measuring do not end with a wrong path.
fn folder(args: &Args) -> Result<PathBuf, Failure> {
    let default = || {
        if args.quick {
            crate::job::target().join("compare")
        } else {
            root().join("docs/compare")
        }
    };
    let folder = args.output.clone().unwrap_or_else(default);
    std::fs::create_dir_all(&folder)
        .map_err(|why| Failure::Missing(format!("{}: {why}", folder.display())))?;
    Ok(folder)
}

/// A peer that is ready to run, or its name and why it could not be had.
fn prepare(wanted: Wanted) -> Result<Contestant, (&'static str, String)> {
    let mpi = |kind: Kind| {
        let ready = Mpi::install(kind).and_then(|mpi| {
            let program = mpi.verify()?;
            Ok(Contestant::mpi(mpi, program))
        });
        ready.map_err(|why| (kind.title(), why))
    };
    let tool = |tool: Tool| {
        let found = tool.install();
        found
            .map(Contestant::tool)
            .map_err(|why| (tool.title(), why))
    };
    match wanted {
        Wanted::Mpich => mpi(Kind::Mpich),
        Wanted::Openmpi => mpi(Kind::Openmpi),
        Wanted::Intelmpi => mpi(Kind::Intelmpi),
        Wanted::Ucx => tool(Tool::Ucx),
        Wanted::Libfabric => tool(Tool::Libfabric),
    }
}

/// Goes through rounds, patterns and contestants: whatever the machine does besides meets all.
fn measure(
    patterns: &[Pattern],
    plan: &Plan,
    contestants: &[Contestant],
    cpus: &[usize; 2],
) -> (Samples, Vec<Pass>) {
    let mut samples = Samples::new(plan.rounds as usize);
    let mut passes = Vec::new();
    let begin = Instant::now();
    let steps = plan.rounds as usize * patterns.len();
    let limic = contestant::program();
    let mut reading = gauge::read(&limic, cpus);
    for round in 0..plan.rounds {
        if !plan.has_time(begin.elapsed(), round) {
            console::detail(&format_args!("{round} rounds are all that the time allows"));
            break;
        }
        for pattern in patterns {
            let left = left(begin.elapsed(), passes.len(), steps);
            let name = pattern.name();
            console::detail(&format_args!(
                "round {}/{}, {name}{left}",
                round + 1,
                plan.rounds
            ));
            let mut repeats = 0;
            let pass = loop {
                let mut pass = Pass::new(round + 1, *pattern, reading);
                for turn in 0..contestants.len() {
                    // Another one begins each round: nobody always follows the same one.
                    let contestant = &contestants[(round as usize + turn) % contestants.len()];
                    once(
                        contestant,
                        *pattern,
                        round as usize,
                        plan,
                        cpus,
                        &mut samples,
                    );
                }
                reading = gauge::read(&limic, cpus);
                pass.after_us = reading;
                if !pass.changed() || repeats == plan.repeats {
                    break pass;
                }
                repeats += 1;
                console::detail(&"the CPUs' distance has changed meanwhile: once more");
            };
            passes.push(pass);
        }
    }
    (samples, passes)
}

/// One run of one contestant.
fn once(
    contestant: &Contestant,
    pattern: Pattern,
    round: usize,
    plan: &Plan,
    cpus: &[usize; 2],
    samples: &mut Samples,
) {
    let name = contestant.name();
    if !contestant.can(pattern) || samples.given_up(pattern, name) {
        return;
    }
    let before = leftovers::Before::now();
    let outcome = contestant.measure(pattern, plan, cpus);
    if outcome.failure.is_some() {
        before.remove_new();
    }
    if let Some(why) = &outcome.failure {
        console::detail(&format_args!("{name}: {why}"));
    }
    samples.take(round, pattern, name, outcome);
}

/// `, 2 min left`, once there is something to judge by.
fn left(elapsed: Duration, done: usize, steps: usize) -> String {
    if done == 0 {
        return String::new();
    }
    let left = elapsed.as_secs_f64() / done as f64 * (steps - done) as f64;
    format!(
        ", {} left",
        if left < 90.0 {
            format!("{left:.0} s")
        } else {
            format!("{:.0} min", left / 60.0)
        }
    )
}

/// Writes a file of the results.
fn write(folder: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let path = folder.join(name);
    std::fs::write(&path, text)
        .map_err(|why| Failure::Missing(format!("{}: {why}", path.display())))
}
