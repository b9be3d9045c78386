//! What profile, file, environment and application say is laid over the built-in values.

use core::time::Duration;

use limic_policy::{Path, RowSource};

use super::keys::Key;
use super::values::{Layer, Value};
use super::{Settings, SettingsError, verbs};

impl Settings {
    /// Lays one layer over what there is: rows first, then the values, in the order of their keys.
    pub(super) fn apply(&mut self, layer: Layer) -> Result<(), SettingsError> {
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
            (Key::PipelineFragment, Value::Number(n)) => {
                self.pipeline_fragment = small(n);
            }
            (Key::Long, Value::Path(path)) => {
                self.policy = self.policy.with_long_path(path, source);
            }
            (Key::Paths, Value::Paths(paths)) => self.allowed = paths.with(Path::SelfCopy),
            (Key::PrivateRings, Value::Number(n)) => segment.private_rings = small(n),
            (Key::RingBytes, Value::Number(n)) => segment.ring_bytes = small(n),
            (Key::SharedSlots, Value::Number(n)) => segment.shared_slots = small(n),
            (Key::StagingBuffers, Value::Number(n)) => segment.staging_buffers = small(n),
            (Key::StagingBufferBytes, Value::Number(n)) => segment.staging_buffer_bytes = small(n),
            (Key::Spin, Value::Spin(spin)) => self.spin = spin,
            (Key::HugePages, Value::Flag(wanted)) => self.huge_pages = wanted,
            (Key::NumaNode, Value::Node(node)) => self.numa_node = node,
            (Key::Unexpected, Value::Number(n)) => self.unexpected_budget_bytes = n,
            (Key::Loan, Value::Number(n)) => self.loan_bytes = n,
            (Key::Window, Value::Number(n)) => self.pipeline_window = n as u32,
            (Key::Linger, Value::Number(n)) => self.linger = Duration::from_millis(n),
            (Key::Patience, Value::Number(n)) => self.patience = Duration::from_millis(n),
            (Key::Skew, Value::Flag(wanted)) => self.skew = wanted,
            (Key::Autotune, Value::Flag(wanted)) => self.autotune = wanted,
            (Key::KernelGroup, Value::Text(text)) => self.kernel_group = text,
            (Key::LineLatency, Value::LineLatency(wanted)) => self.line_latency = wanted,
            (Key::Copy, Value::Copy(wanted)) => self.copy = wanted,
            (Key::Stats, Value::Text(text)) => self.stats = text,
            (Key::Fabric, Value::Fabric(used)) => self.fabric = used,
            (Key::TcpInterface, Value::Text(text)) => self.tcp.interface = text,
            (Key::TcpTimeout, Value::Number(n)) => self.tcp.timeout = Duration::from_millis(n),
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
            (Key::VerbsRetry, Value::Number(n)) => self.verbs.retry = Duration::from_millis(n),
            (key, value) => debug_assert!(false, "{key:?} cannot be {value:?}"),
        }
    }

    /// What follows from the values once all of them are known.
    pub(super) fn finish(&mut self) {
        if self.sources[Key::StagingBufferBytes as usize] == RowSource::BuiltIn {
            let longest = self.pipeline_fragment.next_power_of_two();
            self.segment.staging_buffer_bytes = self.segment.staging_buffer_bytes.max(longest);
        }
        let long = [Path::Pipeline, Path::Cma, Path::SplitCopy, Path::Kmod];
        if !long.into_iter().any(|path| self.allowed.contains(path)) {
            self.warnings.push(format!(
                "the allowed paths ({}) carry no long messages: those take the pipeline all the \
                 same; add pipeline, cma, split-copy or kmod to LIMIC_PATHS",
                self.allowed
            ));
        }
    }
}

/// Numbers of the segment's shape were checked to be far below 2^32.
fn small(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
