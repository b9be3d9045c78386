//! The settings by name, and what each means.

use super::Group;

/// A setting. The order is that in which the values of one layer are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Long,
    PipelineFragment,
    InlineMax,
    EagerMax,
    Paths,
    PrivateRings,
    RingBytes,
    SharedSlots,
    StagingBuffers,
    StagingBufferBytes,
    Spin,
    HugePages,
    NumaNode,
    Unexpected,
    Loan,
    Window,
    Linger,
    Patience,
    Skew,
    Autotune,
    LineLatency,
    Stats,
    Fabric,
    TcpInterface,
    TcpTimeout,
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
    pub(super) group: Group,
    pub(super) meaning: &'static str,
    pub(super) accepted: &'static str,
}

/// A variable that names a file.
#[derive(Debug)]
pub(super) struct FileVariable {
    pub(super) variable: &'static str,
    pub(super) meaning: &'static str,
    pub(super) accepted: &'static str,
}

pub(super) const CONFIG: FileVariable = FileVariable {
    variable: "LIMIC_CONFIG",
    meaning: "TOML file with settings; it wins over the profile",
    accepted: "the path of a file",
};
pub(super) const PROFILE: FileVariable = FileVariable {
    variable: "LIMIC_PROFILE",
    meaning: "TOML file with what limic tune measured on this host; if this is not set, \
              limic/HOST.toml in $XDG_CONFIG_HOME or ~/.config, if it exists",
    accepted: "the path of a file, or off",
};

const NUMBER_OF_BYTES: &str = "a number of bytes (suffix K, M or G), or unlimited";
const POWER_OF_TWO: &str = "a power of two of bytes from 4K to 16M";
const LONG: &str = "pipeline, cma, split-copy or kmod";
const PATHS: &str = "a list of self, process, inline, eager, pipeline, cma, split-copy, loan, \
                     kmod, rc-eager, rc-rendezvous; or all";

impl Key {
    pub(super) const ALL: [Self; 34] = [
        Self::Long,
        Self::PipelineFragment,
        Self::InlineMax,
        Self::EagerMax,
        Self::Paths,
        Self::PrivateRings,
        Self::RingBytes,
        Self::SharedSlots,
        Self::StagingBuffers,
        Self::StagingBufferBytes,
        Self::Spin,
        Self::HugePages,
        Self::NumaNode,
        Self::Unexpected,
        Self::Loan,
        Self::Window,
        Self::Linger,
        Self::Patience,
        Self::Skew,
        Self::Autotune,
        Self::LineLatency,
        Self::Stats,
        Self::Fabric,
        Self::TcpInterface,
        Self::TcpTimeout,
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
        let (variable, toml, group, meaning, accepted) = match self {
            Self::Long => (
                "LIMIC_LONG",
                "long",
                Group::Paths,
                "path of long messages between processes",
                LONG,
            ),
            Self::PipelineFragment => (
                "LIMIC_PIPELINE_FRAGMENT",
                "pipeline_fragment",
                Group::Paths,
                "bytes of a fragment of a pipelined message",
                "1K to 16M bytes, a multiple of 64",
            ),
            Self::InlineMax => (
                "LIMIC_INLINE_MAX",
                "inline_max",
                Group::Paths,
                "bytes of the longest message that goes inline",
                "0 to 48 bytes, which a slot's first cache line holds",
            ),
            Self::EagerMax => (
                "LIMIC_EAGER_MAX",
                "eager_max",
                Group::Paths,
                "bytes of the longest message that goes eagerly; more than 64K counts as 64K",
                NUMBER_OF_BYTES,
            ),
            Self::Paths => (
                "LIMIC_PATHS",
                "paths",
                Group::Paths,
                "paths that may be used; self always may. cma and split-copy read a peer's \
                memory, and wait, if need be for ever, for a program that serves it \
                (userfaultfd, FUSE): leave them out where peers are not trusted",
                PATHS,
            ),
            Self::PrivateRings => (
                "LIMIC_PRIVATE_RINGS",
                "private_rings",
                Group::Memory,
                "rings of an endpoint for single peers that send a lot",
                "0 to 1024",
            ),
            Self::RingBytes => (
                "LIMIC_RING_BYTES",
                "ring_bytes",
                Group::Memory,
                "payload bytes of a private ring",
                POWER_OF_TWO,
            ),
            Self::SharedSlots => (
                "LIMIC_SHARED_SLOTS",
                "shared_slots",
                Group::Memory,
                "slots of an endpoint's ring for all other peers",
                "a power of two from 8 to 65536",
            ),
            Self::StagingBuffers => (
                "LIMIC_STAGING_BUFFERS",
                "staging_buffers",
                Group::Memory,
                "staging buffers of an endpoint, through which fragments of messages go",
                "1 to 4096",
            ),
            Self::StagingBufferBytes => (
                "LIMIC_STAGING_BUFFER_BYTES",
                "staging_buffer_bytes",
                Group::Memory,
                "bytes of a staging buffer; at least the longest fragment of a pipeline if this \
                is not set",
                POWER_OF_TWO,
            ),
            Self::Spin => (
                "LIMIC_SPIN_US",
                "spin_us",
                Group::Waiting,
                "microseconds that a waiting endpoint polls before it yields and sleeps",
                "auto, or 0 to 60000000 microseconds",
            ),
            Self::HugePages => (
                "LIMIC_HUGE_PAGES",
                "huge_pages",
                Group::Memory,
                "whether to ask for huge pages for the segment; ordinary pages serve where \
                there are none",
                "yes or no",
            ),
            Self::NumaNode => (
                "LIMIC_NUMA_NODE",
                "numa_node",
                Group::Memory,
                "NUMA node of the segment; auto is the node on which the endpoint runs",
                "auto, or the number of a node from 0 to 65533",
            ),
            Self::Unexpected => (
                "LIMIC_UNEXPECTED_BYTES",
                "unexpected_bytes",
                Group::Memory,
                "bytes of unexpected messages, each with some 256 for itself, that an endpoint \
                keeps before it asks senders to wait with long ones; beyond 16 times as many, all \
                messages of a peer that sent more than its share wait in its ring until some are \
                received; beyond 32 times as many, such a peer without a ring of its own is given \
                up",
                "64K or more bytes (suffix K, M or G), or unlimited",
            ),
            Self::Loan => (
                "LIMIC_LOAN_BYTES",
                "loan_bytes",
                Group::Memory,
                "most bytes of shared memory that an endpoint makes for loans",
                "1M or more bytes (suffix K, M or G), or unlimited",
            ),
            Self::Window => (
                "LIMIC_PIPELINE_WINDOW",
                "pipeline_window",
                Group::Paths,
                "most fragments of pipelined messages on their way to one peer",
                "2 to 4096",
            ),
            Self::Linger => (
                "LIMIC_LINGER_MS",
                "linger_ms",
                Group::Waiting,
                "milliseconds that a closing endpoint waits for peers to take what was sent",
                "0 to 3600000 milliseconds",
            ),
            Self::Patience => (
                "LIMIC_PATIENCE_MS",
                "patience_ms",
                Group::Waiting,
                "milliseconds after which a blocking call says once, on standard error, what it \
                waits for; 0 never",
                "0 to 3600000 milliseconds",
            ),
            Self::Skew => (
                "LIMIC_SKEW",
                "skew",
                Group::Paths,
                "whether messages are sent ahead to slow receivers, instead of waiting for them",
                "on or off",
            ),
            Self::Autotune => (
                "LIMIC_AUTOTUNE",
                "autotune",
                Group::Paths,
                "whether long messages are measured, and take another path than the table's \
                where it is faster",
                "on or off",
            ),
            Self::LineLatency => (
                "LIMIC_LINE_LATENCY",
                "line_latency",
                Group::Paths,
                "how far apart two processes are: by the measured latency of a cache line \
                between them, or as the topology says",
                "measured, topology, or nanoseconds one way in place of the measurement",
            ),
            Self::Stats => (
                "LIMIC_STATS",
                "stats",
                Group::Observation,
                "where an endpoint's counters go when it closes; a file gets JSON if its name \
                ends in .json",
                "none, stderr, or the path of a file: %p in it is the process, %r the rank",
            ),
            Self::Fabric => (
                "LIMIC_FABRIC",
                "fabric",
                Group::Networks,
                "networks that lead to peers on other machines: auto is verbs where both sides \
                have an adapter, else TCP. With verbs-only and tcp-only, peers on this machine \
                are reached so too",
                "auto, verbs, tcp, off, verbs-only or tcp-only",
            ),
            Self::TcpInterface => (
                "LIMIC_TCP_INTERFACE",
                "tcp_interface",
                Group::Networks,
                "interface over which peers reach this endpoint; auto is the one that leads to \
                other networks",
                "auto, or the name or the address of an interface that is up",
            ),
            Self::TcpTimeout => (
                "LIMIC_TCP_TIMEOUT_MS",
                "tcp_timeout_ms",
                Group::Networks,
                "milliseconds for which a machine may be silent that was asked for something, \
                before its peers count as lost",
                "1000 to 3600000 milliseconds",
            ),
            Self::VerbsStreams => (
                "LIMIC_VERBS_STREAMS",
                "verbs_streams",
                Group::Verbs,
                "queue pairs to each peer; the same in all ranks",
                "1 to 8",
            ),
            Self::VerbsEntries => (
                "LIMIC_VERBS_ENTRIES",
                "verbs_entries",
                Group::Verbs,
                "entries of each send queue, on which the memory of a connection depends",
                "2 to 4096",
            ),
            Self::VerbsCoalesce => (
                "LIMIC_VERBS_COALESCE",
                "verbs_coalesce",
                Group::Verbs,
                "whether messages share packets while no entry is free",
                "on or off",
            ),
            Self::KernelGroup => (
                "LIMIC_KERNEL_GROUP",
                "kernel_group",
                Group::KernelModule,
                "group of the kernel module that endpoints join; auto is the launcher's job",
                "auto, fd:N for the group of an open /dev/limic, or a word that the job's ranks \
                share",
            ),
            Self::VerbsDevices => (
                "LIMIC_VERBS_DEVICES",
                "verbs_devices",
                Group::Verbs,
                "adapters, to which the queue pairs to a peer are dealt out; auto is the first \
                with a port that is up",
                "auto, or one or two names with commas between, each NAME or NAME:PORT",
            ),
            Self::VerbsRings => (
                "LIMIC_VERBS_RINGS",
                "verbs_rings",
                Group::Verbs,
                "most peers that send a lot and may write into a ring which this endpoint polls",
                "0 to 1024",
            ),
            Self::VerbsCache => (
                "LIMIC_VERBS_CACHE",
                "verbs_cache",
                Group::Verbs,
                "registrations of long messages' memory that are kept, through which peers can \
                read it meanwhile: auto is on adapters with on-demand paging, watch is on all, \
                with a thread that notices when memory is unmapped",
                "auto, off or watch",
            ),
            Self::VerbsConnect => (
                "LIMIC_VERBS_CONNECT",
                "verbs_connect",
                Group::Verbs,
                "when ranks meet over verbs or TCP: each pair at its first message, or all pairs at \
                the start",
                "on-demand or static",
            ),
            Self::VerbsRetry => (
                "LIMIC_VERBS_RETRY_MS",
                "verbs_retry_ms",
                Group::Verbs,
                "least milliseconds for which adapters repeat what a peer does not acknowledge, \
                before the peer counts as lost",
                "10 to 600000 milliseconds",
            ),
        };
        Info {
            variable,
            toml,
            group,
            meaning,
            accepted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Path;

    #[test]
    fn the_order_of_the_list_is_that_of_the_keys() {
        for (i, key) in Key::ALL.into_iter().enumerate() {
            assert_eq!(key as usize, i);
            let Info { variable, toml, .. } = key.info();
            assert_eq!(variable, format!("LIMIC_{}", toml.to_ascii_uppercase()));
        }
    }

    #[test]
    fn the_accepted_paths_are_all_named() {
        for path in Path::settable() {
            let name = path.name();
            let named = |list: &str| list.split([' ', ',', ';']).any(|word| word == name);
            assert!(named(PATHS), "{name}");
            assert_eq!(named(LONG), Key::Long.parse(name).is_some(), "{name}");
        }
    }
}
