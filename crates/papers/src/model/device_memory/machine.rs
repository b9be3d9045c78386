//! The numbers that the model is fed with: those of the paper's adapter, a file's, the command
//! line's.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// One node with its adapter; all nodes are alike. Rates are in MB/s (10^6 bytes), times in
/// microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Machine {
    /// Ports of the adapter, 1 or 2.
    pub(super) ports: u8,
    /// Payload that one port moves in one direction.
    pub(super) link_mb_s: f64,
    /// The adapter reads host memory over the bus.
    pub(super) bus_read_mb_s: f64,
    /// The adapter writes host memory over the bus.
    pub(super) bus_write_mb_s: f64,
    /// Whether reads and writes cross the bus at the same time (PCI Express), or take turns
    /// (PCI-X).
    pub(super) bus_duplex: bool,
    /// The memory on the adapter, reads and writes together.
    pub(super) memory_mb_s: f64,
    /// What that memory loses when a write follows a read, or a read a write.
    pub(super) memory_turn_us: f64,
    /// Bytes of it that messages may use; 0 for as many as they want.
    pub(super) memory_bytes: u64,
    /// What the adapter's processor moves in one direction, all ports together.
    pub(super) engine_mb_s: f64,
    /// Everything about a message that does not depend on where its buffers lie: posting, the
    /// doorbell, the switch, the completion, and that the receiver sees it.
    pub(super) fixed_us: f64,
    /// The bus waits for the first bytes of a message that is read from host memory.
    pub(super) read_start_us: f64,
    /// The same when reads of two queue pairs take turns, for each turn.
    pub(super) read_switch_us: f64,
    /// Bytes that resources handle at a time.
    pub(super) cell_bytes: u32,
}

impl Machine {
    /// The paper's: Mellanox MT23108 on PCI-X 133. See `paper` for where each number comes from.
    pub(crate) const PAPER: Self = Self {
        ports: 2,
        link_mb_s: 944.0,
        bus_read_mb_s: 886.0,
        bus_write_mb_s: 956.0,
        bus_duplex: false,
        memory_mb_s: 2000.0,
        memory_turn_us: 0.020,
        memory_bytes: 0,
        engine_mb_s: 1686.0,
        fixed_us: 6.0,
        read_start_us: 0.5,
        read_switch_us: 0.021,
        cell_bytes: 512,
    };

    /// A file's numbers; what it does not name stays as in the paper.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let wrong = |why: String| format!("{}: {why}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        toml::from_str(&text).map_err(|error| wrong(error.to_string()))
    }

    /// With some numbers replaced: `KEY=VALUE`, as a file has them.
    pub(super) fn with(self, changes: &[String]) -> Result<Self, String> {
        let mut table = toml::Table::try_from(self).map_err(|error| error.to_string())?;
        for change in changes {
            let wrong = |why: &str| format!("--set {change}: {why}");
            let parsed: toml::Table = change
                .parse()
                .map_err(|_| wrong("expected KEY=VALUE, as in a TOML file"))?;
            for (key, value) in parsed {
                if !table.contains_key(&key) {
                    let known: Vec<&str> = table.keys().map(String::as_str).collect();
                    return Err(wrong(&format!("there is only {}", known.join(", "))));
                }
                // Whole numbers are rates and times too.
                let as_real = table[&key].is_float() && value.is_integer();
                let value = match value.as_integer().filter(|_| as_real) {
                    Some(whole) => toml::Value::Float(whole as f64),
                    None => value,
                };
                table.insert(key, value);
            }
        }
        table
            .try_into()
            .map_err(|error: toml::de::Error| format!("--set: {}", error.message()))
    }

    /// Refuses what no machine is.
    pub(super) fn check(self) -> Result<Self, String> {
        let rates = [
            ("link_mb_s", self.link_mb_s),
            ("bus_read_mb_s", self.bus_read_mb_s),
            ("bus_write_mb_s", self.bus_write_mb_s),
            ("memory_mb_s", self.memory_mb_s),
            ("engine_mb_s", self.engine_mb_s),
        ];
        for (name, rate) in rates {
            if !(1.0..=1e7).contains(&rate) {
                return Err(format!("{name} is {rate}, but must be 1 to 10000000 MB/s"));
            }
        }
        let times = [
            ("memory_turn_us", self.memory_turn_us),
            ("fixed_us", self.fixed_us),
            ("read_start_us", self.read_start_us),
            ("read_switch_us", self.read_switch_us),
        ];
        for (name, time) in times {
            if !(0.0..=1e6).contains(&time) {
                return Err(format!("{name} is {time}, but must be 0 to 1000000 us"));
            }
        }
        if !(1..=2).contains(&self.ports) {
            return Err(format!("ports is {}, but must be 1 or 2", self.ports));
        }
        if !(64..=65_536).contains(&self.cell_bytes) {
            let cell = self.cell_bytes;
            return Err(format!("cell_bytes is {cell}, but must be 64 to 65536"));
        }
        Ok(self)
    }

    /// As a file that [`read`](Self::read) takes.
    pub(super) fn text(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self::PAPER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_from_files_and_from_the_command_line() {
        let machine: Machine = toml::from_str("link_mb_s = 48000\nbus_duplex = true").unwrap();
        assert_eq!((machine.link_mb_s, machine.bus_duplex), (48_000.0, true));
        assert_eq!(machine.ports, 2);
        let changed = machine.with(&["ports=1".into(), "engine_mb_s=90000".into()]);
        let changed = changed.unwrap();
        assert_eq!((changed.ports, changed.engine_mb_s), (1, 90_000.0));
        let again: Machine = toml::from_str(&changed.text()).unwrap();
        assert_eq!(again, changed);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |change: &str| Machine::PAPER.with(&[change.into()]).unwrap_err();
        assert!(wrong("speed=3").contains("bus_read_mb_s"));
        assert!(wrong("ports").contains("KEY=VALUE"));
        assert!(wrong("ports=\"two\"").contains("u8"));
        let stopped = Machine {
            link_mb_s: 0.0,
            ..Machine::PAPER
        };
        assert!(stopped.check().unwrap_err().contains("link_mb_s"));
    }
}
