//! What the policy is asked.

use core::fmt;
use core::str::FromStr;

use super::Capabilities;

/// How far apart two endpoints are (H3), nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Locality {
    /// An endpoint and itself.
    Itself = 0,
    /// Two endpoints in one process.
    SameProcess = 1,
    /// Two processes on cores that share an L2 or L3 cache.
    SharedCache = 2,
    /// Two processes on one package, without a common cache or where it is not known.
    SamePackage = 3,
    /// Two processes on different packages.
    OtherPackage = 4,
}

impl Locality {
    /// Every locality, nearest first.
    pub const ALL: [Self; 5] = [
        Self::Itself,
        Self::SameProcess,
        Self::SharedCache,
        Self::SamePackage,
        Self::OtherPackage,
    ];

    /// The localities of two different processes.
    pub const BETWEEN_PROCESSES: [Self; 3] =
        [Self::SharedCache, Self::SamePackage, Self::OtherPackage];

    /// The name that is printed and read: `self`, `same-process`, `shared-cache`, `same-package`,
    /// `other-package`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Itself => "self",
            Self::SameProcess => "same-process",
            Self::SharedCache => "shared-cache",
            Self::SamePackage => "same-package",
            Self::OtherPackage => "other-package",
        }
    }

    /// A small number for tables: less than `Locality::ALL.len()`.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Locality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl serde::Serialize for Locality {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The name is not that of a locality.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a locality; accepted: self, same-process, shared-cache, same-package, other-package"
)]
pub struct ParseLocalityError(String);

impl FromStr for Locality {
    type Err = ParseLocalityError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let name = name.trim();
        Self::ALL
            .into_iter()
            .find(|locality| locality.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| ParseLocalityError(name.to_owned()))
    }
}

/// Whether the receiver lags behind, so that its unexpected queue stays long (H4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ReceiverPace {
    /// Both sides keep pace.
    #[default]
    Steady,
    /// The receiver has asked this sender to send eagerly what it can.
    Slow,
}

/// What the bytes to be sent lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum BufferKind {
    /// One piece of ordinary memory.
    #[default]
    Plain,
    /// Several pieces of ordinary memory.
    Vectored,
    /// A loan: a buffer inside the sender's shared segment.
    Loaned,
}

/// What [`Table::choose`](super::Table::choose) is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Length of the message in bytes.
    pub bytes: u64,
    /// How far away the receiver is.
    pub locality: Locality,
    /// Whether the receiver lags behind.
    pub pace: ReceiverPace,
    /// What the bytes lie in.
    pub buffer: BufferKind,
    /// What the pair can do.
    pub capabilities: Capabilities,
}

impl Query {
    /// A question about a plain buffer, without skew, for a pair that can do everything.
    #[must_use]
    pub const fn new(bytes: u64, locality: Locality) -> Self {
        Self {
            bytes,
            locality,
            pace: ReceiverPace::Steady,
            buffer: BufferKind::Plain,
            capabilities: Capabilities::ALL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for (i, locality) in Locality::ALL.into_iter().enumerate() {
            assert_eq!(locality.index(), i);
            assert_eq!(locality.to_string().parse::<Locality>(), Ok(locality));
        }
        let error = "socket"
            .parse::<Locality>()
            .expect_err("no such locality")
            .to_string();
        assert!(
            error.contains("'socket'") && error.contains("shared-cache"),
            "{error}"
        );
    }
}
