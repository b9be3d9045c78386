//! The application as a source of settings, and the order in which the sources are applied.

use std::ffi::{OsStr, OsString};

use limic_policy::{ByteSize, LineLatency, Path, PathSet, Row, RowSource};

use super::environment::{self, Environment};
use super::keys::{self, Key};
use super::values::{Layer, Value};
use super::{
    CopyInstructions, FabricUse, Settings, SettingsError, Spin, VerbsCache, VerbsConnect, file,
};
use crate::warning;

/// Collects what the application wants to set. What it leaves out comes from the environment, the
/// files and the built-in values.
///
/// A value that is not accepted is reported by [`SettingsBuilder::build`].
#[derive(Clone, Debug, Default)]
#[must_use = "nothing happens until `build` is called"]
pub struct SettingsBuilder {
    layer: Layer,
    /// Whether the environment of the process counts for nothing.
    without_process: bool,
    /// Variables beside those of the process, over which they win.
    given: Vec<(OsString, OsString)>,
    refused: Option<SettingsError>,
}

impl SettingsBuilder {
    /// Ignores the environment and the files: only built-in values and what the builder is told.
    pub fn without_environment(self) -> Self {
        self.with_environment::<&str, &str>([])
    }

    /// Takes these variables for the environment instead of the process's own.
    pub fn with_environment<N: AsRef<OsStr>, V: AsRef<OsStr>>(
        mut self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        self.without_process = true;
        self.with_variables(variables)
    }

    /// Takes these variables for the environment beside the process's own, over which they win.
    /// Warnings about them are in [`Settings::warnings`] alone.
    pub fn with_variables<N: AsRef<OsStr>, V: AsRef<OsStr>>(
        mut self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        self.given = variables
            .into_iter()
            .map(|(name, value)| (name.as_ref().to_owned(), value.as_ref().to_owned()))
            .collect();
        self
    }

    /// Longest message in bytes that goes inline: 0 to 48.
    pub fn inline_max(self, bytes: u64) -> Self {
        self.number("inline_max", Key::InlineMax, bytes)
    }

    /// Longest message in bytes that goes eagerly; more than 64 KiB counts as 64 KiB.
    pub fn eager_max(self, bytes: u64) -> Self {
        self.number("eager_max", Key::EagerMax, bytes)
    }

    /// Bytes of a fragment of a pipelined message: 1 KiB to 16 MiB, a multiple of 64.
    pub fn pipeline_fragment(self, bytes: u32) -> Self {
        self.number("pipeline_fragment", Key::PipelineFragment, bytes)
    }

    /// Path of long messages between processes: pipeline, cma, split-copy or kmod.
    pub fn long_path(self, path: Path) -> Self {
        self.value("long_path", Key::Long, Value::Path(path), path)
    }

    /// Paths that may be used; at least one. [`Path::SelfCopy`] always may.
    pub fn allowed(self, paths: PathSet) -> Self {
        self.value("allowed", Key::Paths, Value::Paths(paths), paths)
    }

    /// Rows to lay over the policy table; see [`Table::overlaid`](limic_policy::Table::overlaid).
    /// Their source becomes [`RowSource::Application`].
    #[doc(hidden)]
    pub fn rows(mut self, rows: impl IntoIterator<Item = Row>) -> Self {
        let rows = rows.into_iter().map(|row| Row {
            source: RowSource::Application,
            ..row
        });
        self.layer.rows.extend(rows);
        self
    }

    /// Rings of an endpoint for single peers that talk a lot: 0 to 1024.
    pub fn private_rings(self, rings: u32) -> Self {
        self.number("private_rings", Key::PrivateRings, rings)
    }

    /// Payload bytes of a private ring: a power of two, 4 KiB to 16 MiB.
    pub fn ring_bytes(self, bytes: u32) -> Self {
        self.number("ring_bytes", Key::RingBytes, bytes)
    }

    /// Slots of an endpoint's ring for all peers: a power of two, 8 to 65536.
    pub fn shared_slots(self, slots: u32) -> Self {
        self.number("shared_slots", Key::SharedSlots, slots)
    }

    /// Staging buffers of an endpoint, through which fragments of messages go: 1 to 4096.
    pub fn staging_buffers(self, staging_buffers: u32) -> Self {
        self.number("staging_buffers", Key::StagingBuffers, staging_buffers)
    }

    /// Bytes of a buffer of the staging pool: a power of two, 4 KiB to 16 MiB.
    pub fn staging_buffer_bytes(self, bytes: u32) -> Self {
        self.number("staging_buffer_bytes", Key::StagingBufferBytes, bytes)
    }

    /// How long a waiting endpoint polls before it yields and sleeps: at most a minute.
    pub fn spin(self, spin: Spin) -> Self {
        self.value("spin", Key::Spin, Value::Spin(spin), spin)
    }

    /// Whether to ask for huge pages for the segment.
    pub fn huge_pages(self, wanted: bool) -> Self {
        self.value("huge_pages", Key::HugePages, Value::Flag(wanted), wanted)
    }

    /// NUMA node of the segment's memory; `None` is where the endpoint runs.
    pub fn numa_node(self, node: Option<u32>) -> Self {
        self.value(
            "numa_node",
            Key::NumaNode,
            Value::Node(node),
            format!("{node:?}"),
        )
    }

    /// Bytes of unexpected messages that an endpoint keeps before it holds its senders back: at
    /// least 64 KiB.
    pub fn unexpected_budget_bytes(self, bytes: u64) -> Self {
        self.number("unexpected_budget_bytes", Key::Unexpected, bytes)
    }

    /// Most bytes of shared memory for loans: at least 1 MiB.
    pub fn loan_bytes(self, bytes: u64) -> Self {
        self.number("loan_bytes", Key::Loan, bytes)
    }

    /// Most fragments of pipelined messages on their way to one peer: 2 to 4096.
    pub fn pipeline_window(self, fragments: u32) -> Self {
        self.number("pipeline_window", Key::Window, fragments)
    }

    /// How long a closing endpoint waits for peers to take what was sent: at most an hour.
    pub fn linger(self, time: core::time::Duration) -> Self {
        self.number("linger", Key::Linger, millis(time))
    }

    /// After what time a blocking call says once what it waits for: at most an hour, 0 for never.
    pub fn patience(self, time: core::time::Duration) -> Self {
        self.number("patience", Key::Patience, millis(time))
    }

    /// Whether messages are sent ahead to slow receivers.
    pub fn skew(self, wanted: bool) -> Self {
        self.value("skew", Key::Skew, Value::Flag(wanted), wanted)
    }

    /// Whether long messages are measured, and take another path than the table's where it is
    /// faster.
    pub fn autotune(self, wanted: bool) -> Self {
        self.value("autotune", Key::Autotune, Value::Flag(wanted), wanted)
    }

    /// Where the locality of two processes comes from (`LIMIC_LINE_LATENCY`).
    pub fn line_latency(self, source: LineLatency) -> Self {
        self.value(
            "line_latency",
            Key::LineLatency,
            Value::LineLatency(source),
            source,
        )
    }

    /// Instructions that copy what is long, in the whole process (`LIMIC_COPY`).
    pub fn copy(self, wanted: CopyInstructions) -> Self {
        self.value("copy", Key::Copy, Value::Copy(wanted), wanted)
    }

    /// Where an endpoint's counters go when it closes: `stderr`, or the end of a file, as JSON if
    /// its name ends in `.json`; `%p` in it is the process, `%r` the rank. `none` is nowhere.
    pub fn stats(self, target: &str) -> Self {
        self.text("stats", Key::Stats, target)
    }

    /// The group of the kernel module that a `KernelEndpoint` joins
    /// (`LIMIC_KERNEL_GROUP`): `auto`, `fd:N`, or a word that the job's ranks share.
    pub fn kernel_group(self, group: &str) -> Self {
        let text = (!group.eq_ignore_ascii_case("auto")).then(|| group.to_owned());
        self.value("kernel_group", Key::KernelGroup, Value::Text(text), group)
    }

    /// Which networks lead to peers (`LIMIC_FABRIC`).
    pub fn fabric(self, used: FabricUse) -> Self {
        self.value("fabric", Key::Fabric, Value::Fabric(used), used)
    }

    /// The interface over which peers reach the endpoint by TCP, its name or address, or `auto`
    /// (`LIMIC_TCP_INTERFACE`).
    pub fn tcp_interface(self, interface: &str) -> Self {
        self.text("tcp_interface", Key::TcpInterface, interface)
    }

    /// How long a machine that is reached by TCP may be silent (`LIMIC_TCP_TIMEOUT_MS`).
    pub fn tcp_timeout(self, time: core::time::Duration) -> Self {
        self.count("tcp_timeout_ms", Key::TcpTimeout, millis(time))
    }

    /// Queue pairs to each peer over verbs (`LIMIC_VERBS_STREAMS`).
    pub fn verbs_streams(self, streams: u8) -> Self {
        self.count("verbs_streams", Key::VerbsStreams, streams)
    }

    /// Entries of each queue pair's send queue (`LIMIC_VERBS_ENTRIES`).
    pub fn verbs_entries(self, entries: u16) -> Self {
        self.count("verbs_entries", Key::VerbsEntries, entries)
    }

    /// Whether messages over verbs share packets while no entry is free (`LIMIC_VERBS_COALESCE`).
    pub fn verbs_coalesce(self, wanted: bool) -> Self {
        self.value(
            "verbs_coalesce",
            Key::VerbsCoalesce,
            Value::Flag(wanted),
            wanted,
        )
    }

    /// Adapters for verbs, `NAME` or `NAME:PORT` with commas between, or `auto`
    /// (`LIMIC_VERBS_DEVICES`).
    pub fn verbs_devices(self, list: &str) -> Self {
        self.text("verbs_devices", Key::VerbsDevices, list)
    }

    /// Most peers that get a ring to write into over verbs (`LIMIC_VERBS_RINGS`); 0 for none.
    pub fn verbs_rings(self, rings: u16) -> Self {
        self.count("verbs_rings", Key::VerbsRings, rings)
    }

    /// Which registrations of long messages' memory are kept (`LIMIC_VERBS_CACHE`).
    pub fn verbs_cache(self, kept: VerbsCache) -> Self {
        self.value("verbs_cache", Key::VerbsCache, Value::Cache(kept), kept)
    }

    /// When the ranks of a job meet over verbs or TCP (`LIMIC_VERBS_CONNECT`).
    pub fn verbs_connect(self, when: VerbsConnect) -> Self {
        self.value(
            "verbs_connect",
            Key::VerbsConnect,
            Value::Connect(when),
            when,
        )
    }

    /// Least time for which adapters repeat what a peer does not acknowledge, before the peer
    /// counts as lost (`LIMIC_VERBS_RETRY_MS`).
    pub fn verbs_retry(self, time: core::time::Duration) -> Self {
        self.count("verbs_retry_ms", Key::VerbsRetry, millis(time))
    }

    /// The settings: built-in values, profile, file, environment and this builder, later ones
    /// winning.
    ///
    /// # Errors
    /// [`SettingsError`] names the first value that is not accepted: where, and what is.
    pub fn build(self) -> Result<Settings, SettingsError> {
        let Self {
            layer,
            without_process,
            given,
            refused,
        } = self;
        if let Some(error) = refused {
            return Err(error);
        }
        let is_given = |name: &OsStr| given.iter().any(|(other, _)| other == name);
        let process = std::env::vars_os().filter(|(name, _)| !without_process && !is_given(name));
        let Environment {
            layer: environment,
            config,
            profile,
            default_profile,
            warnings,
        } = environment::read(process.chain(given.iter().cloned()))?;
        let mut settings = Settings {
            warnings,
            ..Settings::default()
        };
        // A profile that nobody named need not be there.
        let profile = match (profile, default_profile) {
            (Some(path), _) => Some((path, keys::PROFILE.variable)),
            (None, Some(path)) if path.is_file() => Some((path, "the default place")),
            _ => None,
        };
        if let Some((path, named_by)) = profile {
            // A profile makes messages faster; one that cannot be used must not end anybody's job.
            let read = file::read(&path, named_by, RowSource::Profile);
            match read.and_then(|layer| settings.apply(layer)) {
                Ok(()) => settings.profile = Some(path),
                Err(error) => settings.warnings.push(format!(
                    "{error}; going on with built-in values. limic tune measures this machine, \
                     LIMIC_PROFILE=off ends this warning"
                )),
            }
        }
        if let Some(path) = config {
            let source = RowSource::File(path.clone());
            settings.apply(file::read(&path, keys::CONFIG.variable, source)?)?;
            settings.config = Some(path);
        }
        settings.apply(environment)?;
        settings.apply(Layer {
            place: "the application".to_owned(),
            ..layer
        })?;
        settings.finish();
        let about_given = |line: &&String| {
            let mut names = given.iter().map(|(name, _)| name.to_string_lossy());
            names.any(|name| line.contains(&*name))
        };
        if !without_process {
            let lines = settings.warnings.iter().filter(|line| !about_given(line));
            lines.for_each(|line| warning::say(line));
        }
        Ok(settings)
    }

    fn number(self, name: &'static str, key: Key, n: impl Into<u64>) -> Self {
        let n = n.into();
        self.value(name, key, Value::Number(n), ByteSize(n))
    }

    fn count(self, name: &'static str, key: Key, n: impl Into<u64>) -> Self {
        let n = n.into();
        self.value(name, key, Value::Number(n), n)
    }

    /// What makes no sense is an error of `build`, as an empty text is.
    fn text(self, name: &'static str, key: Key, text: &str) -> Self {
        let value = key.parse(text);
        let value = value.unwrap_or_else(|| Value::Text(Some(String::new())));
        self.value(name, key, value, text)
    }

    fn value(mut self, name: &'static str, key: Key, value: Value, text: impl ToString) -> Self {
        if key.accepts(&value) {
            self.layer.values.push((key, value, RowSource::Application));
        } else if self.refused.is_none() {
            let accepted = key.info().accepted.to_owned();
            self.refused = Some(SettingsError::Argument {
                name,
                value: text.to_string(),
                accepted,
            });
        }
        self
    }
}

fn millis(time: core::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
