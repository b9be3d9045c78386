//! `limic perf latency --sleep`: messages to a receiver that sleeps in its endpoint's wait, beside
//! the kernel's own wake-up in the same run. A message carries the time at which it was sent; the
//! receiver reads the same clock when it has it.

use limic::Endpoint;
use limic::counters::Event;
use limic::settings::{ByteSize, Path, Spin};
use limic_measure::MeasureError;
use limic_measure::control::Control;
use limic_measure::numbers::Spread;
use limic_measure::options::Grouping;
use limic_measure::ranks::join;

use super::args::{Order, Wanted};
use super::floor::wake::{KernelWake, PAUSE_NS, WAKES, now_ns, pause};
use super::lane::{self, Lane, Team, skipped_path};
use super::measure::explain;
use super::measured::Measured;
use super::pattern::{ANSWER, DATA, Stopped};
use super::report::{Report, Row};

/// What errors call it.
const NAME: &str = "latency --sleep";

/// Bytes of the time in a message.
const STAMP: usize = 8;
/// How long the ranks wait for the kernel's turn: then the receiver sleeps, and leaves its CPU
/// alone.
const SETTLED: std::time::Duration = std::time::Duration::from_millis(5);

/// Before each message.
const PAUSE: std::time::Duration = std::time::Duration::from_nanos(PAUSE_NS);
/// How many pauses before a message are enough for any receiver to fall asleep.
const MOST_PAUSES: u32 = 1024;

/// What a row says of it. Its fields are those of the JSON; docs/perf-json.md.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub(super) struct WakeRow {
    /// The kernel's own wake-up in the same run.
    pub(super) kernel_us: f64,
    /// The message's time divided by that.
    pub(super) ratio: f64,
    /// Share of the messages whose receiver slept, by its endpoint's counters; the others are not
    /// in the times.
    pub(super) asleep: f64,
}

/// What the command line's types cannot tell.
pub(super) fn check(order: &Order<'_>) -> Result<(), MeasureError> {
    let usage = |text: String| Err(MeasureError::Usage(text));
    if let Some(short) = order.sizes.as_slice().iter().find(|bytes| **bytes < STAMP) {
        return usage(format!(
            "--sleep sends the time in each message: {short} bytes are too few, {STAMP} are enough"
        ));
    }
    let without = |wanted: &&Wanted| {
        matches!(
            wanted,
            Wanted::Kernel | Wanted::KmodRegion | Wanted::Loan | Wanted::Process
        )
    };
    if let Some(wanted) = order.messages.wanted().iter().find(without) {
        return usage(format!("--sleep is not measured over {}", wanted.name()));
    }
    Grouping::Two.check(NAME, order.messages.ranks.ranks.unwrap_or(2))
}

/// Measures as one of two ranks; rank 0, who sends, gives the report.
pub(super) fn as_rank(order: &Order<'_>) -> Result<Option<Report>, MeasureError> {
    let (control, cpus) = join(NAME, Grouping::Two, &order.messages.ranks)?;
    let rank = control.rank();
    let failed = |source| MeasureError::Rank { rank, source };
    // Before anything else runs here: this forks.
    let mut kernel = match rank {
        0 => Some(KernelWake::start(cpus[1])?),
        _ => None,
    };
    let mut lanes = Vec::new();
    for wanted in order.messages.wanted() {
        let mut settings = lane::builder(wanted);
        if rank == 1 {
            settings = settings.spin(Spin::For(core::time::Duration::ZERO));
        }
        let lane = Lane::connect(wanted, settings.build()?, &control, &cpus).map_err(failed)?;
        lanes.push(lane);
    }
    let mut report = Report::new(order.pattern.name(), cpus.iter().all(Option::is_some));
    for bytes in order.sizes.as_slice() {
        for lane in &lanes {
            let team = &lane.teams[0];
            measure(
                order,
                &control,
                team,
                lane.wanted,
                *bytes,
                kernel.as_mut(),
                &mut report,
            )?;
        }
    }
    control.barrier().map_err(failed)?;
    drop(lanes);
    control.leave().map_err(failed)?;
    if let Some(kernel) = kernel {
        kernel.stop()?;
    }
    Ok((rank == 0).then_some(report))
}

/// Collective: rounds of one size over one path, with the kernel's turn before each.
fn measure(
    order: &Order<'_>,
    control: &Control,
    team: &Team,
    wanted: Wanted,
    bytes: usize,
    mut kernel: Option<&mut KernelWake>,
    report: &mut Report,
) -> Result<(), MeasureError> {
    let rank = control.rank();
    let failed = |source| MeasureError::Rank { rank, source };
    let stopped = |error: limic::Error| explain(Stopped::Limic(error), rank);
    let rounds = &order.messages.timed.rounds;
    let count = rounds.iterations.unwrap_or(WAKES);
    let mut message = vec![0; bytes];
    // The first ones meet the peer.
    round(team, &mut message, 3, 1).map_err(stopped)?;
    let before = team.endpoint.counters();
    let (mut limic_us, mut kernel_us) = (Vec::new(), Vec::new());
    let mut asleep = 0.0;
    // A receiver that is slow to fall asleep, on a busy machine, is left more time in the next
    // round.
    let mut pauses = 1;
    for _ in 0..rounds.rounds {
        let mut kernels = None;
        if let Some(kernel) = &mut kernel {
            std::thread::sleep(SETTLED);
            kernels = Some(kernel.measure()?);
        }
        control.barrier().map_err(failed)?;
        let took = round(team, &mut message, count, pauses).map_err(stopped)?;
        let mine = [Spread::of(&took).median, took.len() as f64].map(f64::to_bits);
        let mut told = [0; 16];
        told[..8].copy_from_slice(&mine[0].to_le_bytes());
        told[8..].copy_from_slice(&mine[1].to_le_bytes());
        let all = control.gather(&told).map_err(failed)?;
        let number = |at: usize| {
            let bytes = core::array::from_fn(|byte| all[1][8 * at + byte]);
            f64::from_bits(u64::from_le_bytes(bytes))
        };
        if number(1) > 0.0 {
            // Both from the same rounds.
            limic_us.push(number(0) * 1e-3);
            kernel_us.extend(kernels);
        }
        if number(1) < count as f64 / 2.0 {
            let longer = if number(1) > 0.0 { 4 } else { 16 };
            pauses = MOST_PAUSES.min(longer * pauses);
        }
        asleep += number(1) / count as f64 / f64::from(rounds.rounds);
    }
    let mut moved = Measured::default();
    moved.count(&team.endpoint, &before);
    let moved = moved.of_all(control).map_err(failed)?;
    if rank != 0 {
        return Ok(());
    }
    let size = ByteSize(bytes as u64);
    if let Some(asked) = wanted
        .path()
        .filter(|asked| moved.path().map(Path::setting) != Some(*asked))
    {
        let why = skipped_path(asked, moved.path());
        report
            .notes
            .push(format!("{}, {size}: not measured: {why}", wanted.name()));
        return Ok(());
    }
    if limic_us.is_empty() {
        report.notes.push(format!(
            "{}, {size}: not measured: the receiver never slept, since messages came before it could",
            wanted.name()
        ));
        return Ok(());
    }
    let (spread, kernel) = (Spread::of(&limic_us), Spread::of(&kernel_us).median);
    let (pattern, ranks) = (order.pattern.name(), control.size());
    report.rows.push(Row {
        path: moved.path().map_or(wanted.name(), Path::name).to_owned(),
        rounds: rounds.rounds,
        iterations: count,
        wake: Some(WakeRow {
            kernel_us: kernel,
            ratio: spread.median / kernel,
            asleep,
        }),
        ..Row::new(pattern, wanted.name(), ranks, bytes, spread, 1.0)
    });
    Ok(())
}

/// Messages to a receiver that sleeps. The receiver gets the nanoseconds of those that found it
/// asleep.
fn round(team: &Team, message: &mut [u8], count: u64, pauses: u32) -> limic::Result<Vec<f64>> {
    let mut took = Vec::new();
    let partner = team.partner;
    for _ in 0..count {
        if team.first {
            // The last one at work: what the message finds in the caches is as in a program that
            // computes.
            std::thread::sleep((pauses - 1) * PAUSE);
            pause();
            message[..STAMP].copy_from_slice(&now_ns().to_le_bytes());
            team.endpoint.send(partner, DATA, message)?;
            team.endpoint.recv((partner, ANSWER), &mut [])?;
            continue;
        }
        let before = team.endpoint.counters();
        team.endpoint.recv((partner, DATA), message)?;
        let now = now_ns();
        let after = team.endpoint.counters();
        let woken = |counters: &limic::Counters| counters.event(Event::WakeUps);
        if woken(&after) > woken(&before) {
            let sent = core::array::from_fn(|byte| message[byte]);
            took.push(now.saturating_sub(u64::from_le_bytes(sent)) as f64);
        }
        team.endpoint.send(partner, ANSWER, &[])?;
    }
    Ok(took)
}
