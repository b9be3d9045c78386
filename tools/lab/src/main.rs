//! `cargo xtask lab`.

use std::process::ExitCode;

use clap::Parser;
use limic_lab::Task;

/// A kernel with Rust and Soft-RoCE in a virtual machine: build it, run commands and tests in it.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask lab", bin_name = "cargo xtask lab", version)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    limic_runner::run(|| limic_lab::run(&arguments.task))
}
