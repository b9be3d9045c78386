//! `limic perf floor`: what the machine allows without limic. Two processes, pinned to two CPUs,
//! and short loops over shared memory.
//!
//! - `cache-line`: a flag goes to and fro, in turn one of many; one way.
//! - `memcpy`: within one core, between the same two buffers.
//! - `two-copy`: a message into a bounded ring of chunks and out of it, both processes at work;
//!   ping-pong, one way; both ways through the same ring; the best of several rings, and of libc's
//!   copy, vectors and `rep movsb`.
//! - `two-copy-stream`: the same, message after message in one direction.
//! - `one-copy`: out of a buffer that both processes have mapped, and that nobody writes meanwhile.
//! - `one-copy-rewritten`: the same of a message that was just written, a word of each cache line;
//!   ping-pong, one way, with the writing.
//! - `process_vm_readv`: out of the other process's memory.
//! - `epoll-wake`, `futex-wake`: from the call that wakes a sleeping process until that runs.
//!
//! [`memory`] is what the processes share, [`partner`] the other process, [`loops`] what both run.

mod copies;
mod line_latency;
mod loops;
mod memory;
mod partner;
pub(super) mod wake;

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use limic_measure::numbers::Spread;
use limic_measure::options::{Sizes, Timed};
use limic_measure::outputs::Outputs;
use limic_measure::{MeasureError, ranks};

use super::report::{Report, Row};
use copies::Copies;
pub(super) use copies::vector_time;
pub(super) use line_latency::line_latency;
use loops::{Failure, Kind, Order, Shape};
use memory::Memory;
use partner::Partner;

/// The shapes of ring that are tried. Chunks of 4 KiB are missing: their addresses alias.
const SHAPES: [Shape; 9] = [
    // 8 KiB in all stay in the first-level caches of both cores.
    Shape::new(1 << 10, 8),
    Shape::new(2 << 10, 4),
    Shape::new(8 << 10, 4),
    Shape::new(8 << 10, 16),
    Shape::new(16 << 10, 8),
    Shape::new(16 << 10, 32),
    Shape::new(64 << 10, 4),
    // Lines that are written again have left the reader's caches.
    Shape::new(16 << 10, 256),
    Shape::new(64 << 10, 64),
];

/// Those that are measured for each size; the others send nothing, or a cache line.
const SIZED: [Kind; 6] = [
    Kind::Memcpy,
    Kind::TwoCopy,
    Kind::TwoCopyStream,
    Kind::OneCopy,
    Kind::OneCopyRewritten,
    Kind::ReadProcess,
];

/// Those that have a length of their own, in bytes.
const UNSIZED: [(Kind, usize); 3] = [
    (Kind::CacheLine, 8),
    (Kind::EpollWake, 0),
    (Kind::FutexWake, 0),
];

/// How long a run must take to tell how many iterations fit into a round.
const CALIBRATION: Duration = Duration::from_millis(1);

/// A shape that takes so many times as long as another one in these first rounds is not the best.
const HOPELESS: f64 = 1.3;
const FIRST_ROUNDS: usize = 3;

/// The name in tables and JSON.
pub(super) const NAME: &str = "floor";

/// Steps of four.
pub(super) const SIZES: &str = "64,256,1K,4K,16K,64K,256K,1M,4M";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) sizes: Sizes,

    #[command(flatten)]
    timed: Timed,

    /// Measure these alone [default: all]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KINDS")]
    only: Vec<Kind>,

    /// Leave the placement of the two processes to the kernel
    #[arg(long)]
    no_bind: bool,

    #[command(flatten)]
    pub(super) outputs: Outputs,
}

/// Measures all floors.
pub(super) fn run(args: &Args) -> Result<Report, MeasureError> {
    let cpus = ranks::allowed_cpus()?;
    let pair = match (args.no_bind, cpus.as_slice()) {
        (false, [first, second, ..]) => Some((*first, *second)),
        _ => None,
    };
    let mut report = Report::new(NAME, pair.is_some());
    if cpus.len() < 2 {
        report
            .notes
            .push("only one CPU may be used: the two processes take turns on it".to_owned());
    }
    let sizes = &args.sizes.sizes;
    let is_wanted = |kind: &Kind| args.only.is_empty() || args.only.contains(kind);
    let of_each_size: Vec<Kind> = SIZED.into_iter().filter(is_wanted).collect();
    let once: Vec<(Kind, usize)> = UNSIZED
        .into_iter()
        .filter(|(kind, _)| is_wanted(kind))
        .collect();
    let mut memory = Memory::map(sizes.longest())?;
    // The only thread so far: nothing that forking could tear.
    let partner = Partner::start(&mut memory, pair)?;
    if let Some((first, _)) = pair {
        ranks::pin(first)?;
    }
    let mut floor = Floor {
        args,
        memory,
        partner,
        report,
        progress: ProgressBar::new(
            (once.len() + sizes.as_slice().len() * of_each_size.len()) as u64,
        ),
    };
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({eta} left)") {
        floor.progress.set_style(style);
    }
    for (kind, bytes) in once {
        floor.measure(kind, bytes)?;
    }
    for kind in of_each_size {
        for &bytes in sizes.as_slice() {
            if !floor.measure(kind, bytes)? {
                break;
            }
        }
    }
    floor.progress.finish_and_clear();
    floor.partner.stop()?;
    Ok(floor.report)
}

struct Floor<'a> {
    args: &'a Args,
    memory: Memory,
    partner: Partner,
    report: Report,
    progress: ProgressBar,
}

/// The times of one ring with one kind of copy instructions.
struct Candidate {
    order: Order,
    /// The least time of an iteration in the first rounds.
    first: f64,
    seconds: Vec<f64>,
}

impl Floor<'_> {
    /// Measures one kind for one size. False if this machine cannot do it at all.
    fn measure(&mut self, kind: Kind, bytes: usize) -> Result<bool, MeasureError> {
        self.progress
            .set_message(format!("{} {bytes}", kind.name()));
        let (shapes, all_copies): (&[Shape], &[Copies]) = if kind.has_ring() {
            (&SHAPES, Copies::here())
        } else {
            (&SHAPES[..1], &[Copies::Libc])
        };
        // A shape with larger chunks than the message is the same as the one before.
        let fits =
            |shape: &&Shape| shape.fragment < 2 * bytes || shape.fragment == SHAPES[0].fragment;
        let mut candidates = Vec::new();
        let shapes: Vec<&Shape> = shapes.iter().filter(fits).collect();
        let share = |candidates: usize| self.args.timed.round() / candidates as f64;
        let short = share(shapes.len() * all_copies.len());
        let wakes = kind.wakes().then_some(wake::WAKES);
        let given = self.args.timed.rounds.iterations.or(wakes);
        let each = shapes
            .iter()
            .flat_map(|shape| all_copies.iter().map(move |copies| (**shape, *copies)));
        for (shape, copies) in each {
            let mut order = Order {
                kind,
                bytes,
                shape,
                copies,
                iterations: given.unwrap_or(1),
            };
            if let Err(error) = self.go(&order) {
                return self.failed(kind, error);
            }
            if given.is_none() {
                order.iterations = self.calibrate(order, short)?;
            }
            candidates.push(Candidate {
                order,
                first: f64::INFINITY,
                seconds: Vec::new(),
            });
        }
        if candidates.len() > 1 {
            self.drop_hopeless(&mut candidates)?;
            let round = share(candidates.len());
            for candidate in candidates.iter_mut().filter(|_| given.is_none()) {
                candidate.order.iterations = ((round / candidate.first) as u64).max(1);
            }
        }
        for _ in 0..self.args.timed.rounds.rounds {
            for candidate in &mut candidates {
                let time = self.go(&candidate.order).map_err(into_error)?;
                candidate.seconds.push(time.as_secs_f64());
            }
        }
        self.progress.inc(1);
        let best = candidates
            .iter()
            .map(|candidate| (candidate.order, spread(candidate)))
            .min_by(|(_, one), (_, other)| one.median.total_cmp(&other.median));
        if let Some((order, spread)) = best {
            self.report.rows.push(row(self.args, &order, spread));
        }
        Ok(true)
    }

    /// Leaves out the candidates that cannot be the best.
    fn drop_hopeless(&mut self, candidates: &mut Vec<Candidate>) -> Result<(), MeasureError> {
        // In turn: the machine may change meanwhile.
        for _ in 0..FIRST_ROUNDS {
            for candidate in &mut *candidates {
                let time = self.go(&candidate.order).map_err(into_error)?.as_secs_f64();
                let each = time / candidate.order.iterations as f64;
                candidate.first = candidate.first.min(each);
            }
        }
        let firsts = candidates.iter().map(|candidate| candidate.first);
        let best = firsts.min_by(f64::total_cmp).unwrap_or_default();
        candidates.retain(|candidate| candidate.first <= HOPELESS * best);
        Ok(())
    }

    fn calibrate(&mut self, mut order: Order, round: f64) -> Result<u64, MeasureError> {
        let enough = CALIBRATION.as_secs_f64().min(round);
        loop {
            let seconds = self.go(&order).map_err(into_error)?.as_secs_f64();
            if seconds >= enough || order.iterations >= 1 << 30 {
                let each = seconds.max(1e-9) / order.iterations as f64;
                return Ok(((round / each) as u64).max(1));
            }
            order.iterations *= 4;
        }
    }

    fn go(&mut self, order: &Order) -> Result<Duration, Failure> {
        timed(order, &mut self.memory, &mut self.partner)
    }

    fn failed(&mut self, kind: Kind, error: Failure) -> Result<bool, MeasureError> {
        let Failure::Refused(errno) = error else {
            return Err(into_error(error));
        };
        let why = match limic_copy::explain().available {
            Err(refused) => refused.to_string(),
            Ok(()) => errno.to_string(),
        };
        let name = kind.name();
        self.report
            .notes
            .push(format!("{name}: not measured: {why}"));
        Ok(false)
    }
}

/// Runs an order in both processes.
fn timed(order: &Order, memory: &mut Memory, partner: &mut Partner) -> Result<Duration, Failure> {
    if order.kind.needs_partner() {
        memory.rewind();
        partner.send(order)?;
        // To wake it may take as long as a whole loop.
        memory.flags().ready.wait_for(1)?;
    }
    let begin = Instant::now();
    let result = loops::lead(order, memory, partner.pid());
    let time = begin.elapsed();
    if order.kind.needs_partner() {
        partner.finished()?;
    }
    result?;
    if order.kind.wakes() {
        let each = Duration::from_nanos(memory.flags().median_ns.get());
        return Ok(each.mul_f64(order.iterations as f64));
    }
    Ok(time)
}

fn into_error(failure: Failure) -> MeasureError {
    match failure {
        Failure::Refused(errno) => MeasureError::System {
            step: "process_vm_readv",
            source: errno.into(),
        },
        Failure::Silent => MeasureError::System {
            step: "waiting for the other process",
            source: std::io::ErrorKind::TimedOut.into(),
        },
        Failure::System(source) => MeasureError::System {
            step: "talking to the other process",
            source,
        },
    }
}

/// In microseconds for one message one way.
fn spread(candidate: &Candidate) -> Spread {
    let order = candidate.order;
    let steps = order.iterations as f64 * order.kind.steps() as f64;
    Spread::of(&candidate.seconds).scaled(1e6 / steps)
}

fn row(args: &Args, order: &Order, spread: Spread) -> Row {
    let ranks = if order.kind == Kind::Memcpy { 1 } else { 2 };
    Row {
        rounds: args.timed.rounds.rounds,
        iterations: order.iterations,
        shape: order
            .kind
            .has_ring()
            .then(|| format!("{}, {}", order.shape, order.copies.name())),
        ..Row::new(NAME, order.kind.name(), ranks, order.bytes, spread, 1.0)
    }
}
