//! `cargo xtask compare --mpi`: each MPI by its own path within a node, and the same MPI over
//! limic.

mod goals;
mod markdown;
mod report;
mod table;

use std::path::Path;

use limic_peers::{Kind, Mpi};

pub(super) use report::Report;

use super::subject::Subject;
use crate::mpi::OverLimic;

/// An MPI twice, by the names of the two subjects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Duel {
    pub(super) own: &'static str,
    pub(super) over: &'static str,
    kind: Kind,
}

impl Duel {
    pub(super) fn of(kind: Kind) -> Self {
        let (own, over) = match kind {
            Kind::Mpich => ("MPICH", "MPICH over limic"),
            Kind::Openmpi => ("Open MPI 5", "Open MPI 5 over limic"),
            Kind::Openmpi4 => ("Open MPI 4", "Open MPI 4 over limic"),
            Kind::Intelmpi => ("Intel MPI", "Intel MPI over limic"),
        };
        Self { own, over, kind }
    }

    /// Installs the MPI, and prepares it for both. `Err` says why it cannot be had.
    pub(super) fn prepare(self, provider: &Path) -> Result<[Subject; 2], String> {
        let mpi = Mpi::install(self.kind)?;
        let over = OverLimic::new(mpi.clone(), provider)?;
        let program = mpi.build_patterns().map_err(|why| why.to_string())?;
        Ok([
            Subject::mpi(self.own, mpi, program.clone()),
            Subject::over(self.over, over, program),
        ])
    }
}
