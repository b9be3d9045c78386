//! The settings by name, and what each means.

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
    VerbsRetry,
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

const NUMBER_OF_BYTES: &str = "a number of bytes (suffix K, M or G), or unlimited";
const POWER_OF_TWO: &str = "a power of two of bytes from 4K to 16M";

impl Key {
    pub(super) const ALL: [Self; 31] = [
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
        Self::VerbsRetry,
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
                "longest message in bytes that goes eagerly; at most 64K, with which longer answers do too",
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
                "chunks of an endpoint's pool, through which pipelines and longer eager messages go",
                "1 to 4096",
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
            Self::VerbsRetry => (
                "LIMIC_VERBS_RETRY_MS",
                "verbs_retry_ms",
                "milliseconds for which adapters at least repeat what a peer does not acknowledge, before it counts as lost",
                "10 to 600000",
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
}
