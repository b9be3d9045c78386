//! How near devices are to CPUs.

use core::fmt;
use std::path::Path;

use crate::CpuSet;
use crate::sysfs::value;

/// How near a device is to the CPUs that a thread may run on. The nearest one is the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// It is at the memory of all of them.
    Near,
    /// It is at that of some of them, or the kernel does not say.
    Between,
    /// It is at other memory: what it moves for them crosses the machine.
    Far,
}

impl Nearness {
    /// Of the device with this folder in sysfs, whose file `local_cpulist` has the CPUs that are
    /// near.
    #[must_use]
    pub fn of(folder: &Path, cpus: &CpuSet) -> Self {
        let Some(local) = value::<CpuSet>(&folder.join("local_cpulist")) else {
            return Self::Between;
        };
        if cpus.is_empty() || local.is_empty() {
            Self::Between
        } else if local.includes(cpus) {
            Self::Near
        } else if cpus.iter().any(|cpu| local.contains(cpu)) {
            Self::Between
        } else {
            Self::Far
        }
    }
}

impl fmt::Display for Nearness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Near => "near",
            Self::Between => "neither near nor far",
            Self::Far => "far",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_near_to_the_cpus_of_its_memory() {
        let folder = tempfile::tempdir().expect("a folder");
        let to = |cpus: &str| Nearness::of(folder.path(), &cpus.parse().expect("a CPU list"));
        assert_eq!(to("0-3"), Nearness::Between, "the kernel does not say");
        std::fs::write(folder.path().join("local_cpulist"), "8-15,24-31\n").expect("written");
        assert_eq!(to("8-11,24"), Nearness::Near);
        assert_eq!(to("0-31"), Nearness::Between);
        assert_eq!(to("0-7"), Nearness::Far);
        assert_eq!(
            to(""),
            Nearness::Between,
            "it may run nowhere that is known"
        );
    }
}
