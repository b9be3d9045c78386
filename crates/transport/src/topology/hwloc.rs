//! The topology through hwloc.

use hwlocality::Topology as Hwloc;
use hwlocality::cpu::cpuset::CpuSet as HwlocSet;
use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::ObjectAttributes;
use hwlocality::object::types::ObjectType;
use hwlocality::topology::builder::{BuildFlags, TopologyBuilder};

use super::{CpuSet, Domain, Origin, Topology};

/// Reads this machine, or what hwloc's own environment variables put in its place.
pub(super) fn read() -> Result<Topology, String> {
    build(TopologyBuilder::new())
}

/// Loads what `builder` describes, with the CPUs that this process may not use: names of packages
/// and caches must come out the same in every process.
fn build(builder: TopologyBuilder) -> Result<Topology, String> {
    let hwloc = builder
        .with_flags(BuildFlags::INCLUDE_DISALLOWED)
        .map_err(|error| error.to_string())?
        .build()
        .map_err(|error| error.to_string())?;
    Ok(convert(&hwloc))
}

fn convert(hwloc: &Hwloc) -> Topology {
    let of_type =
        |kind| -> Vec<Domain> { hwloc.objects_with_type(kind).filter_map(domain).collect() };
    // Memory without CPUs (a node of its own) has an empty set, and stays.
    let numa_nodes = hwloc
        .objects_with_type(ObjectType::NUMANode)
        .map(|node| Domain {
            cpus: cpus(node),
            bytes: node.total_memory(),
            os_index: os_index(node),
        })
        .collect();
    Topology {
        origin: Origin::Hwloc,
        cpus: hwloc
            .objects_with_type(ObjectType::PU)
            .flat_map(|pu| cpus(pu).iter().collect::<Vec<_>>())
            .collect(),
        cores: of_type(ObjectType::Core),
        packages: of_type(ObjectType::Package),
        numa_nodes,
        l2: of_type(ObjectType::L2Cache),
        l3: of_type(ObjectType::L3Cache),
    }
}

fn domain(object: &TopologyObject) -> Option<Domain> {
    let bytes = match object.attributes() {
        Some(ObjectAttributes::Cache(cache)) => cache.size().map_or(0, core::num::NonZero::get),
        _ => 0,
    };
    let cpus = cpus(object);
    (!cpus.is_empty()).then(|| Domain {
        cpus,
        bytes,
        os_index: os_index(object),
    })
}

fn cpus(object: &TopologyObject) -> CpuSet {
    let Some(set) = object.cpuset() else {
        return CpuSet::new();
    };
    let set: &HwlocSet = &set;
    // A bitmap without end would be iterated over for ever; no machine has one.
    if set.weight().is_none() {
        return CpuSet::new();
    }
    set.iter_set()
        .filter_map(|cpu| u32::try_from(usize::from(cpu)).ok())
        .collect()
}

fn os_index(object: &TopologyObject) -> u32 {
    object
        .os_index()
        .and_then(|n| u32::try_from(n).ok())
        .unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Locality;

    #[test]
    fn a_synthetic_machine_is_read() {
        let builder = TopologyBuilder::new()
            .from_synthetic("pack:2 l3:2 l2:2 core:1 pu:2")
            .expect("hwloc knows this notation");
        let topology = build(builder).expect("hwloc builds it");
        assert_eq!(
            (
                topology.packages.len(),
                topology.cores.len(),
                topology.cpus.len()
            ),
            (2, 8, 16)
        );
        assert_eq!((topology.l2.len(), topology.l3.len()), (8, 4));
        let locality = |a: u32, b: u32| {
            topology.locality(&[a].into_iter().collect(), &[b].into_iter().collect())
        };
        assert_eq!(locality(0, 1), Locality::SharedCache);
        assert_eq!(locality(0, 3), Locality::SharedCache);
        assert_eq!(locality(0, 4), Locality::SamePackage);
        assert_eq!(locality(0, 8), Locality::OtherPackage);
    }

    #[test]
    fn hwloc_and_sysfs_agree_about_this_machine() {
        let hwloc = match read() {
            Ok(topology) => topology,
            Err(why) => return println!("SKIPPED: hwloc: {why}"),
        };
        let sysfs = match super::super::sysfs::read(std::path::Path::new("/sys/devices/system")) {
            Ok(topology) => topology,
            Err(why) => return println!("SKIPPED: sysfs: {why}"),
        };
        let allowed = CpuSet::allowed().expect("the kernel says where we may run");
        for cpu in allowed.iter().take(64) {
            let one = [cpu].into_iter().collect();
            let (a, b) = (
                super::super::Place::of(&hwloc, &one),
                super::super::Place::of(&sysfs, &one),
            );
            assert_eq!(a.package, b.package, "CPU {cpu}");
            if sysfs.l2.is_empty() && sysfs.l3.is_empty() {
                println!("SKIPPED: caches: sysfs does not show them");
            } else {
                assert_eq!(a.cache, b.cache, "CPU {cpu}");
            }
        }
    }
}
