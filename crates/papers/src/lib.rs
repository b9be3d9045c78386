//! What makes the figures of docs/papers.md anew, for the command: measurements of the kernel
//! module by its own clock, of connections, and of messages that rest in an adapter's memory, and
//! models of adapters that are not here. Nothing of limic's libraries uses it.

mod adapter;
mod breakdown;
mod memory;
mod model;
#[cfg(feature = "ibverbs")]
pub mod staging;

use std::process::ExitCode;

use limic_measure::MeasureError;
use limic_measure::options::Ranks;

pub use model::Model;

/// What is measured.
#[derive(Debug, clap::Subcommand)]
pub enum Measurement {
    /// Where the time of a message through the kernel module goes, step by step, by the module's
    /// own clock
    #[command(mut_arg("sizes", |sizes| sizes.default_value(breakdown::SIZES)))]
    Breakdown(breakdown::Args),
    /// What goes over an adapter alone.
    #[command(flatten)]
    Adapter(adapter::Measurement),
}

impl Measurement {
    /// Measures, and shows it; or starts the ranks that do, by `start`.
    ///
    /// # Errors
    /// Nothing could be measured, or not be written.
    pub fn perform(
        &self,
        start: impl FnOnce(&Ranks) -> ExitCode,
    ) -> Result<ExitCode, MeasureError> {
        match self {
            Self::Breakdown(args) => breakdown::perform(args),
            Self::Adapter(measurement) => measurement.perform(start),
        }
    }
}
