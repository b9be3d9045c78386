//! The test suite of mpi4py, whose tests come with its source.

use std::path::{Path, PathBuf};
use std::process::Command;

use limic_peers::Mpi;
use limic_runner::folders::target;
use limic_runner::{Failure, Job};

/// Tests that fail with this MPI over its own paths too, and why.
const KNOWN: [(&str, &str); 2] = [
    (
        "testGetFortranInfo",
        "MPICH answers otherwise over tcp and over its own shared memory too",
    ),
    (
        "testDistgraphcomm",
        "MPICH probes for a message of any source, and then receives one of any source, which \
         need not be the same: its own providers tcp and shm fail as well, if more seldom \
         (docs/libfabric.md)",
    ),
];

/// The suite, ready to run.
pub(super) struct Suite {
    python: PathBuf,
    main: PathBuf,
}

impl Suite {
    /// Installs the package, and its tests, into a folder of the build.
    pub(super) fn install() -> Result<Self, String> {
        let folder = target().join("mpi/mpi4py");
        let python = folder.join("bin/python");
        let source = folder.join("source");
        let entries = || {
            let all = std::fs::read_dir(&source).into_iter().flatten().flatten();
            all.map(|entry| entry.path())
        };
        let archive = || entries().find(|path| path.extension().is_some_and(|end| end == "gz"));
        // It is fetched last.
        if archive().is_none() {
            fetch(&folder, &python, &source).map_err(|why| why.to_string())?;
        }
        let archive = archive().ok_or("its source has no archive")?;
        Job::new("tar", 1)
            .arg("-C")
            .arg(&source)
            .arg("-xf")
            .arg(&archive)
            .run_aside()
            .map_err(|why| why.to_string())?;
        let main = entries()
            .map(|entry| entry.join("test/main.py"))
            .find(|main| main.is_file())
            .ok_or("its source has no tests")?;
        Ok(Self { python, main })
    }

    /// Adds the suite to a launcher.
    pub(super) fn add_to(&self, command: &mut Command, mpich: &Mpi) {
        let library = mpich.root().join("lib/libmpi.so.12");
        command
            .env("MPI4PY_LIBMPI", library)
            .arg(&self.python)
            .arg(&self.main)
            .arg("-q");
    }

    /// The number of tests that ran, or the names of those that failed.
    pub(super) fn judge(&self, out: &str, err: &str) -> Result<String, String> {
        let lines = || out.lines().chain(err.lines());
        let ran = lines().find(|line| line.starts_with("Ran ") && line.contains(" tests in "));
        let Some(ran) = ran else {
            let last = lines().rfind(|line| !line.trim().is_empty());
            return Err(format!("it did not end: {}", last.unwrap_or("no word")));
        };
        let mut failed: Vec<&str> = lines()
            .filter_map(|line| line.strip_prefix("FAIL: ").or(line.strip_prefix("ERROR: ")))
            .filter(|line| !KNOWN.iter().any(|(test, _)| line.starts_with(test)))
            .collect();
        failed.sort_unstable();
        failed.dedup();
        for (test, why) in KNOWN {
            if lines().any(|line| line.contains(test)) {
                println!("mpi4py: {test} fails: {why}");
            }
        }
        if failed.is_empty() {
            Ok(ran.to_owned())
        } else {
            Err(failed.join(", "))
        }
    }
}

fn fetch(folder: &Path, python: &Path, source: &Path) -> Result<(), Failure> {
    let make = Job::new("python3", 2).args(["-m", "venv"]);
    make.arg(folder).run_aside()?;
    let pip = || Job::new(python, 10).args(["-m", "pip", "-q"]);
    pip().args(["install", "mpi4py", "numpy"]).run_aside()?;
    pip()
        .args(["download", "--no-deps", "--no-binary", "mpi4py", "mpi4py"])
        .arg("-d")
        .arg(source)
        .run_aside()
}
