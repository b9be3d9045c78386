//! `cargo xtask fabtests`.

use std::process::ExitCode;

use clap::Parser;
use limic_fabtests::Fabtests;

/// libfabric's own tests (fabtests) over limic's provider, on this machine.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask fabtests",
    bin_name = "cargo xtask fabtests",
    version
)]
struct Arguments {
    #[command(flatten)]
    fabtests: Fabtests,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    limic_runner::run(|| limic_fabtests::run(&arguments.fabtests))
}
