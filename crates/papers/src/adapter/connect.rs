//! `limic perf connect`: how long a job takes until its ranks are connected, and what a
//! connection holds.
//!
//! On demand, a connection is made when its first message is sent: who talks to one neighbour pays
//! for one, and a job pays at most for a message to everybody. Static, all ranks meet before that,
//! in `n - 1` steps.

use std::time::Instant;

use limic::settings::VerbsConnect;
use limic::{Endpoint, HybridEndpoint, Peer, Settings, connect_at_start};
use limic_measure::MeasureError;
use limic_measure::control::Control;
use limic_measure::lanes::{VerbsArgs, VerbsLane};
use limic_measure::options::Ranks;
use limic_measure::outputs::Outputs;

use super::sheet::{Line, Sheet};
use crate::memory::resident;

/// The name in tables and JSON.
pub(super) const NAME: &str = "connect";

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) ranks: Ranks,

    /// Rounds; the median counts
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,

    #[command(flatten)]
    verbs: VerbsArgs,

    #[command(flatten)]
    pub(super) outputs: Outputs,
}

const HELLO: u64 = 1;

/// What is timed, in this order.
const PHASES: [&str; 5] = [
    "open the endpoint",
    "one neighbour, on demand",
    "everybody else, on demand",
    "a message to everybody, connected",
    "everybody at the start, in n-1 steps (static)",
];
/// The phase in which most connections are made, and whose memory is looked at.
const EVERYBODY: usize = 2;

/// What one round took this rank: seconds of each phase, and KiB of each connection.
type Round = [f64; PHASES.len() + 1];

/// Measures as one of the ranks of a job; rank 0 shows the sheet.
pub(super) fn as_rank(args: &Args, control: &Control) -> Result<Sheet, MeasureError> {
    let failed = |source| MeasureError::Rank {
        rank: control.rank(),
        source,
    };
    let lanes = match args.verbs.lanes() {
        lanes if lanes.is_empty() => vec![VerbsLane::default()],
        lanes => lanes,
    };
    let mut sheet = Sheet::new(NAME, control.size());
    for lane in lanes {
        let mut rounds = Vec::new();
        for _ in 0..args.rounds {
            rounds.push(round(lane, control)?.map_err(failed)?);
        }
        let name = lane.name();
        for (phase, what) in PHASES.into_iter().enumerate() {
            if phase == EVERYBODY && control.size() < 3 {
                // The one neighbour is everybody.
                continue;
            }
            let seconds: Vec<f64> = rounds.iter().map(|round| round[phase]).collect();
            let mut line = Line::new(format!("{what} ({name})"), 0, &seconds);
            if phase == EVERYBODY {
                let grown = rounds.last().map(|round| round[PHASES.len()]);
                line.kib = grown.filter(|kib| *kib > 0.0);
            }
            sheet.rows.push(line);
        }
    }
    sheet.notes.push(
        "the slowest rank's time; a connection's KiB are what the process grew by (none where that is less than a page), without what the adapter's driver holds in the kernel"
            .to_owned(),
    );
    Ok(sheet)
}

/// Endpoints from their beginning to their end: one that connects on demand, then one that meets
/// everybody first.
fn round(lane: VerbsLane, control: &Control) -> Result<limic::Result<Round>, MeasureError> {
    let settings = lane.settings()?;
    let mut first = lane.builder();
    first = first.verbs_connect(VerbsConnect::Static);
    let first = first.build()?;
    Ok(measure(settings, first, control))
}

fn measure(on_demand: Settings, at_start: Settings, control: &Control) -> limic::Result<Round> {
    let (rank, size) = (control.rank(), control.size());
    control.barrier()?;
    let begin = Instant::now();
    let endpoint = HybridEndpoint::with(on_demand)?;
    let open = begin.elapsed().as_secs_f64();
    let peers = introduce(&endpoint, control)?;
    let timed = |steps: core::ops::Range<u32>| -> limic::Result<f64> {
        control.barrier()?;
        let begin = Instant::now();
        for by in steps {
            let to = peers[((rank + by) % size) as usize];
            let from = peers[((rank + size - by) % size) as usize];
            endpoint.send_recv(to, HELLO, &[], (from, HELLO), &mut [])?;
        }
        Ok(begin.elapsed().as_secs_f64())
    };
    let neighbour = timed(1..2)?;
    let before = resident();
    let everybody = timed(2..size)?;
    let grown = resident().saturating_sub(before) as f64 / 1024.0;
    let connected = timed(1..size)?;
    control.barrier()?;
    drop(endpoint);

    let endpoint = HybridEndpoint::with(at_start)?;
    let peers = introduce(&endpoint, control)?;
    control.barrier()?;
    let begin = Instant::now();
    connect_at_start(&endpoint, rank as usize, &peers)?;
    let met = begin.elapsed().as_secs_f64();
    control.barrier()?;
    drop(endpoint);
    let each = grown / f64::from(size.saturating_sub(2).max(1));
    slowest([open, neighbour, everybody, connected, met, each], control)
}

/// Makes all ranks' endpoints known to this one; contacts nobody.
fn introduce(endpoint: &HybridEndpoint, control: &Control) -> limic::Result<Vec<Peer>> {
    let addresses = control.gather(&endpoint.address().to_bytes())?;
    let peers = addresses.iter().map(|address| endpoint.connect(address));
    peers.collect()
}

/// Of all ranks, the most of each number.
fn slowest(mine: Round, control: &Control) -> limic::Result<Round> {
    let mut bytes = [0; size_of::<Round>()];
    for (to, value) in bytes.chunks_exact_mut(8).zip(mine) {
        to.copy_from_slice(&value.to_le_bytes());
    }
    let mut most = [0.0; PHASES.len() + 1];
    for theirs in control.gather(&bytes)? {
        for (most, word) in most.iter_mut().zip(theirs.chunks_exact(8)) {
            let mut value = [0; 8];
            value.copy_from_slice(word);
            *most = f64::max(*most, f64::from_le_bytes(value));
        }
    }
    Ok(most)
}
