//! The test suite of mpi4py, whose tests come with its source.

use std::path::PathBuf;
use std::process::Command;

use crate::job::{Job, target};
use crate::peers::Mpi;

/// Tests that fail with this MPI whatever moves its messages.
const KNOWN: [(&str, &str); 2] = [
    (
        "testGetFortranInfo",
        "MPICH answers otherwise over tcp and over its own shared memory too",
    ),
    (
        "testDistgraphcomm",
        "MPICH probes for a message of any source, and then receives one of any source, which need not be the same: its \
         own providers tcp and shm fail as well, if more seldom (docs/libfabric.md)",
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
        let text = |why: crate::failure::Failure| why.to_string();
        if !python.is_file() {
            Job::new("python3", 2)
                .args(&["-m", "venv"])
                .arg(&folder)
                .run_aside()
                .map_err(text)?;
        }
        let source = folder.join("source");
        if !source.is_dir() {
            let pip = |words: &[&str]| Job::new(&python, 10).args(&["-m", "pip", "-q"]).args(words);
            pip(&["install", "mpi4py", "numpy"])
                .run_aside()
                .map_err(text)?;
            pip(&[
                "download",
                "--no-deps",
                "--no-binary",
                "mpi4py",
                "mpi4py",
                "-d",
            ])
            .arg(&source)
            .run_aside()
            .map_err(text)?;
        }
        let entries = |folder: &PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
        let archive = entries(&source)
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|end| end == "gz"))
            .ok_or("its source has no archive")?;
        Job::new("tar", 1)
            .args(&["-C"])
            .arg(&source)
            .args(&["-xf"])
            .arg(&archive)
            .run_aside()
            .map_err(text)?;
        let main = entries(&source)
            .map(|entry| entry.path().join("test/main.py"))
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

    /// What became of it: how many tests ran, or which failed.
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
