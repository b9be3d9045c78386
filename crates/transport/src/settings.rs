//! Everything that an endpoint can be told, and where each value comes from.
//!
//! Later ones win: built-in values, the host's profile, the TOML file of `LIMIC_CONFIG`, the
//! environment (`LIMIC_*`), the application ([`Settings::builder`]). Byte counts take the suffixes
//! K, M and G (1024-based). [`Settings::variables`] lists every variable with its meaning and its
//! present value.
//!
//! The profile is what `limic tune` measured on this host ([`default_profile`], or `LIMIC_PROFILE`, where `off` is none). One
//! that cannot be used, because it is broken or of another machine, is left aside with a warning.
//!
//! Profile and configuration are files of one format, but for the tables `[profile]` and `[machine]` of the former: the names of the variables without `LIMIC_`
//! in lower case, and rows of the policy table, which hold up to the longest length that they name
//! for their locality and situation; above it the table stays as it was.
//!
//! ```toml
//! eager_max = "16K"
//! paths = ["inline", "eager", "pipeline"]
//! long = "cma"
//!
//! [[rows]]
//! locality = "shared-cache"  # or self, same-process, same-package, other-package
//! when = "usual"             # or skewed, loaned; usual if left out
//! up_to = "256K"             # bytes, inclusive; or unlimited
//! path = "pipeline"
//! chunk = "32K"              # built-in if left out
//! reason = "measured"        # printed with the table
//! ```

#![forbid(unsafe_code)]

mod builder;
mod environment;
mod error;
mod file;
mod keys;
mod profile;
mod verbs;

use core::fmt;
use core::time::Duration;
use std::path::{Path as FilePath, PathBuf};

use crate::counters::at_end::Target;
use crate::policy::{ByteSize, HandOver, Locality, Path, PathSet, RowSource, Table, When};

pub use builder::SettingsBuilder;
pub use error::SettingsError;
pub use profile::{MachineKey, PROFILE_VERSION, default_profile};
pub use verbs::{VerbsCache, VerbsConnect, VerbsSettings, VerbsUse};

use keys::{Key, Layer, Value};

/// How long a waiting endpoint polls before it yields and then sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Spin {
    /// Long if every rank has a core of its own, not at all if there are more ranks than cores.
    #[default]
    Auto,
    /// This long; zero yields at once.
    For(Duration),
}

impl fmt::Display for Spin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::For(time) => write!(f, "{}", time.as_micros()),
        }
    }
}

/// How much of everything the shared segment of an endpoint has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentSettings {
    /// Private rings, each for one peer that talks a lot: 0 to 1024 (`LIMIC_PRIVATE_RINGS`).
    pub private_rings: u32,
    /// Payload bytes of each private ring: a power of two, 4 KiB to 16 MiB (`LIMIC_RING_BYTES`).
    pub ring_bytes: u32,
    /// Slots of the ring that all peers share: a power of two, 8 to 65536 (`LIMIC_SHARED_SLOTS`).
    pub shared_slots: u32,
    /// Chunks of the pool for pipelines and loans: 0 to 4096 (`LIMIC_CHUNKS`).
    pub chunks: u32,
    /// Bytes of each chunk: a power of two, 4 KiB to 16 MiB (`LIMIC_CHUNK_BYTES`). Unless it is set,
    /// it is large enough for the longest pipeline chunk of the policy table.
    pub chunk_bytes: u32,
}

impl Default for SegmentSettings {
    fn default() -> Self {
        Self {
            private_rings: 16,
            ring_bytes: 64 << 10,
            shared_slots: 1024,
            chunks: 32,
            chunk_bytes: 32 << 10,
        }
    }
}

/// One variable, for `limic info`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Variable {
    /// Its name in the environment.
    pub name: &'static str,
    /// Its name in a TOML file; empty for those that name the files.
    pub key: &'static str,
    /// What it does, with its unit.
    pub meaning: &'static str,
    /// What it accepts.
    pub accepted: &'static str,
    /// Its present value.
    pub value: String,
    /// Where the value comes from.
    pub source: String,
}

/// Everything that an endpoint can be told.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    policy: Table,
    allowed: PathSet,
    segment: SegmentSettings,
    spin: Spin,
    huge_pages: bool,
    numa_node: Option<u32>,
    unexpected_budget_bytes: u64,
    loan_bytes: u64,
    pipeline_window: u32,
    linger: Duration,
    skew: bool,
    adapt: bool,
    hand_over: HandOver,
    stats: Option<String>,
    kernel_group: Option<String>,
    verbs: VerbsSettings,
    /// Where each key was last set, in the order of [`Key::ALL`].
    sources: [RowSource; Key::ALL.len()],
    profile: Option<PathBuf>,
    config: Option<PathBuf>,
    warnings: Vec<String>,
}

impl Default for Settings {
    /// The built-in values alone: no file and no environment.
    fn default() -> Self {
        Self {
            policy: Table::built_in(),
            allowed: PathSet::ALL,
            segment: SegmentSettings::default(),
            spin: Spin::Auto,
            huge_pages: true,
            numa_node: None,
            unexpected_budget_bytes: 64 << 20,
            loan_bytes: 1 << 30,
            pipeline_window: 8,
            linger: Duration::from_secs(1),
            skew: true,
            adapt: true,
            hand_over: HandOver::Measured,
            stats: None,
            kernel_group: None,
            verbs: VerbsSettings::default(),
            sources: [const { RowSource::BuiltIn }; Key::ALL.len()],
            profile: None,
            config: None,
            warnings: Vec::new(),
        }
    }
}

impl Settings {
    /// What profile, TOML file and environment say. An unknown `LIMIC_` variable is logged once as
    /// a warning, with the nearest known name.
    ///
    /// # Errors
    /// [`SettingsError`]: what is wrong, where, and what is accepted.
    pub fn from_environment() -> Result<Self, SettingsError> {
        Self::builder().build()
    }

    /// To set values that win over everything else.
    pub fn builder() -> SettingsBuilder {
        SettingsBuilder::default()
    }

    /// The policy table (`LIMIC_INLINE_MAX`, `LIMIC_EAGER_MAX`, `LIMIC_PIPELINE_CHUNK`,
    /// `LIMIC_LONG`, and the rows of profile and file).
    #[must_use]
    pub fn policy(&self) -> &Table {
        &self.policy
    }

    /// The paths that may be used (`LIMIC_PATHS`); all by default, and always [`Path::SelfCopy`].
    #[must_use]
    pub fn allowed(&self) -> PathSet {
        self.allowed
    }

    /// The shape of the endpoint's shared segment.
    #[must_use]
    pub fn segment(&self) -> SegmentSettings {
        self.segment
    }

    /// How long a waiting endpoint polls (`LIMIC_SPIN_US`, microseconds or `auto`).
    #[must_use]
    pub fn spin(&self) -> Spin {
        self.spin
    }

    /// Whether to ask for huge pages for the segment (`LIMIC_HUGE_PAGES`); yes by default. If they
    /// are not granted, ordinary pages serve.
    #[must_use]
    pub fn huge_pages(&self) -> bool {
        self.huge_pages
    }

    /// The NUMA node for the segment's memory (`LIMIC_NUMA_NODE`). `None`, the default: the node
    /// on which the endpoint runs.
    #[must_use]
    pub fn numa_node(&self) -> Option<u32> {
        self.numa_node
    }

    /// Bytes of unexpected messages that an endpoint keeps before it holds its senders back
    /// (`LIMIC_UNEXPECTED_BYTES`); 64 MiB by default.
    #[must_use]
    pub fn unexpected_budget_bytes(&self) -> u64 {
        self.unexpected_budget_bytes
    }

    /// Most bytes of shared memory that an endpoint makes for loans (`LIMIC_LOAN_BYTES`); 1 GiB by
    /// default. The memory is made as loans are asked for.
    #[must_use]
    pub fn loan_bytes(&self) -> u64 {
        self.loan_bytes
    }

    /// Most pipeline chunks on their way to one peer (`LIMIC_PIPELINE_WINDOW`): enough to keep both
    /// sides at work, few enough to stay in the cache.
    #[must_use]
    pub fn pipeline_window(&self) -> u32 {
        self.pipeline_window
    }

    /// How long a closing endpoint waits for peers to take what was sent (`LIMIC_LINGER_MS`).
    #[must_use]
    pub fn linger(&self) -> Duration {
        self.linger
    }

    /// Whether messages go ahead of receivers that lag behind, and whether this endpoint tells its senders when it does
    /// (`LIMIC_SKEW`); yes by default.
    #[must_use]
    pub fn skew(&self) -> bool {
        self.skew
    }

    /// Whether long messages that this endpoint receives are measured, and take another path than the policy's table
    /// says where that is faster (`LIMIC_ADAPT`); yes by default. Paths that a file, the environment or the
    /// application asks for stand in any case.
    #[must_use]
    pub fn adapt(&self) -> bool {
        self.adapt
    }

    /// Where the locality of two processes comes from (`LIMIC_HANDOVER`): the hand-over of a cache line, measured while
    /// messages flow, by default.
    #[must_use]
    pub fn hand_over(&self) -> HandOver {
        self.hand_over
    }

    /// Where an endpoint's counters go when it closes, or when its process ends normally before that
    /// (`LIMIC_STATS`): nowhere by default.
    pub(crate) fn stats(&self) -> Option<Target> {
        self.stats.as_deref().map(Target::of_setting)
    }

    /// The group of the kernel module that a [`KernelEndpoint`](crate::KernelEndpoint) joins (`LIMIC_KERNEL_GROUP`):
    /// `fd:N`, or a word that the job's ranks share. `None`, the default: the launcher's job.
    #[must_use]
    pub fn kernel_group(&self) -> Option<&str> {
        self.kernel_group.as_deref()
    }

    /// How verbs are used (`LIMIC_VERBS`, `LIMIC_VERBS_*`).
    #[must_use]
    pub fn verbs(&self) -> VerbsSettings {
        self.verbs.clone()
    }

    /// Polls of an endpoint in vain before it yields its core, with so many endpoints that talk to
    /// each other on the node (this one included).
    pub(crate) fn spin_polls(&self, endpoints: u32) -> u32 {
        /// A poll in vain takes about 20 to 40 ns.
        const POLLS_PER_US: u64 = 30;
        static CPUS: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
        match self.spin {
            Spin::For(time) => {
                let polls = (time.as_micros() as u64).saturating_mul(POLLS_PER_US);
                u32::try_from(polls).unwrap_or(u32::MAX)
            }
            Spin::Auto => {
                let cpus = *CPUS.get_or_init(|| {
                    std::thread::available_parallelism()
                        .map_or(1, |n| n.get() as u32)
                        .max(all_cpus())
                });
                let endpoints = endpoints.max(ranks_of_this_node());
                // A peer that waits for a core cannot answer while this endpoint spins on it.
                if endpoints > cpus { 2 } else { 20_000 }
            }
        }
    }

    /// With every peer reached over verbs.
    #[cfg(feature = "ibverbs")]
    pub(crate) fn over_verbs_only(mut self) -> Self {
        self.verbs.used = VerbsUse::Only;
        self
    }

    /// With no peer reached over verbs.
    pub(crate) fn without_verbs(mut self) -> Self {
        self.verbs.used = VerbsUse::Off;
        self
    }

    /// The same settings with fewer paths.
    #[must_use]
    pub fn restricted_to(mut self, paths: PathSet) -> Self {
        self.allowed = self.allowed.and(paths).with(Path::SelfCopy);
        self
    }

    /// The profile that was read, if there was one.
    #[must_use]
    pub fn profile(&self) -> Option<&FilePath> {
        self.profile.as_deref()
    }

    /// What is odd but does no harm, one line each. Already logged.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Every variable with its meaning, its present value and where that comes from.
    #[must_use]
    pub fn variables(&self) -> Vec<Variable> {
        let files = [
            (&keys::CONFIG, &self.config),
            (&keys::PROFILE, &self.profile),
        ];
        let files = files.into_iter().map(|(file, path)| Variable {
            name: file.variable,
            key: "",
            meaning: file.meaning,
            accepted: "the path of a TOML file",
            value: path
                .as_ref()
                .map_or_else(|| "none".to_owned(), |p| p.display().to_string()),
            source: match path {
                Some(_) => "environment or default place".to_owned(),
                None => RowSource::BuiltIn.to_string(),
            },
        });
        let keys = Key::ALL.into_iter().map(|key| {
            let info = key.info();
            Variable {
                name: info.variable,
                key: info.toml,
                meaning: info.meaning,
                accepted: info.accepted,
                value: self.value(key),
                source: self.sources[key as usize].to_string(),
            }
        });
        files.chain(keys).collect()
    }

    fn value(&self, key: Key) -> String {
        let bytes = |n: u32| ByteSize(u64::from(n)).to_string();
        match key {
            Key::InlineMax => self.limit(|r| (r.path == Path::Inline).then_some(r.up_to_bytes)),
            Key::EagerMax => self.limit(|r| (r.path == Path::Eager).then_some(r.up_to_bytes)),
            Key::PipelineChunk => self.each_locality(|run| {
                let locality = run.first()?.locality;
                Some(bytes(self.policy.chunk_bytes(Path::Pipeline, locality)))
            }),
            Key::Long => self.each_locality(|run| run.last().map(|row| row.path.to_string())),
            Key::Paths => self.allowed.to_string(),
            Key::PrivateRings => self.segment.private_rings.to_string(),
            Key::RingBytes => bytes(self.segment.ring_bytes),
            Key::SharedSlots => self.segment.shared_slots.to_string(),
            Key::Chunks => self.segment.chunks.to_string(),
            Key::ChunkBytes => bytes(self.segment.chunk_bytes),
            Key::Spin => self.spin.to_string(),
            Key::HugePages => if self.huge_pages { "yes" } else { "no" }.to_owned(),
            Key::NumaNode => self
                .numa_node
                .map_or_else(|| "auto".to_owned(), |n| n.to_string()),
            Key::Unexpected => ByteSize(self.unexpected_budget_bytes).to_string(),
            Key::Loan => ByteSize(self.loan_bytes).to_string(),
            Key::Window => self.pipeline_window.to_string(),
            Key::Linger => self.linger.as_millis().to_string(),
            Key::Skew => on_off(self.skew),
            Key::Adapt => on_off(self.adapt),
            Key::KernelGroup => {
                let group = self.kernel_group.clone();
                group.unwrap_or_else(|| "auto".to_owned())
            }
            Key::HandOver => self.hand_over.to_string(),
            Key::Stats => self.stats.clone().unwrap_or_else(|| "none".to_owned()),
            Key::Verbs => self.verbs.used.to_string(),
            Key::VerbsStreams => self.verbs.streams.to_string(),
            Key::VerbsEntries => self.verbs.entries.to_string(),
            Key::VerbsCoalesce => on_off(self.verbs.coalesce),
            Key::VerbsDevices if self.verbs.devices.is_empty() => "auto".to_owned(),
            Key::VerbsDevices => self.verbs.devices.join(","),
            Key::VerbsRings => self.verbs.rings.to_string(),
            Key::VerbsCache => self.verbs.cache.to_string(),
            Key::VerbsConnect => self.verbs.connect.to_string(),
        }
    }

    /// A length of the policy table for each locality.
    fn limit(&self, of: impl Fn(&crate::policy::Row) -> Option<u64>) -> String {
        self.each_locality(|run| {
            run.iter()
                .filter_map(&of)
                .max()
                .map(|bytes| ByteSize(bytes).to_string())
        })
    }

    /// One text if it is the same between all processes, else one for each locality.
    fn each_locality(&self, of: impl Fn(&[crate::policy::Row]) -> Option<String>) -> String {
        let texts = Locality::BETWEEN_PROCESSES.map(|locality| {
            of(self.policy.run(locality, When::Usual)).unwrap_or_else(|| "none".to_owned())
        });
        if texts.iter().all(|text| *text == texts[0]) {
            return texts[0].clone();
        }
        let named = texts
            .iter()
            .zip(Locality::BETWEEN_PROCESSES)
            .map(|(t, l)| format!("{t} {l}"));
        named.collect::<Vec<_>>().join(", ")
    }

    /// Lays one layer over what there is: rows first, then the values, in the order of their keys.
    fn apply(&mut self, layer: Layer) -> Result<(), SettingsError> {
        if !layer.rows.is_empty() {
            self.policy =
                self.policy
                    .overlaid(layer.rows)
                    .map_err(|source| SettingsError::Rows {
                        place: layer.place,
                        source,
                    })?;
        }
        let mut values = layer.values;
        values.sort_by_key(|(key, _, _)| *key);
        for (key, value, source) in values {
            self.set(key, value, &source);
            self.sources[key as usize] = source;
        }
        Ok(())
    }

    /// Values have been checked against their key.
    fn set(&mut self, key: Key, value: Value, source: &RowSource) {
        let segment = &mut self.segment;
        match (key, value) {
            (Key::InlineMax, Value::Number(n)) => {
                self.policy = self.policy.with_inline_max(n, source);
            }
            (Key::EagerMax, Value::Number(n)) => {
                self.policy = self.policy.with_eager_max(n, source);
            }
            (Key::PipelineChunk, Value::Number(n)) => {
                self.policy = self.policy.with_pipeline_chunk(small(n), source);
            }
            (Key::Long, Value::Path(path)) => {
                self.policy = self.policy.with_long_path(path, source);
            }
            (Key::Paths, Value::Paths(paths)) => self.allowed = paths.with(Path::SelfCopy),
            (Key::PrivateRings, Value::Number(n)) => segment.private_rings = small(n),
            (Key::RingBytes, Value::Number(n)) => segment.ring_bytes = small(n),
            (Key::SharedSlots, Value::Number(n)) => segment.shared_slots = small(n),
            (Key::Chunks, Value::Number(n)) => segment.chunks = small(n),
            (Key::ChunkBytes, Value::Number(n)) => segment.chunk_bytes = small(n),
            (Key::Spin, Value::Spin(spin)) => self.spin = spin,
            (Key::HugePages, Value::Flag(wanted)) => self.huge_pages = wanted,
            (Key::NumaNode, Value::Node(node)) => self.numa_node = node,
            (Key::Unexpected, Value::Number(n)) => self.unexpected_budget_bytes = n,
            (Key::Loan, Value::Number(n)) => self.loan_bytes = n,
            (Key::Window, Value::Number(n)) => self.pipeline_window = n as u32,
            (Key::Linger, Value::Number(n)) => self.linger = Duration::from_millis(n),
            (Key::Skew, Value::Flag(wanted)) => self.skew = wanted,
            (Key::Adapt, Value::Flag(wanted)) => self.adapt = wanted,
            (Key::KernelGroup, Value::Text(text)) => self.kernel_group = text,
            (Key::HandOver, Value::HandOver(wanted)) => self.hand_over = wanted,
            (Key::Stats, Value::Text(text)) => self.stats = text,
            (Key::Verbs, Value::Verbs(used)) => self.verbs.used = used,
            (Key::VerbsStreams, Value::Number(n)) => self.verbs.streams = n as u8,
            (Key::VerbsEntries, Value::Number(n)) => self.verbs.entries = n as u16,
            (Key::VerbsCoalesce, Value::Flag(wanted)) => self.verbs.coalesce = wanted,
            (Key::VerbsDevices, Value::Text(list)) => {
                self.verbs.devices = list
                    .and_then(|list| verbs::devices(&list))
                    .unwrap_or_default();
            }
            (Key::VerbsRings, Value::Number(n)) => self.verbs.rings = n as u16,
            (Key::VerbsCache, Value::Cache(kept)) => self.verbs.cache = kept,
            (Key::VerbsConnect, Value::Connect(when)) => self.verbs.connect = when,
            (key, value) => debug_assert!(false, "{key:?} cannot be {value:?}"),
        }
    }

    /// What follows from the values once all of them are known.
    fn finish(&mut self) {
        if self.sources[Key::ChunkBytes as usize] == RowSource::BuiltIn {
            let longest = self.policy.longest_pipeline_chunk().next_power_of_two();
            self.segment.chunk_bytes = self.segment.chunk_bytes.max(longest);
        }
        let long = [Path::Pipeline, Path::Cma, Path::BothSides, Path::Kmod];
        if !long.into_iter().any(|path| self.allowed.contains(path)) {
            self.warnings.push(format!(
                "the allowed paths ({}) carry no long messages: those will fail with 'no path'; add pipeline, cma, both-sides or kmod to LIMIC_PATHS",
                self.allowed
            ));
        }
    }
}

fn on_off(flag: bool) -> String {
    if flag { "on" } else { "off" }.to_owned()
}

/// Numbers of the segment's shape were checked to be far below 2^32.
fn small(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[path = "settings/tests.rs"]
mod tests;

/// Ranks that the launcher started on this node, as far as it says: an endpoint may know only a few of them.
fn ranks_of_this_node() -> u32 {
    static RANKS: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let told = |name: &&str| std::env::var(name).ok()?.parse::<u32>().ok();
    *RANKS.get_or_init(|| {
        [
            "LIMIC_LOCAL_SIZE",
            "MPI_LOCALNRANKS",
            "OMPI_COMM_WORLD_LOCAL_SIZE",
        ]
        .iter()
        .find_map(told)
        .unwrap_or(1)
    })
}

/// CPUs of the machine, bound or not: a rank that is bound to one core still has the others' company.
fn all_cpus() -> u32 {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    text.trim()
        .split(',')
        .filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some(last.parse::<u32>().ok()? - first.parse::<u32>().ok()? + 1)
        })
        .sum()
}
