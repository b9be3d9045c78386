//! `cargo xtask compare --mpi`: each MPI by its own path within a node, and the same MPI over limic.

mod goals;
mod markdown;
mod report;
mod table;

use std::path::{Path, PathBuf};

use goals::Family;
pub(super) use report::Report;

use super::contestant::Contestant;
use crate::failure::Failure;
use crate::job::{root, target};
use crate::mpi::{Library, build_provider, debian};
use crate::peers::{Kind, Mpi, PATTERNS};

/// An MPI twice, by the names of the two contestants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Duel {
    pub(super) own: &'static str,
    pub(super) over: &'static str,
    family: Family,
}

/// The MPIs that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Mpich,
    OpenMpi5,
    OpenMpi4,
    Intel,
}

impl Wanted {
    fn duel(self) -> Duel {
        let (own, over, family) = match self {
            Self::Mpich => ("MPICH", "MPICH over limic", Family::Mpich),
            Self::OpenMpi5 => ("Open MPI 5", "Open MPI 5 over limic", Family::OpenMpi),
            Self::OpenMpi4 => ("Open MPI 4", "Open MPI 4 over limic", Family::OpenMpi),
            Self::Intel => ("Intel MPI", "Intel MPI over limic", Family::Intel),
        };
        Duel { own, over, family }
    }

    /// Installs it; `Err` says why it cannot be had.
    fn library(self) -> Result<Library, String> {
        Ok(match self {
            Self::Mpich => Library::Mpich(Mpi::install(Kind::Mpich)?),
            Self::OpenMpi5 => Library::OpenMpi5(Mpi::install(Kind::Openmpi)?),
            Self::OpenMpi4 => debian()?,
            Self::Intel => {
                let intel = Mpi::install(Kind::Intelmpi)?;
                let mpich = Mpi::install(Kind::Mpich)
                    .map_err(|why| format!("its libfabric comes with MPICH: {why}"))?;
                Library::Intel {
                    intel,
                    libfabric: mpich.root().join("lib/mpich"),
                }
            }
        })
    }
}

/// What is measured.
pub(super) struct Ready {
    pub(super) contestants: Vec<Contestant>,
    pub(super) duels: Vec<Duel>,
    pub(super) missing: Vec<String>,
    /// The provider that was built, not its copy, whose time says nothing.
    pub(super) provider: PathBuf,
}

/// Builds the provider, and sets up each MPI twice.
pub(super) fn prepare(wanted: &[Wanted]) -> Result<Ready, Failure> {
    let provider = build_provider()?;
    let mut ready = Ready {
        contestants: Vec::new(),
        duels: Vec::new(),
        missing: Vec::new(),
        provider: target().join("release/liblimic_fi.so"),
    };
    for one in wanted {
        let duel = one.duel();
        match both(*one, duel, &provider) {
            Ok(both) => {
                ready.contestants.extend(both);
                ready.duels.push(duel);
            }
            Err(why) => ready.missing.push(format!("{}: {why}", duel.own)),
        }
    }
    Ok(ready)
}

fn both(wanted: Wanted, duel: Duel, provider: &Path) -> Result<[Contestant; 2], String> {
    let (own, over) = (wanted.library()?, wanted.library()?);
    let folder = target().join("compare");
    std::fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let program = folder.join(format!("patterns-{}", own.name()));
    own.compile(&root().join(PATTERNS), &program)
        .map_err(|why| why.to_string())?;
    Ok([
        Contestant::own(duel.own, own, program.clone()),
        Contestant::over(duel.over, over, provider.to_owned(), program),
    ])
}

/// Shows the results, and writes them.
pub(super) fn finish(report: &Report, output: &Path) -> Result<(), Failure> {
    print!("{}", table::render(report));
    report.write(output)
}
