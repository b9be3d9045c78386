//! Set-up, demo, tests and CI of limic: `cargo xtask --help`.

mod bounded;
mod c_latency;
mod checks;
mod ci;
mod compare;
mod console;
mod counts;
mod deadline;
mod demo;
mod failure;
mod install;
mod interrupted;
mod job;
mod lab;
mod mpi;
mod peers;
mod programs;
mod setup;
mod suite;
mod tally;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failure::Failure;
use crate::tally::Tally;

/// Set-up, demo, tests and CI of limic.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Install what is missing (Debian, Ubuntu); quick when all is there.
    Setup,
    /// Install what limic is compared and tested with: MPICH, Open MPI, Intel MPI, UCX, libfabric.
    Peers,
    /// Unmodified MPIs over limic, through the libfabric provider: the variables, and checks.
    Mpi {
        /// MPICH and one more, and a few benchmarks.
        #[arg(long, conflicts_with = "full")]
        quick: bool,
        /// The tests of mpi4py too.
        #[arg(long)]
        full: bool,
    },
    Compare(compare::Args),
    CLatency(c_latency::CLatency),
    /// Set up, build, and exchange messages over every path of this machine: one table.
    Demo,
    /// The whole suite: unit, integration, documentation and example tests, and each feature alone.
    Test,
    /// rustfmt, without changing a file.
    Fmt,
    /// clippy over all targets and features; every warning is an error.
    Clippy,
    /// The documentation; every warning is an error.
    Docs,
    /// The programs in the documentation.
    Doctests,
    /// Check the library with no feature, and with each one alone.
    Features,
    /// The example programs under `limic run`, against their serial runs.
    Examples,
    /// Install the libraries, headers and pkg-config files for C (in $DESTDIR, if that is set).
    Install(install::Install),
    /// Write the C header anew (crates/capi/include/limic.h).
    Header,
    /// Matching and rings under Miri (nightly).
    Miri,
    /// Ring, wake-up and release flags under loom.
    Loom,
    /// The criterion benches, quick.
    Bench,
    /// Instructions of the hot paths under callgrind, against the committed counts.
    Counts {
        /// Commit to the counts of this run: rewrites benches/counts.json.
        #[arg(long)]
        update: bool,
    },
    /// A kernel with Rust and Soft-RoCE in a virtual machine: build it, run commands and tests in it.
    #[command(subcommand)]
    Lab(lab::LabTask),
    /// All checks in order, with the time that each took.
    Ci {
        /// Run the remaining checks after one has failed.
        #[arg(long)]
        keep_going: bool,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    interrupted::end_all_when_told_to();
    let mut tally = Tally::default();
    let result = run(&arguments.task, &mut tally);
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The exit status of what was run for the user is that of this program.
        Err(Failure::Exit(code)) => u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from),
        Err(failure) => {
            console::error(&failure);
            ExitCode::FAILURE
        }
    }
}

fn run(task: &Task, tally: &mut Tally) -> Result<(), Failure> {
    match task {
        Task::Setup => setup::run(),
        Task::Peers => peers::run(),
        Task::Mpi { quick, full } => {
            let extent = match (quick, full) {
                (true, _) => mpi::Extent::Quick,
                (_, true) => mpi::Extent::Full,
                _ => mpi::Extent::Usual,
            };
            let result = mpi::run(extent, tally);
            tally.report(usize::from(result.is_err()));
            result
        }
        Task::Compare(args) => compare::run(args),
        Task::CLatency(args) => setup::run().and_then(|()| c_latency::run(args)),
        Task::Demo => demo::run(),
        Task::Test => {
            let result = suite::run(tally);
            tally.report(usize::from(result.is_err()));
            result
        }
        Task::Doctests => {
            let result = setup::run().and_then(|()| suite::doctests(tally));
            tally.report(usize::from(result.is_err()));
            result
        }
        Task::Fmt => checks::fmt(),
        Task::Clippy => setup::run().and_then(|()| checks::clippy()),
        Task::Docs => setup::run().and_then(|()| checks::docs()),
        Task::Features => setup::run().and_then(|()| suite::features()),
        Task::Examples => {
            setup::run()?;
            let result = suite::build().and_then(|()| programs::run(tally));
            tally.report(usize::from(result.is_err()));
            result
        }
        Task::Install(install) => install::run(install),
        Task::Header => checks::header(),
        Task::Miri => {
            let result = checks::miri(tally);
            tally.report(usize::from(result.is_err()));
            result
        }
        Task::Loom => {
            let result = checks::loom(tally);
            tally.report(usize::from(result.is_err()));
            result
        }
        Task::Bench => setup::run().and_then(|()| checks::bench()),
        Task::Counts { update } => {
            setup::run()?;
            setup::valgrind();
            setup::libfabric();
            let result = counts::run(*update, tally);
            tally.report(usize::from(result.is_err()));
            result
        }
        Task::Lab(task) => lab::run(task, tally),
        Task::Ci { keep_going } => ci::run(*keep_going, tally),
    }
}
