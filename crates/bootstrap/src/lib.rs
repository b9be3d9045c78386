//! Job start-up: how a process learns its rank and the size of its job, and how it exchanges small
//! blobs (addresses of endpoints) with the other ranks before the first message.
//!
//! [`detect`] looks at the environment and returns one of three implementations of [`Bootstrap`]:
//!
//! | kind     | started by                                            | recognised by               |
//! |----------|-------------------------------------------------------|-----------------------------|
//! | `pmi1`   | `limic run`, Hydra's `mpiexec`, `srun --mpi=pmi2`     | `PMI_FD`, `PMI_PORT`        |
//! | `pmix`   | `prterun`, Open MPI's `mpirun`, `srun --mpi=pmix`     | `PMIX_NAMESPACE`            |
//! | `single` | nobody: the program was started alone                 | none of the above           |
//!
//! The kinds are asked in this order; no test runs `srun --mpi=pmi2`. Both PMI-1 and PMIx variables
//! are present when one launcher runs under another, for instance `limic run` inside an `srun`
//! allocation; `PMI_FD` names a file descriptor, which only the innermost launcher can have handed
//! over, so it wins. `LIMIC_BOOTSTRAP=pmi1|pmix|single` forces one.
//!
//! Every wait is bounded by `LIMIC_BOOTSTRAP_TIMEOUT` (seconds, default 300, 0 for no limit); the
//! end of a PMI-1 launcher is seen at once as the end of its connection.

#![deny(unsafe_code)]

mod channel;
mod detect;
mod error;
pub mod launcher;
mod pmi1;
#[cfg(feature = "pmix")]
mod pmix;
mod single;
pub mod wire;

use std::fmt::Debug;

pub use detect::{DEFAULT_TIMEOUT, detect};
pub use error::BootstrapError;
pub use pmi1::Pmi1;
#[cfg(feature = "pmix")]
pub use pmix::Pmix;
pub use single::Single;

/// Longest blob, in bytes, that [`Bootstrap::all_gather`] takes from one rank.
pub const MAX_BLOB: usize = 1 << 16;

/// A process's connection to whatever started its job.
///
/// The calls are collective where they say so: every rank of the job makes the same ones in the
/// same order.
pub trait Bootstrap: Debug + Send {
    /// This process's number in the job, from 0 to `size() - 1`.
    fn rank(&self) -> u32;

    /// How many ranks the job has; at least 1.
    fn size(&self) -> u32;

    /// `pmi1`, `pmix` or `single`.
    fn kind(&self) -> &'static str;

    /// A name that all ranks of the job share and that differs from other jobs' names.
    fn job_id(&self) -> &str;

    /// Collective: every rank contributes `mine` (it may be empty, and lengths may differ), and
    /// receives what all ranks contributed, in rank order. May be called more than once.
    ///
    /// # Errors
    /// [`BootstrapError::BlobTooLong`] above [`MAX_BLOB`] bytes, before anything is sent; otherwise
    /// what went wrong between this process and the launcher.
    fn all_gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, BootstrapError>;

    /// Collective: returns when every rank has called it.
    ///
    /// # Errors
    /// What went wrong between this process and the launcher, or that a rank ended before it came
    /// here.
    fn barrier(&mut self) -> Result<(), BootstrapError>;

    /// Asks the launcher to end all ranks of the job with exit code `code`, and passes `message` on
    /// where the launcher takes one. It may return before the launcher has acted: the caller is
    /// expected to exit.
    fn abort(&mut self, code: i32, message: &str);

    /// Tells the launcher that this rank will end in good order. Launchers count a rank that exits
    /// without it as failed. Calling it twice is allowed; all other calls fail after it.
    ///
    /// # Errors
    /// What went wrong between this process and the launcher.
    fn finalize(&mut self) -> Result<(), BootstrapError>;
}

/// Rejects a blob before anything is sent.
fn check_blob(mine: &[u8]) -> Result<(), BootstrapError> {
    if mine.len() > MAX_BLOB {
        return Err(BootstrapError::BlobTooLong {
            length: mine.len(),
            max: MAX_BLOB,
        });
    }
    Ok(())
}
