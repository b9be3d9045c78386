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
mod entry;
mod environment;
mod error;
mod fabric;
mod file;
mod forms;
mod group;
mod names;
mod profile;
mod spin;
mod table;
mod variables;
mod verbs;
#[doc(hidden)]
pub mod warning;

use std::path::{Path as FilePath, PathBuf};

pub use builder::SettingsBuilder;
pub use copy::CopyInstructions;
pub use error::SettingsError;
pub use fabric::{FabricUse, OfiReads, TcpSettings};
pub use group::Group;
#[doc(inline)]
pub use limic_policy::{
    ByteSize, LineLatency, ParseByteSizeError, ParseLineLatencyError, ParsePathError, Path,
    PathSet, TableError,
};
use limic_policy::{
    Explanation, Question, Receiver, ReceiverPace, RowSource, Table, explain, select,
};
pub use names::{OTHER_VARIABLES, OtherVariable};
pub use profile::{MachineKey, PROFILE_VERSION, default_profile};
pub use spin::Spin;
#[doc(hidden)]
pub use spin::is_oversubscribed;
pub use variables::Variable;
pub use verbs::{VerbsCache, VerbsConnect, VerbsSettings};

use table::{Key, Values};

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
    /// (`LIMIC_STAGING_BUFFER_BYTES`). Unless it is set, it is large enough for a fragment of a
    /// pipeline.
    pub staging_buffer_bytes: u32,
}

impl Default for SegmentSettings {
    fn default() -> Self {
        Settings::default().segment()
    }
}

/// Everything that an endpoint can be told.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    policy: Table,
    values: Values,
    /// Where each key was last set, in the order of [`Key::ALL`].
    sources: [RowSource; Key::ALL.len()],
    profile: Option<PathBuf>,
    config: Option<PathBuf>,
    warnings: Vec<String>,
    /// Those of them that are about variables which the program gave.
    given_warnings: Vec<String>,
}

impl Default for Settings {
    /// The built-in values alone: no file and no environment.
    fn default() -> Self {
        Self {
            policy: Table::built_in(),
            values: Values::default(),
            sources: [const { RowSource::BuiltIn }; Key::ALL.len()],
            profile: None,
            config: None,
            warnings: Vec::new(),
            given_warnings: Vec::new(),
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

    /// The policy table: built-in rows, those of profile and file, and what `LIMIC_INLINE_MAX`,
    /// `LIMIC_EAGER_MAX` and `LIMIC_LONG` make of them.
    #[doc(hidden)]
    #[must_use]
    pub fn policy(&self) -> &Table {
        &self.policy
    }

    /// With these networks, whatever was said before.
    #[doc(hidden)]
    #[must_use]
    pub fn over(mut self, used: FabricUse) -> Self {
        self.values.fabric = used;
        self
    }

    /// The same settings with fewer paths.
    #[must_use]
    pub fn restricted_to(mut self, paths: PathSet) -> Self {
        self.values.allowed = self.allowed().and(paths).with(Path::SelfCopy);
        self
    }

    /// How a message goes with these settings, and why: what the engine does for a pair that nobody
    /// disturbs, whose receiver takes the message into one slice.
    ///
    /// ```
    /// use limic_policy::{Locality, Path, Question};
    /// use limic_settings::Settings;
    ///
    /// let settings = Settings::builder().without_environment().build()?;
    /// let question = Question::near(8, Locality::SharedCache);
    /// assert_eq!(settings.explain(&question).path, Path::Inline);
    /// # Ok::<(), limic_settings::SettingsError>(())
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
        let segment = self.segment();
        let buffer_bytes = segment.staging_buffer_bytes.into();
        let pair = select::Pair {
            table: &self.policy,
            locality,
            far_by_memory: limic_shm::processor::far_by_memory(),
            capabilities,
            longest_record: select::longest_record(segment.ring_bytes, buffer_bytes),
            fragment_bytes: self.pipeline_fragment(),
            buffer_bytes,
            window: self.pipeline_window(),
            unexpected_budget: self.unexpected_budget_bytes(),
        };
        let pace = if self.skew() {
            pace
        } else {
            ReceiverPace::Steady
        };
        let mut explanation = explain::near(&pair, pace, question);
        explanation.is_measured &= self.autotune();
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

    /// Those of the [`warnings`](Self::warnings) that are about variables which the program gave
    /// ([`SettingsBuilder::with_variables`]), and not about the environment's.
    #[doc(hidden)]
    #[must_use]
    pub fn warnings_about_given(&self) -> &[String] {
        &self.given_warnings
    }

    fn warn(&mut self, line: String, is_about_given: bool) {
        if is_about_given {
            self.given_warnings.push(line.clone());
        }
        self.warnings.push(line);
    }
}

/// The program of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

#[cfg(test)]
mod tests;
