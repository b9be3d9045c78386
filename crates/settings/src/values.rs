//! The values of settings: how their text is read, and which are accepted.

use core::time::Duration;

use limic_policy::{
    ByteSize, INLINE_CAPACITY, LineLatency, MAX_FRAGMENT, MIN_FRAGMENT, Path, PathSet, Row,
    RowSource,
};

use super::keys::Key;
use super::verbs::devices;
use super::{CopyInstructions, FabricUse, Spin, VerbsCache, VerbsConnect};

/// The value of a key.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Number(u64),
    Path(Path),
    Paths(PathSet),
    Spin(Spin),
    Flag(bool),
    Node(Option<u32>),
    Text(Option<String>),
    LineLatency(LineLatency),
    Copy(CopyInstructions),
    Fabric(FabricUse),
    Connect(VerbsConnect),
    Cache(VerbsCache),
}

/// What one source says.
#[derive(Clone, Debug, Default)]
pub(super) struct Layer {
    /// The source, for errors.
    pub(super) place: String,
    pub(super) values: Vec<(Key, Value, RowSource)>,
    pub(super) rows: Vec<Row>,
}

impl Key {
    /// The value in `text`; `None` if it is not accepted.
    pub(super) fn parse(self, text: &str) -> Option<Value> {
        let text = text.trim();
        let bytes = || {
            text.parse()
                .ok()
                .map(|ByteSize(bytes)| Value::Number(bytes))
        };
        let value = match self {
            Self::Long => text.parse().ok().map(Value::Path),
            Self::Paths => text.parse().ok().map(Value::Paths),
            Self::PipelineFragment
            | Self::InlineMax
            | Self::EagerMax
            | Self::RingBytes
            | Self::StagingBufferBytes
            | Self::Unexpected
            | Self::Loan => bytes(),
            Self::PrivateRings
            | Self::SharedSlots
            | Self::StagingBuffers
            | Self::Window
            | Self::Linger
            | Self::Patience
            | Self::VerbsStreams
            | Self::VerbsRings
            | Self::VerbsRetry
            | Self::TcpTimeout
            | Self::VerbsEntries => text.parse().ok().map(Value::Number),
            Self::Copy => text.parse().ok().map(Value::Copy),
            Self::Fabric => text.parse().ok().map(Value::Fabric),
            Self::LineLatency => text.parse().ok().map(Value::LineLatency),
            Self::VerbsCache => text.parse().ok().map(Value::Cache),
            Self::VerbsConnect => text.parse().ok().map(Value::Connect),
            Self::Spin if text.eq_ignore_ascii_case("auto") => Some(Value::Spin(Spin::Auto)),
            Self::Spin => {
                let time = text.parse().ok().map(Duration::from_micros);
                time.map(|time| Value::Spin(Spin::For(time)))
            }
            Self::HugePages | Self::Skew | Self::Autotune | Self::VerbsCoalesce => {
                match text.to_ascii_lowercase().as_str() {
                    "yes" | "true" | "on" | "1" => Some(Value::Flag(true)),
                    "no" | "false" | "off" | "0" => Some(Value::Flag(false)),
                    _ => None,
                }
            }
            Self::NumaNode if text.eq_ignore_ascii_case("auto") => Some(Value::Node(None)),
            Self::NumaNode => text.parse().ok().map(|node| Value::Node(Some(node))),
            Self::KernelGroup if text.eq_ignore_ascii_case("auto") => Some(Value::Text(None)),
            Self::KernelGroup => Some(Value::Text(Some(text.to_owned()))),
            Self::VerbsDevices | Self::TcpInterface if text.eq_ignore_ascii_case("auto") => {
                Some(Value::Text(None))
            }
            Self::VerbsDevices | Self::TcpInterface => Some(Value::Text(Some(text.to_owned()))),
            Self::Stats if text.eq_ignore_ascii_case("none") => Some(Value::Text(None)),
            Self::Stats => Some(Value::Text(Some(text.to_owned()))),
        };
        value.filter(|value| self.accepts(value))
    }

    /// Whether a value of the right kind is in range.
    pub(super) fn accepts(self, value: &Value) -> bool {
        let area = |n: u64| n.is_power_of_two() && (4 << 10..=16 << 20).contains(&n);
        match (self, value) {
            (Self::Long, Value::Path(path)) => path.is_rendezvous(),
            (Self::PipelineFragment, Value::Number(n)) => {
                (u64::from(MIN_FRAGMENT)..=u64::from(MAX_FRAGMENT)).contains(n) && n % 64 == 0
            }
            (Self::InlineMax, Value::Number(n)) => *n <= INLINE_CAPACITY,
            (Self::EagerMax, Value::Number(_)) => true,
            (Self::Paths, Value::Paths(paths)) => !paths.is_empty(),
            (Self::PrivateRings, Value::Number(n)) => *n <= 1024,
            (Self::RingBytes | Self::StagingBufferBytes, Value::Number(n)) => area(*n),
            (Self::SharedSlots, Value::Number(n)) => n.is_power_of_two() && (8..=65536).contains(n),
            (Self::StagingBuffers, Value::Number(n)) => (1..=4096).contains(n),
            (Self::Spin, Value::Spin(Spin::For(time))) => *time <= Duration::from_secs(60),
            (Self::Spin, Value::Spin(Spin::Auto))
            | (
                Self::HugePages | Self::Skew | Self::Autotune | Self::VerbsCoalesce,
                Value::Flag(_),
            )
            | (Self::Copy, Value::Copy(_))
            | (Self::Fabric, Value::Fabric(_))
            | (Self::LineLatency, Value::LineLatency(_)) => true,
            (Self::VerbsCache, Value::Cache(_)) | (Self::VerbsConnect, Value::Connect(_)) => true,
            (Self::VerbsRings, Value::Number(n)) => *n <= 1024,
            (Self::VerbsRetry, Value::Number(n)) => (10..=600_000).contains(n),
            (Self::VerbsDevices, Value::Text(list)) => {
                list.as_ref().is_none_or(|list| devices(list).is_some())
            }
            (Self::VerbsStreams, Value::Number(n)) => (1..=8).contains(n),
            (Self::VerbsEntries, Value::Number(n)) => (2..=4096).contains(n),
            (Self::NumaNode, Value::Node(node)) => node.is_none_or(|node| node <= 65533),
            (Self::Unexpected, Value::Number(n)) => *n >= 64 << 10,
            (Self::Loan, Value::Number(n)) => *n >= 1 << 20,
            (Self::Window, Value::Number(n)) => (2..=4096).contains(n),
            (Self::Linger | Self::Patience, Value::Number(n)) => *n <= 3_600_000,
            (Self::KernelGroup, Value::Text(text)) => text.as_ref().is_none_or(|text| {
                let descriptor = text.strip_prefix("fd:");
                !text.is_empty() && descriptor.is_none_or(|fd| fd.parse::<u16>().is_ok())
            }),
            (Self::TcpTimeout, Value::Number(n)) => (1000..=3_600_000).contains(n),
            (Self::Stats | Self::TcpInterface, Value::Text(text)) => {
                text.as_ref().is_none_or(|text| !text.is_empty())
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            (Key::VerbsCache, "watch", "256"),
            (Key::VerbsConnect, "static", "always"),
        ] {
            assert!(key.parse(good).is_some(), "{key:?} {good}");
            assert!(key.parse(bad).is_none(), "{key:?} {bad}");
        }
    }
}
