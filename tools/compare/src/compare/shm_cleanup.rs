//! Shared memory that a peer leaves behind when one of its processes is killed.
//!
//! MPIs, UCX and libfabric name their segments in `/dev/shm` and remove them at their end. limic's
//! segments have no names.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

const FOLDER: &str = "/dev/shm";

/// Prefixes of the names of the peers' segments.
const PREFIXES: [&str; 7] = [
    "mpich_",
    "Intel_MPI",
    "shm_",
    "sm_segment",
    "vader_segment",
    "ucx_",
    "fi_",
];

/// The names that were there at a moment.
pub(crate) struct Before(BTreeSet<OsString>);

impl Before {
    pub(crate) fn now() -> Self {
        Self(names(Path::new(FOLDER)))
    }

    /// Names that have come since.
    pub(crate) fn new_names(&self) -> Vec<OsString> {
        let now = names(Path::new(FOLDER));
        now.difference(&self.0).cloned().collect()
    }

    /// Removes segments of peers that have come since, belong to this user and are mapped by no
    /// process. Returns them.
    pub(crate) fn remove_new(&self) -> Vec<PathBuf> {
        let new = self.new_names().into_iter().filter(|name| {
            let text = name.to_string_lossy();
            PREFIXES.iter().any(|prefix| text.starts_with(prefix))
        });
        let mut left: Vec<PathBuf> = new.map(|name| Path::new(FOLDER).join(name)).collect();
        left.retain(|path| {
            let own = fs::symlink_metadata(path)
                .is_ok_and(|file| file.is_file() && file.uid() == geteuid().as_raw());
            own && !mapped(path)
        });
        for path in &left {
            // A process may have removed it meanwhile.
            let _ = fs::remove_file(path);
        }
        left
    }
}

fn names(folder: &Path) -> BTreeSet<OsString> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).collect()
}

/// Whether a process has the file mapped, among those that this user may look into.
fn mapped(path: &Path) -> bool {
    let Some(path) = path.to_str() else {
        return true;
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|process| fs::read_to_string(process.path().join("maps")).ok())
        .any(|maps| maps.lines().any(|line| line.ends_with(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_segments_of_peers_go_and_all_others_stay() {
        let folder = Path::new(FOLDER);
        let name = |kind: &str| format!("{kind}limic_test_{}", std::process::id());
        let paths = ["mpich_", "ucx_", "other_"].map(|kind| folder.join(name(kind)));
        let [old, new, other] = &paths;
        if fs::write(old, "x").is_err() {
            println!("SKIPPED: {FOLDER} cannot be written to");
            return;
        }
        let before = Before::now();
        for path in [new, other] {
            fs::write(path, "x").expect("writable");
        }
        before.remove_new();
        let there = paths.clone().map(|path| path.exists());
        for path in paths {
            let _ = fs::remove_file(path);
        }
        assert_eq!(there, [true, false, true]);
    }
}
