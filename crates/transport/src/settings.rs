//! Everything that an endpoint can be told, and where each value comes from.
//!
//! Later ones win: built-in values, the host's profile, the TOML file of `LIMIC_CONFIG`, the
//! environment (`LIMIC_*`), the application ([`Settings::builder`]). Byte counts take the suffixes
//! K, M and G (1024-based). [`Settings::variables`] lists every variable with its meaning and its
//! present value.
//!
//! The profile is what `limic tune` measured on this host ([`default_profile`], or
//! `LIMIC_PROFILE`, where `off` is none). A profile that cannot be used, because it is broken or of
//! another machine, is left aside with a warning.
//!
//! Profile and configuration are files of one format, except that a profile has the tables
//! `[profile]` and `[machine]` too. Keys are the names of the variables without `LIMIC_`, in lower
//! case. Rows are those of the policy table: each holds up to the longest length that it names for
//! its locality and situation, and the table stays as it was for longer messages.
//!
//! ```toml
//! eager_max = "16K"
//! paths = ["inline", "eager", "pipeline"]
//! long = "cma"
//!
//! [[rows]]
//! locality = "shared-cache"  # or self, same-process, same-package, other-package
//! when = "usual"             # or slow-receiver; usual if left out
//! up_to = "256K"             # bytes, inclusive; or unlimited
//! path = "pipeline"
//! reason = "measured"        # printed with the table
//! ```

#![forbid(unsafe_code)]

mod apply;
mod builder;
mod copy;
mod environment;
mod error;
mod fabric;
mod file;
mod group;
mod keys;
mod names;
mod profile;
mod spin;
mod values;
mod variables;
mod verbs;

use core::time::Duration;
use std::path::{Path as FilePath, PathBuf};

use limic_policy::{
    Explanation, PIPELINE_FRAGMENT, Question, Receiver, ReceiverPace, RowSource, Table, explain,
    select,
};
use limic_shm::segment::Shape;

use crate::counters::exit_report::Target;

pub use builder::SettingsBuilder;
pub use copy::CopyInstructions;
pub use error::SettingsError;
pub use fabric::{FabricUse, TcpSettings};
pub use group::Group;
#[doc(inline)]
pub use limic_policy::{
    ByteSize, LineLatency, ParseByteSizeError, ParseLineLatencyError, ParsePathError, Path,
    PathSet, TableError,
};
pub use names::{OTHER_VARIABLES, OtherVariable};
pub use profile::{MachineKey, PROFILE_VERSION, default_profile};
pub use spin::Spin;
pub use variables::Variable;
pub use verbs::{VerbsCache, VerbsConnect, VerbsSettings};

use keys::Key;

/// How much of everything the shared segment of an endpoint has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentSettings {
    /// Private rings, each for one peer that sends a lot: 0 to 1024 (`LIMIC_PRIVATE_RINGS`).
    pub private_rings: u32,
    /// Payload bytes of each private ring: a power of two, 4 KiB to 16 MiB (`LIMIC_RING_BYTES`).
    pub ring_bytes: u32,
    /// Slots of the ring that all peers share: a power of two, 8 to 65536 (`LIMIC_SHARED_SLOTS`).
    pub shared_slots: u32,
    /// Staging buffers, through which fragments of messages go: 1 to 4096
    /// (`LIMIC_STAGING_BUFFERS`).
    pub staging_buffers: u32,
    /// Bytes of each staging buffer: a power of two, 4 KiB to 16 MiB
    /// (`LIMIC_STAGING_BUFFER_BYTES`). Unless it is set, it is large enough for the longest
    /// fragment of the policy table.
    pub staging_buffer_bytes: u32,
}

impl SegmentSettings {
    /// Longest message in bytes that can go eagerly between two endpoints, unless it answers
    /// another one: 64 KiB.
    #[must_use]
    pub const fn longest_eager_bytes(&self) -> u64 {
        limic_policy::select::LONGEST_EAGER
    }
}

impl Default for SegmentSettings {
    fn default() -> Self {
        Self {
            private_rings: Shape::DEFAULT.private_rings,
            ring_bytes: Shape::DEFAULT.ring_bytes,
            shared_slots: Shape::DEFAULT.shared_slots,
            staging_buffers: Shape::DEFAULT.staging_buffers,
            staging_buffer_bytes: Shape::DEFAULT.staging_buffer_bytes,
        }
    }
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
    pipeline_fragment: u32,
    pipeline_window: u32,
    linger: Duration,
    patience: Duration,
    skew: bool,
    autotune: bool,
    line_latency: LineLatency,
    copy: CopyInstructions,
    stats: Option<String>,
    kernel_group: Option<String>,
    fabric: FabricUse,
    tcp: TcpSettings,
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
            pipeline_fragment: PIPELINE_FRAGMENT,
            pipeline_window: 32,
            linger: Duration::from_secs(1),
            patience: Duration::from_secs(30),
            skew: true,
            autotune: true,
            line_latency: LineLatency::Measured,
            copy: CopyInstructions::Auto,
            stats: None,
            kernel_group: None,
            fabric: FabricUse::Auto,
            tcp: TcpSettings::default(),
            verbs: VerbsSettings::default(),
            sources: [const { RowSource::BuiltIn }; Key::ALL.len()],
            profile: None,
            config: None,
            warnings: Vec::new(),
        }
    }
}

impl Settings {
    /// What profile, TOML file and environment say. An unknown `LIMIC_` variable is a warning, with
    /// the known name that is like it. Each warning is said once in a process: to the subscriber of
    /// `tracing` that takes it, else on standard error, unless `LIMIC_LOG` is `off` or `error`.
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

    /// The policy table (`LIMIC_INLINE_MAX`, `LIMIC_EAGER_MAX`, `LIMIC_PIPELINE_FRAGMENT`,
    /// `LIMIC_LONG`, and the rows of profile and file).
    #[doc(hidden)]
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
    /// (`LIMIC_UNEXPECTED_BYTES`); 64 MiB by default. Each message counts with some 256 bytes for
    /// itself. Senders are asked to wait with long messages first; beyond 16 times as many bytes,
    /// all messages of a peer wait in its ring until some are received.
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

    /// Bytes of a fragment of a pipelined message (`LIMIC_PIPELINE_FRAGMENT`).
    #[must_use]
    pub fn pipeline_fragment(&self) -> u32 {
        self.pipeline_fragment
    }

    /// Most fragments of pipelined messages on their way to one peer (`LIMIC_PIPELINE_WINDOW`).
    /// The default is enough for a sender to go on while its receiver is held up for some
    /// microseconds.
    #[must_use]
    pub fn pipeline_window(&self) -> u32 {
        self.pipeline_window
    }

    /// How long a closing endpoint waits for peers to take what was sent (`LIMIC_LINGER_MS`).
    #[must_use]
    pub fn linger(&self) -> Duration {
        self.linger
    }

    /// After what time a blocking call says once, as a warning, what it waits for
    /// (`LIMIC_PATIENCE_MS`): the call, the tag and the peer; 30 s by default, 0 for never.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Whether messages are sent ahead to slow receivers, and whether this endpoint tells its
    /// senders when it is slow itself (`LIMIC_SKEW`); yes by default.
    #[must_use]
    pub fn skew(&self) -> bool {
        self.skew
    }

    /// Whether long messages that this endpoint receives are measured, and take another path than
    /// the policy table says where that is faster (`LIMIC_AUTOTUNE`); yes by default. Paths that a
    /// file, the environment or the application asks for stand in any case.
    #[must_use]
    pub fn autotune(&self) -> bool {
        self.autotune
    }

    /// Where the locality of two processes comes from (`LIMIC_LINE_LATENCY`): by default the
    /// latency of a cache line between them, measured while messages flow.
    #[must_use]
    pub fn line_latency(&self) -> LineLatency {
        self.line_latency
    }

    /// Instructions that copy what is long (`LIMIC_COPY`): those that suit the processor by
    /// default. They hold for the whole process: the endpoint that was opened last decides.
    #[must_use]
    pub fn copy(&self) -> CopyInstructions {
        self.copy
    }

    /// Where an endpoint's counters go when it closes, or when its process ends normally before
    /// that (`LIMIC_STATS`): nowhere by default.
    pub(crate) fn stats(&self) -> Option<Target> {
        self.stats.as_deref().map(Target::of_setting)
    }

    /// The group of the kernel module that a [`KernelEndpoint`](crate::KernelEndpoint) joins
    /// (`LIMIC_KERNEL_GROUP`): `fd:N`, or a word that the job's ranks share. `None`, the default:
    /// the launcher's job.
    #[must_use]
    pub fn kernel_group(&self) -> Option<&str> {
        self.kernel_group.as_deref()
    }

    /// Which networks lead to peers (`LIMIC_FABRIC`).
    #[must_use]
    pub fn fabric(&self) -> FabricUse {
        self.fabric
    }

    /// How TCP is used (`LIMIC_TCP_*`).
    #[must_use]
    pub fn tcp(&self) -> TcpSettings {
        self.tcp.clone()
    }

    /// How verbs are used (`LIMIC_VERBS_*`).
    #[must_use]
    pub fn verbs(&self) -> VerbsSettings {
        self.verbs.clone()
    }

    /// With these networks, whatever was said before.
    pub(crate) fn over(mut self, used: FabricUse) -> Self {
        self.fabric = used;
        self
    }

    /// The same settings with fewer paths.
    #[must_use]
    pub fn restricted_to(mut self, paths: PathSet) -> Self {
        self.allowed = self.allowed.and(paths).with(Path::SelfCopy);
        self
    }

    /// How a message goes with these settings, and why: what the engine does for a pair that nobody
    /// disturbs, whose receiver takes the message into one slice.
    ///
    /// ```
    /// use limic::Settings;
    /// use limic::internals::{Locality, Question};
    /// use limic::settings::Path;
    ///
    /// let settings = Settings::builder().without_environment().build()?;
    /// let question = Question::near(8, Locality::SharedCache);
    /// assert_eq!(settings.explain(&question).path, Path::Inline);
    /// # Ok::<(), limic::settings::SettingsError>(())
    /// ```
    #[doc(hidden)]
    #[must_use]
    pub fn explain(&self, question: &Question) -> Explanation {
        let (locality, pace, capabilities) = match question.receiver {
            Receiver::Near {
                locality,
                pace,
                capabilities,
            } => (locality, pace, capabilities),
            Receiver::Network(limits) => return explain::over_network(&limits, question),
            Receiver::Module => return explain::by_module(question),
        };
        let buffer_bytes = self.segment.staging_buffer_bytes.into();
        let pair = select::Pair {
            table: &self.policy,
            locality,
            capabilities,
            longest_record: select::longest_record(self.segment.ring_bytes, buffer_bytes),
            fragment_bytes: self.pipeline_fragment,
            buffer_bytes,
            window: self.pipeline_window,
            unexpected_budget: self.unexpected_budget_bytes,
        };
        let pace = if self.skew {
            pace
        } else {
            ReceiverPace::Steady
        };
        let mut explanation = explain::near(&pair, pace, question);
        explanation.is_measured &= self.autotune;
        explanation
    }

    /// The profile that was read, if there was one.
    #[must_use]
    pub fn profile(&self) -> Option<&FilePath> {
        self.profile.as_deref()
    }

    /// What is odd but does no harm, one line each.
    /// [`from_environment`](Self::from_environment) says to whom they have been said already.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

#[cfg(test)]
mod tests;
