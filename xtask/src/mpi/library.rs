//! The MPIs, and the variables that make each of them use limic.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::geteuid;

use crate::failure::Failure;
use crate::job::Job;
use crate::peers::{Mpi, Placement, without_foreign_settings};

/// An MPI that can run over libfabric.
#[derive(Debug)]
pub(crate) enum Library {
    /// The wheel, with a libfabric of its own.
    Mpich(Mpi),
    /// The wheel, which brings no libfabric.
    Intel {
        intel: Mpi,
        /// The folder of a `libfabric.so.1`.
        libfabric: PathBuf,
    },
    /// The wheel, with a libfabric of its own.
    OpenMpi5(Mpi),
    /// The distribution's, over the system's libfabric.
    OpenMpi4 { version: String },
}

/// Debian's Open MPI, if it is installed.
pub(crate) fn debian() -> Result<Library, String> {
    let version = Job::new("mpirun.openmpi", 1)
        .args(&["--version"])
        .capture_quietly();
    let there = Job::new("mpicc.openmpi", 1).args(&["--version"]).succeeds();
    match version {
        Some(text) if there => {
            let line = text.lines().next().unwrap_or_default();
            let version = line.rsplit(' ').next().unwrap_or_default().to_owned();
            if version.starts_with('4') {
                Ok(Library::OpenMpi4 { version })
            } else {
                Err(format!("the distribution has {version}"))
            }
        }
        _ => Err("it is not installed (packages openmpi-bin and libopenmpi-dev)".to_owned()),
    }
}

impl Library {
    pub(crate) fn title(&self) -> String {
        match self {
            Self::Mpich(mpi) | Self::OpenMpi5(mpi) | Self::Intel { intel: mpi, .. } => mpi.title(),
            Self::OpenMpi4 { version } => format!("Open MPI {version}"),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Mpich(_) => "mpich",
            Self::Intel { .. } => "intel",
            Self::OpenMpi5(_) => "openmpi5",
            Self::OpenMpi4 { .. } => "openmpi4",
        }
    }

    /// IMB-MPI1 is a binary for MPICH's ABI.
    pub(super) fn runs_imb(&self) -> bool {
        matches!(self, Self::Mpich(_) | Self::Intel { .. })
    }

    /// Why windows are left out.
    pub(super) fn no_windows(&self) -> Option<&'static str> {
        match self {
            Self::OpenMpi4 { .. } => {
                Some("it crashes in its own shared-memory atomics, without limic too")
            }
            _ => None,
        }
    }

    /// The variables that put all messages of the MPI on limic.
    fn variables(&self, provider: &Path) -> Vec<(&'static str, String)> {
        let folder = provider.display().to_string();
        let mut all = vec![("FI_PROVIDER_PATH", folder)];
        let mut set = |name, value: &str| all.push((name, value.to_owned()));
        match self {
            Self::Mpich(_) => {
                set("FI_PROVIDER", "limic");
                set("MPIR_CVAR_CH4_NETMOD", "ofi");
                // Else MPICH moves what stays on the node itself.
                set("MPIR_CVAR_NOLOCAL", "1");
            }
            Self::Intel { intel, libfabric } => {
                set("FI_PROVIDER", "limic");
                set("I_MPI_FABRICS", "ofi");
                let library = libfabric.join("libfabric.so.1");
                set("I_MPI_OFI_LIBRARY", &library.display().to_string());
                let own = intel.root().join("lib");
                let path = format!("{}:{}", own.display(), libfabric.display());
                set("LD_LIBRARY_PATH", &path);
            }
            Self::OpenMpi5(_) | Self::OpenMpi4 { .. } => {
                set("OMPI_MCA_pml", "cm");
                set("OMPI_MCA_mtl", "ofi");
                set("OMPI_MCA_mtl_ofi_provider_include", "limic");
            }
        }
        if let Self::Mpich(mpich) = self {
            // For programs that were linked elsewhere, as IMB.
            set(
                "LD_LIBRARY_PATH",
                &mpich.root().join("lib").display().to_string(),
            );
        }
        all
    }

    /// The variables as lines for a shell.
    pub(super) fn recipe(&self, provider: &Path) -> Vec<String> {
        let line = |(name, value): (&str, String)| format!("export {name}={value}");
        self.variables(provider).into_iter().map(line).collect()
    }

    /// The launcher, with all variables set; the program is to be added.
    pub(crate) fn mpiexec(&self, ranks: u32, placement: Placement<'_>, provider: &Path) -> Command {
        let mut command = self.own_mpiexec(ranks, placement);
        command
            .envs(self.variables(provider))
            .env("LIMIC_FI_STATS", "1");
        command
    }

    /// The launcher, with the MPI as it comes; the program is to be added.
    pub(crate) fn own_mpiexec(&self, ranks: u32, placement: Placement<'_>) -> Command {
        match self {
            Self::Mpich(mpi) | Self::OpenMpi5(mpi) | Self::Intel { intel: mpi, .. } => {
                mpi.mpiexec(ranks, placement)
            }
            Self::OpenMpi4 { .. } => {
                let mut command = Command::new("mpirun.openmpi");
                without_foreign_settings(&mut command);
                if geteuid().is_root() {
                    command.arg("--allow-run-as-root");
                }
                command.args(match placement {
                    Placement::OneEach(_) => &["--map-by", "hwthread", "--bind-to", "hwthread"][..],
                    Placement::Free => &["--oversubscribe", "--bind-to", "none"],
                });
                command.args(["-n", &ranks.to_string()]);
                command
            }
        }
    }

    /// Compiles one C file.
    pub(crate) fn compile(&self, source: &Path, program: &Path) -> Result<(), Failure> {
        match self {
            Self::Mpich(mpi) | Self::OpenMpi5(mpi) | Self::Intel { intel: mpi, .. } => {
                mpi.compile(source, program)
            }
            Self::OpenMpi4 { .. } => Job::new("mpicc.openmpi", 2)
                .args(&["-std=c11", "-O2", "-Wall", "-o"])
                .arg(program)
                .arg(source)
                .run_aside(),
        }
    }
}
