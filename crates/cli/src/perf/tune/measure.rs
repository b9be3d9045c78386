//! One of the two ranks of a measurement. Both take the same decisions, since each follows from
//! merged numbers.

use std::path::Path as FilePath;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use limic::settings::{ByteSize, CopyInstructions, LineLatency, Path, Settings, SettingsBuilder};
use limic::topology::Place;
use limic_measure::control::Control;
use limic_measure::numbers::Spread;
use limic_measure::{MeasureError, ranks};
use limic_policy::{INLINE_CAPACITY, Locality, PIPELINE_FRAGMENT, ReceiverPace, Row};
use limic_shm::processor::near_below_ns;

use super::super::args::{Pattern, Wanted};
use super::super::buffers::Buffers;
use super::super::lane::Lane;
use super::super::measure::{explain, one};
use super::super::measured::Measured as Moved;
use super::super::pattern::{WINDOW, Work};
use super::Args;
use super::choice::{self, Measured, Times, Way};

/// Shortest and longest message that is measured, as powers of two.
const SIZES: std::ops::RangeInclusive<u32> = 6..=22;
/// Shorter messages never leave the eager path: a rendezvous is several round trips.
const SHORTEST_LONG: u64 = 512;
/// Fragments of the pipeline that are tried.
const FRAGMENTS: [u32; 3] = [16 << 10, PIPELINE_FRAGMENT, 64 << 10];
/// Rounds; the median counts.
const ROUNDS: usize = 3;
/// Bytes that a stream moves at least in a round.
const STREAM_BYTES: u64 = 1 << 20;
/// A window of a stream may take so many times the time that a round of a pattern has.
const LONGEST_WINDOW: f64 = 20.0;
/// A tuned path that is slower than the built-in one by this, when both are compared, is taken
/// back.
const WORSE: f64 = 1.05;

/// What one measurement found.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct Findings {
    pub(super) locality: String,
    pub(super) cpus: Vec<u32>,
    /// Seconds that it took.
    pub(super) seconds: f64,
    pub(super) points: Vec<Point>,
    pub(super) rows: Vec<FoundRow>,
    /// Bytes of the pipeline's fragment with which the rows were chosen: the best one, or the one
    /// that was given.
    pub(super) fragment_bytes: u32,
    pub(super) compared: Vec<Compared>,
    /// What was not measured, or taken back, and why.
    pub(super) notes: Vec<String>,
}

/// A size over a path.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct Point {
    pub(super) path: String,
    /// Of the pipeline, in bytes; 0 for the others.
    pub(super) fragment_bytes: u32,
    pub(super) bytes: u64,
    /// Seconds of a message.
    pub(super) times: Times,
}

/// A row of the profile.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct FoundRow {
    pub(super) when: String,
    pub(super) up_to_bytes: u64,
    pub(super) path: String,
    pub(super) reason: String,
}

/// A size with the built-in table, and with the profile.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct Compared {
    pub(super) bytes: u64,
    /// The paths that the two took.
    pub(super) paths: [String; 2],
    pub(super) built_in: Times,
    pub(super) tuned: Times,
}

/// Endpoints that take one way.
struct Ways {
    way: Way,
    lane: Lane,
    buffers: Buffers,
}

struct Bench {
    control: Control,
    cpus: Vec<Option<usize>>,
    /// What decides on the rows that hold between the two.
    line_latency: LineLatency,
    copy: CopyInstructions,
    /// The pipeline's fragment that the profile will have, if that is known.
    fragment_bytes: Option<u32>,
    progress: ProgressBar,
    /// Seconds for one pattern of one point in one round.
    slot: f64,
    notes: Vec<String>,
}

/// Measures as one of the two ranks; rank 0 prints what was found, as JSON.
pub(super) fn as_rank(cpus: &[u32], args: &Args) -> Result<(), MeasureError> {
    let line_latency = args.line_latency;
    let control = Control::join().map_err(MeasureError::Start)?;
    let rank = control.rank();
    let cpu = cpus.get(rank as usize).filter(|_| control.size() == 2);
    let Some(&cpu) = cpu else {
        return Err(MeasureError::Usage("a measurement has two ranks".into()));
    };
    ranks::pin(cpu as usize)?;
    let failed = |source| MeasureError::Rank { rank, source };
    let place = u64::from_le_bytes(Place::current().to_bytes());
    let places = control.gather(&place.to_le_bytes()).map_err(failed)?;
    let by_topology = Place::from_bytes(places[0]).locality(&Place::from_bytes(places[1]));
    let locality = line_latency.locality(by_topology, None, near_below_ns());
    let mut bench = Bench {
        control,
        cpus: cpus.iter().map(|cpu| Some(*cpu as usize)).collect(),
        line_latency,
        copy: args.copy,
        fragment_bytes: args.fragment,
        progress: ProgressBar::hidden(),
        slot: 0.0,
        notes: Vec::new(),
    };
    let found = bench.all(locality, cpus, f64::from(args.seconds))?;
    let Bench { control, .. } = bench;
    if rank == 0 {
        limic_measure::outputs::write_json(&found, FilePath::new("-"))?;
    }
    control.leave().map_err(failed)
}

impl Bench {
    fn failed(&self) -> impl Fn(limic::Error) -> MeasureError + use<> {
        let rank = self.control.rank();
        move |source| MeasureError::Rank { rank, source }
    }

    /// Neither the environment, nor an older profile, nor anything that changes by itself.
    fn plain(&self) -> SettingsBuilder {
        Settings::builder()
            .without_environment()
            .autotune(false)
            .skew(false)
            .line_latency(self.line_latency)
            .copy(self.copy)
    }

    fn all(
        &mut self,
        locality: Locality,
        cpus: &[u32],
        seconds: f64,
    ) -> Result<Findings, MeasureError> {
        let begin = Instant::now();
        let mut ways = self.open()?;
        let points: Vec<(usize, u64)> = (0..ways.len())
            .flat_map(|index| SIZES.map(move |log| (index, 1_u64 << log)))
            .filter(|(index, bytes)| is_measured(ways[*index].way, *bytes))
            .collect();
        let sizes = SIZES.count();
        // Two patterns of each point, and of each size with both tables.
        let runs = 2 * (points.len() + 2 * sizes) * ROUNDS;
        self.slot = seconds / runs as f64 / 1.6;
        if self.control.rank() == 0 {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({eta} left)");
            self.progress = ProgressBar::new((points.len() + 2 * sizes) as u64)
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        }
        let mut measured = Measured::new();
        // By size, so that what is compared is measured within the same second.
        for bytes in SIZES.map(|log| 1_u64 << log) {
            let here: Vec<usize> = points
                .iter()
                .filter(|(_, other)| *other == bytes)
                .map(|(index, _)| *index)
                .collect();
            self.progress
                .set_message(format!("{locality} {}", ByteSize(bytes)));
            let mut lanes: Vec<&mut Ways> = ways
                .iter_mut()
                .enumerate()
                .filter(|(index, _)| here.contains(index))
                .map(|(_, ways)| ways)
                .collect();
            let found = self.in_turn(&mut lanes, bytes)?;
            for (lane, (times, path)) in lanes.iter().zip(found) {
                if path == Some(lane.way.path) {
                    measured.entry(bytes).or_default().insert(lane.way, times);
                } else {
                    self.skipped(lane.way.path, path);
                }
                self.progress.inc(1);
            }
        }
        drop(ways);
        let best = || choice::fragment(&measured);
        let fragment_bytes = self.fragment_bytes.unwrap_or_else(best);
        let mut rows = choice::rows(locality, &measured, fragment_bytes, &[]);
        let mut compared = self.compare(locality, &rows, fragment_bytes)?;
        let worse: Vec<u64> = compared
            .iter()
            .filter(|size| size.paths[0] != size.paths[1])
            .filter(|size| size.tuned.mean() > size.built_in.mean() * WORSE)
            .map(|size| size.bytes)
            .collect();
        if !worse.is_empty() {
            let names: Vec<String> = worse.iter().map(|b| ByteSize(*b).to_string()).collect();
            self.notes.push(format!(
                "at {} what had won in the measurement lost in the comparison: as built in",
                names.join(", ")
            ));
            rows = choice::rows(locality, &measured, fragment_bytes, &worse);
            compared = self.compare(locality, &rows, fragment_bytes)?;
        }
        self.progress.finish_and_clear();
        let points = measured.iter().flat_map(|(bytes, ways)| {
            ways.iter().map(|(way, times)| Point {
                path: way.path.name().to_owned(),
                fragment_bytes: way.fragment_bytes,
                bytes: *bytes,
                times: *times,
            })
        });
        Ok(Findings {
            locality: locality.name().to_owned(),
            cpus: cpus.to_vec(),
            seconds: begin.elapsed().as_secs_f64(),
            points: points.collect(),
            rows: rows.iter().map(found_row).collect(),
            fragment_bytes,
            compared,
            notes: std::mem::take(&mut self.notes),
        })
    }

    /// Endpoints for every way, each forced.
    fn open(&mut self) -> Result<Vec<Ways>, MeasureError> {
        let mut ways = vec![(Path::Eager, 0), (Path::Cma, 0), (Path::SplitCopy, 0)];
        ways.extend(FRAGMENTS.map(|fragment| (Path::Pipeline, fragment)));
        ways.into_iter()
            .map(|(path, fragment_bytes)| {
                let builder = self.plain();
                let builder = match path {
                    Path::Eager => builder.inline_max(0).eager_max(u64::MAX),
                    _ => builder.inline_max(0).eager_max(0).long_path(path),
                };
                let builder = match fragment_bytes {
                    0 => builder,
                    bytes => builder.pipeline_fragment(bytes),
                };
                self.lane(
                    Way {
                        path,
                        fragment_bytes,
                    },
                    builder,
                )
            })
            .collect()
    }

    fn lane(&self, way: Way, settings: SettingsBuilder) -> Result<Ways, MeasureError> {
        let lane = Lane::connect(Wanted::Hybrid, settings.build()?, &self.control, &self.cpus)
            .map_err(self.failed())?;
        Ok(Ways {
            way,
            lane,
            buffers: Buffers::private(),
        })
    }

    /// Times of one size over several lanes, and the path that each took. All in turn, round after
    /// round.
    fn in_turn(
        &self,
        lanes: &mut [&mut Ways],
        bytes: u64,
    ) -> Result<Vec<(Times, Option<Path>)>, MeasureError> {
        let mut iterations = vec![[1; 2]; lanes.len()];
        let mut paths = Vec::new();
        let mut slowest = 0.0_f64;
        for (lane, iterations) in lanes.iter_mut().zip(&mut iterations) {
            // The content is checked once; that also brings memory and caches into their state.
            let checked = self.run(lane, &work(Pattern::Latency, bytes, 1, true))?;
            paths.push(checked.path());
            let once = self.run(lane, &work(Pattern::Latency, bytes, 1, false))?;
            slowest = slowest.max(once.seconds / 2.0);
            iterations[0] = ((self.slot / once.seconds.max(1e-7)) as u64).clamp(4, 1 << 20);
        }
        // Where a single window would take many times what there is, the ping-pong alone must tell.
        let streams = slowest * WINDOW as f64 <= self.slot * LONGEST_WINDOW;
        if streams {
            for (lane, iterations) in lanes.iter_mut().zip(&mut iterations) {
                let once = self.run(lane, &work(Pattern::Bandwidth, bytes, 1, false))?;
                let least = (STREAM_BYTES / (bytes * WINDOW as u64)).clamp(1, 4);
                let fits = (self.slot / once.seconds.max(1e-7)) as u64;
                iterations[1] = fits.clamp(least, 1 << 20);
            }
        }
        let mut seconds = vec![[const { Vec::new() }; 2]; lanes.len()];
        for _ in 0..ROUNDS {
            for (at, lane) in lanes.iter_mut().enumerate() {
                let patterns = [Pattern::Latency, Pattern::Bandwidth];
                for (which, pattern) in patterns.into_iter().enumerate() {
                    if pattern == Pattern::Bandwidth && !streams {
                        let ping_pong = seconds[at][0].last().copied();
                        seconds[at][which].extend(ping_pong);
                        continue;
                    }
                    let count = iterations[at][which];
                    let run = work(pattern, bytes, count, false);
                    let time = self.run(lane, &run)?.seconds;
                    let messages = count as f64 * run.steps_per_iteration() as f64;
                    seconds[at][which].push(time / messages);
                }
            }
        }
        let median = |rounds: &[f64]| Spread::of(rounds).median.max(1e-12);
        let times = seconds.iter().map(|[ping_pong, stream]| Times {
            ping_pong: median(ping_pong),
            stream: median(stream),
        });
        Ok(times.zip(paths).collect())
    }

    fn run(&self, lane: &mut Ways, work: &Work) -> Result<Moved, MeasureError> {
        let start = || self.control.barrier();
        let mine = one(&lane.lane.teams[0], &mut lane.buffers, work, false, &start)
            .map_err(|stopped| explain(stopped, self.control.rank()))?;
        mine.of_all(&self.control).map_err(self.failed())
    }

    /// The built-in table and the one with `rows`, in turn.
    fn compare(
        &mut self,
        locality: Locality,
        rows: &[Row],
        fragment_bytes: u32,
    ) -> Result<Vec<Compared>, MeasureError> {
        let way = Way {
            path: Path::Eager,
            fragment_bytes: 0,
        };
        let mut built_in = self.lane(way, self.plain())?;
        let tuned = self.plain().rows(rows.iter().cloned());
        let mut tuned = self.lane(way, tuned.pipeline_fragment(fragment_bytes))?;
        let mut compared = Vec::new();
        for bytes in SIZES.map(|log| 1_u64 << log) {
            self.progress
                .set_message(format!("{locality} {}: before and after", ByteSize(bytes)));
            let mut found = self.in_turn(&mut [&mut built_in, &mut tuned], bytes)?;
            self.progress.inc(2);
            let name = |path: Option<Path>| path.map_or("none", Path::name).to_owned();
            if let (Some(after), Some(before)) = (found.pop(), found.pop()) {
                compared.push(Compared {
                    bytes,
                    paths: [name(before.1), name(after.1)],
                    built_in: before.0,
                    tuned: after.0,
                });
            }
        }
        Ok(compared)
    }

    fn skipped(&mut self, asked: Path, taken: Option<Path>) {
        let why = super::super::lane::skipped_path(asked, taken);
        let note = format!("{asked}: not measured: {why}");
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// The longest message that goes eagerly by the built-in rows of any locality.
const LONGEST_EAGER: u64 = 64 << 10;

/// Whether a way is worth measuring at a size.
fn is_measured(way: Way, bytes: u64) -> bool {
    match way.path {
        // As far as any built-in row lets messages go eagerly.
        Path::Eager => bytes > INLINE_CAPACITY && bytes <= LONGEST_EAGER,
        // Both sides are asked; shorter ones are copied by whoever comes first.
        Path::SplitCopy => bytes >= 4 << 10,
        Path::Pipeline => bytes >= SHORTEST_LONG.max(u64::from(way.fragment_bytes) / 32),
        _ => bytes >= SHORTEST_LONG,
    }
}

fn work(pattern: Pattern, bytes: u64, iterations: u64, check: bool) -> Work {
    Work {
        pattern,
        bytes: bytes as usize,
        iterations,
        warmup: 0,
        reuse: None,
        check,
        rewrite: false,
    }
}

fn found_row(row: &Row) -> FoundRow {
    FoundRow {
        when: if row.when == ReceiverPace::Slow {
            "slow-receiver"
        } else {
            "usual"
        }
        .to_owned(),
        up_to_bytes: row.up_to_bytes,
        path: row.path.name().to_owned(),
        reason: row.reason.to_string(),
    }
}
