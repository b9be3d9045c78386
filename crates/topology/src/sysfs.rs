//! The topology as the kernel shows it below `/sys/devices/system`.

use std::fs;
use std::path::Path;
use std::str::FromStr;

use limic_policy::ByteSize;

use super::{CpuSet, Domain, Origin, Topology};

/// Where the kernel shows this machine.
pub(super) const ROOT: &str = "/sys/devices/system";

/// Cache indices of a CPU; the kernel knows fewer.
const CACHES: u32 = 16;

/// Reads the machine below `root`. A domain that the kernel does not show stays out.
///
/// # Errors
/// No CPU's package can be read; the text names the file.
pub(super) fn read(root: &Path) -> Result<Topology, String> {
    let folder = root.join("cpu");
    let online = folder.join("online");
    let cpus: CpuSet = text(&online)
        .ok_or_else(|| format!("{} cannot be read", online.display()))?
        .parse()
        .map_err(|error| format!("{}: {error}", online.display()))?;
    let mut topology = Topology {
        origin: Origin::Sysfs {
            root: root.to_owned(),
        },
        ..Topology::unknown(String::new())
    };
    for cpu in cpus.iter() {
        read_cpu(&folder.join(format!("cpu{cpu}")), cpu, &mut topology);
    }
    if topology.packages.is_empty() {
        return Err(format!(
            "no CPU below {} names its package",
            folder.display()
        ));
    }
    topology.numa_nodes = numa_nodes(&root.join("node"));
    if topology.numa_nodes.is_empty() {
        // A kernel without NUMA; all of the memory is one node.
        topology.numa_nodes.push(Domain {
            cpus: cpus.clone(),
            ..Domain::default()
        });
    }
    topology.cpus = cpus;
    Ok(topology)
}

/// Adds the domains of `cpu` that no CPU before it was in.
fn read_cpu(folder: &Path, cpu: u32, topology: &mut Topology) {
    // The names of the lists changed in Linux 5.3; later kernels have both.
    let list = |names: [&str; 2]| {
        let mut lists = names.iter().map(|name| folder.join("topology").join(name));
        lists
            .find_map(|list| value::<CpuSet>(&list))
            .map(Domain::from)
    };
    let package = || list(["package_cpus_list", "core_siblings_list"]);
    add(&mut topology.packages, cpu, package);
    let core = || list(["core_cpus_list", "thread_siblings_list"]);
    add(&mut topology.cores, cpu, core);
    for index in 0..CACHES {
        let cache = folder.join(format!("cache/index{index}"));
        let domains = match value::<u32>(&cache.join("level")) {
            None => break,
            Some(2) => &mut topology.l2,
            Some(3) => &mut topology.l3,
            Some(_) => continue,
        };
        add(domains, cpu, || {
            let instructions = text(&cache.join("type"))? == "Instruction";
            let shared: Option<CpuSet> = value(&cache.join("shared_cpu_list"));
            let cpus = shared.filter(|_| !instructions)?;
            let ByteSize(bytes) = value(&cache.join("size")).unwrap_or(ByteSize(0));
            Some(Domain {
                bytes,
                ..Domain::from(cpus)
            })
        });
    }
}

/// Adds the domain that `read` finds, unless that of `cpu` is known. The kernel shows a domain at
/// each of its CPUs.
fn add(domains: &mut Vec<Domain>, cpu: u32, read: impl FnOnce() -> Option<Domain>) {
    if domains.iter().all(|known| !known.cpus.contains(cpu)) {
        domains.extend(read().filter(|domain| domain.cpus.contains(cpu)));
    }
}

fn numa_nodes(folder: &Path) -> Vec<Domain> {
    // The list of nodes has the same form as one of CPUs.
    let nodes: CpuSet = value(&folder.join("online")).unwrap_or_default();
    nodes
        .iter()
        .filter_map(|node| {
            let folder = folder.join(format!("node{node}"));
            Some(Domain {
                // Empty for memory without CPUs.
                cpus: value(&folder.join("cpulist"))?,
                bytes: total_memory(&folder.join("meminfo")).unwrap_or(0),
                os_index: node,
            })
        })
        .collect()
}

/// The bytes in the line `Node 0 MemTotal:  4012345 kB`.
fn total_memory(meminfo: &Path) -> Option<u64> {
    let text = text(meminfo)?;
    let line = text.lines().find(|line| line.contains("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().rev().nth(1)?.parse().ok()?;
    kib.checked_mul(1024)
}

pub(super) fn value<T: FromStr>(path: &Path) -> Option<T> {
    text(path)?.parse().ok()
}

fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with these files; it goes away with the value.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory for the test");
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("below the root")).expect("a directory");
            fs::write(path, content).expect("a file");
        }
        root
    }

    #[test]
    fn a_tree_that_cannot_be_read_is_an_error_that_names_the_file() {
        let missing = read(Path::new("/nonexistent")).expect_err("nothing is there");
        assert_eq!(missing, "/nonexistent/cpu/online cannot be read");
        let odd = tree(&[("cpu/online", "zero")]);
        assert!(read(odd.path()).expect_err("not a list").contains("'zero'"));
        let bare = tree(&[("cpu/online", "0-1")]);
        assert!(
            read(bare.path())
                .expect_err("no package")
                .contains("names its package")
        );
    }

    #[test]
    fn lists_that_make_no_sense_stay_out() {
        let root = tree(&[
            ("cpu/online", "0-1"),
            ("cpu/cpu0/topology/package_cpus_list", "0-1"),
            // A core without the CPU that shows it, and a cache that is no list.
            ("cpu/cpu0/topology/core_cpus_list", "7"),
            ("cpu/cpu0/cache/index0/level", "3"),
            ("cpu/cpu0/cache/index0/type", "Unified"),
            ("cpu/cpu0/cache/index0/shared_cpu_list", "all"),
        ]);
        let topology = read(root.path()).expect("there is a package");
        assert_eq!(topology.packages.len(), 1);
        assert!(topology.cores.is_empty() && topology.l3.is_empty());
    }

    #[test]
    fn without_numa_all_memory_is_node_0() {
        let root = tree(&[
            ("cpu/online", "0-1"),
            ("cpu/cpu0/topology/core_siblings_list", "0-1"),
        ]);
        let topology = read(root.path()).expect("there is a package");
        let [node] = &*topology.numa_nodes else {
            panic!("{topology:?}")
        };
        assert_eq!((node.cpus.to_string(), node.os_index), ("0-1".into(), 0));
    }
}
