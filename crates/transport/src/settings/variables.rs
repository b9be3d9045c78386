//! Every variable with its present value, for `limic info`.

use limic_policy::{ByteSize, Locality, Path, ReceiverPace, Row, RowSource};

use super::keys::{self, Key};
use super::{Group, Settings};

/// One variable, for `limic info`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Variable {
    /// Its name in the environment.
    pub name: &'static str,
    /// Its name in a TOML file; empty for those that name the files.
    pub key: &'static str,
    /// What it has to do with.
    pub group: Group,
    /// What it does, with its unit.
    pub meaning: &'static str,
    /// What it accepts.
    pub accepted: &'static str,
    /// Its present value.
    pub value: String,
    /// Where the value comes from.
    pub source: String,
}

impl Settings {
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
            group: Group::Files,
            meaning: file.meaning,
            accepted: file.accepted,
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
                group: info.group,
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
            Key::PipelineFragment => bytes(self.pipeline_fragment),
            Key::Long => self.each_locality(|run| run.last().map(|row| row.path.to_string())),
            Key::Paths => self.allowed.to_string(),
            Key::PrivateRings => self.segment.private_rings.to_string(),
            Key::RingBytes => bytes(self.segment.ring_bytes),
            Key::SharedSlots => self.segment.shared_slots.to_string(),
            Key::StagingBuffers => self.segment.staging_buffers.to_string(),
            Key::StagingBufferBytes => bytes(self.segment.staging_buffer_bytes),
            Key::Spin => self.spin.to_string(),
            Key::HugePages => if self.huge_pages { "yes" } else { "no" }.to_owned(),
            Key::NumaNode => self
                .numa_node
                .map_or_else(|| "auto".to_owned(), |n| n.to_string()),
            Key::Unexpected => ByteSize(self.unexpected_budget_bytes).to_string(),
            Key::Loan => ByteSize(self.loan_bytes).to_string(),
            Key::Window => self.pipeline_window.to_string(),
            Key::Linger => self.linger.as_millis().to_string(),
            Key::Patience => self.patience.as_millis().to_string(),
            Key::Skew => on_off(self.skew),
            Key::Autotune => on_off(self.autotune),
            Key::KernelGroup => {
                let group = self.kernel_group.clone();
                group.unwrap_or_else(|| "auto".to_owned())
            }
            Key::LineLatency => self.line_latency.to_string(),
            Key::Copy => self.copy.to_string(),
            Key::Stats => self.stats.clone().unwrap_or_else(|| "none".to_owned()),
            Key::Fabric => self.fabric.to_string(),
            Key::TcpInterface => {
                let interface = self.tcp.interface.clone();
                interface.unwrap_or_else(|| "auto".to_owned())
            }
            Key::TcpTimeout => self.tcp.timeout.as_millis().to_string(),
            Key::VerbsStreams => self.verbs.streams.to_string(),
            Key::VerbsEntries => self.verbs.entries.to_string(),
            Key::VerbsCoalesce => on_off(self.verbs.coalesce),
            Key::VerbsDevices if self.verbs.devices.is_empty() => "auto".to_owned(),
            Key::VerbsDevices => self.verbs.devices.join(","),
            Key::VerbsRings => self.verbs.rings.to_string(),
            Key::VerbsCache => self.verbs.cache.to_string(),
            Key::VerbsConnect => self.verbs.connect.to_string(),
            Key::VerbsRetry => self.verbs.retry.as_millis().to_string(),
        }
    }

    /// A length of the policy table for each locality.
    fn limit(&self, of: impl Fn(&Row) -> Option<u64>) -> String {
        self.each_locality(|run| {
            run.iter()
                .filter_map(&of)
                .max()
                .map(|bytes| ByteSize(bytes).to_string())
        })
    }

    /// One text if it is the same between all processes, else one for each locality.
    fn each_locality(&self, of: impl Fn(&[Row]) -> Option<String>) -> String {
        let texts = Locality::BETWEEN_PROCESSES.map(|locality| {
            of(self.policy.run(locality, ReceiverPace::Steady)).unwrap_or_else(|| "none".to_owned())
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
}

fn on_off(flag: bool) -> String {
    if flag { "on" } else { "off" }.to_owned()
}
