//! A producer and a consumer that is slower: the benchmark of section 3.4 of the paper on skewed
//! receivers (docs/papers.md).
//!
//! The producer computes for c1 and sends, a window of messages long, and then waits until all
//! sends are done; that takes it c3. The consumer receives a message and computes for c2. If a send
//! waits for its receive, c3 grows with c2; if the bytes are put aside, it does not. So c3 is
//! measured three times: with messages that go eagerly in a ring that holds them all, with
//! thresholds that follow the skew, and with thresholds that do not.
//!
//! Afterwards nobody computes any more. The thresholds must have come back: the same endpoints move
//! windows as fast as they can, in turn with endpoints that are forced to each path for long
//! messages.

mod bench;
mod row;
mod sides;

use indicatif::ProgressBar;
use limic::settings::{ByteSize, Path, Settings, SettingsBuilder};
use limic_measure::MeasureError;
use limic_measure::options::{Grouping, Ranks, Timed};
use limic_measure::outputs::Outputs;
use limic_measure::ranks::join;

use super::args::Wanted;
use super::buffers::Buffers;
use super::lane::Lane;
use super::report::Report;
use bench::Bench;
pub(super) use row::{SkewRow, table};

/// The name in tables and JSON.
pub(super) const NAME: &str = "skew";

/// The largest ring that an endpoint can have.
const MOST_RING: usize = 16 << 20;

/// One way of sending, and its endpoints.
struct Variant {
    name: &'static str,
    lane: Lane,
    buffers: Buffers,
}

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Microseconds that the producer computes before each message
    #[arg(long, value_name = "US", default_value = "1", value_parser = parse_micros)]
    c1: f64,

    /// Microseconds that the consumer computes on each message; several are measured
    /// one after the other
    #[arg(long, value_name = "US,...", value_delimiter = ',', default_value = "10,50,200", value_parser = parse_micros)]
    c2: Vec<f64>,

    /// Messages that the producer sends before it waits for all of them
    #[arg(long, value_name = "N", default_value = "64", value_parser = parse_window)]
    window: usize,

    /// Length of a message
    #[arg(long, value_name = "SIZE", default_value = "64K")]
    bytes: ByteSize,

    #[command(flatten)]
    pub(super) ranks: Ranks,

    #[command(flatten)]
    timed: Timed,

    #[command(flatten)]
    pub(super) outputs: Outputs,
}

impl Args {
    /// What the command line's types cannot tell.
    pub(super) fn check(&self) -> Result<(), MeasureError> {
        Grouping::Two.check(NAME, self.ranks.ranks.unwrap_or(2))?;
        roomy(self).map(drop)
    }

    /// Length of a message in bytes, at least 1.
    fn message_bytes(&self) -> usize {
        usize::try_from(self.bytes.0)
            .unwrap_or(usize::MAX)
            .clamp(1, 1 << 30)
    }
}

fn parse_micros(text: &str) -> Result<f64, String> {
    let micros: f64 = text
        .parse()
        .map_err(|_| "expected a number of microseconds")?;
    if (0.0..=1e6).contains(&micros) {
        Ok(micros)
    } else {
        Err("expected 0 to 1000000 microseconds".into())
    }
}

fn parse_window(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(window @ 1..=4096) => Ok(window),
        _ => Err("expected 1 to 4096 messages".into()),
    }
}

/// Measures as one of two ranks; rank 0, the producer, gives the report.
pub(super) fn as_rank(args: &Args) -> Result<Option<Report>, MeasureError> {
    let (control, cpus) = join(NAME, Grouping::Two, &args.ranks)?;
    let rank = control.rank();
    let failed = |source| MeasureError::Rank { rank, source };
    let open = |name, wanted, settings: SettingsBuilder| -> Result<Variant, MeasureError> {
        let lane = Lane::connect(wanted, settings.build()?, &control, &cpus).map_err(failed)?;
        Ok(Variant {
            name,
            lane,
            buffers: Buffers::private(),
        })
    };
    let mut skewed = vec![
        open("eager", Wanted::Eager, roomy(args)?)?,
        open("aware", Wanted::Hybrid, Settings::builder().skew(true))?,
        open("off", Wanted::Hybrid, Settings::builder().skew(false))?,
    ];
    let mut long = Vec::new();
    for (name, wanted) in [
        ("pipeline", Wanted::Pipeline),
        ("cma", Wanted::Cma),
        ("split-copy", Wanted::SplitCopy),
    ] {
        let settings = super::lane::settings(wanted)?;
        let lane = Lane::connect(wanted, settings, &control, &cpus).map_err(failed)?;
        long.push(Variant {
            name,
            lane,
            buffers: Buffers::private(),
        });
    }
    let bound = cpus.iter().all(Option::is_some);
    let mut bench = Bench {
        args,
        control,
        report: Report::new(NAME, bound),
        progress: ProgressBar::hidden(),
    };
    bench.all(&mut skewed, &mut long)?;
    let Bench {
        control, report, ..
    } = bench;
    control.barrier().map_err(failed)?;
    drop((skewed, long));
    control.leave().map_err(failed)?;
    Ok((rank == 0).then_some(report))
}

/// Settings with which a window of messages goes eagerly without waiting for anybody.
fn roomy(args: &Args) -> Result<SettingsBuilder, MeasureError> {
    let bytes = args.message_bytes();
    // A record takes at most a quarter of its ring; two windows fit, with their headers.
    let window = (2 * args.window).saturating_mul(bytes + 128);
    let ring = window.max(4 * (bytes + 64)).checked_next_power_of_two();
    let Some(ring) = ring.filter(|ring| *ring <= MOST_RING) else {
        return Err(MeasureError::Usage(format!(
            "two windows of {} messages of {} do not fit a ring of 16M, so the eager path cannot be measured: choose \
             fewer or shorter messages",
            args.window,
            ByteSize(bytes as u64)
        )));
    };
    let fragment = bytes.next_power_of_two().clamp(32 << 10, MOST_RING);
    // Messages of more than a record lie in the pool, of which one peer holds three quarters at
    // most.
    let fragments = (2 * args.window * bytes.next_power_of_two() * 4)
        .div_ceil(3 * fragment)
        .next_power_of_two()
        .clamp(64, 4096) as u32;
    Ok(Settings::builder()
        .allowed(
            [Path::Inline, Path::Eager, Path::Pipeline]
                .into_iter()
                .collect(),
        )
        .inline_max(0)
        .eager_max(u64::MAX)
        .private_rings(2)
        .ring_bytes(ring.max(64 << 10) as u32)
        .staging_buffer_bytes(fragment as u32)
        .staging_buffers(fragments)
        .pipeline_window(fragments)
        .skew(false))
}
