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
    // hwloc is C, and its binding checks what it returns with assertions: one that does not hold
    // must not take the application down.
    std::panic::catch_unwind(|| build(TopologyBuilder::new()))
        .unwrap_or_else(|_| Err("its binding gave up on an assertion".to_owned()))
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
    let of_type = |kind| {
        let mut domains: Vec<Domain> = hwloc.objects_with_type(kind).filter_map(domain).collect();
        // As the kernel numbers them: hwloc goes by its own tree.
        domains.sort_by_key(|domain| domain.cpus.first());
        domains
    };
    let mut numa_nodes: Vec<Domain> = hwloc
        .objects_with_type(ObjectType::NUMANode)
        .map(|node| Domain {
            cpus: cpus(node),
            bytes: node.total_memory(),
            os_index: os_index(node),
        })
        .collect();
    // hwloc counts the nearest CPUs to memory that has none of its own; the node that has them
    // comes first.
    numa_nodes.sort_by_key(|node| node.os_index);
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
    let domain = Domain {
        bytes,
        ..Domain::from(cpus(object))
    };
    (!domain.cpus.is_empty()).then_some(domain)
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
    use limic_policy::Locality;

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
}
