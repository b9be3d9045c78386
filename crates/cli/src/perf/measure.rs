//! One rank's way through all measurements. All ranks take the same decisions, because each follows
//! from numbers that were merged over all of them.

use std::cell::RefCell;
use std::sync::Barrier;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use limic::Endpoint;
use limic::settings::{ByteSize, Path};
use limic_measure::control::Control;
use limic_measure::numbers::Spread;
use limic_measure::{MeasureError, ranks};

use super::args::{Order, Pattern, Reuse, Wanted};
use super::buffers::Buffers;
use super::hardware::{Counts, Meter};
use super::lane::{Lane, Team, skipped_path};
use super::measured::Measured;
use super::notice;
use super::pattern::{Stopped, Work};
use super::report::{Counted, Report, Row};

/// Iterations of the first run, whose bytes are checked.
const CHECKED: u64 = 3;

/// How long a run must take to tell how many iterations fit into a round.
const CALIBRATION: Duration = Duration::from_millis(2);

/// A size over a path, and what was measured of it.
#[derive(Debug)]
struct Point {
    lane: usize,
    work: Work,
    /// Seconds of each round.
    seconds: Vec<f64>,
    moved: Measured,
}

/// Measures as one of the ranks of a job; rank 0 gives the report.
pub(super) fn as_rank(order: &Order<'_>) -> Result<Option<Report>, MeasureError> {
    let (pattern, messages) = (order.pattern, order.messages);
    let (control, cpus) = ranks::join(pattern.name(), pattern.grouping(), &messages.ranks)?;
    let rank = control.rank();
    let failed = |source| MeasureError::Rank { rank, source };
    let mut lanes = Vec::new();
    let over_verbs = messages.verbs.lanes();
    for lane in &over_verbs {
        lanes.push(Lane::over_verbs(*lane, &control, &cpus)?.map_err(failed)?);
    }
    let wanted = if over_verbs.is_empty() {
        messages.wanted()
    } else {
        Vec::new()
    };
    for wanted in wanted {
        lanes.push(Lane::open(wanted, &control, &cpus)?.map_err(failed)?);
    }
    let bound = cpus.iter().all(Option::is_some);
    let in_barrier = control.barrier_of(rank).map_err(failed)?.messages();
    let mut run = Run {
        order,
        in_barrier,
        control,
        lanes,
        buffers: Vec::new(),
        readable: Buffers::peer_readable(),
        progress: ProgressBar::hidden(),
        report: Report {
            checked: messages.check,
            rewritten: order.rewrite,
            counters: messages.counters,
            ..Report::new(pattern.name(), bound)
        },
    };
    if messages.counters {
        let meter = Meter::open();
        run.report.notes.extend_from_slice(meter.refused());
    }
    run.all()?;
    let Run {
        control,
        lanes,
        report,
        ..
    } = run;
    // Everybody is past its last message before the endpoints close.
    control.barrier().map_err(failed)?;
    drop(lanes);
    control.leave().map_err(failed)?;
    Ok((rank == 0).then_some(report))
}

struct Run<'a> {
    order: &'a Order<'a>,
    /// Messages that a barrier of all ranks takes.
    in_barrier: u64,
    control: Control,
    lanes: Vec<Lane>,
    /// One for each rank that this process runs at a time.
    buffers: Vec<Buffers>,
    /// Those of the lane that sends from memory which peers may read.
    readable: Buffers,
    progress: ProgressBar,
    report: Report,
}

impl Run<'_> {
    fn all(&mut self) -> Result<(), MeasureError> {
        let (sizes, reuses) = (&self.order.sizes, &self.order.reuses);
        let candidates = sizes.as_slice().len() * reuses.len() * self.lanes.len();
        if self.control.rank() == 0 {
            let steps =
                candidates as u64 * (1 + u64::from(self.order.messages.timed.rounds.rounds));
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({eta} left)");
            self.progress = ProgressBar::new(steps)
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        }
        let mut points = Vec::new();
        for &bytes in sizes.as_slice() {
            for &reuse in reuses {
                for lane in 0..self.lanes.len() {
                    let name = self.lanes[lane].wanted.name();
                    self.progress
                        .set_message(format!("{name} {bytes}: checking"));
                    points.extend(self.prepare(lane, bytes, reuse)?);
                    self.progress.inc(1);
                }
            }
        }
        self.progress.set_length(
            self.progress.position()
                + points.len() as u64 * u64::from(self.order.messages.timed.rounds.rounds),
        );
        for _ in 0..self.order.messages.timed.rounds.rounds {
            for point in &mut points {
                let name = self.lanes[point.lane].wanted.name();
                self.progress
                    .set_message(format!("{name} {}", point.work.bytes));
                let measured = self.run(point.lane, &point.work)?;
                point.seconds.push(measured.seconds);
                point.moved.add(&measured);
                self.progress.inc(1);
            }
        }
        self.progress.finish_and_clear();
        // Paths as they were asked for, each over all sizes.
        points.sort_by_key(|point| (point.work.reuse == Some(Reuse::Off), point.lane));
        for point in &points {
            let row = self.row(point);
            self.report.rows.push(row);
        }
        if self.report.rows.iter().any(|row| row.mb_per_s.is_none()) {
            let why = "loans have no MB/s: their bytes stay where they are, and the buffer is handed over";
            self.report.notes.push(why.to_owned());
        }
        super::crossover::note(&mut self.report);
        let judged = super::lane_notes::judge(&self.report.rows);
        self.report.notes.extend(judged);
        let compared = super::lane_notes::compare(&self.report.rows);
        self.report.notes.extend(compared);
        if self.order.pattern == Pattern::Cliffs {
            super::cliffs::judge(&mut self.report);
        }
        Ok(())
    }

    /// Checks received bytes, sees whether the path that was asked for is the one that is taken,
    /// and finds out how many iterations fit into a round. `None`, with a note, if it cannot be
    /// measured.
    fn prepare(
        &mut self,
        lane: usize,
        bytes: usize,
        reuse: Option<Reuse>,
    ) -> Result<Option<Point>, MeasureError> {
        if let Some(why) = self.lanes[lane].refusal(self.order.pattern, bytes) {
            self.skipped(lane, bytes, &why);
            return Ok(None);
        }
        let mut work = Work {
            pattern: self.order.pattern,
            bytes,
            iterations: CHECKED,
            warmup: 0,
            reuse,
            check: true,
            rewrite: self.order.rewrite,
        };
        let checked = self.run(lane, &work)?;
        let asked = self.lanes[lane].wanted.path();
        if let Some(asked) = asked.filter(|asked| checked.path().map(Path::setting) != Some(*asked))
        {
            let why = skipped_path(asked, checked.path());
            self.skipped(lane, bytes, &why);
            return Ok(None);
        }
        work.check = self.order.messages.check;
        work.iterations = match self.order.messages.timed.rounds.iterations {
            Some(iterations) => iterations,
            None => self.calibrate(lane, work)?,
        };
        work.warmup = self
            .order
            .messages
            .warmup
            .unwrap_or(work.iterations.div_ceil(10));
        Ok(Some(Point {
            lane,
            work,
            seconds: Vec::new(),
            moved: Measured::default(),
        }))
    }

    /// Iterations that fit into a round.
    fn calibrate(&mut self, lane: usize, mut work: Work) -> Result<u64, MeasureError> {
        let round = self.order.messages.timed.round();
        let enough = CALIBRATION.as_secs_f64().min(round);
        work.iterations = 1;
        loop {
            let seconds = self.run(lane, &work)?.seconds;
            if seconds >= enough || work.iterations >= 1 << 24 {
                let each = seconds.max(1e-9) / work.iterations as f64;
                return Ok(((round / each) as u64).clamp(1, 1 << 32));
            }
            work.iterations *= 4;
        }
    }

    /// Runs a pattern over a lane, on all ranks.
    fn run(&mut self, lane: usize, work: &Work) -> Result<Measured, MeasureError> {
        let control = &self.control;
        let rank = control.rank();
        let Lane {
            teams,
            kernel,
            wanted,
            ..
        } = &mut self.lanes[lane];
        self.buffers
            .resize_with(teams.len().max(self.buffers.len()).max(1), Buffers::private);
        let wait_for_all = || control.barrier();
        let counters = self.order.messages.counters;
        let buffers = match wanted {
            Wanted::PeerReadable => core::slice::from_mut(&mut self.readable),
            _ => self.buffers.as_mut_slice(),
        };
        let mine = match (teams.as_mut_slice(), kernel) {
            (_, Some(Ok(team))) => one(team, &mut buffers[0], work, counters, &wait_for_all)
                .map_err(|stopped| explain(stopped, rank))?,
            ([team], _) => one(team, &mut buffers[0], work, counters, &wait_for_all)
                .map_err(|stopped| explain(stopped, rank))?,
            // All ranks of this lane are threads of rank 0; the other processes wait for the
            // result.
            (teams, _) => in_threads(teams, buffers, work, counters),
        };
        mine.of_all(control)
            .map_err(|source| MeasureError::Rank { rank, source })
    }

    fn skipped(&mut self, lane: usize, bytes: usize, why: &str) {
        let name = self.lanes[lane].wanted.name();
        let size = ByteSize(bytes as u64);
        let note = format!("{name}, {size}: not measured: {why}");
        if !self.report.notes.contains(&note) {
            self.report.notes.push(note);
        }
    }

    fn row(&self, point: &Point) -> Row {
        let work = &point.work;
        let rounds = self.order.messages.timed.rounds.rounds;
        let steps = work.iterations as f64 * work.steps_per_iteration() as f64;
        let each_us: Vec<f64> = (point.seconds.iter())
            .map(|seconds| seconds * 1e6 / steps)
            .collect();
        let spread = Spread::of(&point.seconds).scaled(1e6 / steps);
        let wanted = self.lanes[point.lane].wanted;
        let path = match wanted {
            Wanted::Kernel | Wanted::KmodRegion => wanted.name(),
            _ => point.moved.path().map_or(wanted.name(), Path::name),
        };
        let ranks = self.control.size();
        Row {
            path: path.to_owned(),
            reuse: work.reuse.map(|reuse| reuse == Reuse::On),
            rounds,
            each_us,
            iterations: work.iterations,
            verbs: self.lanes[point.lane].verbs,
            counted: Counted::of(
                &point.moved.hardware,
                f64::from(rounds)
                    * work.iterations as f64
                    * work.messages_per_iteration(ranks, self.in_barrier) as f64,
            ),
            ..Row::new(
                self.order.pattern.name(),
                wanted.name(),
                ranks,
                work.bytes,
                spread,
                work.streams(ranks, self.in_barrier),
            )
        }
    }
}

/// Runs a pattern as one rank.
pub(super) fn one(
    team: &Team<impl Endpoint>,
    buffers: &mut Buffers,
    work: &Work,
    counters: bool,
    start: &dyn Fn() -> limic::Result<()>,
) -> Result<Measured, Stopped> {
    let mut measured = Measured::default();
    let meter = RefCell::new(counters.then(Meter::open));
    let before = RefCell::new(team.endpoint.counters());
    // All counts begin with the clock, behind the warm-up.
    let start = || {
        start()?;
        before.replace(team.endpoint.counters());
        if let Some(meter) = &mut *meter.borrow_mut() {
            meter.start();
        }
        Ok(())
    };
    measured.seconds = work.run(team, buffers, &start)?.as_secs_f64();
    if let Some(mut meter) = meter.into_inner() {
        measured.hardware = meter.stop();
    }
    measured.count(&team.endpoint, &before.into_inner());
    if !counters {
        // Nobody asked.
        measured.hardware = Counts::default();
    }
    Ok(measured)
}

/// Runs every rank of a lane in a thread of this process.
fn in_threads(
    teams: &mut [Team],
    buffers: &mut [Buffers],
    work: &Work,
    counters: bool,
) -> Measured {
    let barrier = Barrier::new(teams.len());
    let mut sum = Measured::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = teams
            .iter_mut()
            .zip(buffers)
            .map(|(team, buffers)| {
                let barrier = &barrier;
                scope.spawn(move || {
                    if let Some(cpu) = team.cpu
                        && let Err(error) = ranks::pin(cpu)
                    {
                        notice(format_args!("{error}; going on without"));
                    }
                    let start = || {
                        barrier.wait();
                        Ok(())
                    };
                    one(team, buffers, work, counters, &start).unwrap_or_else(|stopped| {
                        // Its partner waits for it in vain, in this process too.
                        let error = explain(stopped, team.rank);
                        notice(format_args!("{error}"));
                        std::process::exit(error.exit_code().into())
                    })
                })
            })
            .collect();
        for thread in threads {
            match thread.join() {
                Ok(measured) => sum.merge(&measured),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    sum
}

pub(super) fn explain(stopped: Stopped, rank: u32) -> MeasureError {
    match stopped {
        Stopped::Limic(source) => MeasureError::Rank { rank, source },
        Stopped::Content(wrong) => MeasureError::Content { rank, wrong },
    }
}
