//! Measures limic against other message layers of one node, and checks that MPIs work over it.
//!
//! `cargo xtask` starts this program for its commands `compare`, `mpi` and `c-latency`, so that
//! nobody else waits for it to be compiled.

mod c_latency;
mod compare;
mod mpi;

use limic_runner::{Failure, Summary, setup};

/// The commands of this program.
#[derive(Debug, clap::Subcommand)]
pub enum Task {
    /// Unmodified MPIs over limic, through the libfabric provider: the variables, and checks.
    Mpi {
        /// MPICH and one more, and a few benchmarks.
        #[arg(long, conflicts_with = "full")]
        quick: bool,
        /// The tests of mpi4py too.
        #[arg(long)]
        full: bool,
    },
    /// Measure limic against MPICH, Open MPI, Intel MPI, UCX and libfabric on this machine.
    Compare(Compare),
    /// What the C interface costs: a ping-pong from C beside that of `limic perf`, in turn.
    CLatency(CLatency),
}

pub use c_latency::CLatency;
pub use compare::Compare;

/// Runs a command.
///
/// # Errors
/// If something cannot be installed, built or measured, or a check fails.
pub fn run(task: &Task) -> Result<(), Failure> {
    match task {
        Task::Mpi { quick, full } => {
            let extent = match (quick, full) {
                (true, _) => mpi::Extent::Quick,
                (_, true) => mpi::Extent::Full,
                _ => mpi::Extent::Usual,
            };
            Summary::of(|summary| mpi::run(extent, summary))
        }
        Task::Compare(args) => compare::run(args),
        Task::CLatency(args) => setup::run().and_then(|()| c_latency::run(args)),
    }
}
