//! The settings by name: what each means, what it accepts, and how its text is read.

use core::time::Duration;

use super::verbs::devices;
use super::{Spin, VerbsCache, VerbsConnect, VerbsUse};
use crate::policy::{
    ByteSize, HandOver, INLINE_CAPACITY, MAX_CHUNK, MIN_CHUNK, Path, PathSet, Row, RowSource,
};

/// A setting. The order is that in which the values of one layer are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Long,
    PipelineChunk,
    InlineMax,
    EagerMax,
    Paths,
    PrivateRings,
    RingBytes,
    SharedSlots,
    Chunks,
    ChunkBytes,
    Spin,
    HugePages,
    NumaNode,
    Unexpected,
    Loan,
    Window,
    Linger,
    Skew,
    Adapt,
    HandOver,
    Stats,
    Verbs,
    VerbsStreams,
    VerbsEntries,
    VerbsCoalesce,
    KernelGroup,
    VerbsDevices,
    VerbsRings,
    VerbsCache,
    VerbsConnect,
}

/// What a key is called and means.
#[derive(Debug)]
pub(super) struct Info {
    pub(super) variable: &'static str,
    pub(super) toml: &'static str,
    pub(super) meaning: &'static str,
    pub(super) accepted: &'static str,
}

/// A variable that names a file.
#[derive(Debug)]
pub(super) struct FileVariable {
    pub(super) variable: &'static str,
    pub(super) meaning: &'static str,
}

pub(super) const CONFIG: FileVariable = FileVariable {
    variable: "LIMIC_CONFIG",
    meaning: "TOML file with settings; wins over the profile",
};
pub(super) const PROFILE: FileVariable = FileVariable {
    variable: "LIMIC_PROFILE",
    meaning: "TOML file with this host's profile by limic tune, or off; else limic/HOST.toml in $XDG_CONFIG_HOME or ~/.config, if it exists",
};

/// Variables that other parts of limic read: start-up, the libfabric provider and tests. Not settings, so no warning.
const ELSEWHERE: [&str; 4] = ["LIMIC_RANK", "LIMIC_SIZE", "LIMIC_LOG", "LIMIC_JOB"];
/// Beginnings of further ones.
const ELSEWHERE_PREFIXES: [&str; 8] = [
    "LIMIC_BOOTSTRAP",
    "LIMIC_COPY_",
    "LIMIC_FI_",
    "LIMIC_JOB_",
    "LIMIC_LAB_",
    "LIMIC_LOCAL_",
    "LIMIC_PMIX_",
    "LIMIC_TEST_",
];

const NUMBER_OF_BYTES: &str = "a number of bytes (suffix K, M or G), or unlimited";
const POWER_OF_TWO: &str = "a power of two of bytes from 4K to 16M";

impl Key {
    pub(super) const ALL: [Self; 30] = [
        Self::Long,
        Self::PipelineChunk,
        Self::InlineMax,
        Self::EagerMax,
        Self::Paths,
        Self::PrivateRings,
        Self::RingBytes,
        Self::SharedSlots,
        Self::Chunks,
        Self::ChunkBytes,
        Self::Spin,
        Self::HugePages,
        Self::NumaNode,
        Self::Unexpected,
        Self::Loan,
        Self::Window,
        Self::Linger,
        Self::Skew,
        Self::Adapt,
        Self::HandOver,
        Self::Stats,
        Self::Verbs,
        Self::VerbsStreams,
        Self::VerbsEntries,
        Self::VerbsCoalesce,
        Self::KernelGroup,
        Self::VerbsDevices,
        Self::VerbsRings,
        Self::VerbsCache,
        Self::VerbsConnect,
    ];

    pub(super) const fn info(self) -> Info {
        let (variable, toml, meaning, accepted) = match self {
            Self::Long => (
                "LIMIC_LONG",
                "long",
                "path of long messages between processes",
                "pipeline, cma or both-sides",
            ),
            Self::PipelineChunk => (
                "LIMIC_PIPELINE_CHUNK",
                "pipeline_chunk",
                "bytes of a pipeline's chunk",
                "a number of bytes from 1K to 16M, a multiple of 64",
            ),
            Self::InlineMax => (
                "LIMIC_INLINE_MAX",
                "inline_max",
                "longest message in bytes that goes inline",
                "0 to 48 bytes, what a slot's first cache line holds",
            ),
            Self::EagerMax => (
                "LIMIC_EAGER_MAX",
                "eager_max",
                "longest message in bytes that goes eagerly; the ring caps it",
                NUMBER_OF_BYTES,
            ),
            Self::Paths => (
                "LIMIC_PATHS",
                "paths",
                "paths that may be used; self always may",
                "a list of self, process, inline, eager, pipeline, cma, both-sides, loan; or all",
            ),
            Self::PrivateRings => (
                "LIMIC_PRIVATE_RINGS",
                "private_rings",
                "rings of an endpoint for single peers that talk a lot",
                "0 to 1024",
            ),
            Self::RingBytes => (
                "LIMIC_RING_BYTES",
                "ring_bytes",
                "payload bytes of a private ring",
                POWER_OF_TWO,
            ),
            Self::SharedSlots => (
                "LIMIC_SHARED_SLOTS",
                "shared_slots",
                "slots of an endpoint's ring for all peers",
                "a power of two from 8 to 65536",
            ),
            Self::Chunks => (
                "LIMIC_CHUNKS",
                "chunks",
                "chunks of an endpoint's pool for pipelines and loans",
                "0 to 4096",
            ),
            Self::ChunkBytes => (
                "LIMIC_CHUNK_BYTES",
                "chunk_bytes",
                "bytes of a chunk of the pool",
                POWER_OF_TWO,
            ),
            Self::Spin => (
                "LIMIC_SPIN_US",
                "spin_us",
                "microseconds that a waiting endpoint polls before it yields and sleeps",
                "auto, or 0 to 60000000 microseconds",
            ),
            Self::HugePages => (
                "LIMIC_HUGE_PAGES",
                "huge_pages",
                "whether to ask for huge pages for the segment",
                "yes or no",
            ),
            Self::NumaNode => (
                "LIMIC_NUMA_NODE",
                "numa_node",
                "NUMA node of the segment's memory; auto is where the endpoint runs",
                "auto, or a node's number from 0 to 65533",
            ),
            Self::Unexpected => (
                "LIMIC_UNEXPECTED_BYTES",
                "unexpected_bytes",
                "bytes of unexpected messages that an endpoint keeps before it holds senders back",
                "64K or more bytes (suffix K, M or G), or unlimited",
            ),
            Self::Loan => (
                "LIMIC_LOAN_BYTES",
                "loan_bytes",
                "most bytes of shared memory that an endpoint makes for loans",
                "1M or more bytes (suffix K, M or G), or unlimited",
            ),
            Self::Window => (
                "LIMIC_PIPELINE_WINDOW",
                "pipeline_window",
                "most pipeline chunks on their way to one peer",
                "2 to 4096",
            ),
            Self::Linger => (
                "LIMIC_LINGER_MS",
                "linger_ms",
                "milliseconds that a closing endpoint waits for peers to take what was sent",
                "0 to 3600000 milliseconds",
            ),
            Self::Skew => (
                "LIMIC_SKEW",
                "skew",
                "whether messages go ahead of receivers that lag behind, instead of waiting for them",
                "on or off",
            ),
            Self::Adapt => (
                "LIMIC_ADAPT",
                "adapt",
                "whether long messages are measured and take another path where it is faster than the table's",
                "on or off",
            ),
            Self::HandOver => (
                "LIMIC_HANDOVER",
                "handover",
                "how far apart two processes are: by the measured hand-over of a cache line, or as the topology says",
                "measured, topology, or nanoseconds one way, which are then taken for measured",
            ),
            Self::Stats => (
                "LIMIC_STATS",
                "stats",
                "where an endpoint's counters go when it closes; JSON if the file's name ends so",
                "none, stderr, or the path of a file: %p in it is the process, %r the rank",
            ),
            Self::Verbs => (
                "LIMIC_VERBS",
                "verbs",
                "whether peers are reached over verbs: those on other nodes where a device is there, none, or all",
                "auto, off or only",
            ),
            Self::VerbsStreams => (
                "LIMIC_VERBS_STREAMS",
                "verbs_streams",
                "queue pairs to each peer over verbs; the same in all ranks",
                "1 to 8",
            ),
            Self::VerbsEntries => (
                "LIMIC_VERBS_ENTRIES",
                "verbs_entries",
                "entries of each queue pair's send queue, on which the memory of a connection depends",
                "2 to 4096",
            ),
            Self::VerbsCoalesce => (
                "LIMIC_VERBS_COALESCE",
                "verbs_coalesce",
                "whether messages over verbs share packets while no entry is free",
                "on or off",
            ),
            Self::KernelGroup => (
                "LIMIC_KERNEL_GROUP",
                "kernel_group",
                "group of the kernel module that endpoints of its messages join; auto is the launcher's job",
                "auto, fd:N for the group of an open /dev/limic, or any word that the job's ranks share",
            ),
            Self::VerbsDevices => (
                "LIMIC_VERBS_DEVICES",
                "verbs_devices",
                "devices for verbs, to which the streams to a peer are dealt out; auto is the first with a port that is up",
                "auto, or one or two names with commas between, each NAME or NAME:PORT",
            ),
            Self::VerbsRings => (
                "LIMIC_VERBS_RINGS",
                "verbs_rings",
                "peers over verbs that talk a lot and may write into a ring which this endpoint polls",
                "0 to 1024",
            ),
            Self::VerbsCache => (
                "LIMIC_VERBS_CACHE",
                "verbs_cache",
                "whether registrations of long messages' memory are kept over verbs: on devices with on-demand paging, never, or on all, with a thread that watches for memory that is unmapped; peers can read that memory meanwhile",
                "auto, off or watch",
            ),
            Self::VerbsConnect => (
                "LIMIC_VERBS_CONNECT",
                "verbs_connect",
                "when ranks meet over verbs: each pair at its first message, or all at the start",
                "on-demand or static",
            ),
        };
        Info {
            variable,
            toml,
            meaning,
            accepted,
        }
    }

    /// The value in `text`; `None` if it is not accepted.
    pub(super) fn parse(self, text: &str) -> Option<Value> {
        let text = text.trim();
        let bytes = || {
            text.parse()
                .ok()
                .map(|ByteSize(bytes)| Value::Number(bytes))
        };
        let value = match self {
            Self::Long => text.parse().ok().map(Value::Path),
            Self::Paths => text.parse().ok().map(Value::Paths),
            Self::PipelineChunk
            | Self::InlineMax
            | Self::EagerMax
            | Self::RingBytes
            | Self::ChunkBytes
            | Self::Unexpected
            | Self::Loan => bytes(),
            Self::PrivateRings
            | Self::SharedSlots
            | Self::Chunks
            | Self::Window
            | Self::Linger
            | Self::VerbsStreams
            | Self::VerbsRings
            | Self::VerbsEntries => text.parse().ok().map(Value::Number),
            Self::Verbs => text.parse().ok().map(Value::Verbs),
            Self::HandOver => text.parse().ok().map(Value::HandOver),
            Self::VerbsCache => text.parse().ok().map(Value::Cache),
            Self::VerbsConnect => text.parse().ok().map(Value::Connect),
            Self::Spin if text.eq_ignore_ascii_case("auto") => Some(Value::Spin(Spin::Auto)),
            Self::Spin => {
                let time = text.parse().ok().map(Duration::from_micros);
                time.map(|time| Value::Spin(Spin::For(time)))
            }
            Self::HugePages | Self::Skew | Self::Adapt | Self::VerbsCoalesce => {
                match text.to_ascii_lowercase().as_str() {
                    "yes" | "true" | "on" | "1" => Some(Value::Flag(true)),
                    "no" | "false" | "off" | "0" => Some(Value::Flag(false)),
                    _ => None,
                }
            }
            Self::NumaNode if text.eq_ignore_ascii_case("auto") => Some(Value::Node(None)),
            Self::NumaNode => text.parse().ok().map(|node| Value::Node(Some(node))),
            Self::KernelGroup if text.eq_ignore_ascii_case("auto") => Some(Value::Text(None)),
            Self::KernelGroup => Some(Value::Text(Some(text.to_owned()))),
            Self::VerbsDevices if text.eq_ignore_ascii_case("auto") => Some(Value::Text(None)),
            Self::VerbsDevices => Some(Value::Text(Some(text.to_owned()))),
            Self::Stats if text.eq_ignore_ascii_case("none") => Some(Value::Text(None)),
            Self::Stats => Some(Value::Text(Some(text.to_owned()))),
        };
        value.filter(|value| self.accepts(value))
    }

    /// Whether a value of the right kind is in range.
    pub(super) fn accepts(self, value: &Value) -> bool {
        let area = |n: u64| n.is_power_of_two() && (4 << 10..=16 << 20).contains(&n);
        match (self, value) {
            (Self::Long, Value::Path(path)) => path.is_rendezvous(),
            (Self::PipelineChunk, Value::Number(n)) => {
                (u64::from(MIN_CHUNK)..=u64::from(MAX_CHUNK)).contains(n) && n % 64 == 0
            }
            (Self::InlineMax, Value::Number(n)) => *n <= INLINE_CAPACITY,
            (Self::EagerMax, Value::Number(_)) => true,
            (Self::Paths, Value::Paths(paths)) => !paths.is_empty(),
            (Self::PrivateRings, Value::Number(n)) => *n <= 1024,
            (Self::RingBytes | Self::ChunkBytes, Value::Number(n)) => area(*n),
            (Self::SharedSlots, Value::Number(n)) => n.is_power_of_two() && (8..=65536).contains(n),
            (Self::Chunks, Value::Number(n)) => *n <= 4096,
            (Self::Spin, Value::Spin(Spin::For(time))) => *time <= Duration::from_secs(60),
            (Self::Spin, Value::Spin(Spin::Auto))
            | (Self::HugePages | Self::Skew | Self::Adapt | Self::VerbsCoalesce, Value::Flag(_))
            | (Self::Verbs, Value::Verbs(_))
            | (Self::HandOver, Value::HandOver(_)) => true,
            (Self::VerbsCache, Value::Cache(_)) | (Self::VerbsConnect, Value::Connect(_)) => true,
            (Self::VerbsRings, Value::Number(n)) => *n <= 1024,
            (Self::VerbsDevices, Value::Text(list)) => {
                list.as_ref().is_none_or(|list| devices(list).is_some())
            }
            (Self::VerbsStreams, Value::Number(n)) => (1..=8).contains(n),
            (Self::VerbsEntries, Value::Number(n)) => (2..=4096).contains(n),
            (Self::NumaNode, Value::Node(node)) => node.is_none_or(|node| node <= 65533),
            (Self::Unexpected, Value::Number(n)) => *n >= 64 << 10,
            (Self::Loan, Value::Number(n)) => *n >= 1 << 20,
            (Self::Window, Value::Number(n)) => (2..=4096).contains(n),
            (Self::Linger, Value::Number(n)) => *n <= 3_600_000,
            (Self::KernelGroup, Value::Text(text)) => text.as_ref().is_none_or(|text| {
                let descriptor = text.strip_prefix("fd:");
                !text.is_empty() && descriptor.is_none_or(|fd| fd.parse::<u16>().is_ok())
            }),
            (Self::Stats, Value::Text(text)) => text.as_ref().is_none_or(|text| !text.is_empty()),
            _ => false,
        }
    }
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Number(u64),
    Path(Path),
    Paths(PathSet),
    Spin(Spin),
    Flag(bool),
    Node(Option<u32>),
    Text(Option<String>),
    HandOver(HandOver),
    Verbs(VerbsUse),
    Connect(VerbsConnect),
    Cache(VerbsCache),
}

/// What one source says.
#[derive(Clone, Debug, Default)]
pub(super) struct Layer {
    /// The source, for errors.
    pub(super) place: String,
    pub(super) values: Vec<(Key, Value, RowSource)>,
    pub(super) rows: Vec<Row>,
}

/// Whether `name` belongs to another part of limic.
pub(super) fn is_read_elsewhere(name: &str) -> bool {
    ELSEWHERE.contains(&name) || ELSEWHERE_PREFIXES.iter().any(|p| name.starts_with(p))
}

/// The name among `known` that takes the fewest edits to come from `name`.
pub(super) fn nearest(name: &str, known: impl IntoIterator<Item = &'static str>) -> &'static str {
    known
        .into_iter()
        .min_by_key(|other| distance(name, other))
        .unwrap_or("")
}

/// Levenshtein's distance between two names.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_list_is_that_of_the_keys() {
        for (i, key) in Key::ALL.into_iter().enumerate() {
            assert_eq!(key as usize, i);
            let Info { variable, toml, .. } = key.info();
            assert_eq!(variable, format!("LIMIC_{}", toml.to_ascii_uppercase()));
        }
    }

    #[test]
    fn the_nearest_name_is_found() {
        let names = || Key::ALL.map(|key| key.info().variable);
        assert_eq!(nearest("LIMIC_EAGR_MAX", names()), "LIMIC_EAGER_MAX");
        assert_eq!(nearest("LIMIC_SPIN", names()), "LIMIC_SPIN_US");
        assert_eq!((distance("kitten", "sitting"), distance("", "abc")), (3, 3));
    }

    #[test]
    fn ranges_are_kept() {
        for (key, good, bad) in [
            (Key::Long, "both-sides", "eager"),
            (Key::PipelineChunk, "1K", "1000"),
            (Key::InlineMax, "48", "49"),
            (Key::EagerMax, "unlimited", "-1"),
            (Key::Paths, "all", "alles"),
            (Key::PrivateRings, "0", "1025"),
            (Key::RingBytes, "64K", "65K"),
            (Key::SharedSlots, "8", "4"),
            (Key::Chunks, "4096", "4097"),
            (Key::ChunkBytes, "16M", "32M"),
            (Key::Spin, "0", "60000001"),
            (Key::HugePages, "No", "maybe"),
            (Key::NumaNode, "auto", "65534"),
            (Key::Unexpected, "64K", "1K"),
            (Key::Loan, "1M", "1K"),
            (Key::Window, "2", "1"),
            (Key::Linger, "0", "-1"),
            (Key::Skew, "off", "of"),
            (Key::Adapt, "on", "an"),
            (Key::HandOver, "180", "far"),
            (Key::HandOver, "Topology", "-1"),
            (Key::Verbs, "only", "maybe"),
            (Key::VerbsStreams, "8", "9"),
            (Key::VerbsEntries, "2", "1"),
            (Key::VerbsCoalesce, "off", "2"),
            (Key::KernelGroup, "fd:3", "fd:x"),
            (Key::VerbsDevices, "mlx5_0:1,rxe0", "rxe0,"),
            (Key::VerbsDevices, "auto", "a,b,c"),
            (Key::VerbsDevices, "rxe0", "rxe0:x"),
            (Key::VerbsRings, "0", "1025"),
            (Key::VerbsCache, "watch", "256"),
            (Key::VerbsConnect, "static", "always"),
        ] {
            assert!(key.parse(good).is_some(), "{key:?} {good}");
            assert!(key.parse(bad).is_none(), "{key:?} {bad}");
        }
    }
}
