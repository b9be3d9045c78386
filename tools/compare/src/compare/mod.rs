//! `cargo xtask compare`: the same patterns over limic and over other layers, on the same CPUs in
//! turn; with `--mpi`, each MPI by its own path and over limic; with `--tcp`, between machines.
//!
//! - [`field`] sets up what takes part, and [`pattern`] says what is measured. [`subject`] runs it
//!   ([`pairs`] for tools that are a server and a client), and [`reading`] understands what was
//!   printed.
//! - [`schedule`] goes through rounds, patterns and subjects. [`samples`] keeps the results of all
//!   rounds, and [`state`] keeps them in a file for a run that goes on later.
//! - [`load`] and [`machine_state`] watch what else the machine does, and [`floor`] asks limic.
//! - [`ratio`] compares with the [`targets`]. [`table`], [`markdown`], [`plot`] and the JSON of
//!   [`report`] show it, and [`mpi`] has what `--mpi` shows instead. [`tcp`] has what `--tcp`
//!   compares.

mod cpus;
mod field;
mod floor;
mod imb;
mod load;
mod machine_state;
mod markdown;
mod mpi;
mod outcome;
mod pairs;
mod pattern;
mod plot;
mod ratio;
mod reading;
mod report;
mod run;
mod samples;
mod schedule;
mod shm_cleanup;
mod state;
mod subject;
mod table;
mod targets;
mod tcp;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use limic_runner::folders::{self, root, target};
use limic_runner::{Failure, Job, console, setup};

pub(crate) use cpus::choose as choose_cpus;
use field::Wanted;
pub(crate) use floor::read as line_latency;
use load::Watch;
pub(crate) use machine_state::changed;
use pattern::{Comparison, Pattern, Plan};
use report::Report;
use run::Run;
pub(crate) use samples::Spread;
use schedule::Schedule;
pub(crate) use shm_cleanup::Before;
use state::{Stamp, State};
use subject::Subject;
pub(crate) use subject::program as limic;

/// The layers to compare, and the extent of the comparison.
#[derive(Debug, clap::Args)]
pub struct Compare {
    /// Each MPI by its own path within a node, against the same MPI over limic (by the libfabric
    /// provider)
    #[arg(long)]
    mpi: bool,

    /// The same layers and bare sockets over TCP, between two network namespaces (as root)
    #[arg(long, conflicts_with = "mpi")]
    tcp: bool,

    /// A few sizes and rounds: less than 3 minutes of measuring
    #[arg(long)]
    quick: bool,

    /// Which to compare with [default: mpich,openmpi,intelmpi,ucx,libfabric; with --mpi
    /// mpich,openmpi,openmpi4,intelmpi]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    peers: Vec<Wanted>,

    /// Patterns to run [default: all that are not only for the other kind]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    patterns: Vec<Pattern>,

    /// Steady rounds, near and far if the machine shows both; each goes through all patterns, and
    /// each pattern through all peers [default: 5; with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,

    /// Stop measuring after so long; --resume goes on [default: 13 minutes; with --quick 160
    /// seconds]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,

    /// Measure though other programs or other guests use the CPUs, and count those rounds too
    #[arg(long)]
    busy: bool,

    /// Go on with the last run of this kind, patterns and peers, which had no time for all its
    /// rounds
    #[arg(long)]
    resume: bool,

    /// The CPUs, as 0,2 or 0-15: an even number; on more than two, each has a rank, and all pairs
    /// are measured at once [default: the first two cores that may be used]
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,

    /// Folder for results.json, results.md and results.svg; with --mpi their name is mpi, with
    /// --tcp it is tcp [default: docs/compare if the comparison is whole, on the usual CPUs, all
    /// ran, nobody else used the CPUs and no rounds mix distances, else target/compare]
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

impl Compare {
    /// Whether all patterns, peers and rounds are asked for, on the usual CPUs.
    fn is_whole(&self) -> bool {
        let all = self.patterns.is_empty() && self.peers.is_empty() && self.cpus.is_none();
        all && !self.quick && self.rounds.is_none_or(|rounds| rounds >= Plan::ROUNDS)
    }

    /// The patterns and peers that are asked for. Patterns are measured in the usual order,
    /// whatever theirs.
    fn part(&self) -> Vec<String> {
        let patterns: BTreeSet<String> = names(&self.patterns).collect();
        patterns.into_iter().chain(names(&self.peers)).collect()
    }
}

/// Values of an option, as they are typed.
fn names<T: clap::ValueEnum>(values: &[T]) -> impl Iterator<Item = String> {
    let values = values.iter().filter_map(T::to_possible_value);
    values.map(|value| value.get_name().to_owned())
}

pub(crate) fn run(args: &Compare) -> Result<(), Failure> {
    let comparison = match (args.mpi, args.tcp) {
        (true, _) => Comparison::Mpi,
        (_, true) => Comparison::Tcp,
        _ => Comparison::Peers,
    };
    let cpus = cpus::choose(args.cpus.as_deref())?;
    if comparison == Comparison::Tcp && cpus.len() > 2 {
        let what = "--tcp measures one pair of ranks: two CPUs are needed for it";
        return Err(Failure::Missing(what.to_owned()));
    }
    let plan = Plan::new(
        comparison,
        cpus.len(),
        args.quick,
        args.rounds,
        args.seconds,
    );
    let mut patterns = patterns(comparison, &args.patterns)?;
    if cpus.len() > 2 {
        // One producer and one consumer.
        patterns.retain(|one| *one != Pattern::Skew);
        if patterns.is_empty() {
            let what = "skew is measured on two CPUs, not on more";
            return Err(Failure::Missing(what.to_owned()));
        }
    }
    let wanted = field::wanted(comparison, &args.peers)?;
    // Before the measurement, so that a wrong path shows at once.
    if let Some(folder) = &args.output {
        folders::make(folder)?;
    }
    console::step(&"[1/4] setup");
    setup::run()?;
    console::step(&"[2/4] build");
    Job::cargo(&["build", "--release", "--package", "limic-cli"], 20).run_aside()?;
    console::step(&"[3/4] peers");
    let field = field::field(comparison, &wanted, &cpus)?;
    let names: Vec<&'static str> = field.subjects.iter().map(Subject::name).collect();
    let titles = field.subjects.iter().map(|one| one.title().to_owned());
    let stamp = Stamp::new(
        &plan,
        args.part(),
        &cpus,
        titles.collect(),
        conditions(&cpus)?,
        field.files(),
    );
    let mut state = if args.resume {
        State::resume(&stamp, &names)?
    } else {
        State::default()
    };

    console::step(&format_args!(
        "[4/4] {} steady rounds on CPUs {}, at most {} s",
        plan.rounds,
        cpus::names(&cpus),
        plan.limit.as_secs()
    ));
    if let Some(why) = load::busy(&cpus) {
        if !args.busy {
            return Err(Failure::Missing(format!(
                "the machine is busy, so that nothing measured now would mean anything: {why}; \
                 wait until it is idle, or measure all the same with --busy"
            )));
        }
        console::detail(&format_args!("warning: the machine is busy: {why}"));
    }
    let watch = Watch::start(&cpus);
    let schedule = Schedule {
        plan: &plan,
        patterns: &patterns,
        subjects: &field.subjects,
        cpus: &cpus,
        busy: args.busy,
    };
    let earlier = state.load;
    let load = || {
        let now = watch.finish();
        earlier.map_or(now, |earlier| earlier.and(now))
    };
    let short = schedule.run(&mut state, |state| state.keep(&stamp, load()))?;
    let load = load();
    let output = match &args.output {
        Some(folder) => folder.clone(),
        None => {
            let all_ran = field.missing.is_empty() && state.samples.failures().is_empty();
            let mut doubts = load.warnings();
            doubts.extend(machine_state::doubts(&state.passes));
            let sound = short.is_empty() && doubts.is_empty();
            usual_output(args.is_whole() && all_ran && sound)?
        }
    };
    let mut run = Run::new(&plan, &field.subjects, &cpus, &state, load, &short);
    run.missing = field.missing;
    run.asked_cpus.clone_from(&args.cpus);
    match comparison {
        Comparison::Mpi => {
            let report = mpi::Report::new(run, &plan, &field.duels, &state.samples);
            report.finish(&output)?;
        }
        Comparison::Peers | Comparison::Tcp => {
            let report = Report::new(run, &plan, &field.subjects, &state.samples);
            report.finish(&output)?;
        }
    }
    console::detail(&format_args!("written to {}", output.display()));
    if short.is_empty() {
        State::forget(&stamp);
    } else {
        console::detail(&format_args!(
            "steady rounds are missing ({}): the same command with --resume goes on",
            short.join("; ")
        ));
    }
    Ok(())
}

fn conditions(cpus: &[usize]) -> Result<Vec<String>, Failure> {
    let machine = floor::machine(&limic(), cpus).ok_or_else(|| {
        Failure::Missing("`limic perf floor` says nothing of this machine: run it alone".to_owned())
    })?;
    Ok(run::conditions(&machine))
}

/// The patterns to measure, in the usual order.
fn patterns(comparison: Comparison, asked: &[Pattern]) -> Result<Vec<Pattern>, Failure> {
    let all = comparison.patterns();
    if let Some(other) = asked.iter().find(|pattern| !all.contains(pattern)) {
        let names: Vec<&str> = all.iter().map(|pattern| pattern.name()).collect();
        return Err(Failure::Missing(format!(
            "{} is not measured {}: {} are",
            other.name(),
            comparison.option(),
            names.join(", ")
        )));
    }
    let chosen = |pattern: &&Pattern| asked.is_empty() || asked.contains(pattern);
    Ok(all.iter().filter(chosen).copied().collect())
}

/// The folder of the results where none is asked for. The page of the repository is replaced only
/// by a whole one.
fn usual_output(whole: bool) -> Result<PathBuf, Failure> {
    let usual = if whole {
        root().join("docs/compare")
    } else {
        target().join("compare")
    };
    folders::make(&usual)?;
    Ok(usual)
}

/// Prints a table. Whoever reads the output may be gone by now.
fn show(table: &str) {
    let _ = std::io::stdout().write_all(table.as_bytes());
}

/// Writes a report as JSON, as a page and as a plot: `NAME.json`, `NAME.md`, `NAME.svg`.
fn write(
    folder: &Path,
    name: &str,
    report: &impl serde::Serialize,
    page: String,
    plot: String,
) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(report)
        .map_err(|why| Failure::Wrong(format!("results as JSON: {why}")))?;
    for (extension, text) in [("json", json + "\n"), ("md", page), ("svg", plot)] {
        let path = folder.join(name).with_extension(extension);
        std::fs::write(&path, text).map_err(|why| Failure::file("write", &path, why))?;
    }
    Ok(())
}
