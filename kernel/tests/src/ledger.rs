//! What must be the same before and after a test.

use std::fs;

use crate::wait_for;

/// The kernel's pins and the module's objects at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    /// Pins that were taken and not given back, in the whole system.
    pins: i64,
    gauges: Vec<i64>,
}

const GAUGES: [&str; 5] = ["sessions", "groups", "exposures", "pinned_pages", "kept"];

impl Ledger {
    /// Reads it.
    #[must_use]
    pub fn open() -> Self {
        // The kernel counts per CPU; this brings the sums up to date.
        fs::write("/proc/sys/vm/stat_refresh", "1")
            .expect("the counters can be brought up to date");
        Self {
            pins: vmstat("nr_foll_pin_acquired") - vmstat("nr_foll_pin_released"),
            gauges: GAUGES.iter().map(|name| gauge(name)).collect(),
        }
    }

    /// Asserts that all of it is as it was. What a killed process held goes a moment after it was
    /// waited for, so this looks for a while.
    pub fn close(&self) {
        let what = format!("what was there before the test: {self:?}");
        wait_for(&what, || {
            let now = Self::open();
            if now != *self {
                eprintln!("still there: {now:?}");
                std::thread::sleep(std::time::Duration::from_millis(200));
            }
            now == *self
        });
        let status = fs::read_to_string("/proc/self/status").expect("own status");
        let pinned = status.lines().find(|line| line.starts_with("VmPin:"));
        assert_eq!(
            pinned.and_then(|line| line.split_whitespace().nth(1)),
            Some("0")
        );
    }
}

fn vmstat(name: &str) -> i64 {
    value(&fs::read_to_string("/proc/vmstat").expect("vmstat"), name)
}

/// A number from the module's counters in debugfs.
#[must_use]
pub fn gauge(name: &str) -> i64 {
    let text = fs::read_to_string("/sys/kernel/debug/limic/counters").expect("counters in debugfs");
    value(&text, name)
}

fn value(text: &str, name: &str) -> i64 {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let number = line.and_then(|number| number.trim().parse().ok());
    number.unwrap_or_else(|| panic!("no number {name} in:\n{text}"))
}
