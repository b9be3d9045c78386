//! `cargo xtask compare`, `cargo xtask mpi`, `cargo xtask c-latency`.

use std::process::ExitCode;

use clap::Parser;
use limic_compare::Task;

/// Measures limic against other message layers.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    limic_runner::run(|| limic_compare::run(&arguments.task))
}
