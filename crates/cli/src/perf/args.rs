//! The command line of `limic perf`.

use std::path::PathBuf;

use limic::settings::{ByteSize, Path};

use super::verbs::lanes::VerbsArgs;
use crate::sizes::SizeList;

const SIZES_HELP: &str = "\
Message sizes in bytes: a list (8,64,1K), ranges of powers of two (1..4M), or both [default: \
1..4M; rate, latency --sleep: 8; alltoall: 1K; floor, breakdown: 64..4M in steps of four; hotspot: 2K; noncontig: pieces of 8K..64K; \
hostdev, ports, chain: 4K,64K,1M]";

/// Measure messages between ranks, or the hardware below them
///
/// Alone, it starts its own ranks on this node. Under `limic run`, mpiexec, prterun or srun it is
/// the ranks. Half of the ranks pair up with the other half: rank i with rank i + n/2. In barrier
/// and alltoall all ranks take part together.
///
/// Before a size is measured over a path, received bytes are checked once. All combinations are
/// measured in turn, round after round, so that a busy minute of the machine hits all alike.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// What to measure
    #[arg(value_enum)]
    pub(super) pattern: Pattern,

    #[arg(long, value_name = "LIST", help = SIZES_HELP)]
    pub(super) sizes: Option<SizeList>,

    /// Paths to force, each measured; `hybrid` leaves the choice to the policy [default: hybrid]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    pub(super) paths: Option<Vec<Wanted>>,

    /// Number of ranks, even but for barrier, alltoall, connect, hotspot and chain [default: 2, or
    /// what the launcher started]
    #[arg(short = 'n', long, visible_alias = "np", value_name = "N")]
    pub(super) ranks: Option<u32>,

    /// Round trips, or windows, of one round [default: as many as fit into --seconds-per-point]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "seconds_per_point")]
    pub(super) iterations: Option<u64>,

    /// Time for one size over one path, all rounds together
    #[arg(long, value_name = "SECONDS", default_value = "0.25", value_parser = parse_seconds)]
    pub(super) seconds_per_point: f64,

    /// Rounds; the median counts
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) rounds: u32,

    /// Round trips, or windows, before each round, not timed [default: a tenth of a round's]
    #[arg(long, value_name = "N")]
    pub(super) warmup: Option<u64>,

    /// Pin rank i to the i-th CPU, round robin [default: if there are enough CPUs]
    #[arg(long, conflicts_with = "no_bind")]
    pub(super) bind: bool,

    /// Leave the placement of ranks to the kernel
    #[arg(long)]
    pub(super) no_bind: bool,

    /// Fill and check every message, also while the clock runs: the times then contain it
    #[arg(long)]
    pub(super) check: bool,

    /// For `pairs`: send from and receive into the same 64 buffers again (on), or never the same
    /// memory twice in a row (off) [default: on,off]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "on,off")]
    pub(super) reuse: Option<Vec<Reuse>>,

    #[command(flatten)]
    pub(super) verbs: VerbsArgs,

    #[command(flatten)]
    pub(super) skew: SkewArgs,

    /// Count per message: cycles, instructions and cache misses where the machine grants it,
    /// page faults, context switches, and what limic counts
    #[arg(long)]
    pub(super) counters: bool,

    /// For `latency`: the receiver sleeps before each message; its wake-up beside the kernel's own,
    /// in the same run
    #[arg(long)]
    pub(super) sleep: bool,

    /// Write one JSON object with the machine and the rows; `-` is standard output, instead of the
    /// table
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,

    /// Draw time or bandwidth over size
    #[arg(long, value_name = "FILE.svg", value_parser = super::plot::parse_file)]
    pub(super) plot: Option<PathBuf>,
}

/// What only `skew` takes.
#[derive(Debug, Clone, PartialEq, clap::Args)]
pub(super) struct SkewArgs {
    /// For `skew`: microseconds that the producer computes before each message
    #[arg(long, value_name = "US", default_value = "1", value_parser = parse_micros)]
    pub(super) c1: f64,

    /// For `skew`: microseconds that the consumer computes on each message; several are measured
    /// one after the other
    #[arg(long, value_name = "US,...", value_delimiter = ',', default_value = "10,50,200", value_parser = parse_micros)]
    pub(super) c2: Vec<f64>,

    /// For `skew`: messages that the producer sends before it waits for all of them
    #[arg(long, value_name = "N", default_value = "64", value_parser = parse_window)]
    pub(super) window: usize,

    /// For `skew`: length of a message
    #[arg(long, value_name = "SIZE", default_value = "64K")]
    pub(super) bytes: ByteSize,
}

impl Default for SkewArgs {
    fn default() -> Self {
        Self {
            c1: 1.0,
            c2: vec![10.0, 50.0, 200.0],
            window: 64,
            bytes: ByteSize(64 << 10),
        }
    }
}

impl SkewArgs {
    /// Length of a message in bytes, at least 1.
    pub(super) fn message_bytes(&self) -> usize {
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

const AFTER_HELP: &str = "\
Examples:
  limic perf latency --sizes 8..64K
  limic perf bandwidth --paths hybrid,pipeline,cma --sizes 64K,1M --plot paths.svg
  limic perf latency --paths eager,pipeline,cma,kmod,kmod-region,kernel --sizes 1K..1M
  limic perf latency --sleep
  limic perf skew --c1 1 --c2 10,100 --window 64 --bytes 16K
  limic perf pairs -n 8 --reuse on,off --json pairs.json
  limic perf alltoall -n 8 --sizes 1K,16K
  limic perf rate --wqe 5,10,200 --coalesce on,off --sizes 8..1K
  mpiexec -n 2 limic perf latency

Exit code: 0, 1 if something failed or received bytes were wrong, 2 for a bad command line.
The JSON is described in docs/perf-json.md.";

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Pattern {
    /// Ping-pong; one way is half of the round trip
    Latency,
    /// Ping-pong around all powers of two: where the time grows more than 2.5 times when the size
    /// doubles
    Cliffs,
    /// Windows of 64 non-blocking sends from one buffer, then an answer
    Bandwidth,
    /// The same in both directions at once
    Bibandwidth,
    /// Messages per second: as bandwidth, with messages of 8 bytes
    Rate,
    /// All pairs at once, windows of 64, each message with a buffer of its own
    Pairs,
    /// All ranks meet: dissemination, or by way of one where ranks outnumber CPUs; empty messages,
    /// any number of ranks
    Barrier,
    /// Every rank sends a block to every rank; any number of ranks
    Alltoall,
    /// A producer, and a consumer that computes longer on each message: the producer's time for a
    /// window, with thresholds that follow the skew and without, and what is moved after it
    Skew,
    /// Where the time of a message through the kernel module goes, step by step, by the module's
    /// own clock
    Breakdown,
    /// What the machine allows without limic: cache-line hand-over, memcpy, two copies through a
    /// ring, one copy out of shared memory, process_vm_readv, the kernel's wake-up
    Floor,
    /// Over verbs: how long a job takes until its ranks are connected; any number of ranks
    Connect,
    /// Over verbs: bytes between host and adapter memory in all combinations
    Hostdev,
    /// Over verbs: bandwidth one way and both ways, striped over two devices where there are two
    Ports,
    /// Over verbs: one rank writes to all others; any number of ranks
    Hotspot,
    /// Over verbs: messages of 8 pieces, packed or gathered, with 0 to 100 % of their buffers
    /// registered already
    Noncontig,
    /// Over verbs: ranks pass a message on, one to the next; any number of ranks
    Chain,
}

impl Pattern {
    /// The name in tables and JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Cliffs => "cliffs",
            Self::Bandwidth => "bandwidth",
            Self::Bibandwidth => "bibandwidth",
            Self::Rate => "rate",
            Self::Pairs => "pairs",
            Self::Barrier => "barrier",
            Self::Alltoall => "alltoall",
            Self::Skew => "skew",
            Self::Breakdown => "breakdown",
            Self::Floor => "floor",
            Self::Connect => "connect",
            Self::Hostdev => "hostdev",
            Self::Ports => "ports",
            Self::Hotspot => "hotspot",
            Self::Noncontig => "noncontig",
            Self::Chain => "chain",
        }
    }

    /// Whether it is measured over an adapter alone, in an order of its own.
    pub(super) fn is_over_verbs(self) -> bool {
        matches!(
            self,
            Self::Connect
                | Self::Hostdev
                | Self::Ports
                | Self::Hotspot
                | Self::Noncontig
                | Self::Chain
        )
    }

    /// Whether all ranks take part in one operation, rather than each in a pair.
    pub(super) fn is_collective(self) -> bool {
        matches!(
            self,
            Self::Barrier | Self::Alltoall | Self::Connect | Self::Hotspot | Self::Chain
        )
    }
}

/// A path as the user asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Wanted {
    /// What the policy chooses
    Hybrid,
    /// In the ring slot's first cache line, up to 48 bytes
    Inline,
    /// Two copies through the ring
    Eager,
    /// Two overlapped copies through a pool of chunks
    Pipeline,
    /// One copy by process_vm_readv
    Cma,
    /// One copy, shared by both sides
    SplitCopy,
    /// One copy by the kernel module
    Kmod,
    /// One copy by the kernel module out of a buffer that stays exposed, told by a short message
    KmodRegion,
    /// Messages that the kernel module matches: endpoints of their own
    Kernel,
    /// No copy: buffers in shared memory change hands
    Loan,
    /// One plain copy between threads of one process
    Process,
}

impl Wanted {
    /// The name in tables and JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::KmodRegion => "kmod-region",
            _ => self.path().map_or("hybrid", Path::name),
        }
    }

    /// The path that is forced, if one is.
    pub(super) fn path(self) -> Option<Path> {
        Some(match self {
            Self::Hybrid | Self::Kernel | Self::KmodRegion => return None,
            Self::Inline => Path::Inline,
            Self::Eager => Path::Eager,
            Self::Pipeline => Path::Pipeline,
            Self::Cma => Path::Cma,
            Self::SplitCopy => Path::SplitCopy,
            Self::Kmod => Path::Kmod,
            Self::Loan => Path::Loan,
            Self::Process => Path::SameProcess,
        })
    }
}

/// Whether `pairs` sends from the same buffers again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Reuse {
    /// The same buffers in every window, rewritten before each
    On,
    /// Each window from memory that has left the cache
    Off,
}

impl Args {
    /// The sizes asked for, or those that suit the pattern.
    pub(super) fn sizes(&self) -> SizeList {
        let default = || match self.pattern {
            Pattern::Latency if self.sleep => SizeList::of(&[8]),
            Pattern::Cliffs => super::cliffs::sizes(),
            Pattern::Rate => SizeList::of(&[8]),
            Pattern::Barrier => SizeList::of(&[0]),
            Pattern::Alltoall => SizeList::of(&[1 << 10]),
            Pattern::Hotspot => SizeList::of(&[2 << 10]),
            Pattern::Noncontig => SizeList::powers(8 << 10, 64 << 10),
            Pattern::Hostdev | Pattern::Ports | Pattern::Chain => {
                SizeList::of(&[4 << 10, 64 << 10, 1 << 20])
            }
            Pattern::Floor | Pattern::Breakdown => SizeList::of(&[
                64,
                256,
                1 << 10,
                4 << 10,
                16 << 10,
                64 << 10,
                256 << 10,
                1 << 20,
                4 << 20,
            ]),
            _ => SizeList::powers(1, 4 << 20),
        };
        self.sizes.clone().unwrap_or_else(default)
    }

    /// The paths asked for, each once.
    pub(super) fn wanted(&self) -> Vec<Wanted> {
        let mut wanted: Vec<Wanted> = Vec::new();
        for path in self.paths.as_deref().unwrap_or(&[Wanted::Hybrid]) {
            if !wanted.contains(path) {
                wanted.push(*path);
            }
        }
        wanted
    }

    /// The ways of using buffers that the pattern distinguishes.
    pub(super) fn reuses(&self) -> Vec<Option<Reuse>> {
        if self.pattern != Pattern::Pairs {
            return vec![None];
        }
        [Reuse::On, Reuse::Off]
            .into_iter()
            .filter(|reuse| {
                self.reuse
                    .as_ref()
                    .is_none_or(|asked| asked.contains(reuse))
            })
            .map(Some)
            .collect()
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds")?;
    if seconds > 0.0 && seconds <= 3600.0 {
        Ok(seconds)
    } else {
        Err("expected more than 0 and at most 3600 seconds".into())
    }
}
