//! What can go wrong, in words that say what to do.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("cannot start `{command}`: {source}")]
    Start { command: String, source: io::Error },
    #[error("`{command}` failed: {status}")]
    Status { command: String, status: ExitStatus },
    #[error("`{command}` was killed after {} s: it hung, or this machine is very busy", limit.as_secs())]
    TimeLimit { command: String, limit: Duration },
    #[error("{0}")]
    Missing(String),
    #[error("`{command}` printed something that this program cannot read: {why}")]
    Unreadable { command: String, why: String },
    #[error("wrong result: {0}")]
    Wrong(String),
    /// A program that was run for the user ended so; it has said itself why.
    #[error("exit status {0}")]
    Exit(i32),
    #[error("failed: {0}")]
    Checks(String),
}
