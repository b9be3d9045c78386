//! Runs programs for `xtask` and the tools: with a time limit, and no longer than the program that
//! started them.
//!
//! - [`Job`] is a step of a build or a check: it runs in the root of the repository, shows what it
//!   runs, and turns a bad end into a [`Failure`].
//! - [`timeout`] runs a program that may hang or print too little, and keeps what it printed.
//! - [`interrupt`] ends everything that was started when this program is told to end.
//! - [`Summary`] counts tests and skips, also those of another program.
//! - [`namespaces`] makes two machines out of this one, with a network between them.
//! - [`setup`] and [`packages`] install what is missing; [`folders`] says where things lie.

pub mod console;
pub mod cpus;
mod deadline;
mod failure;
pub mod folders;
pub mod interrupt;
mod job;
pub mod namespaces;
pub mod packages;
pub mod setup;
mod stream;
mod summary;
pub mod timeout;

use std::process::ExitCode;

pub use failure::Failure;
pub use job::Job;
pub use summary::Summary;

/// Does the work of a program: an interrupt ends what the work has started, and a failure is
/// printed and gives the exit status.
///
/// To be called from `main` before there is another thread.
pub fn run(work: impl FnOnce() -> Result<(), Failure>) -> ExitCode {
    interrupt::end_all_when_told_to();
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        // A program that ran for the user ended so; its exit status is this program's too.
        Err(Failure::Exit(code)) => u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from),
        Err(failure) => {
            console::error(&failure);
            ExitCode::FAILURE
        }
    }
}
