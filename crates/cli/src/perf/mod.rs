//! `limic perf`: measures messages between ranks, and the machine below them.
//!
//! The life of a measurement: [`args`] says what to do, [`job`] starts ranks unless this process is
//! one, [`lane`] opens an endpoint for each path and connects it, [`measure`] goes through rounds,
//! sizes and lanes, each time running a pattern ([`latency`], [`window`], [`collective`]) on
//! [`buffers`], and [`report`] and [`plot`] show the rows. [`cliffs`] judges those of a ping-pong,
//! [`asleep`] has receivers that sleep. [`hardware`] counts what the processor does meanwhile.
//! [`lane_notes`] compares lanes over verbs. [`skew`] has an order of its own, and [`tune`] makes a
//! profile out of what it measures. [`floor`] measures without limic. What only makes figures of
//! the papers anew is in `limic_papers`.

mod args;
mod asleep;
mod buffers;
mod cliffs;
mod collective;
mod crossover;
mod floor;
mod hardware;
mod job;
mod lane;
mod lane_notes;
mod latency;
mod measure;
mod measured;
mod pattern;
mod plot;
mod report;
mod skew;
pub(crate) mod tune;
mod window;

use std::io::Write;
use std::process::ExitCode;

use limic_measure::options::Ranks;
use limic_measure::outputs::Outputs;
use limic_measure::{MeasureError, ranks};

pub(crate) use args::Args;
use args::Measurement;
use report::Report;

/// Measures; errors are printed.
pub(crate) fn execute(args: &Args) -> ExitCode {
    match perform(args) {
        Ok(code) => code,
        Err(error) => {
            // What is wrong with the command line or the environment is wrong for all ranks: one
            // tells.
            if error.exit_code() != crate::BAD_USAGE || ranks::is_first_rank() {
                notice(format_args!("{error}"));
            }
            ExitCode::from(error.exit_code())
        }
    }
}

fn perform(args: &Args) -> Result<ExitCode, MeasureError> {
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
        Measurement::Floor(args) => {
            args.sizes.check("floor")?;
            ranks::alone("floor starts its own two processes", &args.outputs)?;
            finish(&args.outputs, &floor::run(args)?)
        }
        Measurement::Papers(measurement) => measurement.perform(job::start),
    }
}

/// Measures as a rank, if a launcher has started this process as one; else starts the ranks.
fn in_job(
    ranks: &Ranks,
    outputs: &Outputs,
    as_rank: impl FnOnce() -> Result<Option<Report>, MeasureError>,
) -> Result<ExitCode, MeasureError> {
    if !ranks::is_rank(outputs)? {
        return Ok(job::start(ranks));
    }
    match as_rank()? {
        Some(report) => finish(outputs, &report),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Shows the rows wherever they were asked for.
fn finish(outputs: &Outputs, report: &Report) -> Result<ExitCode, MeasureError> {
    outputs.show(report, || report.table(), |path| plot::write(report, path))?;
    if report.rows.is_empty() {
        return Err(MeasureError::Nothing(report.notes.join("; ")));
    }
    Ok(ExitCode::SUCCESS)
}

/// Tells the user something. A standard error that nobody reads any more is no reason to fail.
fn notice(text: std::fmt::Arguments<'_>) {
    // In one piece: several ranks may write at the same time.
    let line = format!("limic perf: {text}\n");
    let _unread = std::io::stderr().lock().write_all(line.as_bytes());
}
