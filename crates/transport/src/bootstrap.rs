//! Job start-up: how a process learns its rank and the size of its job, and how it exchanges small
//! blobs (addresses of endpoints) with the other ranks before the first message.
//!
//! [`detect`] looks at the environment and returns one of the implementations of [`Bootstrap`]; the
//! page of [`limic_bootstrap`] says which one, and by which variables.

#[cfg(feature = "pmix")]
pub use limic_bootstrap::Pmix;
pub use limic_bootstrap::{
    Bootstrap, BootstrapError, DEFAULT_TIMEOUT, MAX_BLOB, Pmi1, Single, wire,
};

use crate::warning;

/// Connects to the launcher that started this process; without one, a job of one. A process that
/// believes to be alone in a job of several says so, once.
///
/// # Errors
/// A launcher is named but cannot be reached, or the environment contradicts itself. A process that
/// merely has no launcher is no error.
pub fn detect() -> Result<Box<dyn Bootstrap>, BootstrapError> {
    limic_bootstrap::detect(warning::say)
}
