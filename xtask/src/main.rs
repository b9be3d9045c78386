//! Set-up, demo, tests and CI of limic: `cargo xtask --help`.

mod checks;
mod ci;
mod committed;
mod counts;
mod deb;
mod demo;
mod examples;
mod fuzz;
mod install;
mod lines;
mod long;
mod named_files;
mod optional;
mod packaging;
mod simulate;
mod stalls;
mod suite;
mod wheel;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use clap::{Args, Parser, Subcommand};
use limic_runner::{Failure, Summary, setup};

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
    #[command(disable_help_flag = true)]
    Mpi(Words),
    /// libfabric's own tests (fabtests) over the libfabric provider.
    #[command(disable_help_flag = true)]
    Fabtests(Words),
    /// Measure limic against MPICH, Open MPI, Intel MPI, UCX and libfabric on this machine.
    #[command(disable_help_flag = true)]
    Compare(Words),
    /// What the C interface costs: a ping-pong from C beside that of `limic perf`, in turn.
    #[command(disable_help_flag = true)]
    CLatency(Words),
    /// Set up, build, and exchange messages over every path within this machine but that of the
    /// kernel module: one table.
    Demo,
    /// The whole suite: unit, integration, documentation and example tests, and each feature alone.
    Test,
    /// rustfmt, without changing a file.
    Fmt,
    /// Refuse comments and pages with lines over 100 columns or names of files that are not there,
    /// and pages whose fences of code do not end.
    Lines,
    /// clippy over all targets and features; every warning is an error.
    Clippy,
    /// The documentation; every warning is an error.
    Docs,
    /// The programs in the documentation.
    Doctests,
    /// Check the library with no feature and with each one alone, and test what hwloc says.
    Features,
    /// Build the library crates with the oldest Rust that they promise.
    Msrv,
    /// Pack the library crates as they would be published, and build what is in the packages.
    Package,
    /// The example programs under `limic run`, against their serial runs.
    Examples,
    /// Install the command, its manual, the libraries for C and the libfabric provider.
    Install(install::Install),
    /// Take away what `install` put below a prefix.
    Uninstall(install::Place),
    /// Make a Python wheel for users of MPIs: the command, the libfabric provider, and limic-env.
    Wheel {
        /// Take what is built without optimisation, as the tests do.
        #[arg(long)]
        debug: bool,
    },
    /// Make Debian packages of what `install` installs, and of the kernel module by DKMS.
    Deb {
        /// Take what is built without optimisation, as the tests do.
        #[arg(long)]
        debug: bool,
    },
    /// Write the C header anew (crates/capi/include/limic.h).
    Header,
    /// Write the page of the settings anew (docs/settings.md).
    Settings,
    /// Matching, records, rings and owners of buffers under Miri (nightly).
    Miri,
    /// Ring, wake-up and release flags under loom.
    Loom,
    /// Whole endpoints under a seeded scheduler, with faults and hostile peers; --mutants: faults
    /// that it has to find.
    #[command(disable_help_flag = true)]
    Simulate(Words),
    /// Decoders of what other processes write, under libFuzzer (nightly).
    Fuzz(fuzz::Fuzz),
    /// Threads of one process under ThreadSanitizer (nightly).
    Sanitizer,
    /// Unit and conformance tests on aarch64, in emulation.
    Aarch64,
    /// The criterion benches, each for one turn: they run.
    Bench,
    /// Instructions of the hot paths under callgrind, against the committed counts.
    Counts {
        /// Commit to the counts of this run: rewrites benches/counts.json.
        #[arg(long)]
        update: bool,
    },
    /// Times of the hot paths in steps of a loop of the core's own, against the committed ones.
    Stalls {
        /// Commit to the times of this run: rewrites benches/stalls.json.
        #[arg(long)]
        update: bool,
    },
    /// A kernel with Rust and Soft-RoCE in a virtual machine: build it, run commands and tests in
    /// it.
    #[command(disable_help_flag = true)]
    Lab(Words),
    /// All checks in order, with the time that each took.
    Ci {
        /// Run the remaining checks after one has failed.
        #[arg(long)]
        keep_going: bool,
        /// Run the checks that take long, too: rates under attack, ThreadSanitizer, and aarch64 in
        /// emulation.
        #[arg(long)]
        long: bool,
    },
}

/// The arguments of a command that is a program of its own, which reads them.
#[derive(Debug, Args)]
struct Words {
    /// --help lists them
    #[arg(
        value_name = "OPTIONS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<OsString>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    limic_runner::run(|| run(&arguments.task))
}

/// Replaces this process by a program of the workspace, which cargo builds first. Signals and exit
/// status are those of that program then. Returns only if it cannot be started.
fn become_program(package: &str, command: &[&str], words: &Words) -> Result<(), Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let source = Command::new(cargo)
        .args(["run", "--quiet", "--package", package, "--"])
        .args(command)
        .args(&words.words)
        .exec();
    Err(Failure::Start {
        command: "cargo run".to_owned(),
        source,
    })
}

fn run(task: &Task) -> Result<(), Failure> {
    match task {
        Task::Setup => setup::run(),
        Task::Peers => limic_peers::install_all(),
        Task::Mpi(words) => become_program("limic-compare", &["mpi"], words),
        Task::Fabtests(words) => become_program("limic-fabtests", &[], words),
        Task::Compare(words) => become_program("limic-compare", &["compare"], words),
        Task::CLatency(words) => become_program("limic-compare", &["c-latency"], words),
        Task::Demo => demo::run(),
        Task::Test => Summary::of(suite::run),
        Task::Doctests => Summary::of(|summary| {
            setup::run()?;
            suite::doctests(summary)
        }),
        Task::Fmt => checks::fmt(),
        Task::Lines => lines::run(),
        Task::Clippy => setup::run().and_then(|()| checks::clippy()),
        Task::Docs => setup::run().and_then(|()| checks::docs()),
        Task::Features => Summary::of(|summary| {
            setup::run()?;
            suite::features(summary)
        }),
        Task::Msrv => Summary::of(|summary| {
            setup::run()?;
            packaging::oldest_rust(summary)
        }),
        Task::Package => Summary::of(|summary| {
            setup::run()?;
            packaging::package(summary)
        }),
        Task::Examples => Summary::of(|summary| {
            setup::run()?;
            suite::build()?;
            examples::run(summary)
        }),
        Task::Install(install) => install::run(install),
        Task::Uninstall(place) => install::remove(place),
        Task::Wheel { debug } => wheel::run(*debug),
        Task::Deb { debug } => deb::run(*debug),
        Task::Header => checks::header(),
        Task::Settings => checks::settings(),
        Task::Miri => Summary::of(checks::miri),
        Task::Loom => Summary::of(checks::loom),
        Task::Simulate(words) => setup::run().and_then(|()| simulate::run(&words.words)),
        Task::Fuzz(wanted) => Summary::of(|summary| {
            setup::run()?;
            fuzz::run(wanted, summary)
        }),
        Task::Sanitizer => Summary::of(long::sanitizer),
        Task::Aarch64 => Summary::of(long::aarch64),
        Task::Bench => setup::run().and_then(|()| checks::bench()),
        Task::Counts { update } => Summary::of(|summary| {
            setup::run()?;
            counts::run(*update, summary)
        }),
        Task::Stalls { update } => Summary::of(|summary| {
            setup::run()?;
            stalls::run(*update, summary)
        }),
        Task::Lab(words) => become_program("limic-lab", &[], words),
        Task::Ci { keep_going, long } => ci::run(*keep_going, *long),
    }
}
