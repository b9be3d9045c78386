//! One row of the table.

use core::fmt;
use core::str::FromStr;
use std::borrow::Cow;
use std::path::PathBuf;

use super::{Locality, Path};

/// For which messages a row holds, besides locality and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum When {
    /// Neither skewed nor loaned.
    #[default]
    Usual = 0,
    /// While the receiver lags behind (H4).
    SlowReceiver = 1,
    /// When the buffer is a loan and the pair can hand it over.
    Loaned = 2,
}

impl When {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Usual, Self::SlowReceiver, Self::Loaned];

    /// The name that is printed and read: `usual`, `slow-receiver`, `loaned`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Usual => "usual",
            Self::SlowReceiver => "slow-receiver",
            Self::Loaned => "loaned",
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The name is none of `usual`, `slow-receiver`, `loaned`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a situation; accepted: usual, slow-receiver, loaned")]
pub struct ParseWhenError(String);

impl FromStr for When {
    type Err = ParseWhenError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let name = name.trim();
        Self::ALL
            .into_iter()
            .find(|when| when.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| ParseWhenError(name.to_owned()))
    }
}

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
    /// The application, through [`Settings::builder`](crate::settings::Settings::builder).
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
    pub when: When,
    /// Longest message in bytes, inclusive; `u64::MAX` in the last row.
    pub up_to_bytes: u64,
    /// The path.
    pub path: Path,
    /// Length in bytes of the pieces that the path cuts the message into; 0 if it does not.
    pub fragment_bytes: u32,
    /// Where the row comes from.
    pub source: RowSource,
    /// Why.
    pub reason: Cow<'static, str>,
}
