//! The `limic` command: starts jobs, says what the machine offers, measures.

mod env;
mod info;
mod manual;
mod perf;
mod run;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use limic_measure::BAD_USAGE;

/// Tagged messages between processes: start jobs, look at the machine, measure
#[derive(Debug, Parser)]
#[command(name = "limic", version, after_help = AFTER_HELP)]
enum Command {
    Run(run::Args),
    Info(info::Args),
    Env(env::Args),
    Perf(perf::Args),
    Tune(perf::tune::Args),
    Model(limic_papers::Model),
    Manual(manual::Args),
    #[command(hide = true)]
    Guard(run::guard::Args),
    #[command(hide = true)]
    Host(run::host::Args),
}

const AFTER_HELP: &str = "\
Examples:
  limic run -n 4 ./program            start four ranks of a program
  limic info                          what this machine offers, and what is off and why
  limic info --why shared-cache 64K   which path a message takes, and why
  limic env --mpi mpich -- mpiexec -n 2 ./program
                                      an MPI's program over limic
  limic perf latency                  ping-pong of two ranks over all sizes
  limic perf floor                    what the hardware alone allows
  limic tune                          measure this host's thresholds; later runs load them
  limic model device-memory           what memory on the adapter would be worth

Settings come from LIMIC_* variables (limic info --all lists them). LIMIC_LOG=debug shows what this
command does; a program in Rust shows the same through a subscriber of the crate tracing.";

fn main() -> ExitCode {
    log();
    match Command::parse() {
        Command::Run(args) => run::execute(&args),
        Command::Info(args) => info::execute(&args),
        Command::Env(args) => env::execute(&args),
        Command::Perf(args) => perf::execute(&args),
        Command::Tune(args) => perf::tune::execute(&args),
        Command::Model(args) => args.execute(),
        Command::Manual(args) => manual::execute(&args, Command::command()),
        Command::Guard(args) => run::guard::execute(&args),
        Command::Host(args) => run::host::execute(&args),
    }
}

/// Log lines go to standard error, warnings only unless `LIMIC_LOG` asks for more.
fn log() {
    let wanted = std::env::var("LIMIC_LOG").unwrap_or_default();
    let filter = tracing_subscriber::EnvFilter::try_new(&wanted)
        .ok()
        .filter(|_| !wanted.is_empty())
        .unwrap_or_else(|| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        // Modules have names for people who asked for log lines; a warning is for everybody.
        .with_target(!wanted.is_empty())
        .without_time()
        .init();
}
