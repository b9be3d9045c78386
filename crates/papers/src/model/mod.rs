//! `limic model`: what cannot be measured here, by calculation and simulation.

mod connections;
mod device_memory;

use std::io::Write;
use std::process::ExitCode;

/// Calculate what cannot be measured here: other adapters, more processes
#[derive(Debug, clap::Args)]
pub struct Model {
    #[command(subcommand)]
    of: Of,
}

#[derive(Debug, clap::Subcommand)]
enum Of {
    DeviceMemory(device_memory::Args),
    Connections(connections::Args),
}

impl Model {
    /// Calculates; errors are printed.
    pub fn execute(&self) -> ExitCode {
        let done = match &self.of {
            Of::DeviceMemory(args) => device_memory::execute(args),
            Of::Connections(args) => connections::execute(args),
        };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let _unread = writeln!(std::io::stderr(), "limic model: {error}");
                ExitCode::from(error.exit_code())
            }
        }
    }
}

/// A reader that has gone away has seen enough.
fn print(text: &str) {
    let _unread = std::io::stdout().lock().write_all(text.as_bytes());
}
