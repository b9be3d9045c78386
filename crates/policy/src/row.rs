//! One row of the table.

use core::fmt;
use std::borrow::Cow;
use std::path::PathBuf;

use super::{Locality, Path, ReceiverPace};

/// Where a row or a setting comes from. Later ones win over earlier ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RowSource {
    /// The values that limic is built with.
    BuiltIn,
    /// The profile of this host, measured.
    Profile,
    /// The TOML file that `LIMIC_CONFIG` names.
    File(PathBuf),
    /// The environment variable of this name.
    Environment(&'static str),
    /// The application, through `limic::settings::SettingsBuilder`.
    Application,
}

impl RowSource {
    /// Whether somebody asked for it, rather than limic by what is usual or was measured.
    pub(crate) fn is_asked_for(&self) -> bool {
        !matches!(self, Self::BuiltIn | Self::Profile)
    }
}

impl fmt::Display for RowSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.pad("built-in"),
            Self::Profile => f.pad("profile"),
            Self::File(path) => f.pad(&path.display().to_string()),
            Self::Environment(name) => f.pad(name),
            Self::Application => f.pad("application"),
        }
    }
}

/// Messages of one locality up to a length take one path.
///
/// The rows of one (locality, when) are sorted by length; a row begins where the one before ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// How far away the receiver is.
    pub locality: Locality,
    /// In which situation the row holds.
    pub when: ReceiverPace,
    /// Longest message in bytes, inclusive; `u64::MAX` in the last row.
    pub up_to_bytes: u64,
    /// The path.
    pub path: Path,
    /// Where the row comes from.
    pub source: RowSource,
    /// Why.
    pub reason: Cow<'static, str>,
}
