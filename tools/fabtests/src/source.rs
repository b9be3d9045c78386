//! Where fabtests come from, if no folder is named: the distribution's source of its libfabric.

use std::fs;
use std::path::{Path, PathBuf};

use limic_runner::folders::{self, target};
use limic_runner::packages::{self, Need, program};
use limic_runner::{Failure, Job};

/// What unpacks the source of a package.
const NEEDS: [Need; 1] = [Need {
    package: "dpkg-dev",
    present: || program("dpkg-source").is_some(),
}];

/// What to do where the distribution's source cannot be had.
const ELSEWHERE: &str = "or say where fabtests are: cargo xtask fabtests --source DIR\n\
    DIR is a folder named fabtests in libfabric's repository, or an unpacked \
    fabtests-VERSION.tar.bz2 of a release. Its version should be the installed libfabric's.";

/// The fabtests of the distribution, below `target/fabtests/source`. They are fetched if they are
/// not there.
///
/// # Errors
/// If they cannot be fetched; the text says what to do.
pub(crate) fn of_distribution() -> Result<PathBuf, Failure> {
    let folder = target().join("fabtests/source");
    if let Some(source) = unpacked_below(&folder) {
        return Ok(source);
    }
    let unless = |what: &str| Failure::Missing(format!("{what},\n{ELSEWHERE}"));
    if !packages::runs("apt-get") {
        return Err(unless("there is no apt-get here: name a folder"));
    }
    packages::install("fabtests", &NEEDS)?;
    folders::make_anew(&folder)?;
    let fetch = Job::new("apt-get", 10).args(["source", "libfabric"]);
    fetch.within(&folder).run_aside().map_err(|why| {
        let why = format!("{why}\nHave apt know where sources are (lines of the type deb-src)");
        unless(&why)
    })?;
    unpacked_below(&folder).ok_or_else(|| unless("the source of libfabric holds no fabtests"))
}

/// The folder of fabtests in a source that was unpacked in a folder.
fn unpacked_below(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut fabtests = entries.map(|entry| entry.path().join("fabtests"));
    fabtests.find(|fabtests| fabtests.join("configure.ac").is_file())
}
