//! Failures, in words that say what to do.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A program did not start.
    #[error("cannot start `{command}`: {source}")]
    Start {
        /// The command line.
        command: String,
        /// The error of the system call.
        source: io::Error,
    },
    /// A program ended with a bad exit status.
    #[error("`{command}` failed: {status}")]
    Status {
        /// The command line.
        command: String,
        /// Its exit status.
        status: ExitStatus,
    },
    /// A program failed, and said why.
    #[error("`{command}` failed: {why}")]
    Told {
        /// The command line.
        command: String,
        /// Its reason.
        why: String,
    },
    /// A program ran longer than it may.
    #[error(
        "`{command}` was killed after {} s: it hung, or this machine is very busy",
        limit.as_secs()
    )]
    TimeLimit {
        /// The command line.
        command: String,
        /// Its time limit.
        limit: Duration,
    },
    /// An operation on a file failed.
    #[error("cannot {verb} {}: {source}", path.display())]
    File {
        /// What was tried: `read`, `write`, `make` ...
        verb: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// This machine lacks something, or an option asks for what is not there.
    #[error("{0}")]
    Missing(String),
    /// A program printed something unexpected.
    #[error("`{command}` printed something that this program cannot read: {why}")]
    Unreadable {
        /// The command line.
        command: String,
        /// What is wrong with it.
        why: String,
    },
    /// A result is not what it has to be.
    #[error("wrong result: {0}")]
    Wrong(String),
    /// A program that ran for the user ended with this status, and has said why itself.
    #[error("exit status {0}")]
    Exit(i32),
    /// These checks failed.
    #[error("failed: {0}")]
    Checks(String),
}

impl Failure {
    /// An operation on a file failed.
    ///
    /// ```
    /// use limic_runner::Failure;
    ///
    /// let path = std::path::Path::new("no/such/file");
    /// let failure = std::fs::read(path).map_err(|why| Failure::file("read", path, why));
    /// let text = failure.unwrap_err().to_string();
    /// assert!(text.starts_with("cannot read no/such/file: "));
    /// ```
    pub fn file(verb: &'static str, path: &Path, source: io::Error) -> Self {
        Self::File {
            verb,
            path: path.to_owned(),
            source,
        }
    }
}
