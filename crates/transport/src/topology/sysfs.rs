//! The topology through `/sys/devices/system`, for when hwloc fails.

use std::fs;
use std::path::Path;

use super::{CpuSet, Domain, Origin, Topology};
use crate::policy::ByteSize;

/// Reads the machine below `root`, which is `/sys/devices/system` outside of tests. What is
/// missing there stays out; an error only if not even one CPU's package can be read.
pub(super) fn read(root: &Path) -> Result<Topology, String> {
    let cpu_root = root.join("cpu");
    let online = cpu_root.join("online");
    let cpus: CpuSet = text(&online)
        .ok_or_else(|| format!("{} cannot be read", online.display()))?
        .parse()
        .map_err(|error| format!("{}: {error}", online.display()))?;
    let mut topology = Topology {
        cpus,
        ..Topology::unknown(String::new())
    };
    for cpu in topology.cpus.iter() {
        let dir = cpu_root.join(format!("cpu{cpu}"));
        // The lists were renamed in Linux 5.3, the old names still exist.
        let list = |names: [&str; 2]| {
            names
                .iter()
                .find_map(|name| text(&dir.join("topology").join(name))?.parse().ok())
        };
        if let Some(cpus) = list(["package_cpus_list", "core_siblings_list"]) {
            let package = text(&dir.join("topology/physical_package_id"));
            let os_index = package.and_then(|id| id.parse().ok()).unwrap_or(u32::MAX);
            add(
                &mut topology.packages,
                Domain {
                    cpus,
                    bytes: 0,
                    os_index,
                },
            );
        }
        if let Some(cpus) = list(["core_cpus_list", "thread_siblings_list"]) {
            add(
                &mut topology.cores,
                Domain {
                    cpus,
                    bytes: 0,
                    os_index: cpu,
                },
            );
        }
        // index0 and index1 are the L1 caches, but the order is not promised.
        for index in (0..16).map(|n| dir.join(format!("cache/index{n}"))) {
            let Some(level) = text(&index.join("level")) else {
                break;
            };
            let domains = match level.as_str() {
                "2" => &mut topology.l2,
                "3" => &mut topology.l3,
                _ => continue,
            };
            if text(&index.join("type")).is_some_and(|kind| kind == "Instruction") {
                continue;
            }
            let shared = text(&index.join("shared_cpu_list")).and_then(|list| list.parse().ok());
            let Some(cpus) = shared else { continue };
            let size = text(&index.join("size")).and_then(|size| size.parse().ok());
            let bytes = size.map_or(0, |ByteSize(bytes)| bytes);
            add(
                domains,
                Domain {
                    cpus,
                    bytes,
                    os_index: cpu,
                },
            );
        }
    }
    if topology.packages.is_empty() {
        return Err(format!(
            "no CPU below {} names its package",
            cpu_root.display()
        ));
    }
    topology.numa_nodes = numa_nodes(&root.join("node"));
    topology.origin = Origin::Sysfs {
        hwloc: "not asked".to_owned(),
    };
    Ok(topology)
}

fn numa_nodes(root: &Path) -> Vec<Domain> {
    // The list of nodes has the same form as one of CPUs.
    let nodes: Option<CpuSet> = text(&root.join("online")).and_then(|list| list.parse().ok());
    let nodes = nodes.unwrap_or_default();
    nodes
        .iter()
        .filter_map(|node| {
            let dir = root.join(format!("node{node}"));
            let cpus = text(&dir.join("cpulist"))?.parse().ok()?;
            // "Node 0 MemTotal:  4012345 kB"
            let kib = text(&dir.join("meminfo")).and_then(|info| {
                let line = info
                    .lines()
                    .find(|line| line.contains("MemTotal:"))?
                    .to_owned();
                line.split_whitespace().rev().nth(1)?.parse::<u64>().ok()
            });
            let bytes = kib.unwrap_or(0).saturating_mul(1024);
            Some(Domain {
                cpus,
                bytes,
                os_index: node,
            })
        })
        .collect()
}

/// Each domain shows up once for every CPU in it.
fn add(domains: &mut Vec<Domain>, domain: Domain) {
    if !domain.cpus.is_empty() && domains.iter().all(|known| known.cpus != domain.cpus) {
        domains.push(domain);
    }
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Locality;

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
    fn a_small_machine_is_read() {
        let mut files: Vec<(String, String)> = vec![
            ("cpu/online".into(), "0-3\n".into()),
            ("node/online".into(), "0\n".into()),
            ("node/node0/cpulist".into(), "0-3\n".into()),
            (
                "node/node0/meminfo".into(),
                "Node 0 MemTotal:  2048 kB\nNode 0 MemFree: 1 kB\n".into(),
            ),
        ];
        for cpu in 0..4 {
            let package = if cpu < 2 { "0-1" } else { "2-3" };
            for (path, content) in [
                ("topology/core_siblings_list", package),
                (
                    "topology/physical_package_id",
                    if cpu < 2 { "0" } else { "1" },
                ),
                ("topology/core_cpus_list", &cpu.to_string()),
                ("cache/index0/level", "1"),
                ("cache/index1/level", "3"),
                ("cache/index1/type", "Unified"),
                ("cache/index1/size", "512K"),
                ("cache/index1/shared_cpu_list", package),
            ] {
                files.push((format!("cpu/cpu{cpu}/{path}"), content.to_owned()));
            }
        }
        let files: Vec<_> = files
            .iter()
            .map(|(a, b)| (a.as_str(), b.as_str()))
            .collect();
        let root = tree(&files);
        let topology = read(root.path()).expect("all is there");
        assert_eq!((topology.packages.len(), topology.cores.len()), (2, 4));
        assert_eq!((topology.l2.len(), topology.l3.len()), (0, 2));
        assert_eq!(topology.l3[0].bytes, 512 << 10);
        assert_eq!(topology.numa_nodes[0].bytes, 2 << 20);
        let locality = |a: u32, b: u32| {
            topology.locality(&[a].into_iter().collect(), &[b].into_iter().collect())
        };
        assert_eq!(locality(0, 1), Locality::SharedCache);
        assert_eq!(locality(1, 2), Locality::OtherPackage);
    }

    #[test]
    fn a_missing_or_odd_tree_is_an_error_with_its_file() {
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
}
