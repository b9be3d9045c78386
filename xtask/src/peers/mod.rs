//! Other message layers of one node, for comparison and for tests: MPIs as Python wheels, each in an
//! environment of its own under the user's cache folder, and the test programs of UCX and libfabric
//! from the distribution.
//!
//! [`wheels`] installs, [`launch`] starts programs, [`tools`] finds UCX and libfabric.

mod launch;
mod tools;
mod wheels;

use std::path::PathBuf;

use crate::console;
use crate::failure::Failure;
use crate::tally::Tally;

pub(crate) use launch::{PATTERNS, Placement, allowed_cpus, without_foreign_settings};
pub(crate) use tools::{FoundTool, Tool};

/// An MPI that a wheel brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// MPICH: CH4 over UCX or libfabric, Hydra as launcher
    Mpich,
    /// Open MPI 5: shared memory by `sm`, PRRTE as launcher
    Openmpi,
    /// Intel MPI: `I_MPI_FABRICS=shm`, a Hydra of its own
    Intelmpi,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Mpich, Self::Openmpi, Self::Intelmpi];

    /// The name on the command line and of the folder.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mpich => "mpich",
            Self::Openmpi => "openmpi",
            Self::Intelmpi => "intelmpi",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Mpich => "MPICH",
            Self::Openmpi => "Open MPI",
            Self::Intelmpi => "Intel MPI",
        }
    }
}

/// An installed MPI.
#[derive(Clone, Debug)]
pub(crate) struct Mpi {
    pub(crate) kind: Kind,
    /// As its wheel names it.
    pub(crate) version: String,
    /// Holds `bin`, `include` and `lib`.
    root: PathBuf,
}

impl Mpi {
    /// The one that was installed before, if there is one. Fast, and needs no network.
    pub(crate) fn installed(kind: Kind) -> Option<Self> {
        wheels::installed(kind)
    }

    /// Installs it if it is not there yet. `Err` says why it cannot be had.
    pub(crate) fn install(kind: Kind) -> Result<Self, String> {
        wheels::install(kind)
    }

    /// `MPICH 5.0.2`
    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.kind.title(), self.version)
    }

    /// The folder that holds `bin`, `include` and `lib`.
    pub(crate) fn root(&self) -> &std::path::Path {
        &self.root
    }
}

/// `cargo xtask peers`: installs everything, and says what is there and what could not be had.
pub(crate) fn run() -> Result<(), Failure> {
    let mut missing = Vec::new();
    for kind in Kind::ALL {
        console::step(&kind.title());
        match Mpi::install(kind).and_then(|mpi| mpi.verify().map(|_| mpi)) {
            Ok(mpi) => println!("{}: {}", mpi.title(), mpi.root().display()),
            Err(why) => missing.push(format!("{}: {why}", kind.title())),
        }
    }
    for tool in Tool::ALL {
        console::step(&tool.title());
        match tool.install() {
            Ok(found) => println!("{}", found.title()),
            Err(why) => missing.push(format!("{}: {why}", tool.title())),
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::Missing(format!(
        "these could not be had:\n{}",
        missing.join("\n")
    )))
}

/// Installs the MPIs whose launchers tests start; what cannot be had is a skip.
pub(crate) fn for_tests(tally: &mut Tally) {
    for kind in [Kind::Mpich, Kind::Openmpi] {
        if let Err(why) = Mpi::install(kind) {
            tally.skip_check(&format!("{} for the launchers' tests: {why}", kind.title()));
        }
    }
}

/// Variables that tell the tests where the launchers are that were installed here.
pub(crate) fn test_variables() -> Vec<(&'static str, PathBuf)> {
    let mut variables = Vec::new();
    if let Some(mpich) = Mpi::installed(Kind::Mpich) {
        variables.push(("LIMIC_TEST_HYDRA", mpich.root.join("bin/mpiexec.hydra")));
    }
    if let Some(openmpi) = Mpi::installed(Kind::Openmpi) {
        variables.push(("LIMIC_TEST_PRTERUN", openmpi.root.join("bin/prterun")));
        let pmix = openmpi.root.join("lib/openmpi/libpmix.so.2");
        variables.push(("LIMIC_TEST_PMIX_LIBRARY", pmix));
    }
    variables.retain(|(_, file)| file.is_file());
    variables
}
