//! The MPIs that limic's libfabric provider carries, and the variables that make them use it. The
//! program that checks and measures these MPIs compiles this file too.

/// An MPI that sends over libfabric.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Mpi {
    /// MPICH
    Mpich,
    /// Intel MPI
    Impi,
    /// Open MPI 4 and 5
    Openmpi,
}

impl Mpi {
    /// What puts all its messages on limic, beside `FI_PROVIDER_PATH`.
    pub(crate) fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Mpich => &[
                ("FI_PROVIDER", "limic"),
                ("MPIR_CVAR_CH4_NETMOD", "ofi"),
                // Else MPICH itself moves what stays on the node.
                ("MPIR_CVAR_NOLOCAL", "1"),
            ],
            Self::Impi => &[("FI_PROVIDER", "limic"), ("I_MPI_FABRICS", "ofi")],
            Self::Openmpi => &[
                ("OMPI_MCA_pml", "cm"),
                ("OMPI_MCA_mtl", "ofi"),
                ("OMPI_MCA_mtl_ofi_provider_include", "limic"),
            ],
        }
    }
}
