//! What stands against a reservation of memory, looked at before it is tried:
//! beyond its memory cgroup's limit a process is not refused but killed, and
//! beyond RLIMIT_FSIZE it gets a deadly signal.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

use super::MemoryLimit;

/// Where the kernel's files are; tests put others in their place.
pub(super) struct Sources {
    cgroup_root: PathBuf,
    self_cgroup: PathBuf,
    meminfo: PathBuf,
}

impl Sources {
    pub(super) fn system() -> Self {
        Self {
            cgroup_root: "/sys/fs/cgroup".into(),
            self_cgroup: "/proc/self/cgroup".into(),
            meminfo: "/proc/meminfo".into(),
        }
    }

    /// The limit that `bytes` more of shared memory would certainly break, if
    /// any. What cannot be read is taken for no limit.
    pub(super) fn obstacle(&self, bytes: u64) -> Option<MemoryLimit> {
        let file_size = getrlimit(Resource::Fsize).current;
        if let Some(limit) = file_size.filter(|limit| bytes > *limit) {
            return Some(MemoryLimit::FileSize { limit });
        }
        let meminfo = read_to_string(&self.meminfo).unwrap_or_default();
        let swap = entry(&meminfo, "SwapFree:").map_or(0, |kib| kib.saturating_mul(1024));
        if let Some(obstacle) = self.cgroup_obstacle(bytes, swap) {
            return Some(obstacle);
        }
        let available = entry(&meminfo, "MemAvailable:")?
            .saturating_mul(1024)
            .saturating_add(swap);
        (bytes > available).then_some(MemoryLimit::System { available })
    }

    /// Walks from this process' memory cgroup up to the root: each limit on the
    /// way holds.
    fn cgroup_obstacle(&self, bytes: u64, swap: u64) -> Option<MemoryLimit> {
        let membership = read_to_string(&self.self_cgroup).ok()?;
        for line in membership.lines() {
            // "hierarchy:controllers:path"; version 2 has no controllers.
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
                continue;
            };
            let (root, names) = if controllers.is_empty() {
                (self.cgroup_root.clone(), &VERSION_2)
            } else if controllers.split(',').any(|name| name == "memory") {
                (self.cgroup_root.join("memory"), &VERSION_1)
            } else {
                continue;
            };
            let mut group = PathBuf::from(path.trim_start_matches('/'));
            loop {
                if let Some(obstacle) = names.obstacle(&root.join(&group), bytes, swap) {
                    return Some(obstacle);
                }
                if !group.pop() {
                    break;
                }
            }
        }
        None
    }
}

/// File names of one version of the cgroup interface.
struct Names {
    limit: &'static str,
    usage: &'static str,
    caches: [&'static str; 2],
}

const VERSION_2: Names = Names {
    limit: "memory.max",
    usage: "memory.current",
    caches: ["inactive_file", "active_file"],
};

const VERSION_1: Names = Names {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    caches: ["total_inactive_file", "total_active_file"],
};

impl Names {
    fn obstacle(&self, group: &Path, bytes: u64, swap: u64) -> Option<MemoryLimit> {
        let file = group.join(self.limit);
        let number = |path: PathBuf| read_to_string(path).ok()?.trim().parse::<u64>().ok();
        // "max" is no number: no limit.
        let limit = number(file.clone())?;
        let usage = number(group.join(self.usage)).unwrap_or(0);
        let stat = read_to_string(group.join("memory.stat")).unwrap_or_default();
        let cache: u64 = self
            .caches
            .iter()
            .filter_map(|name| entry(&stat, name))
            .sum();
        // The page cache gives way, and with swap everything does.
        let in_use = usage.saturating_sub(cache).saturating_sub(swap);
        (bytes > limit.saturating_sub(in_use)).then(|| MemoryLimit::Cgroup {
            file: file.display().to_string(),
            limit,
            in_use,
        })
    }
}

/// The number behind `name` in a file of lines "name number ...".
fn entry(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next() == Some(name)).then(|| words.next()?.parse().ok())?
    })
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use std::fs;

    use super::*;

    /// A directory that is removed at the end.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("limic-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn put(&self, file: &str, text: &str) {
            let path = self.0.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn sources(&self) -> Sources {
            Sources {
                cgroup_root: self.0.clone(),
                self_cgroup: self.0.join("self"),
                meminfo: self.0.join("meminfo"),
            }
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_limit_further_up_holds() {
        let files = Directory::new("v2");
        files.put("self", "0::/job/step\n");
        files.put("job/step/memory.max", "max\n");
        files.put("job/memory.max", "1000000\n");
        files.put("job/memory.current", "700000\n");
        files.put(
            "job/memory.stat",
            "anon 5\nactive_file 100000\ninactive_file 200000\n",
        );
        let sources = files.sources();
        assert_eq!(sources.obstacle(600_000), None);
        let obstacle = sources.obstacle(600_001).unwrap();
        assert!(
            matches!(&obstacle, MemoryLimit::Cgroup { file, limit: 1_000_000, in_use: 400_000 }
                if file.ends_with("job/memory.max")),
            "{obstacle}"
        );
    }

    #[test]
    fn version_1_and_the_machine() {
        let files = Directory::new("v1");
        files.put("self", "9:name=systemd:/\n4:cpu,memory:/job\n");
        files.put("memory/job/memory.limit_in_bytes", "5000\n");
        files.put(
            "meminfo",
            "MemTotal: 9 kB\nMemAvailable: 4 kB\nSwapFree: 0 kB\n",
        );
        let sources = files.sources();
        assert_eq!(sources.obstacle(4096), None);
        assert_eq!(
            sources.obstacle(4097),
            Some(MemoryLimit::System { available: 4096 })
        );
        assert!(matches!(
            sources.obstacle(5001),
            Some(MemoryLimit::Cgroup { limit: 5000, .. })
        ));
    }

    #[test]
    fn nothing_readable_is_no_obstacle() {
        let files = Directory::new("none");
        assert_eq!(files.sources().obstacle(1 << 20), None);
    }
}
