//! Where processes run and what they share there: packages, caches, NUMA nodes.
//!
//! [`Topology::detect`] reads the machine once, from `/sys/devices/system`; with the cargo feature
//! `hwloc` through hwloc, which also knows caches that the kernel does not show.
//! [`Place::current`] says where the calling thread may run, in 8 bytes that travel in the
//! hand-shake; [`Place::locality`] compares two of them. [`OwnPlace`] looks whether a thread has
//! moved. [`this_node`] tells machines and network namespaces apart.
//!
//! # Invariants
//!
//! - Processes that read the machine in different ways, or may use different parts of it, name its
//!   parts alike.
//! - Nothing here fails but [`this_node`]: what is not known counts as being on one package.
//! - A [`Place`] of any bytes is valid, so that one of another process needs no check.
//!
//! `LIMIC_SYSFS` names a folder that is read in place of `/sys/devices/system`: a recording of
//! another machine, as a test or a report of a fault has it.

#![forbid(unsafe_code)]

mod cpus;
mod device;
#[cfg(feature = "hwloc")]
mod hwloc;
#[cfg(test)]
mod machines;
mod node;
mod own_place;
mod place;
mod summary;
mod sysfs;

use std::path::PathBuf;

use limic_shm::process::ValueHere;

pub use limic_policy::Locality;

pub use cpus::{CpuSet, ParseCpuSetError};
pub use device::Nearness;
pub use node::{UnknownNode, this_node};
pub use own_place::{Movement, OwnPlace};
pub use place::Place;
pub use summary::{CacheSummary, NumaSummary, Summary};

/// The program of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

/// Where the knowledge about the machine comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// hwloc.
    Hwloc,
    /// The kernel's own files.
    Sysfs {
        /// `/sys/devices/system`, or what `LIMIC_SYSFS` names in its place.
        root: PathBuf,
    },
    /// Nothing is known: every two processes count as being on one package.
    Unknown {
        /// Why.
        reason: String,
    },
}

impl core::fmt::Display for Origin {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Hwloc => f.write_str("hwloc"),
            Self::Sysfs { root } if root.as_os_str() == sysfs::ROOT => f.write_str("sysfs"),
            Self::Sysfs { root } => write!(f, "sysfs in {}", root.display()),
            Self::Unknown { reason } => write!(f, "unknown ({reason})"),
        }
    }
}

/// CPUs that have something in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Domain {
    /// The CPUs.
    cpus: CpuSet,
    /// Cache size or memory in bytes; 0 where it means nothing or is not known.
    bytes: u64,
    /// The operating system's number of a NUMA node; 0 for everything else.
    os_index: u32,
}

impl From<CpuSet> for Domain {
    fn from(cpus: CpuSet) -> Self {
        Self {
            cpus,
            ..Self::default()
        }
    }
}

/// The first of `domains` that a CPU is in.
fn domain_of(domains: &[Domain], cpu: u32) -> Option<&Domain> {
    domains.iter().find(|domain| domain.cpus.contains(cpu))
}

/// What is known about this machine.
///
/// It covers the whole machine, also CPUs that this process may not use, so that two processes
/// under different restrictions see the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    origin: Origin,
    cpus: CpuSet,
    cores: Vec<Domain>,
    packages: Vec<Domain>,
    numa_nodes: Vec<Domain>,
    l2: Vec<Domain>,
    l3: Vec<Domain>,
}

impl Topology {
    /// This machine's topology, read at the first call and kept for the life of the process.
    ///
    /// Takes some milliseconds the first time. Never fails: what could not be read is in
    /// [`Topology::origin`].
    pub fn detect() -> &'static Self {
        static TOPOLOGY: ValueHere<Topology> = ValueHere::new();
        TOPOLOGY.get_or_make(Self::read)
    }

    fn read() -> Self {
        let recorded = std::env::var_os("LIMIC_SYSFS").filter(|folder| !folder.is_empty());
        #[cfg(feature = "hwloc")]
        if recorded.is_none() {
            match hwloc::read() {
                Ok(topology) => return topology,
                Err(why) => tracing::warn!("hwloc: {why}; reading {}", sysfs::ROOT),
            }
        }
        let root = recorded.map_or_else(|| PathBuf::from(sysfs::ROOT), PathBuf::from);
        sysfs::read(&root).unwrap_or_else(Self::unknown)
    }

    /// A machine about which nothing is known.
    fn unknown(reason: String) -> Self {
        Self {
            origin: Origin::Unknown { reason },
            cpus: CpuSet::new(),
            cores: Vec::new(),
            packages: Vec::new(),
            numa_nodes: Vec::new(),
            l2: Vec::new(),
            l3: Vec::new(),
        }
    }

    /// Where the knowledge comes from.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The last-level cache of a CPU: L3, or L2 where the CPU has no L3.
    fn last_level_cache(&self, cpu: u32) -> Option<&Domain> {
        domain_of(&self.l3, cpu).or_else(|| domain_of(&self.l2, cpu))
    }

    /// Whether two CPUs are hardware threads of one core.
    #[must_use]
    pub fn same_core(&self, one: u32, other: u32) -> bool {
        let both = |core: &Domain| core.cpus.contains(one) && core.cpus.contains(other);
        one == other || self.cores.iter().any(both)
    }

    /// How far apart a process on `mine` and another one on `theirs` may be: the worst case over
    /// the CPUs that each may run on, exact if each is bound to one core.
    #[must_use]
    pub fn locality(&self, mine: &CpuSet, theirs: &CpuSet) -> Locality {
        Place::of(self, mine).locality(&Place::of(self, theirs))
    }
}

/// The machine that the tests of this module speak of: two packages of two L3 caches of two cores
/// of two hyper-threads; a NUMA node per package. Threads of a core are `n` and `n + 8`.
#[cfg(test)]
fn two_packages() -> Topology {
    let domain = |cpus: &str, bytes, os_index| Domain {
        cpus: cpus.parse().expect("a CPU list"),
        bytes,
        os_index,
    };
    Topology {
        origin: Origin::Hwloc,
        cpus: "0-15".parse().expect("a CPU list"),
        cores: (0..8)
            .map(|n| domain(&format!("{n},{}", n + 8), 0, n))
            .collect(),
        packages: vec![domain("0-3,8-11", 0, 0), domain("4-7,12-15", 0, 1)],
        numa_nodes: vec![
            domain("0-3,8-11", 8 << 30, 0),
            domain("4-7,12-15", 16 << 30, 1),
        ],
        l2: (0..8)
            .map(|n| domain(&format!("{n},{}", n + 8), 1 << 20, n))
            .collect(),
        l3: (0..4)
            .map(|n| {
                domain(
                    &format!("{}-{},{}-{}", 2 * n, 2 * n + 1, 2 * n + 8, 2 * n + 9),
                    32 << 20,
                    n,
                )
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_read_without_complaint() {
        let topology = Topology::detect();
        assert!(std::ptr::eq(topology, Topology::detect()), "read once");
        let allowed = CpuSet::allowed().expect("the kernel says where we may run");
        assert!(!allowed.is_empty());
        assert!(Place::current().locality(&Place::current()) >= Locality::SharedCache);
        let one: CpuSet = allowed.iter().take(1).collect();
        if matches!(topology.origin(), Origin::Unknown { .. }) {
            println!("SKIPPED: topology {}", topology.origin());
            assert_eq!(topology.locality(&one, &one), Locality::SamePackage);
        } else {
            assert!(topology.cpus.includes(&allowed), "{topology:?} {allowed}");
            // A machine may hide its caches; one core is on one package in any case.
            assert!(topology.locality(&one, &one) <= Locality::SamePackage);
        }
        assert!(!Summary::of(topology).to_string().is_empty());
    }

    #[test]
    fn localities_are_the_worst_case() {
        let topology = two_packages();
        for (mine, theirs, want) in [
            ("0", "0", Locality::SharedCache),
            ("0", "8", Locality::SharedCache),
            ("0", "1", Locality::SharedCache),
            ("0,1", "8-9", Locality::SharedCache),
            ("0", "2", Locality::SamePackage),
            ("0-3", "0", Locality::SamePackage),
            ("0-3", "0-3", Locality::SamePackage),
            ("0", "4", Locality::OtherPackage),
            ("0-7", "0", Locality::OtherPackage),
            ("0-15", "0-15", Locality::OtherPackage),
            ("99", "0", Locality::SamePackage),
            ("", "0", Locality::SamePackage),
        ] {
            let set = |text: &str| text.parse::<CpuSet>().expect("a CPU list");
            assert_eq!(
                topology.locality(&set(mine), &set(theirs)),
                want,
                "{mine} {theirs}"
            );
            assert_eq!(
                topology.locality(&set(theirs), &set(mine)),
                want,
                "{theirs} {mine}"
            );
        }
    }

    #[test]
    fn an_unknown_machine_counts_as_one_package() {
        assert!(two_packages().same_core(1, 9) && !two_packages().same_core(1, 2));
        let topology = Topology::unknown("a test".to_owned());
        let (zero, five) = ([0].into_iter().collect(), [5].into_iter().collect());
        assert_eq!(topology.locality(&zero, &five), Locality::SamePackage);
    }
}
