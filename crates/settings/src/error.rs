//! What can be wrong with settings.

use std::path::PathBuf;

use limic_policy::TableError;

limic_bootstrap::debug_as_display!(SettingsError);

/// A setting that cannot be used: what, where, and what is accepted.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// An environment variable has a value that is not accepted.
    #[error("{name}={value}: accepted is {accepted}")]
    Variable {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it accepts.
        accepted: String,
    },
    /// A key in a file has a value that is not accepted.
    #[error("{}:{line}: {key} = {value}: accepted is {accepted}", file.display())]
    Value {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What it accepts.
        accepted: String,
    },
    /// A key that no setting has.
    #[error("{}:{line}: unknown key '{key}'; did you mean '{nearest}'?", file.display())]
    UnknownKey {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The key.
        key: String,
        /// The known key that is most like it.
        nearest: &'static str,
    },
    /// A row of a file lacks a key.
    #[error("{}:{line}: this row has no '{key}'; every row needs locality, up_to and path", file.display())]
    MissingKey {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The key that is missing.
        key: &'static str,
    },
    /// A file is not TOML.
    #[error("{}:{line}: not TOML: {message}", file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What the parser says.
        message: String,
    },
    /// A file cannot be read.
    #[error("{} (from {named_by}) cannot be read: {reason}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The variable that names it, or 'the default place'.
        named_by: &'static str,
        /// What the operating system says.
        reason: String,
    },
    /// A profile does not hold here. Jobs go on without it.
    #[error("{}: not a profile for this machine: {reason}", file.display())]
    Profile {
        /// The file.
        file: PathBuf,
        /// Why not.
        reason: String,
    },
    /// Rows do not fit together.
    #[error("{place}: {source}")]
    Rows {
        /// The file, or 'the application'.
        place: String,
        /// What is wrong with them.
        source: TableError,
    },
    /// The application gave a value that is not accepted.
    #[error("settings: {name}({value}): accepted is {accepted}")]
    Argument {
        /// The builder's method.
        name: &'static str,
        /// The value.
        value: String,
        /// What it accepts.
        accepted: String,
    },
}
