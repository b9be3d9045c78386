//! Where a process may run, in 8 bytes.

use limic_policy::Locality;

use super::{CpuSet, Domain, Topology, domain_of};

/// Where a process may run, compact enough for a hand-shake.
///
/// Packages and caches are named by the lowest CPU number that belongs to them, which is the same
/// in every process of a machine, whatever part of it the process may use and whichever way the
/// topology was read. Each field may also be [`Place::UNKNOWN`] or [`Place::MIXED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Lowest CPU of the package.
    pub package: u16,
    /// Lowest CPU of those that share the last-level cache: L3, or L2 of a CPU without L3.
    pub cache: u16,
    /// The NUMA node's number.
    pub numa: u16,
    /// The CPU, if the process is bound to one.
    pub cpu: u16,
}

impl Place {
    /// Length of an encoded place in bytes.
    pub const LEN: usize = 8;
    /// Value of a field about which nothing is known.
    pub const UNKNOWN: u16 = u16::MAX;
    /// Value of a field that differs between the CPUs that the process may run on.
    pub const MIXED: u16 = u16::MAX - 1;

    /// A process about which nothing is known.
    pub const ANYWHERE: Self = Self {
        package: Self::UNKNOWN,
        cache: Self::UNKNOWN,
        numa: Self::UNKNOWN,
        cpu: Self::UNKNOWN,
    };

    /// Where the calling thread may run, by its CPU affinity. One system call; the first call in a
    /// process reads the topology too.
    #[must_use]
    pub fn current() -> Self {
        CpuSet::allowed().map_or(Self::ANYWHERE, |cpus| Self::of(Topology::detect(), &cpus))
    }

    /// Where a process that may run on `cpus` is.
    #[must_use]
    pub fn of(topology: &Topology, cpus: &CpuSet) -> Self {
        let lowest = |domain: &Domain| domain.cpus.first().unwrap_or(u32::MAX);
        let cpu = match cpus.len() {
            0 => Self::UNKNOWN,
            1 => Self::field(cpus.first().unwrap_or(u32::MAX)),
            _ => Self::MIXED,
        };
        Self {
            package: Self::common(cpus, |cpu| domain_of(&topology.packages, cpu), lowest),
            cache: Self::common(cpus, |cpu| topology.last_level_cache(cpu), lowest),
            numa: Self::common(
                cpus,
                |cpu| domain_of(&topology.numa_nodes, cpu),
                |node| node.os_index,
            ),
            cpu,
        }
    }

    /// How far apart processes at two places may be, if they are two processes. Never
    /// [`Locality::Itself`] or [`Locality::SameProcess`], which a place cannot tell.
    ///
    /// What is not known counts as the same package; what is mixed as the worst case.
    #[must_use]
    pub const fn locality(&self, other: &Self) -> Locality {
        if self.package == Self::UNKNOWN || other.package == Self::UNKNOWN {
            Locality::SamePackage
        } else if self.package == Self::MIXED || self.package != other.package {
            Locality::OtherPackage
        } else if self.cache < Self::MIXED && self.cache == other.cache {
            Locality::SharedCache
        } else {
            Locality::SamePackage
        }
    }

    /// Whether the process is bound to one CPU.
    #[must_use]
    pub const fn is_bound(&self) -> bool {
        self.cpu < Self::MIXED
    }

    /// The NUMA node, if all the CPUs belong to one that is known.
    #[must_use]
    pub fn numa_node(&self) -> Option<u32> {
        (self.numa < Self::MIXED).then(|| u32::from(self.numa))
    }

    /// For the hand-shake: package, cache, NUMA node and CPU, each little-endian.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let fields = [self.package, self.cache, self.numa, self.cpu];
        for (to, field) in bytes.chunks_exact_mut(2).zip(fields) {
            to.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    /// Decodes what [`Place::to_bytes`] made. Every value is valid: a peer that lies gets a path
    /// that suits it badly, nothing worse.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        let [p0, p1, c0, c1, n0, n1, u0, u1] = bytes;
        Self {
            package: u16::from_le_bytes([p0, p1]),
            cache: u16::from_le_bytes([c0, c1]),
            numa: u16::from_le_bytes([n0, n1]),
            cpu: u16::from_le_bytes([u0, u1]),
        }
    }

    /// A number as a field; what does not fit is unknown.
    fn field(number: u32) -> u16 {
        u16::try_from(number)
            .ok()
            .filter(|n| *n < Self::MIXED)
            .unwrap_or(Self::UNKNOWN)
    }

    /// The name of the one domain that holds all of `cpus`. Mixed, if several hold some. Unknown,
    /// if one of the CPUs is in none.
    fn common<'t>(
        cpus: &CpuSet,
        domain_of: impl Fn(u32) -> Option<&'t Domain>,
        name: impl Fn(&Domain) -> u32,
    ) -> u16 {
        let mut found: Option<&Domain> = None;
        let mut mixed = false;
        for cpu in cpus.iter() {
            if found.is_some_and(|domain| domain.cpus.contains(cpu)) {
                continue;
            }
            let Some(domain) = domain_of(cpu) else {
                return Self::UNKNOWN;
            };
            mixed |= found.is_some();
            found = Some(domain);
        }
        match found {
            None => Self::UNKNOWN,
            Some(_) if mixed => Self::MIXED,
            Some(domain) => Self::field(name(domain)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::two_packages;
    use proptest::prelude::*;

    fn place(cpus: &str) -> Place {
        Place::of(&two_packages(), &cpus.parse().expect("a CPU list"))
    }

    #[test]
    fn fields_name_what_the_cpus_have_in_common() {
        assert_eq!(
            place("6"),
            Place {
                package: 4,
                cache: 6,
                numa: 1,
                cpu: 6
            }
        );
        assert_eq!(
            place("6,15"),
            Place {
                package: 4,
                cache: 6,
                numa: 1,
                cpu: Place::MIXED
            }
        );
        let package = place("4-7");
        assert_eq!(
            (package.package, package.cache, package.numa_node()),
            (4, Place::MIXED, Some(1))
        );
        let all = place("0-15");
        assert_eq!(
            (all.package, all.cache, all.numa_node()),
            (Place::MIXED, Place::MIXED, None)
        );
        assert_eq!(place(""), Place::ANYWHERE);
        assert_eq!(place("3,99").package, Place::UNKNOWN);
        assert!(place("3").is_bound() && !place("3-4").is_bound() && !place("").is_bound());
    }

    #[test]
    fn without_l3_a_shared_l2_counts() {
        let mut topology = two_packages();
        topology.l3.clear();
        let at = |cpus: &str| Place::of(&topology, &cpus.parse().expect("a CPU list"));
        assert_eq!(at("0").locality(&at("8")), Locality::SharedCache);
        assert_eq!(at("0").locality(&at("1")), Locality::SamePackage);
        topology.l2.clear();
        let at = |cpus: &str| Place::of(&topology, &cpus.parse().expect("a CPU list"));
        assert_eq!(
            at("0").locality(&at("0")),
            Locality::SamePackage,
            "nothing says otherwise"
        );
        assert_eq!(at("0").locality(&at("4")), Locality::OtherPackage);
    }

    #[test]
    fn the_unknown_is_on_the_same_package() {
        assert_eq!(
            Place::ANYWHERE.locality(&Place::ANYWHERE),
            Locality::SamePackage
        );
        assert_eq!(Place::ANYWHERE.locality(&place("0")), Locality::SamePackage);
        assert_eq!(
            place("0-15").locality(&Place::ANYWHERE),
            Locality::SamePackage
        );
    }

    proptest! {
        #[test]
        fn bytes_come_back_and_both_ends_agree(a: [u8; 8], b: [u8; 8]) {
            let (mine, theirs) = (Place::from_bytes(a), Place::from_bytes(b));
            prop_assert_eq!(mine.to_bytes(), a);
            prop_assert_eq!(mine.locality(&theirs), theirs.locality(&mine));
            prop_assert!(mine.locality(&theirs) >= Locality::SharedCache);
        }

        #[test]
        fn more_cpus_never_bring_processes_closer(
            mine in proptest::collection::vec(0..16_u32, 1..4),
            theirs in proptest::collection::vec(0..16_u32, 1..4),
        ) {
            let topology = two_packages();
            let locality = |a: &[u32], b: &[u32]| {
                topology.locality(&a.iter().copied().collect(), &b.iter().copied().collect())
            };
            let worst = mine
                .iter()
                .flat_map(|a| theirs.iter().map(|b| locality(&[*a], &[*b])))
                .max();
            prop_assert!(Some(locality(&mine, &theirs)) >= worst);
        }
    }
}
