//! An MPI whose messages go over limic, and the variables that make it so.

use std::path::{Path, PathBuf};
use std::process::Command;

use limic_peers::{Kind, Mpi, Placement};

/// What `limic env` prints.
#[path = "../../../../crates/cli/src/env/mpi.rs"]
mod env;

/// An MPI over limic's libfabric provider.
#[derive(Debug)]
pub(crate) struct OverLimic {
    pub(crate) mpi: Mpi,
    /// The folder of a `libfabric.so.1`, for an MPI that brings none.
    libfabric: Option<PathBuf>,
    /// The folder of the provider.
    provider: PathBuf,
}

impl OverLimic {
    /// Prepares an installed MPI.
    pub(crate) fn new(mpi: Mpi, provider: &Path) -> Result<Self, String> {
        Ok(Self {
            libfabric: mpi.libfabric()?,
            mpi,
            provider: provider.to_owned(),
        })
    }

    /// The variables that put all messages of the MPI on limic.
    fn variables(&self) -> Vec<(&'static str, String)> {
        let text = |path: &Path| path.display().to_string();
        let mut all = vec![("FI_PROVIDER_PATH", text(&self.provider))];
        let mpi = match self.mpi.kind() {
            Kind::Mpich => env::Mpi::Mpich,
            Kind::Intelmpi => env::Mpi::Impi,
            Kind::Openmpi | Kind::Openmpi4 => env::Mpi::Openmpi,
        };
        let fixed = mpi.variables().iter();
        all.extend(fixed.map(|(name, value)| (*name, (*value).to_owned())));
        let own = text(&self.mpi.root().join("lib"));
        match &self.libfabric {
            Some(libfabric) => {
                let library = libfabric.join("libfabric.so.1");
                all.push(("I_MPI_OFI_LIBRARY", text(&library)));
                all.push(("LD_LIBRARY_PATH", format!("{own}:{}", text(libfabric))));
            }
            // For programs that were linked elsewhere, as IMB is.
            None if self.mpi.kind() == Kind::Mpich => all.push(("LD_LIBRARY_PATH", own)),
            None => {}
        }
        all
    }

    /// The variables as lines for a shell.
    pub(super) fn recipe(&self) -> Vec<String> {
        let line = |(name, value): (&str, String)| format!("export {name}={value}");
        self.variables().into_iter().map(line).collect()
    }

    /// The same under libfabric's `lnx`, which puts limic and, between machines, its `tcp` below
    /// the MPI. Only Open MPI is known to bring an `lnx`.
    pub(super) fn mpiexec_under_lnx(&self, ranks: u32, placement: Placement<'_>) -> Command {
        let links = match placement {
            Placement::Apart(_) => "limic+tcp:eth0",
            _ => "limic",
        };
        let mut command = self.mpiexec(ranks, placement);
        command
            .env("FI_LNX_PROV_LINKS", links)
            .env("OMPI_MCA_mtl_ofi_provider_include", "lnx")
            // It opens no endpoint with the other kind, which Open MPI takes by itself.
            .env("OMPI_MCA_mtl_ofi_av", "table");
        command
    }

    /// The launcher with all variables set, and counters on. The program is to be added.
    pub(crate) fn mpiexec(&self, ranks: u32, placement: Placement<'_>) -> Command {
        let mut command = self.mpi.mpiexec(ranks, placement);
        command.envs(self.variables()).env("LIMIC_FI_STATS", "1");
        command
    }
}
