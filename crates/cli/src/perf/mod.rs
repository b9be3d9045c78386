//! `limic perf`: measures messages between ranks, and the machine below them.
//!
//! The life of a measurement: [`args`] says what to do, [`job`] starts ranks or finds that this
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
pub(crate) mod outputs;
mod pattern;
pub(crate) mod plot;
pub(crate) mod report;
mod skew;
pub(crate) mod tune;
mod usage;
pub(crate) mod verbs;
mod window;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) use args::Args;
use args::Pattern;
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
    usage::check(args)?;
    // Of a job's ranks, the first writes.
    if job::is_first_rank() {
        outputs::check(args.json.iter().chain(&args.plot))?;
    }
    match (args.pattern, job::launcher()) {
        (Pattern::Floor, Some(launcher)) => Err(PerfError::Usage(format!(
            "floor starts its own two processes, but {launcher} is set: run it without a launcher"
        ))),
        (Pattern::Breakdown, Some(launcher)) => Err(PerfError::Usage(format!(
            "breakdown is one process, but {launcher} is set: run it without a launcher"
        ))),
        (Pattern::Breakdown, None) => {
            let report = breakdown::run(args)?;
            finish(args, &report)
        }
        (Pattern::Floor, None) => {
            let report = floor::run(args)?;
            finish(args, &report)
        }
        (Pattern::Skew, Some(_)) => match skew::as_rank(args)? {
            Some(report) => finish(args, &report),
            None => Ok(ExitCode::SUCCESS),
        },
        (_, Some(_)) if args.sleep => match asleep::as_rank(args)? {
            Some(report) => finish(args, &report),
            None => Ok(ExitCode::SUCCESS),
        },
        (pattern, Some(_)) if pattern.is_over_verbs() => verbs::as_rank(args),
        (_, Some(_)) => match measure::as_rank(args)? {
            Some(report) => finish(args, &report),
            None => Ok(ExitCode::SUCCESS),
        },
        (_, None) => {
            limic::Settings::from_environment()?;
            Ok(job::start(args))
        }
    }
}

/// Shows the rows wherever they were asked for.
fn finish(args: &Args, report: &Report) -> Result<ExitCode, PerfError> {
    let table_hidden = args
        .json
        .as_ref()
        .is_some_and(|path| path.as_os_str() == "-");
    if !table_hidden {
        // A reader that has gone away has seen enough.
        let _unread = write!(std::io::stdout().lock(), "{}", report.table());
    }
    if let Some(path) = &args.json {
        json::write(report, path)?;
    }
    if let Some(path) = &args.plot {
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
