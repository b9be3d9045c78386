//! `limic perf breakdown`: where the time of a message through the kernel module goes, by the
//! module's own clock.
//!
//! - `post`: who comes first pins its buffer and leaves a descriptor in the queue.
//! - `transfer`: who comes second finds it and copies.
//!
//! One process plays both members of a group, so nobody waits for anybody and each call is of the
//! kind that is meant: [`pair`]. [`figures`] reads what the module says; the trap into the kernel,
//! which the module cannot see, is timed here. [`report`] shows it all.

mod figures;
mod pair;
mod report;

use std::process::ExitCode;
use std::time::Instant;

use limic_copy::CallError;
use limic_measure::numbers::Spread;
use limic_measure::options::{Sizes, Timed};
use limic_measure::outputs::Outputs;
use limic_measure::{MeasureError, ranks};

use figures::{Figures, Measuring};
use pair::Pair;
use report::{Report, Row};

/// The name in tables and JSON.
const NAME: &str = "breakdown";

/// Steps of four.
pub(crate) const SIZES: &str = "64,256,1K,4K,16K,64K,256K,1M,4M";

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    sizes: Sizes,

    #[command(flatten)]
    timed: Timed,

    /// Messages before each round, not timed [default: a tenth of a round's]
    #[arg(long, value_name = "N")]
    warmup: Option<u64>,

    /// Leave the placement of the process to the kernel
    #[arg(long)]
    no_bind: bool,

    #[command(flatten)]
    outputs: Outputs,
}

/// Calls that do nothing, of which one round times this many.
const TRAPS: u32 = 500;

/// Where the time of one call goes, in microseconds; the fields are those of the JSON.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub(super) struct Steps {
    /// Into the kernel and back, by a call that does nothing.
    trap_us: f64,
    pin_us: f64,
    map_us: f64,
    copy_us: f64,
    /// Reading and checking the call, finding the other side or joining its queue under the lock,
    /// telling both sides.
    queue_us: f64,
}

impl Steps {
    fn of(trap_us: f64, figures: &Figures) -> Self {
        let us = |nanoseconds: u64| nanoseconds as f64 / 1e3;
        Self {
            trap_us,
            pin_us: us(figures.pin),
            map_us: us(figures.map),
            copy_us: us(figures.copy),
            queue_us: us(figures.list + figures.queue + figures.complete),
        }
    }

    fn all(&self) -> [f64; 5] {
        [
            self.trap_us,
            self.pin_us,
            self.map_us,
            self.copy_us,
            self.queue_us,
        ]
    }

    fn total(&self) -> f64 {
        self.all().iter().sum()
    }

    /// The median of each step.
    fn median(rounds: &[Self]) -> Self {
        let of = |step: fn(&Self) -> f64| {
            let numbers: Vec<f64> = rounds.iter().map(step).collect();
            Spread::of(&numbers).median
        };
        Self {
            trap_us: of(|steps| steps.trap_us),
            pin_us: of(|steps| steps.pin_us),
            map_us: of(|steps| steps.map_us),
            copy_us: of(|steps| steps.copy_us),
            queue_us: of(|steps| steps.queue_us),
        }
    }
}

/// Measures, and shows it.
pub(crate) fn perform(args: &Args) -> Result<ExitCode, MeasureError> {
    args.sizes.check(NAME)?;
    ranks::alone("breakdown is one process", &args.outputs)?;
    let report = run(args)?;
    args.outputs
        .show(&report, || report.text(), |path| report.draw(path))?;
    if report.rows.is_empty() {
        return Err(MeasureError::Nothing(report.notes.join("; ")));
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures each size, in each round.
fn run(args: &Args) -> Result<Report, MeasureError> {
    let sizes = &args.sizes.sizes;
    let mut pair = Pair::open(sizes.longest())?;
    let measuring = Measuring::open(pair.session())?;
    let first = ranks::allowed_cpus()?
        .first()
        .copied()
        .filter(|_| !args.no_bind);
    if let Some(first) = first {
        ranks::pin(first)?;
    }
    let mut report = Report::new(first.is_some());
    for &bytes in sizes.as_slice() {
        match measure(args, &mut pair, &measuring, bytes) {
            Ok(rows) => report.rows.extend(rows),
            Err(Stopped::Call(why @ (CallError::LockedMemory | CallError::BadAddress))) => {
                let note = format!("{bytes} bytes: not measured: {why}");
                report.notes.push(note);
            }
            Err(Stopped::Call(why)) => return Err(MeasureError::Module(why.to_string())),
            Err(Stopped::Perf(why)) => return Err(why),
        }
    }
    if measuring.disturbed() {
        report.notes.push(
            "other processes used the module meanwhile: their calls are in these figures too"
                .to_owned(),
        );
    }
    Ok(report)
}

/// Why a size could not be measured.
enum Stopped {
    Call(CallError),
    Perf(MeasureError),
}

impl From<CallError> for Stopped {
    fn from(why: CallError) -> Self {
        Self::Call(why)
    }
}

impl From<MeasureError> for Stopped {
    fn from(why: MeasureError) -> Self {
        Self::Perf(why)
    }
}

/// The two rows of one size.
fn measure(
    args: &Args,
    pair: &mut Pair,
    measuring: &Measuring,
    bytes: usize,
) -> Result<[Row; 2], Stopped> {
    pair.check(bytes)?;
    let iterations = match args.timed.rounds.iterations {
        Some(iterations) => iterations,
        None => fitting(args, pair, bytes)?,
    };
    let warmup = args.warmup.unwrap_or(iterations / 10);
    let (mut transfers, mut posts) = (Vec::new(), Vec::new());
    for _ in 0..args.timed.rounds.rounds {
        for _ in 0..warmup {
            pair.exchange(bytes)?;
        }
        let trap = trap(pair)?;
        measuring.start()?;
        for _ in 0..iterations {
            pair.exchange(bytes)?;
        }
        let (transfer, post) = measuring.read(bytes, iterations)?;
        transfers.push(Steps::of(trap, &transfer));
        posts.push(Steps::of(trap, &post));
    }
    Ok([
        row(args, "transfer", bytes, iterations, &transfers),
        row(args, "post", bytes, iterations, &posts),
    ])
}

/// Microseconds of a call that does nothing.
fn trap(pair: &Pair) -> Result<f64, CallError> {
    let begin = Instant::now();
    for _ in 0..TRAPS {
        pair.trap()?;
    }
    Ok(begin.elapsed().as_secs_f64() * 1e6 / f64::from(TRAPS))
}

/// How many messages fit into a round.
fn fitting(args: &Args, pair: &mut Pair, bytes: usize) -> Result<u64, CallError> {
    const TRIES: u32 = 10;
    let begin = Instant::now();
    for _ in 0..TRIES {
        pair.exchange(bytes)?;
    }
    let each = begin.elapsed().as_secs_f64() / f64::from(TRIES);
    let round = args.timed.round();
    Ok(((round / each.max(1e-9)) as u64).max(1))
}

fn row(args: &Args, kind: &'static str, bytes: usize, iterations: u64, rounds: &[Steps]) -> Row {
    let totals: Vec<f64> = rounds.iter().map(Steps::total).collect();
    let spread = Spread::of(&totals).scaled(1.0);
    let steps = Steps::median(rounds);
    Row::new(
        kind,
        bytes,
        spread,
        args.timed.rounds.rounds,
        iterations,
        steps,
    )
}
