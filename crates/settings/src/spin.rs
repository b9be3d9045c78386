//! How long a waiting endpoint polls.

use core::fmt;
use core::num::ParseIntError;
use core::str::FromStr;
use core::time::Duration;

use limic_bootstrap::launcher;
use limic_shm::process::ValueHere;
use limic_topology::CpuSet;

use crate::Settings;

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

impl FromStr for Spin {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim() {
            auto if auto.eq_ignore_ascii_case("auto") => Ok(Self::Auto),
            micros => micros.parse().map(Duration::from_micros).map(Self::For),
        }
    }
}

/// Whether the node has more endpoints than CPUs. `endpoints`: those that talk to each other, the
/// caller's own included. The ranks that the launcher started count too.
#[doc(hidden)]
#[must_use]
pub fn is_oversubscribed(endpoints: u32) -> bool {
    static CPUS: ValueHere<u32> = ValueHere::new();
    let cpus = *CPUS.get_or_make(|| {
        std::thread::available_parallelism()
            .map_or(1, |n| n.get() as u32)
            .max(all_cpus())
    });
    endpoints.max(ranks_of_this_node()) > cpus
}

impl Settings {
    /// Idle polls of an endpoint before it yields its core. `oversubscribed`: endpoints are more
    /// than the CPUs that they have.
    #[doc(hidden)]
    #[must_use]
    pub fn spin_polls(&self, oversubscribed: bool) -> u32 {
        /// About as many as go into a microsecond where nothing is there.
        const POLLS_PER_US: u64 = 30;
        match self.spin() {
            Spin::For(time) => {
                let polls = (time.as_micros() as u64).saturating_mul(POLLS_PER_US);
                u32::try_from(polls).unwrap_or(u32::MAX)
            }
            // A peer that waits for a core cannot answer while this endpoint spins on it.
            Spin::Auto if oversubscribed => 2,
            Spin::Auto => 20_000,
        }
    }
}

/// Ranks that the launcher started on this machine, as far as it says: an endpoint may know only a
/// few of them.
fn ranks_of_this_node() -> u32 {
    static RANKS: ValueHere<u32> = ValueHere::new();
    *RANKS.get_or_make(|| launcher::ranks_here().unwrap_or(1))
}

/// CPUs of the machine: a rank that is bound to one of them shares the machine with the others.
fn all_cpus() -> u32 {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    text.parse::<CpuSet>().map_or(0, |cpus| cpus.len() as u32)
}
