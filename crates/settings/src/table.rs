//! The settings: each in one place.
//!
//! A row of `values` says in this order: the name of its `Key`, its group, its variable, and its
//! key in a file; the field, its type, its default and its form (`forms`); its meaning; and what it
//! accepts. Builder and `Settings` have a method of the field's name. That of `Settings` is public
//! if the row says `pub`, and a text after the row is added to its documentation.
//!
//! A row of `edits` has no field and no default. It names the method that edits the policy table,
//! and a function that shows what the table then holds. Only the builder has a method for it.

use core::time::Duration;

use limic_policy::{
    INLINE_CAPACITY, LineLatency, MAX_FRAGMENT, MIN_FRAGMENT, PIPELINE_FRAGMENT, Path, PathSet,
};
use limic_shm::segment::Shape;

use crate::entry::{Entry, settings};
use crate::forms::{Bytes, Count, Flag, Form, Millis, Or, Paths, Plain};
use crate::verbs::{PartitionKey, devices};
use crate::{
    CopyInstructions, FabricUse, Group, OfiReads, SegmentSettings, Settings, SettingsBuilder, Spin,
    TcpSettings, VerbsCache, VerbsConnect, VerbsSettings,
};

/// A text that may be none. The macros know it by this name: it is given as `Option<&str>`, and
/// taken as `&str`.
type Text = Option<String>;
/// A number that may be none: the type of a row is one word.
type Number = Option<u32>;
/// A partition that may be none.
type Partition = Option<u16>;

fn is_area(bytes: u64) -> bool {
    bytes.is_power_of_two() && (4 << 10..=16 << 20).contains(&bytes)
}

fn is_fragment(bytes: u64) -> bool {
    (MIN_FRAGMENT.into()..=MAX_FRAGMENT.into()).contains(&bytes) && bytes % 64 == 0
}

fn is_mtu(bytes: &u32) -> bool {
    bytes.is_power_of_two() && (256..=4096).contains(bytes)
}

fn is_kernel_group(text: &str) -> bool {
    let descriptor = text.strip_prefix("fd:");
    !text.is_empty() && descriptor.is_none_or(|fd| fd.parse::<u16>().is_ok())
}

settings! {
    // Rows that edit the policy table by this method of its own, in the order in which they do;
    // last, what the table then holds.
    edits {
        Long: Paths "LIMIC_LONG" "long",
        long_path: Path = with_long_path, Plain(|path: &Path| path.is_rendezvous()),
        |settings| settings.each_locality(|run| run.last().map(|row| row.path.to_string())),
        "path of long messages between processes",
        "pipeline, cma, split-copy or kmod";

        InlineMax: Paths "LIMIC_INLINE_MAX" "inline_max",
        inline_max: u64 = with_inline_max, Bytes(|n| n <= INLINE_CAPACITY),
        |settings| settings.longest(Path::Inline),
        "bytes of the longest message that goes inline",
        "0 to 48 bytes, which a slot's first cache line holds";

        EagerMax: Paths "LIMIC_EAGER_MAX" "eager_max",
        eager_max: u64 = with_eager_max, Bytes(|_| true),
        |settings| settings.longest(Path::Eager),
        "bytes of the longest message that goes eagerly; more than 64K counts as 64K",
        "a number of bytes (suffix K, M or G), or unlimited";
    }
    values {
        Paths: Paths "LIMIC_PATHS" "paths",
        pub allowed: PathSet = PathSet::ALL, Paths,
        "paths that may be used; self always may. By cma and split-copy a process reads a peer's \
         memory. If a program serves that memory (userfaultfd, FUSE), the read waits for it, if \
         need be for ever: leave both out where peers are not trusted",
        "a list of self, process, inline, eager, pipeline, cma, split-copy, loan, kmod, \
         peer-readable; or all (LIMIC_FABRIC says which networks are used)";

        PrivateRings: Memory "LIMIC_PRIVATE_RINGS" "private_rings",
        private_rings: u32 = Shape::DEFAULT.private_rings, Count(0..=1024),
        "rings of an endpoint for single peers that send a lot",
        "0 to 1024";

        RingBytes: Memory "LIMIC_RING_BYTES" "ring_bytes",
        ring_bytes: u32 = Shape::DEFAULT.ring_bytes, Bytes(is_area),
        "payload bytes of a private ring",
        "a power of two of bytes from 4K to 16M";

        SharedSlots: Memory "LIMIC_SHARED_SLOTS" "shared_slots",
        shared_slots: u32 = Shape::DEFAULT.shared_slots,
            Plain(|n: &u32| n.is_power_of_two() && (8..=65536).contains(n)),
        "slots of an endpoint's ring for all other peers",
        "a power of two from 8 to 65536";

        StagingBuffers: Memory "LIMIC_STAGING_BUFFERS" "staging_buffers",
        staging_buffers: u32 = Shape::DEFAULT.staging_buffers, Count(1..=4096),
        "staging buffers of an endpoint, through which fragments of messages go",
        "1 to 4096";

        StagingBufferBytes: Memory "LIMIC_STAGING_BUFFER_BYTES" "staging_buffer_bytes",
        staging_buffer_bytes: u32 = Shape::DEFAULT.staging_buffer_bytes, Bytes(is_area),
        "bytes of a staging buffer; at least a fragment of a pipeline if this is not set",
        "a power of two of bytes from 4K to 16M";

        Spin: Waiting "LIMIC_SPIN_US" "spin_us",
        pub spin: Spin = Spin::Auto,
            Plain(|spin: &Spin| !matches!(spin, Spin::For(time) if time.as_micros() > 60_000_000)),
        "microseconds that a waiting endpoint polls before it yields and sleeps",
        "auto, or 0 to 60000000 microseconds";

        HugePages: Memory "LIMIC_HUGE_PAGES" "huge_pages",
        pub huge_pages: bool = true, Flag(["no", "yes"]),
        "whether to ask for huge pages for the segment; ordinary pages serve where there are \
         none",
        "yes or no";

        NumaNode: Memory "LIMIC_NUMA_NODE" "numa_node",
        pub numa_node: Number = None, Or("auto", |node: &u32| *node <= 65533),
        "NUMA node of the segment; auto is the node on which the endpoint runs",
        "auto, or the number of a node from 0 to 65533";

        Unexpected: Memory "LIMIC_UNEXPECTED_BYTES" "unexpected_bytes",
        pub unexpected_budget_bytes: u64 = 64 << 20, Bytes(|n| n >= 64 << 10),
        "bytes of unexpected messages, each with some 256 for itself, that an endpoint keeps \
         before it asks senders to wait with long ones. Beyond 16 times as many, all messages of \
         a peer that sent more than its share wait in its ring until some are received. Beyond 32 \
         times as many, such a peer without a ring of its own is given up, and loans that a peer \
         left when it closed or died are lost",
        "64K or more bytes (suffix K, M or G), or unlimited";

        Loan: Memory "LIMIC_LOAN_BYTES" "loan_bytes",
        pub loan_bytes: u64 = 1 << 30, Bytes(|n| n >= 1 << 20),
        "most bytes of shared memory that an endpoint makes for loans",
        "1M or more bytes (suffix K, M or G), or unlimited";
        "The memory is made as loans are asked for.";

        PipelineFragment: Paths "LIMIC_PIPELINE_FRAGMENT" "pipeline_fragment",
        pub pipeline_fragment: u32 = PIPELINE_FRAGMENT, Bytes(is_fragment),
        "bytes of a fragment of a pipelined message",
        "1K to 16M bytes, a multiple of 64";

        Window: Paths "LIMIC_PIPELINE_WINDOW" "pipeline_window",
        pub pipeline_window: u32 = 32, Count(2..=4096),
        "most fragments of pipelined messages on their way to one peer",
        "2 to 4096";
        "The default is enough for a sender to go on while its receiver is held up for some \
         microseconds.";

        Linger: Waiting "LIMIC_LINGER_MS" "linger_ms",
        pub linger: Duration = Duration::from_secs(1), Millis(0..=3_600_000),
        "milliseconds that a closing endpoint waits for peers to take what was sent",
        "0 to 3600000 milliseconds";

        Patience: Waiting "LIMIC_PATIENCE_MS" "patience_ms",
        pub patience: Duration = Duration::from_secs(30), Millis(0..=3_600_000),
        "milliseconds after which one line on standard error says what a call waits for, or a \
         caller that polls in vain; 0 never",
        "0 to 3600000 milliseconds";

        Skew: Paths "LIMIC_SKEW" "skew",
        pub skew: bool = true, Flag(["off", "on"]),
        "whether messages are sent ahead to slow receivers, instead of waiting for them",
        "on or off";
        "It also says whether this endpoint tells its senders when it is slow itself.";

        Autotune: Paths "LIMIC_AUTOTUNE" "autotune",
        pub autotune: bool = true, Flag(["off", "on"]),
        "whether long messages are measured, and take another path than the table's where it is \
         faster",
        "on or off";
        "Paths that a file, the environment or the application asks for stand in any case. Nothing \
         is measured while a node has more endpoints than CPUs. While messages go both ways, \
         cross-memory attach takes the place of split copies, up to 512 KiB.";

        LineLatency: Paths "LIMIC_LINE_LATENCY" "line_latency",
        pub line_latency: LineLatency = LineLatency::Measured, Plain(|_: &LineLatency| true),
        "how far apart two processes are: by the measured latency of a cache line between them, \
         or as the topology says",
        "measured, topology, or nanoseconds one way in place of the measurement";

        Copy: Paths "LIMIC_COPY" "copy",
        pub copy: CopyInstructions = CopyInstructions::Auto, Plain(|_: &CopyInstructions| true),
        "instructions for copies of 8 KiB and more, in the whole process: the endpoint that was \
         opened last decides. auto takes what is faster between cores of this processor",
        "auto, vector or rep-movsb";

        Stats: Observation "LIMIC_STATS" "stats",
        pub stats: Text = None, Or("none", |text: &String| !text.is_empty()),
        "where an endpoint's counters go when it closes; a file gets JSON if its name ends in \
         .json",
        "none, stderr, or the path of a file: %p in it is the process, %r the rank";

        Fabric: Networks "LIMIC_FABRIC" "fabric",
        pub fabric: FabricUse = FabricUse::Auto, Plain(|_: &FabricUse| true),
        "networks that lead to peers on other machines: auto is verbs where both sides have an \
         adapter, or libfabric where both have one without verbs, else TCP. With verbs-only, \
         tcp-only and ofi-only, peers on this machine are reached so too",
        "auto, verbs, tcp, ofi, off, verbs-only, tcp-only or ofi-only";

        OfiProvider: Networks "LIMIC_OFI_PROVIDER" "ofi_provider",
        pub ofi_provider: Text = None, Or("auto", |text: &String| !text.is_empty()),
        "provider of libfabric, the same in all ranks; auto is the first one that serves",
        "auto, or a name as fi_info -t FI_EP_RDM shows them";

        OfiReads: Networks "LIMIC_OFI_READS" "ofi_reads",
        pub ofi_reads: OfiReads = OfiReads::Auto, Plain(|_: &OfiReads| true),
        "whether long messages over libfabric are read out of the memory of their senders; auto \
         is where the provider's adapters do that by themselves, and libfabric is told to end \
         registrations with their messages",
        "auto, on or off";

        TcpInterface: Networks "LIMIC_TCP_INTERFACE" "tcp_interface",
        tcp_interface: Text = None, Or("auto", |text: &String| !text.is_empty()),
        "interface over which peers reach this endpoint; auto is the one that leads to other \
         networks",
        "auto, or the name or the address of an interface that is up";

        TcpTimeout: Networks "LIMIC_TCP_TIMEOUT_MS" "tcp_timeout_ms",
        tcp_timeout: Duration = Duration::from_secs(30), Millis(1000..=3_600_000),
        "milliseconds without an answer from a machine after which its peers count as lost; over \
         libfabric, milliseconds in which it takes nothing",
        "1000 to 3600000 milliseconds";

        VerbsStreams: Verbs "LIMIC_VERBS_STREAMS" "verbs_streams",
        verbs_streams: u8 = 1, Count(1..=8),
        "queue pairs to each peer; the same in all ranks",
        "1 to 8";

        VerbsEntries: Verbs "LIMIC_VERBS_ENTRIES" "verbs_entries",
        verbs_entries: u16 = 10, Count(2..=4096),
        "entries of each send queue, on which the memory of a connection depends",
        "2 to 4096";

        VerbsCoalesce: Verbs "LIMIC_VERBS_COALESCE" "verbs_coalesce",
        verbs_coalesce: bool = true, Flag(["off", "on"]),
        "whether messages share packets while no entry is free",
        "on or off";

        KernelGroup: KernelModule "LIMIC_KERNEL_GROUP" "kernel_group",
        pub kernel_group: Text = None, Or("auto", |text: &String| is_kernel_group(text)),
        "group of the kernel module that endpoints join; auto is the launcher's job",
        "auto, fd:N for the group of an open /dev/limic, or a word that the job's ranks share";

        VerbsDevices: Verbs "LIMIC_VERBS_DEVICES" "verbs_devices",
        verbs_devices: Text = None, Or("auto", |list: &String| devices(list).is_some()),
        "adapters, to which the queue pairs to a peer are dealt out; auto is the nearest to the \
         process's CPUs with a port that is up",
        "auto, or one or two names with commas between, each NAME or NAME:PORT";

        VerbsRings: Verbs "LIMIC_VERBS_RINGS" "verbs_rings",
        verbs_rings: u16 = 32, Count(0..=1024),
        "most peers that send a lot and may write into a ring which this endpoint polls",
        "0 to 1024";

        VerbsCache: Verbs "LIMIC_VERBS_CACHE" "verbs_cache",
        verbs_cache: VerbsCache = VerbsCache::Auto, Plain(|_: &VerbsCache| true),
        "whether the memory of long messages stays registered after they have gone, so that later \
         ones need not register it. Peers can read it meanwhile. auto is yes on adapters with \
         on-demand paging; watch is yes on all, with a thread that notices when memory is unmapped",
        "auto, off or watch";

        VerbsConnect: Verbs "LIMIC_VERBS_CONNECT" "verbs_connect",
        verbs_connect: VerbsConnect = VerbsConnect::OnDemand, Plain(|_: &VerbsConnect| true),
        "when ranks meet over any network, TCP too: each pair at its first message, or all pairs \
         at the start",
        "on-demand or static";

        VerbsRetry: Verbs "LIMIC_VERBS_RETRY_MS" "verbs_retry_ms",
        verbs_retry: Duration = Duration::from_secs(3), Millis(10..=600_000),
        "least milliseconds for which adapters repeat what a peer does not acknowledge, before \
         the peer counts as lost",
        "10 to 600000 milliseconds";

        VerbsGreeting: Verbs "LIMIC_VERBS_GREETING_MS" "verbs_greeting_ms",
        verbs_greeting: Duration = Duration::from_secs(300), Millis(100..=86_400_000),
        "milliseconds in which a peer has to answer at the first contact, before it counts as \
         unreachable: longer than any rank computes without a call",
        "100 to 86400000 milliseconds";

        VerbsGidIndex: Verbs "LIMIC_VERBS_GID_INDEX" "verbs_gid_index",
        verbs_gid_index: Number = None, Or("auto", |index: &u32| *index <= 255),
        "entry of an adapter's table of addresses (GIDs) at which peers reach it; auto is RoCE \
         version 2 before 1, and IPv4 before IPv6",
        "auto, or 0 to 255";

        VerbsPartition: Verbs "LIMIC_VERBS_PARTITION" "verbs_partition",
        verbs_partition: Partition = None, PartitionKey,
        "key of the partition that connections are in (P_Key), the same in all ranks; auto is the \
         first of the adapter's port",
        "auto, or a number from 0x0001 to 0xffff";

        VerbsServiceLevel: Verbs "LIMIC_VERBS_SERVICE_LEVEL" "verbs_service_level",
        verbs_service_level: u8 = 0, Count(0..=15),
        "service level of packets, by which InfiniBand chooses lanes and ways",
        "0 to 15";

        VerbsTrafficClass: Verbs "LIMIC_VERBS_TRAFFIC_CLASS" "verbs_traffic_class",
        verbs_traffic_class: u8 = 0, Count(0..=255),
        "traffic class of packets; over RoCE, four times the DSCP by which switches choose a \
         queue",
        "0 to 255";

        VerbsMtu: Verbs "LIMIC_VERBS_MTU" "verbs_mtu",
        verbs_mtu: Number = None, Or("auto", is_mtu),
        "most bytes of the network's packets; auto is what the adapter's port is set to, and the \
         smaller number of two ends holds",
        "auto, 256, 512, 1024, 2048 or 4096";
    }
}

impl Settings {
    /// The shape of the endpoint's shared segment.
    #[must_use]
    pub fn segment(&self) -> SegmentSettings {
        SegmentSettings {
            private_rings: self.private_rings(),
            ring_bytes: self.ring_bytes(),
            shared_slots: self.shared_slots(),
            staging_buffers: self.staging_buffers(),
            staging_buffer_bytes: self.staging_buffer_bytes(),
        }
    }

    /// How TCP is used (`LIMIC_TCP_*`).
    #[must_use]
    pub fn tcp(&self) -> TcpSettings {
        TcpSettings {
            interface: self.tcp_interface().map(str::to_owned),
            timeout: self.tcp_timeout(),
        }
    }

    /// How verbs are used (`LIMIC_VERBS_*`).
    #[must_use]
    pub fn verbs(&self) -> VerbsSettings {
        VerbsSettings {
            streams: self.verbs_streams(),
            entries: self.verbs_entries(),
            coalesce: self.verbs_coalesce(),
            devices: self.verbs_devices().and_then(devices).unwrap_or_default(),
            rings: self.verbs_rings(),
            cache: self.verbs_cache(),
            connect: self.verbs_connect(),
            retry: self.verbs_retry(),
            greeting: self.verbs_greeting(),
            gid_index: self.verbs_gid_index().map(|index| index as u8),
            partition: self.verbs_partition(),
            service_level: self.verbs_service_level(),
            traffic_class: self.verbs_traffic_class(),
            mtu: self.verbs_mtu(),
        }
    }
}

#[cfg(test)]
mod tests {
    use limic_policy::RowSource;

    use super::*;

    #[test]
    fn keys_of_files_are_named_as_the_variables() {
        for key in Key::ALL {
            let Entry { variable, toml, .. } = key.entry();
            assert_eq!(*variable, format!("LIMIC_{}", toml.to_ascii_uppercase()));
        }
    }

    #[test]
    fn the_accepted_paths_are_all_named() {
        for path in Path::settable() {
            let name = path.name();
            let named = |key: Key| {
                let mut words = key.entry().accepted.split([' ', ',', ';']);
                words.any(|word| word == name)
            };
            assert!(named(Key::Paths), "{name}");
            let is_long = (Key::Long.entry().accepts)(name);
            assert_eq!(named(Key::Long), is_long, "{name}");
        }
    }

    #[test]
    fn what_is_shown_is_accepted_and_shown_again() {
        for key in Key::ALL {
            let (entry, mut settings) = (key.entry(), Settings::default());
            let shown = (entry.show)(&settings);
            // Those of the policy table differ by locality.
            if !shown.contains(' ') {
                assert!((entry.accepts)(&shown), "{key:?} {shown}");
                (entry.set)(&mut settings, &shown, &RowSource::Application);
                assert_eq!((entry.show)(&settings), shown, "{key:?}");
            }
        }
    }

    #[test]
    fn ranges_are_kept() {
        for (key, good, bad) in [
            (Key::Long, "split-copy", "eager"),
            (Key::PipelineFragment, "1K", "1000"),
            (Key::InlineMax, "48", "49"),
            (Key::EagerMax, "unlimited", "-1"),
            (Key::Paths, "all", "alles"),
            (Key::PrivateRings, "0", "1025"),
            (Key::RingBytes, "64K", "65K"),
            (Key::SharedSlots, "8", "4"),
            (Key::StagingBuffers, "4096", "4097"),
            (Key::StagingBufferBytes, "16M", "32M"),
            (Key::Spin, "0", "60000001"),
            (Key::HugePages, "No", "maybe"),
            (Key::NumaNode, "auto", "65534"),
            (Key::Unexpected, "64K", "1K"),
            (Key::Loan, "1M", "1K"),
            (Key::Window, "2", "1"),
            (Key::Linger, "0", "-1"),
            (Key::Patience, "0", "3600001"),
            (Key::Skew, "off", "of"),
            (Key::Autotune, "on", "an"),
            (Key::LineLatency, "180", "far"),
            (Key::LineLatency, "Topology", "-1"),
            (Key::Copy, "rep-movsb", "rep"),
            (Key::Fabric, "TCP-only", "only"),
            (Key::OfiProvider, "tcp;ofi_rxm", ""),
            (Key::OfiReads, "ON", "1"),
            (Key::TcpInterface, "eth0", ""),
            (Key::TcpTimeout, "1000", "999"),
            (Key::VerbsStreams, "8", "9"),
            (Key::VerbsEntries, "2", "1"),
            (Key::VerbsCoalesce, "off", "2"),
            (Key::KernelGroup, "fd:3", "fd:x"),
            (Key::VerbsDevices, "mlx5_0:1,rxe0", "rxe0,"),
            (Key::VerbsDevices, "auto", "a,b,c"),
            (Key::VerbsDevices, "rxe0", "rxe0:x"),
            (Key::VerbsRings, "0", "1025"),
            (Key::VerbsRetry, "10", "9"),
            (Key::VerbsGreeting, "86400000", "86400001"),
            (Key::VerbsGidIndex, "255", "256"),
            (Key::VerbsPartition, "0x8001", "0x18001"),
            (Key::VerbsPartition, "auto", "0x8000"),
            (Key::VerbsServiceLevel, "15", "16"),
            (Key::VerbsTrafficClass, "255", "256"),
            (Key::VerbsMtu, "4096", "8192"),
            (Key::VerbsMtu, "auto", "1500"),
            (Key::VerbsCache, "watch", "256"),
            (Key::VerbsConnect, "static", "always"),
        ] {
            let accepts = key.entry().accepts;
            assert!(accepts(good), "{key:?} {good}");
            assert!(!accepts(bad), "{key:?} {bad}");
        }
    }
}
