//! The topology as `limic info` shows it.

use core::fmt;

use limic_policy::ByteSize;

use super::{CpuSet, Domain, Origin, Topology};

/// The caches of one level and size.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct CacheSummary {
    /// 2 or 3.
    pub level: u8,
    /// How many there are.
    pub count: usize,
    /// Size of one in bytes; 0 if not known.
    pub bytes: u64,
    /// CPUs that share one.
    pub shared_by_cpus: usize,
}

/// A NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct NumaSummary {
    /// The operating system's number.
    pub node: u32,
    /// Memory in bytes; 0 if not known.
    pub memory_bytes: u64,
    /// Its CPUs as a list (`0-3,8`); empty for memory without CPUs.
    pub cpus: String,
}

/// What this machine is made of.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Summary {
    /// Where the knowledge comes from, in words.
    pub origin: String,
    /// Whether anything is known but the CPUs that this process may use.
    pub known: bool,
    /// Packages.
    pub packages: usize,
    /// Cores.
    pub cores: usize,
    /// CPUs (hardware threads).
    pub cpus: usize,
    /// The CPUs that the calling thread may run on, as a list.
    pub allowed_cpus: String,
    /// How many those are.
    pub allowed_count: usize,
    /// The NUMA nodes.
    pub numa_nodes: Vec<NumaSummary>,
    /// The L2 and L3 caches; one entry for each level, size and number of sharers.
    pub caches: Vec<CacheSummary>,
}

impl Summary {
    /// Of the machine that this runs on.
    #[must_use]
    pub fn current() -> Self {
        Self::of(Topology::detect())
    }

    /// Of `topology`, with the CPUs that the calling thread may run on.
    #[must_use]
    pub fn of(topology: &Topology) -> Self {
        let allowed = CpuSet::allowed().unwrap_or_default();
        let mut caches = Vec::new();
        for (level, domains) in [(2, &topology.l2), (3, &topology.l3)] {
            count_caches(level, domains, &mut caches);
        }
        Self {
            origin: topology.origin.to_string(),
            known: !matches!(topology.origin, Origin::Unknown { .. }),
            packages: topology.packages.len(),
            cores: topology.cores.len(),
            cpus: topology.cpus.len(),
            allowed_count: allowed.len(),
            allowed_cpus: allowed.to_string(),
            numa_nodes: topology
                .numa_nodes
                .iter()
                .map(|node| NumaSummary {
                    node: node.os_index,
                    memory_bytes: node.bytes,
                    cpus: node.cpus.to_string(),
                })
                .collect(),
            caches,
        }
    }
}

fn count_caches(level: u8, domains: &[Domain], caches: &mut Vec<CacheSummary>) {
    for domain in domains {
        let (bytes, shared_by_cpus) = (domain.bytes, domain.cpus.len());
        let known = caches
            .iter_mut()
            .find(|c| (c.level, c.bytes, c.shared_by_cpus) == (level, bytes, shared_by_cpus));
        match known {
            Some(cache) => cache.count += 1,
            None => caches.push(CacheSummary {
                level,
                count: 1,
                bytes,
                shared_by_cpus,
            }),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.known {
            writeln!(
                f,
                "packages: {}, cores: {}, CPUs: {} (from {})",
                self.packages, self.cores, self.cpus, self.origin
            )?;
            for cache in &self.caches {
                let size = match cache.bytes {
                    0 => "unknown size".to_owned(),
                    bytes => ByteSize(bytes).to_string(),
                };
                writeln!(
                    f,
                    "L{}: {} x {size}, each shared by {} CPU{}",
                    cache.level,
                    cache.count,
                    cache.shared_by_cpus,
                    if cache.shared_by_cpus == 1 { "" } else { "s" }
                )?;
            }
            for node in &self.numa_nodes {
                writeln!(
                    f,
                    "NUMA node {}: {} MiB, CPUs {}",
                    node.node,
                    node.memory_bytes >> 20,
                    if node.cpus.is_empty() {
                        "none"
                    } else {
                        &node.cpus
                    }
                )?;
            }
        } else {
            writeln!(f, "topology: {}", self.origin)?;
        }
        writeln!(
            f,
            "allowed CPUs: {} ({})",
            self.allowed_count, self.allowed_cpus
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_in_a_few_lines() {
        let mut summary = Summary::of(&crate::two_packages());
        assert_eq!(summary.caches.len(), 2);
        summary.allowed_cpus = "0-3".to_owned();
        summary.allowed_count = 4;
        assert_eq!(
            summary.to_string(),
            "packages: 2, cores: 8, CPUs: 16 (from hwloc)\n\
             L2: 8 x 1M, each shared by 2 CPUs\n\
             L3: 4 x 32M, each shared by 4 CPUs\n\
             NUMA node 0: 8192 MiB, CPUs 0-3,8-11\n\
             NUMA node 1: 16384 MiB, CPUs 4-7,12-15\n\
             allowed CPUs: 4 (0-3)\n"
        );
    }
}
