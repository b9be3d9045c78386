//! `limic model`: what cannot be measured here, by calculation and simulation.

mod connections;
mod device_memory;

use std::io::Write;
use std::process::ExitCode;

use crate::perf::PerfError;
use crate::perf::report::significant;

/// Calculate what cannot be measured here: other adapters, more processes
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    of: Model,
}

#[derive(Debug, clap::Subcommand)]
enum Model {
    DeviceMemory(device_memory::Args),
    Connections(connections::Args),
}

/// Calculates; errors are printed.
pub(crate) fn execute(args: &Args) -> ExitCode {
    let done = match &args.of {
        Model::DeviceMemory(args) => device_memory::execute(args),
        Model::Connections(args) => connections::execute(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _unread = writeln!(std::io::stderr(), "limic model: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
enum ModelError {
    #[error("{0}")]
    Usage(String),

    #[error("{0}")]
    Output(#[from] PerfError),
}

impl ModelError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => crate::BAD_USAGE,
            Self::Output(error) => error.exit_code(),
        }
    }
}

/// A reader that has gone away has seen enough.
fn print(text: &str) {
    let _unread = std::io::stdout().lock().write_all(text.as_bytes());
}
