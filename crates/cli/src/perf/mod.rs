//! `limic perf`: measures messages between ranks, and the machine below them.
//!
//! The life of a measurement: [`args`] says what to do, with [`options`] that several have, [`job`] starts ranks or finds that this
//! process is one, [`lane`] opens an endpoint for each path and connects it, [`measure`] goes
//! through rounds, sizes and lanes, each time running a pattern ([`latency`], [`window`],
//! [`collective`]) on [`buffers`] whose [`content`] can be checked, and [`report`], [`json`] and
//! [`plot`] show the rows. [`cliffs`] judges those of a ping-pong, [`asleep`] has receivers that
//! sleep. [`hardware`] counts what the processor does meanwhile. [`verbs`] says which lanes go over
//! an adapter. [`skew`] has an order of its own, and [`tune`] makes a profile out of what it
//! measures. [`floor`] measures without limic, [`breakdown`] shows what the kernel module measures.

mod args;
mod asleep;
mod breakdown;
mod buffers;
mod cliffs;
mod collective;
mod content;
mod control;
mod crossover;
mod floor;
mod hardware;
mod job;
pub(crate) mod json;
mod lane;
mod latency;
mod machine;
mod measure;
mod options;
pub(crate) mod outputs;
mod pattern;
pub(crate) mod plot;
pub(crate) mod report;
mod skew;
pub(crate) mod tune;
pub(crate) mod verbs;
mod window;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) use args::Args;
use args::Measurement;
use options::{Outputs, Ranks};
use report::Report;

/// Measures; errors are printed.
pub(crate) fn execute(args: &Args) -> ExitCode {
    match perform(args) {
        Ok(code) => code,
        Err(error) => {
            // What is wrong with the command line or the environment is wrong for all ranks: one
            // tells.
            if error.exit_code() != crate::BAD_USAGE || job::is_first_rank() {
                notice(format_args!("{error}"));
            }
            ExitCode::from(error.exit_code())
        }
    }
}

fn perform(args: &Args) -> Result<ExitCode, PerfError> {
    match &args.measurement {
        Measurement::Messages(exchange) => {
            let order = exchange.order();
            order.check()?;
            let messages = order.messages;
            in_job(&messages.ranks, &messages.outputs, || {
                if order.sleep {
                    asleep::as_rank(&order)
                } else {
                    measure::as_rank(&order)
                }
            })
        }
        Measurement::Skew(args) => {
            args.check()?;
            in_job(&args.ranks, &args.outputs, || skew::as_rank(args))
        }
        Measurement::Breakdown(args) => {
            args.sizes.check("breakdown")?;
            alone("breakdown is one process", &args.outputs)?;
            finish(&args.outputs, &breakdown::run(args)?)
        }
        Measurement::Floor(args) => {
            args.sizes.check("floor")?;
            alone("floor starts its own two processes", &args.outputs)?;
            finish(&args.outputs, &floor::run(args)?)
        }
        Measurement::OverVerbs(measurement) => measurement.perform(),
    }
}

/// What is no job of ranks.
fn alone(what: &str, outputs: &Outputs) -> Result<(), PerfError> {
    outputs.check()?;
    match job::launcher() {
        Some(launcher) => Err(PerfError::Usage(format!(
            "{what}, but {launcher} is set: run it without a launcher"
        ))),
        None => Ok(()),
    }
}

/// Measures as a rank, if a launcher has started this process as one; else starts the ranks.
fn in_job(
    ranks: &Ranks,
    outputs: &Outputs,
    as_rank: impl FnOnce() -> Result<Option<Report>, PerfError>,
) -> Result<ExitCode, PerfError> {
    // Of a job's ranks, the first writes.
    if job::is_first_rank() {
        outputs.check()?;
    }
    if job::launcher().is_none() {
        limic::Settings::from_environment()?;
        return Ok(job::start(ranks));
    }
    match as_rank()? {
        Some(report) => finish(outputs, &report),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Shows the rows wherever they were asked for.
fn finish(outputs: &Outputs, report: &Report) -> Result<ExitCode, PerfError> {
    if outputs.shows_table() {
        // A reader that has gone away has seen enough.
        let _unread = write!(std::io::stdout().lock(), "{}", report.table());
    }
    if let Some(path) = &outputs.json {
        json::write(report, path)?;
    }
    if let Some(path) = &outputs.plot {
        plot::write(report, path)?;
    }
    if report.rows.is_empty() {
        return Err(PerfError::Nothing(report.notes.join("; ")));
    }
    Ok(ExitCode::SUCCESS)
}

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PerfError {
    #[error("{0}")]
    Usage(String),

    #[error("{0}")]
    Settings(#[from] limic::settings::SettingsError),

    #[error("rank {rank}: {source}")]
    Rank { rank: u32, source: limic::Error },

    #[error("{0}")]
    Start(limic::Error),

    #[error("rank {rank}: {wrong}")]
    Content { rank: u32, wrong: content::Wrong },

    #[error("{}: {source}", path.display())]
    File {
        path: PathBuf,
        source: std::io::Error,
    },

    #[error("drawing {}: {reason}", path.display())]
    Plot { path: PathBuf, reason: String },

    #[error("{step}: {source}")]
    System {
        step: &'static str,
        source: std::io::Error,
    },

    /// The kernel module, or its figures.
    #[error("{0}")]
    Module(String),

    #[error("nothing was measured: {0}")]
    Nothing(String),
}

impl PerfError {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Settings(_) | Self::File { .. } => crate::BAD_USAGE,
            _ => 1,
        }
    }
}

/// Tells the user something. A standard error that nobody reads any more is no reason to fail.
fn notice(text: std::fmt::Arguments<'_>) {
    // In one piece: several ranks may write at the same time.
    let line = format!("limic perf: {text}\n");
    let _unread = std::io::stderr().lock().write_all(line.as_bytes());
}
