//! The settings by name, and what each means.

use super::Group;

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
                     kmod, peer-readable; or all (LIMIC_FABRIC says which networks are used)";

/// The settings, in the order in which the values of one layer are applied: name of the variable,
/// key in a file, group, meaning, and what is accepted.
macro_rules! keys {
    ($(
        $key:ident: $variable:literal, $toml:literal, $group:ident,
        $meaning:literal,
        $accepted:expr;
    )*) => {
        /// A setting.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum Key {
            $($key,)*
        }

        impl Key {
            pub(super) const ALL: [Self; [$($toml),*].len()] = [$(Self::$key),*];

            pub(super) const fn info(self) -> Info {
                match self {
                    $(Self::$key => Info {
                        variable: $variable,
                        toml: $toml,
                        group: Group::$group,
                        meaning: $meaning,
                        accepted: $accepted,
                    },)*
                }
            }
        }
    };
}

keys! {
    Long: "LIMIC_LONG", "long", Paths,
        "path of long messages between processes",
        LONG;
    PipelineFragment: "LIMIC_PIPELINE_FRAGMENT", "pipeline_fragment", Paths,
        "bytes of a fragment of a pipelined message",
        "1K to 16M bytes, a multiple of 64";
    InlineMax: "LIMIC_INLINE_MAX", "inline_max", Paths,
        "bytes of the longest message that goes inline",
        "0 to 48 bytes, which a slot's first cache line holds";
    EagerMax: "LIMIC_EAGER_MAX", "eager_max", Paths,
        "bytes of the longest message that goes eagerly; more than 64K counts as 64K",
        NUMBER_OF_BYTES;
    Paths: "LIMIC_PATHS", "paths", Paths,
        "paths that may be used; self always may. cma and split-copy read a peer's memory, and \
         wait, if need be for ever, for a program that serves it (userfaultfd, FUSE): leave them \
         out where peers are not trusted",
        PATHS;
    PrivateRings: "LIMIC_PRIVATE_RINGS", "private_rings", Memory,
        "rings of an endpoint for single peers that send a lot",
        "0 to 1024";
    RingBytes: "LIMIC_RING_BYTES", "ring_bytes", Memory,
        "payload bytes of a private ring",
        POWER_OF_TWO;
    SharedSlots: "LIMIC_SHARED_SLOTS", "shared_slots", Memory,
        "slots of an endpoint's ring for all other peers",
        "a power of two from 8 to 65536";
    StagingBuffers: "LIMIC_STAGING_BUFFERS", "staging_buffers", Memory,
        "staging buffers of an endpoint, through which fragments of messages go",
        "1 to 4096";
    StagingBufferBytes: "LIMIC_STAGING_BUFFER_BYTES", "staging_buffer_bytes", Memory,
        "bytes of a staging buffer; at least the longest fragment of a pipeline if this is not \
         set",
        POWER_OF_TWO;
    Spin: "LIMIC_SPIN_US", "spin_us", Waiting,
        "microseconds that a waiting endpoint polls before it yields and sleeps",
        "auto, or 0 to 60000000 microseconds";
    HugePages: "LIMIC_HUGE_PAGES", "huge_pages", Memory,
        "whether to ask for huge pages for the segment; ordinary pages serve where there are \
         none",
        "yes or no";
    NumaNode: "LIMIC_NUMA_NODE", "numa_node", Memory,
        "NUMA node of the segment; auto is the node on which the endpoint runs",
        "auto, or the number of a node from 0 to 65533";
    Unexpected: "LIMIC_UNEXPECTED_BYTES", "unexpected_bytes", Memory,
        "bytes of unexpected messages, each with some 256 for itself, that an endpoint keeps \
         before it asks senders to wait with long ones; beyond 16 times as many, all messages of \
         a peer that sent more than its share wait in its ring until some are received; beyond 32 \
         times as many, such a peer without a ring of its own is given up",
        "64K or more bytes (suffix K, M or G), or unlimited";
    Loan: "LIMIC_LOAN_BYTES", "loan_bytes", Memory,
        "most bytes of shared memory that an endpoint makes for loans",
        "1M or more bytes (suffix K, M or G), or unlimited";
    Window: "LIMIC_PIPELINE_WINDOW", "pipeline_window", Paths,
        "most fragments of pipelined messages on their way to one peer",
        "2 to 4096";
    Linger: "LIMIC_LINGER_MS", "linger_ms", Waiting,
        "milliseconds that a closing endpoint waits for peers to take what was sent",
        "0 to 3600000 milliseconds";
    Patience: "LIMIC_PATIENCE_MS", "patience_ms", Waiting,
        "milliseconds after which a blocking call says once, on standard error, what it waits \
         for; 0 never",
        "0 to 3600000 milliseconds";
    Skew: "LIMIC_SKEW", "skew", Paths,
        "whether messages are sent ahead to slow receivers, instead of waiting for them",
        "on or off";
    Autotune: "LIMIC_AUTOTUNE", "autotune", Paths,
        "whether long messages are measured, and take another path than the table's where it is \
         faster",
        "on or off";
    LineLatency: "LIMIC_LINE_LATENCY", "line_latency", Paths,
        "how far apart two processes are: by the measured latency of a cache line between them, \
         or as the topology says",
        "measured, topology, or nanoseconds one way in place of the measurement";
    Copy: "LIMIC_COPY", "copy", Paths,
        "instructions for copies of 8 KiB and more, in the whole process: the endpoint that was \
         opened last decides. auto takes what is faster between cores of this processor",
        "auto, vector or rep-movsb";
    Stats: "LIMIC_STATS", "stats", Observation,
        "where an endpoint's counters go when it closes; a file gets JSON if its name ends in \
         .json",
        "none, stderr, or the path of a file: %p in it is the process, %r the rank";
    Fabric: "LIMIC_FABRIC", "fabric", Networks,
        "networks that lead to peers on other machines: auto is verbs where both sides have an \
         adapter, else TCP. With verbs-only and tcp-only, peers on this machine are reached so \
         too",
        "auto, verbs, tcp, off, verbs-only or tcp-only";
    TcpInterface: "LIMIC_TCP_INTERFACE", "tcp_interface", Networks,
        "interface over which peers reach this endpoint; auto is the one that leads to other \
         networks",
        "auto, or the name or the address of an interface that is up";
    TcpTimeout: "LIMIC_TCP_TIMEOUT_MS", "tcp_timeout_ms", Networks,
        "milliseconds for which a machine may be silent that was asked for something, before its \
         peers count as lost",
        "1000 to 3600000 milliseconds";
    VerbsStreams: "LIMIC_VERBS_STREAMS", "verbs_streams", Verbs,
        "queue pairs to each peer; the same in all ranks",
        "1 to 8";
    VerbsEntries: "LIMIC_VERBS_ENTRIES", "verbs_entries", Verbs,
        "entries of each send queue, on which the memory of a connection depends",
        "2 to 4096";
    VerbsCoalesce: "LIMIC_VERBS_COALESCE", "verbs_coalesce", Verbs,
        "whether messages share packets while no entry is free",
        "on or off";
    KernelGroup: "LIMIC_KERNEL_GROUP", "kernel_group", KernelModule,
        "group of the kernel module that endpoints join; auto is the launcher's job",
        "auto, fd:N for the group of an open /dev/limic, or a word that the job's ranks share";
    VerbsDevices: "LIMIC_VERBS_DEVICES", "verbs_devices", Verbs,
        "adapters, to which the queue pairs to a peer are dealt out; auto is the first with a \
         port that is up",
        "auto, or one or two names with commas between, each NAME or NAME:PORT";
    VerbsRings: "LIMIC_VERBS_RINGS", "verbs_rings", Verbs,
        "most peers that send a lot and may write into a ring which this endpoint polls",
        "0 to 1024";
    VerbsCache: "LIMIC_VERBS_CACHE", "verbs_cache", Verbs,
        "registrations of long messages' memory that are kept, through which peers can read it \
         meanwhile: auto is on adapters with on-demand paging, watch is on all, with a thread \
         that notices when memory is unmapped",
        "auto, off or watch";
    VerbsConnect: "LIMIC_VERBS_CONNECT", "verbs_connect", Verbs,
        "when ranks meet over verbs or TCP: each pair at its first message, or all pairs at the \
         start",
        "on-demand or static";
    VerbsRetry: "LIMIC_VERBS_RETRY_MS", "verbs_retry_ms", Verbs,
        "least milliseconds for which adapters repeat what a peer does not acknowledge, before \
         the peer counts as lost",
        "10 to 600000 milliseconds";
}

#[cfg(test)]
mod tests {
    use super::*;
    use limic_policy::Path;

    #[test]
    fn keys_of_files_are_named_as_the_variables() {
        for key in Key::ALL {
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
