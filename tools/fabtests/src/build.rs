//! Configures and builds fabtests.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use limic_runner::folders::{self, target};
use limic_runner::packages::{self, Need, has_library, program};
use limic_runner::{Failure, Job, console};

/// What the build needs.
const NEEDS: [Need; 1] = [Need {
    package: "make",
    present: || program("make").is_some(),
}];

/// What it needs unless a libfabric is named.
const NEEDS_OF_DISTRIBUTION: [Need; 1] = [Need {
    package: "libfabric-dev",
    present: || has_library("libfabric"),
}];

/// What makes `configure`, which a release brings and the repository does not.
const NEEDS_FOR_CONFIGURE: [Need; 3] = [
    Need {
        package: "autoconf",
        present: || program("autoreconf").is_some(),
    },
    Need {
        package: "automake",
        present: || program("automake").is_some(),
    },
    Need {
        package: "libtool",
        present: || program("libtoolize").is_some(),
    },
];

/// fabtests that are built.
pub(crate) struct Built {
    /// The folder of the source.
    pub(crate) source: PathBuf,
    /// The folder of the programs.
    pub(crate) programs: PathBuf,
    /// The folder of libfabric's library, unless the loader finds it.
    pub(crate) library: Option<PathBuf>,
    /// The version of fabtests.
    pub(crate) version: String,
}

/// Builds the fabtests of a folder into `target/fabtests`, with the libfabric that is installed
/// below a folder, or with the distribution's.
pub(crate) fn build(source: &Path, libfabric: Option<&Path>) -> Result<Built, Failure> {
    let libfabric = libfabric.map(installed).transpose()?;
    let source = fs::canonicalize(source).map_err(|why| Failure::file("find", source, why))?;
    let recipe = source.join("configure.ac");
    let text = fs::read_to_string(&recipe).map_err(|why| Failure::file("read", &recipe, why))?;
    let version = version(&text).ok_or_else(|| {
        let why = format!("{} is no folder of fabtests", source.display());
        Failure::Missing(why)
    })?;
    let configure = source.join("configure");
    packages::install("fabtests", &NEEDS)?;
    if libfabric.is_none() {
        packages::install("fabtests", &NEEDS_OF_DISTRIBUTION)?;
    }
    if !configure.is_file() {
        packages::install("fabtests", &NEEDS_FOR_CONFIGURE)?;
        Job::new("./autogen.sh", 5).within(&source).run_aside()?;
    }
    let folder = target().join("fabtests").join(&version);
    let configured_for = configured_for(&source, libfabric.as_deref());
    let stamp = folder.join("configured-for.txt");
    if fs::read(&stamp).map_or(true, |of| of != configured_for) {
        folders::make_anew(&folder)?;
        let mut job = Job::new(&configure, 5).within(&folder).arg("--quiet");
        job = job.arg("--prefix").arg(folder.join("install"));
        if let Some(libfabric) = &libfabric {
            let mut with = OsString::from("--with-libfabric=");
            with.push(libfabric);
            job = job.arg(with);
        }
        job.run_aside()?;
        fs::write(&stamp, configured_for).map_err(|why| Failure::file("write", &stamp, why))?;
    }
    console::step(&format_args!("build fabtests {version}"));
    let at_once = thread::available_parallelism().map_or(1, usize::from);
    let make = Job::new("make", 15).within(&folder).arg("--quiet");
    make.arg(format!("-j{at_once}"))
        .arg("install")
        .run_aside()?;
    Ok(Built {
        source,
        programs: folder.join("install/bin"),
        library: libfabric.map(|prefix| prefix.join("lib")),
        version,
    })
}

/// The folder below which a libfabric is installed, as a path that holds everywhere.
fn installed(prefix: &Path) -> Result<PathBuf, Failure> {
    let prefix = fs::canonicalize(prefix).map_err(|why| Failure::file("find", prefix, why))?;
    let both = ["include/rdma/fabric.h", "lib/libfabric.so.1"];
    match both.iter().find(|file| !prefix.join(file).is_file()) {
        None => Ok(prefix),
        Some(file) => Err(Failure::Missing(format!(
            "no libfabric is installed below {}: there is no {file}",
            prefix.display()
        ))),
    }
}

/// What names the source and the libfabric for which a folder is configured.
fn configured_for(source: &Path, libfabric: Option<&Path>) -> Vec<u8> {
    let paths = [Some(source), libfabric].into_iter().flatten();
    let lines = paths.map(|path| path.as_os_str().as_encoded_bytes());
    lines.collect::<Vec<_>>().join(&b'\n')
}

/// The version that `configure.ac` names: `AC_INIT([fabtests], [1.17.0], ...)`.
fn version(recipe: &str) -> Option<String> {
    let line = recipe
        .lines()
        .find_map(|line| line.strip_prefix("AC_INIT([fabtests]"))?;
    let version = line.split(['[', ']']).nth(1)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '.';
    (version.starts_with(|c: char| c.is_ascii_digit()) && version.chars().all(plain))
        .then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn the_version_stands_in_the_recipe_of_configure() {
        let recipe = "dnl a comment\nAC_INIT([fabtests], [1.17.0], [list@example.org])\n";
        assert_eq!(version(recipe).as_deref(), Some("1.17.0"));
        assert_eq!(version("AC_INIT([libfabric], [1.17.0])\n"), None);
        // It becomes a folder's name.
        assert_eq!(version("AC_INIT([fabtests], [1/../..])\n"), None);
    }
}
