//! What limic says about machines that it does not run on: each file in `machines` holds what
//! Linux shows of one below `/sys/devices/system`. One was recorded, by `machines/record.sh`, which
//! describes the format; the others are put together from published facts, as each says.

use std::fs;
use std::path::{Path, PathBuf};

use limic_policy::Locality::{self, OtherPackage, SamePackage, SharedCache};

use crate::{CpuSet, Place, Summary, Topology, sysfs};

/// A machine, and what is to be found on it.
struct Machine {
    name: &'static str,
    /// What Linux shows of it, in the format of `record.sh`.
    shown: &'static str,
    packages: usize,
    cores: usize,
    cpus: usize,
    numa_nodes: usize,
    /// Level, number, KiB and sharers of the caches that are alike.
    caches: &'static [(u8, usize, u64, usize)],
    /// How far apart processes are that may run on these CPUs.
    localities: &'static [(&'static str, &'static str, Locality)],
    /// Whether hwloc names packages and caches as sysfs does.
    #[cfg_attr(
        not(feature = "hwloc"),
        expect(dead_code, reason = "nothing asks hwloc")
    )]
    hwloc_agrees: bool,
}

macro_rules! machine {
    ($name:literal) => {
        Machine {
            name: $name,
            shown: include_str!(concat!("machines/", $name, ".txt")),
            packages: 1,
            cores: 0,
            cpus: 0,
            numa_nodes: 1,
            caches: &[],
            localities: &[],
            hwloc_agrees: true,
        }
    };
}

const MACHINES: [Machine; 14] = [
    Machine {
        cores: 2,
        cpus: 2,
        caches: &[(2, 2, 1024, 1), (3, 1, 32768, 2)],
        localities: &[("0", "1", SharedCache)],
        ..machine!("amd-epyc-9004-vm-2")
    },
    Machine {
        packages: 2,
        cores: 128,
        cpus: 256,
        numa_nodes: 2,
        caches: &[(2, 128, 512, 2), (3, 32, 16384, 8)],
        localities: &[
            ("0", "128", SharedCache),
            ("0-3", "128-131", SharedCache),
            ("3", "4", SamePackage),
            ("63", "64", OtherPackage),
            ("64", "255", SamePackage),
        ],
        ..machine!("amd-epyc-7702-2s")
    },
    Machine {
        cores: 96,
        cpus: 192,
        numa_nodes: 5,
        caches: &[(2, 96, 1024, 2), (3, 12, 32768, 16)],
        localities: &[
            ("0", "7", SharedCache),
            ("7", "8", SamePackage),
            ("88-95", "184-191", SharedCache),
        ],
        ..machine!("amd-epyc-9654-nps4-cxl")
    },
    Machine {
        cores: 16,
        cpus: 32,
        caches: &[(2, 16, 512, 2), (3, 8, 16384, 4)],
        localities: &[("6", "7,22", SharedCache), ("7", "8", SamePackage)],
        ..machine!("amd-epyc-7302p")
    },
    Machine {
        cores: 4,
        cpus: 4,
        caches: &[(2, 4, 512, 2), (3, 2, 16384, 4)],
        localities: &[("6", "7", SharedCache), ("7", "8", SamePackage)],
        // hwloc leaves the CPUs of others out, so that its names begin at the container's.
        hwloc_agrees: false,
        ..machine!("amd-epyc-7302p-container")
    },
    Machine {
        packages: 2,
        cores: 40,
        cpus: 80,
        numa_nodes: 2,
        caches: &[(2, 40, 1024, 2), (3, 2, 28160, 40)],
        localities: &[
            ("0", "40", SharedCache),
            ("0", "78", SharedCache),
            ("0", "1", OtherPackage),
        ],
        ..machine!("intel-xeon-gold-6148-2s")
    },
    Machine {
        packages: 2,
        cores: 56,
        cpus: 112,
        numa_nodes: 4,
        caches: &[(2, 56, 1024, 2), (3, 2, 39424, 56)],
        localities: &[("0", "4", SharedCache), ("27", "28", OtherPackage)],
        ..machine!("intel-xeon-8280-2s-snc2")
    },
    Machine {
        packages: 2,
        cores: 112,
        cpus: 224,
        numa_nodes: 4,
        caches: &[(2, 112, 2048, 2), (3, 2, 115_200, 112)],
        localities: &[("0", "167", SharedCache), ("55", "56", OtherPackage)],
        ..machine!("intel-xeon-max-9480-2s-flat")
    },
    Machine {
        cores: 16,
        cpus: 24,
        caches: &[(2, 8, 1280, 2), (2, 2, 2048, 4), (3, 1, 30720, 24)],
        localities: &[("0", "1", SharedCache), ("0", "23", SharedCache)],
        ..machine!("intel-core-i9-12900k")
    },
    Machine {
        cores: 16,
        cpus: 22,
        caches: &[(2, 7, 2048, 2), (2, 2, 2048, 4), (3, 1, 24576, 20)],
        localities: &[
            ("0", "19", SharedCache),
            ("19", "20", SamePackage),
            // They have an L2 cache in common, and no L3.
            ("20", "21", SharedCache),
        ],
        ..machine!("intel-core-ultra-7-155h")
    },
    Machine {
        cores: 5,
        cpus: 5,
        caches: &[(2, 5, 256, 1), (3, 1, 12288, 5)],
        localities: &[
            ("0", "5", SharedCache),
            // Nothing is known of a CPU that is switched off.
            ("0", "2", SamePackage),
        ],
        ..machine!("intel-core-i7-8700-offline")
    },
    Machine {
        cores: 80,
        cpus: 80,
        caches: &[(2, 80, 1024, 1)],
        localities: &[("0", "1", SamePackage)],
        ..machine!("arm-ampere-altra-q80")
    },
    Machine {
        cores: 64,
        cpus: 64,
        caches: &[(2, 64, 1024, 1), (3, 1, 32768, 64)],
        localities: &[("0", "63", SharedCache)],
        ..machine!("arm-graviton3")
    },
    Machine {
        packages: 4,
        cores: 4,
        cpus: 4,
        localities: &[("0", "0", SamePackage), ("0", "1", OtherPackage)],
        ..machine!("vm-without-caches")
    },
];

/// An empty folder, which goes away with the value. Thousands of files are quick in memory.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a folder for the test")
}

/// A machine's files in a folder.
fn files(machine: &Machine) -> tempfile::TempDir {
    let root = folder();
    for line in machine.shown.lines().filter(|line| !line.starts_with('#')) {
        let (paths, content) = line.split_once(" =").expect("PATH = CONTENT");
        for path in expand(paths) {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("below the root")).expect("a folder");
            fs::write(path, format!("{}\n", content.trim())).expect("a file");
        }
    }
    root
}

/// The paths of `FOLDER[NUMBERS]: FILE...`, or the one that there is.
fn expand(paths: &str) -> Vec<PathBuf> {
    let Some((folder, files)) = paths.split_once("]: ") else {
        return vec![paths.into()];
    };
    let (folder, numbers) = folder.split_once('[').expect("FOLDER[NUMBERS]");
    let numbers: CpuSet = numbers.parse().expect("a list of numbers");
    let of_number = |number| {
        let folder = format!("{folder}{number}");
        files
            .split(' ')
            .map(move |file| Path::new(&folder).join(file))
    };
    numbers.iter().flat_map(of_number).collect()
}

fn read(machine: &Machine) -> Topology {
    sysfs::read(files(machine).path()).unwrap_or_else(|why| panic!("{}: {why}", machine.name))
}

fn set(cpus: &str) -> CpuSet {
    cpus.parse().expect("a CPU list")
}

#[test]
fn every_machine_is_read_from_sysfs() {
    for machine in &MACHINES {
        let topology = read(machine);
        let summary = Summary::of(&topology);
        let name = machine.name;
        assert_eq!(summary.packages, machine.packages, "{name}: packages");
        assert_eq!(summary.cores, machine.cores, "{name}: cores");
        assert_eq!(summary.cpus, machine.cpus, "{name}: CPUs");
        assert_eq!(summary.numa_nodes.len(), machine.numa_nodes, "{name}: NUMA");
        let caches = summary.caches.iter();
        let caches: Vec<_> = caches
            .map(|c| (c.level, c.count, c.bytes >> 10, c.shared_by_cpus))
            .collect();
        assert_eq!(caches, machine.caches, "{name}: caches");
        for &(one, other, want) in machine.localities {
            let locality = topology.locality(&set(one), &set(other));
            assert_eq!(locality, want, "{name}: CPUs {one} and {other}");
        }
    }
}

#[test]
fn a_container_names_caches_and_packages_as_its_host_does() {
    let of = |name| read(MACHINES.iter().find(|m| m.name == name).expect("a machine"));
    let (host, container) = (of("amd-epyc-7302p"), of("amd-epyc-7302p-container"));
    for cpus in ["6", "7", "8", "9", "6-7", "6-9"] {
        let cpus = set(cpus);
        assert_eq!(
            Place::of(&host, &cpus),
            Place::of(&container, &cpus),
            "{cpus}"
        );
    }
}

#[test]
fn memory_without_cpus_is_a_node_of_its_own() {
    for (name, nodes) in [
        ("amd-epyc-9654-nps4-cxl", &[4][..]),
        ("intel-xeon-max-9480-2s-flat", &[2, 3]),
    ] {
        let topology = read(MACHINES.iter().find(|m| m.name == name).expect("a machine"));
        let summary = Summary::of(&topology);
        let bare = summary
            .numa_nodes
            .iter()
            .filter(|node| node.cpus.is_empty());
        assert_eq!(
            bare.map(|node| node.node).collect::<Vec<_>>(),
            nodes,
            "{name}"
        );
        let zero = Place::of(&topology, &set("0"));
        assert_eq!(zero.numa_node(), Some(0), "{name}");
    }
}

/// hwloc reads another machine than its own only in a process with `HWLOC_FSROOT`: the test starts
/// itself once for each.
#[cfg(feature = "hwloc")]
mod hwloc {
    use std::process::Command;

    use super::*;
    use crate::{Domain, hwloc};

    /// Names the files of a machine in a process that looks at them with hwloc.
    const FILES: &str = "LIMIC_TEST_FILES";

    #[test]
    fn hwloc_and_sysfs_agree_about_every_machine() {
        let test = "machines::hwloc::hwloc_and_sysfs_agree_about_every_machine";
        if let Some(files) = std::env::var_os(FILES) {
            return compare(Path::new(&files));
        }
        for machine in MACHINES.iter().filter(|machine| machine.hwloc_agrees) {
            let files = files(machine);
            add_masks(files.path());
            let root = folder();
            let devices = root.path().join("sys/devices");
            fs::create_dir_all(&devices).expect("a folder");
            std::os::unix::fs::symlink(files.path(), devices.join("system")).expect("a link");
            let output = Command::new(std::env::current_exe().expect("this program"))
                .args([test, "--exact", "--nocapture"])
                .env(FILES, files.path())
                .env("HWLOC_FSROOT", root.path())
                // It asks the processor on which it runs.
                .env("HWLOC_COMPONENTS", "-x86")
                .output()
                .expect("this program starts again");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {said}", machine.name);
        }
    }

    /// In the process that `HWLOC_FSROOT` has sent to the files.
    fn compare(files: &Path) {
        let hwloc = hwloc::read().expect("hwloc reads the files");
        let sysfs = sysfs::read(files).expect("limic reads the files");
        let domains = |domains: &[Domain]| {
            let text = |domain: &Domain| format!("{}: {} B", domain.cpus, domain.bytes);
            domains.iter().map(text).collect::<Vec<_>>()
        };
        assert_eq!(hwloc.cpus.to_string(), sysfs.cpus.to_string());
        assert_eq!(domains(&hwloc.cores), domains(&sysfs.cores));
        assert_eq!(domains(&hwloc.packages), domains(&sysfs.packages));
        assert_eq!(domains(&hwloc.l2), domains(&sysfs.l2));
        assert_eq!(domains(&hwloc.l3), domains(&sysfs.l3));
        assert_eq!(hwloc.numa_nodes.len(), sysfs.numa_nodes.len());
        assert_eq!(Summary::of(&hwloc).caches, Summary::of(&sysfs).caches);
        for cpu in sysfs.cpus.iter() {
            let at = |topology| Place::of(topology, &CpuSet::from_iter([cpu]));
            assert_eq!(at(&hwloc), at(&sysfs), "CPU {cpu}");
        }
    }

    /// Beside each list of CPUs the same as a mask, which the kernel shows too and hwloc reads.
    fn add_masks(folder: &Path) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy();
            let mask = match &*name {
                "shared_cpu_list" => "shared_cpu_map",
                "cpulist" => "cpumap",
                _ if path.is_dir() => {
                    add_masks(&path);
                    continue;
                }
                name => match name.strip_suffix("_list") {
                    Some(mask) => mask,
                    None => continue,
                },
            };
            let cpus = set(&fs::read_to_string(&path).expect("a list"));
            let last = cpus.iter().last().unwrap_or(0) / 32;
            let word = |word| {
                let bits = (0..32).filter(|bit| cpus.contains(word * 32 + bit));
                format!("{:08x}", bits.fold(0_u32, |mask, bit| mask | 1 << bit))
            };
            let words: Vec<String> = (0..=last).rev().map(word).collect();
            fs::write(path.with_file_name(mask), words.join(",") + "\n").expect("a mask");
        }
    }

    #[test]
    fn hwloc_and_sysfs_agree_about_this_machine() {
        let sysfs = match sysfs::read(Path::new(sysfs::ROOT)) {
            Ok(topology) => topology,
            Err(why) => return println!("SKIPPED: sysfs: {why}"),
        };
        let hwloc = hwloc::read().expect("hwloc reads this machine");
        let allowed = CpuSet::allowed().expect("the kernel says where we may run");
        for cpu in allowed.iter().take(64) {
            let at = |topology| Place::of(topology, &CpuSet::from_iter([cpu]));
            let (hwloc, sysfs) = (at(&hwloc), at(&sysfs));
            assert_eq!(hwloc.package, sysfs.package, "CPU {cpu}");
            if sysfs.cache == Place::UNKNOWN {
                println!("SKIPPED: the cache of CPU {cpu}: sysfs does not show it");
            } else {
                assert_eq!(hwloc.cache, sysfs.cache, "CPU {cpu}");
            }
        }
    }
}
