//! The command line of `limic perf`: a subcommand for each measurement, with the options that it
//! honours.

use limic::settings::Path;
use limic_measure::MeasureError;
use limic_measure::lanes::VerbsArgs;
use limic_measure::options::{Grouping, Ranks, Sizes, Timed};
use limic_measure::outputs::Outputs;
use limic_measure::sizes::SizeList;

use super::{asleep, cliffs, floor, skew};

/// Measure messages between ranks, or the hardware below them
///
/// Alone, it starts its own ranks on this node. Under `limic run`, mpiexec, prterun or srun it is
/// the ranks. Half of the ranks pair up with the other half: rank i with rank i + n/2. In barrier
/// and alltoall all ranks take part together.
///
/// Before a size is measured over a path, received bytes are checked once. All combinations are
/// measured in turn, round after round, so that a busy minute of the machine hits all alike.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(super) measurement: Measurement,
}

const AFTER_HELP: &str = "\
Examples:
  limic perf latency --sizes 8..64K
  limic perf bandwidth --paths hybrid,pipeline,cma --sizes 64K,1M --plot paths.svg
  limic perf latency --paths eager,pipeline,cma,kmod,kmod-region,kernel --sizes 1K..1M
  limic perf latency --sleep
  limic perf latency --paths peer-readable,pipeline --sizes 16K..1M --rewrite
  limic perf skew --c1 1 --c2 10,100 --window 64 --bytes 64K
  limic perf pairs -n 8 --reuse on,off --json pairs.json
  limic perf alltoall -n 8 --sizes 1K,16K
  limic perf rate --wqe 5,10,200 --coalesce on,off --sizes 8..1K
  mpiexec -n 2 limic perf latency

limic perf latency --help shows the options of latency, and so on.
Exit code: 0, 1 if something failed or received bytes were wrong, 2 for a bad command line.
docs/perf-json.md in limic's sources describes the JSON.";

/// What is measured.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Measurement {
    #[command(flatten)]
    Messages(Exchange),
    /// A producer, and a consumer that computes longer on each message: the producer's time for a
    /// window, with thresholds that follow the skew and without, and what is moved after it
    Skew(skew::Args),
    /// What the machine allows without limic: cache-line hand-over, memcpy, two copies through a
    /// ring, one copy out of shared memory, process_vm_readv, the kernel's wake-up
    #[command(mut_arg("sizes", |sizes| sizes.default_value(floor::SIZES)))]
    Floor(floor::Args),
    #[command(flatten)]
    Papers(limic_papers::Measurement),
}

/// Messages between ranks.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Exchange {
    /// Ping-pong; one way is half of the round trip
    Latency(Latency),
    /// Ping-pong around all powers of two: where the time grows more than 2.5 times when the size
    /// doubles
    Cliffs(Cliffs),
    /// Windows of 64 non-blocking sends from one buffer, then an answer
    Bandwidth(Rewritable),
    /// The same in both directions at once
    Bibandwidth(Rewritable),
    /// Messages per second: as bandwidth, with messages of 8 bytes
    #[command(mut_arg("sizes", |sizes| sizes.default_value("8")))]
    Rate(WithSizes),
    /// All pairs at once, windows of 64, each message with a buffer of its own
    Pairs(Pairs),
    /// All ranks meet: dissemination, or by way of one where ranks outnumber CPUs; empty messages,
    /// any number of ranks
    Barrier(Messages),
    /// Every rank sends a block to every rank; any number of ranks
    #[command(mut_arg("sizes", |sizes| sizes.default_value("1K")))]
    Alltoall(WithSizes),
}

/// A pattern of messages between ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    Latency,
    Cliffs,
    Bandwidth,
    Bibandwidth,
    Rate,
    Pairs,
    Barrier,
    Alltoall,
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
        }
    }

    /// Whether all ranks take part in one operation, or each in a pair.
    pub(super) fn grouping(self) -> Grouping {
        match self {
            Self::Barrier | Self::Alltoall => Grouping::All,
            _ => Grouping::Pairs,
        }
    }
}

/// What all patterns of messages take.
#[derive(Debug, clap::Args)]
pub(super) struct Messages {
    /// Paths to force, each measured; `hybrid` leaves the choice to the policy
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST", default_value = "hybrid", conflicts_with_all = ["wqe", "coalesce", "streams", "rings"])]
    paths: Vec<Wanted>,

    #[command(flatten)]
    pub(super) ranks: Ranks,

    #[command(flatten)]
    pub(super) timed: Timed,

    /// Round trips, or windows, before each round, not timed [default: a tenth of a round's]
    #[arg(long, value_name = "N")]
    pub(super) warmup: Option<u64>,

    /// Fill and check every message, also while the clock runs: the times then contain it
    #[arg(long)]
    pub(super) check: bool,

    #[command(flatten)]
    pub(super) verbs: VerbsArgs,

    /// Count per message: cycles, instructions and cache misses where the machine grants it,
    /// page faults, context switches, and what limic counts
    #[arg(long)]
    pub(super) counters: bool,

    #[command(flatten)]
    pub(super) outputs: Outputs,
}

impl Messages {
    /// The paths asked for, each once.
    pub(super) fn wanted(&self) -> Vec<Wanted> {
        let mut wanted: Vec<Wanted> = Vec::new();
        for path in &self.paths {
            if !wanted.contains(path) {
                wanted.push(*path);
            }
        }
        wanted
    }
}

/// Patterns whose messages have bytes.
#[derive(Debug, clap::Args)]
pub(super) struct WithSizes {
    #[command(flatten)]
    sizes: Sizes,

    #[command(flatten)]
    messages: Messages,
}

/// Patterns whose messages may be written anew.
#[derive(Debug, clap::Args)]
pub(super) struct Rewritable {
    #[command(flatten)]
    sized: WithSizes,

    /// Write a word of each cache line of each message before it is sent, while the clock runs: the
    /// times then contain it
    ///
    /// Without it nobody writes what is sent again, as in the benchmarks of other libraries. The
    /// receiver of a single copy (cma, split-copy, kmod, peer-readable, process) then finds the
    /// bytes in its own caches, as far as they fit there, and a program that writes its buffer
    /// before each send pays more than the times say. With it each message of a window has a buffer
    /// of its own, since one that is under way must not be written.
    #[arg(long)]
    rewrite: bool,
}

#[derive(Debug, clap::Args)]
#[command(mut_arg("sizes", |sizes| sizes.default_value_if("sleep", "true", "8")))]
pub(super) struct Latency {
    #[command(flatten)]
    sized: Rewritable,

    /// The receiver sleeps before each message, of 8 bytes by default; its wake-up beside the
    /// kernel's own, in the same run
    #[arg(long, conflicts_with_all = ["counters", "check", "rewrite", "wqe", "coalesce", "streams", "rings", "seconds_per_point", "warmup"])]
    sleep: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct Cliffs {
    /// Message sizes in bytes, as other measurements take them [default: all powers of two from 8
    /// to 4M, one byte less and one byte more]
    #[arg(long, value_name = "LIST")]
    sizes: Option<SizeList>,

    #[command(flatten)]
    messages: Messages,
}

#[derive(Debug, clap::Args)]
pub(super) struct Pairs {
    #[command(flatten)]
    sized: WithSizes,

    /// Send from and receive into the same 64 buffers again (on), or never the same memory twice in
    /// a row (off)
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "on,off",
        default_value = "on,off"
    )]
    reuse: Vec<Reuse>,
}

/// A pattern of messages with all that it needs.
pub(super) struct Order<'a> {
    pub(super) pattern: Pattern,
    pub(super) sizes: SizeList,
    /// The ways of using buffers that are compared; `None` where there is only one.
    pub(super) reuses: Vec<Option<Reuse>>,
    /// Whether the receiver sleeps before each message.
    pub(super) sleep: bool,
    /// Whether each message is written anew before it is sent.
    pub(super) rewrite: bool,
    pub(super) messages: &'a Messages,
}

impl<'a> Order<'a> {
    fn with_sizes(pattern: Pattern, sized: &'a WithSizes) -> Self {
        Self::new(pattern, sized.sizes.sizes.clone(), &sized.messages)
    }

    fn rewritable(pattern: Pattern, Rewritable { sized, rewrite }: &'a Rewritable) -> Self {
        Self {
            rewrite: *rewrite,
            ..Self::with_sizes(pattern, sized)
        }
    }

    fn new(pattern: Pattern, sizes: SizeList, messages: &'a Messages) -> Self {
        Self {
            pattern,
            sizes,
            reuses: vec![None],
            sleep: false,
            rewrite: false,
            messages,
        }
    }

    /// What the command line's types cannot tell.
    pub(super) fn check(&self) -> Result<(), MeasureError> {
        let ranks = self.messages.ranks.ranks.unwrap_or(2);
        if self.sleep {
            return asleep::check(self);
        }
        if self.rewrite && self.messages.wanted().contains(&Wanted::KmodRegion) {
            let why = "--rewrite writes the buffer that is sent from, and kmod-region has none";
            return Err(MeasureError::Usage(why.to_owned()));
        }
        self.pattern.grouping().check(self.pattern.name(), ranks)
    }
}

impl Exchange {
    pub(super) fn order(&self) -> Order<'_> {
        match self {
            Self::Latency(Latency { sized, sleep }) => Order {
                sleep: *sleep,
                ..Order::rewritable(Pattern::Latency, sized)
            },
            Self::Cliffs(Cliffs { sizes, messages }) => {
                let sizes = sizes.clone().unwrap_or_else(cliffs::sizes);
                Order::new(Pattern::Cliffs, sizes, messages)
            }
            Self::Bandwidth(sized) => Order::rewritable(Pattern::Bandwidth, sized),
            Self::Bibandwidth(sized) => Order::rewritable(Pattern::Bibandwidth, sized),
            Self::Rate(sized) => Order::with_sizes(Pattern::Rate, sized),
            Self::Pairs(Pairs { sized, reuse }) => Order {
                reuses: [Reuse::On, Reuse::Off]
                    .into_iter()
                    .filter(|one| reuse.contains(one))
                    .map(Some)
                    .collect(),
                ..Order::with_sizes(Pattern::Pairs, sized)
            },
            Self::Barrier(messages) => Order::new(Pattern::Barrier, SizeList::of(&[0]), messages),
            Self::Alltoall(sized) => Order::with_sizes(Pattern::Alltoall, sized),
        }
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
    /// Two overlapped copies through a pool of staging buffers
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
    /// One copy by the receiver out of a buffer that it has mapped
    PeerReadable,
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
            Self::PeerReadable => Path::PeerReadable,
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
