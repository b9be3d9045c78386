//! The paths, and sets of them.

use core::fmt;
use core::str::FromStr;

/// One way to move a message's bytes from one endpoint to another.
///
/// Nothing but printing relies on the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Path {
    /// An endpoint to itself: one plain copy.
    SelfCopy = 0,
    /// Two endpoints in one process: one plain copy out of the sender's buffer.
    SameProcess = 1,
    /// In the first cache line of the ring slot, together with the header.
    Inline = 2,
    /// Two copies through the ring, sent before the receive is known (H1).
    Eager = 3,
    /// Rendezvous of two copies through a fixed pool of chunks, both cores at work (H1).
    Pipeline = 4,
    /// One copy by the receiver with `process_vm_readv`.
    Cma = 5,
    /// One copy, shared: the receiver reads from the front while the sender writes from the back.
    SplitCopy = 6,
    /// No copy: a buffer inside the shared segment is handed over.
    Loan = 7,
    /// One copy through the kernel module, by either side: out of what the sender exposed, or into what the receiver did.
    Kmod = 8,
    /// In packets over a reliable connection of verbs (U3), coalesced while it is busy (C2).
    RcEager = 9,
    /// Rendezvous over verbs: the receiver reads by RDMA (U6).
    RcRendezvous = 10,
}

impl Path {
    /// Every path.
    pub const ALL: [Self; 11] = [
        Self::SelfCopy,
        Self::SameProcess,
        Self::Inline,
        Self::Eager,
        Self::Pipeline,
        Self::Cma,
        Self::SplitCopy,
        Self::Loan,
        Self::Kmod,
        Self::RcEager,
        Self::RcRendezvous,
    ];

    /// The name that is printed and read: `self`, `process`, `inline`, `eager`, `pipeline`, `cma`,
    /// `split-copy`, `loan`, `kmod`, `rc-eager`, `rc-rendezvous`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SelfCopy => "self",
            Self::SameProcess => "process",
            Self::Inline => "inline",
            Self::Eager => "eager",
            Self::Pipeline => "pipeline",
            Self::Cma => "cma",
            Self::SplitCopy => "split-copy",
            Self::Loan => "loan",
            Self::Kmod => "kmod",
            Self::RcEager => "rc-eager",
            Self::RcRendezvous => "rc-rendezvous",
        }
    }

    /// A small number for tables of counters: less than `Path::ALL.len()`.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether the bytes move only once the receive is known.
    #[must_use]
    pub const fn is_rendezvous(self) -> bool {
        matches!(
            self,
            Self::Pipeline | Self::Cma | Self::SplitCopy | Self::Kmod
        )
    }

    /// Whether the path cuts a message into chunks of a length that can be set.
    #[must_use]
    pub const fn is_fragmented(self) -> bool {
        matches!(self, Self::Pipeline)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl serde::Serialize for Path {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The name is not that of a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a path; accepted: self, process, inline, eager, pipeline, cma, split-copy, loan, kmod, rc-eager, rc-rendezvous"
)]
pub struct ParsePathError(String);

impl FromStr for Path {
    type Err = ParsePathError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let name = name.trim();
        Self::ALL
            .into_iter()
            .find(|path| path.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| ParsePathError(name.to_owned()))
    }
}

/// A set of paths.
///
/// Read from and printed as names with commas (`inline,eager,pipeline`); `all` reads as every path.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PathSet(u16);

impl PathSet {
    /// No path.
    pub const EMPTY: Self = Self(0);
    /// Every path.
    pub const ALL: Self = Self((1 << Path::ALL.len()) - 1);

    /// This set and `path`.
    #[must_use]
    pub const fn with(self, path: Path) -> Self {
        Self(self.0 | 1 << path as u16)
    }

    /// This set but `path`.
    #[must_use]
    pub const fn without(self, path: Path) -> Self {
        Self(self.0 & !(1 << path as u16))
    }

    /// Whether `path` is in the set.
    #[must_use]
    pub const fn contains(self, path: Path) -> bool {
        self.0 & (1 << path as u16) != 0
    }

    /// The paths that are in both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The paths of the set, in the order of [`Path::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Path> {
        Path::ALL
            .into_iter()
            .filter(move |path| self.contains(*path))
    }
}

impl FromIterator<Path> for PathSet {
    fn from_iter<I: IntoIterator<Item = Path>>(paths: I) -> Self {
        paths.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Display for PathSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        for (i, path) in self.iter().enumerate() {
            write!(f, "{}{path}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Debug for PathSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PathSet({self})")
    }
}

impl FromStr for PathSet {
    type Err = ParsePathError;

    fn from_str(names: &str) -> Result<Self, Self::Err> {
        if names.trim() == "all" {
            return Ok(Self::ALL);
        }
        names.split(',').map(str::parse).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for (i, path) in Path::ALL.into_iter().enumerate() {
            assert_eq!(path.index(), i);
            assert_eq!(path.to_string().parse::<Path>(), Ok(path));
        }
        assert_eq!(" Split-Copy ".parse::<Path>(), Ok(Path::SplitCopy));
    }

    #[test]
    fn sets_come_back_and_bad_names_are_named() {
        let set: PathSet = "inline, eager,pipeline".parse().expect("three good names");
        assert_eq!(set.to_string(), "inline,eager,pipeline");
        assert_eq!("all".parse::<PathSet>(), Ok(PathSet::ALL));
        assert_eq!(
            PathSet::ALL.to_string().parse::<PathSet>(),
            Ok(PathSet::ALL)
        );
        assert!(!set.contains(Path::Cma));
        assert!(set.with(Path::Cma).contains(Path::Cma));
        assert!(
            set.without(Path::Eager)
                .without(Path::Inline)
                .without(Path::Pipeline)
                .is_empty()
        );
        let error = "inline,egaer".parse::<PathSet>().expect_err("a bad name");
        assert_eq!(
            error.to_string(),
            "'egaer' is not a path; accepted: self, process, inline, eager, pipeline, cma, split-copy, loan, kmod, rc-eager, rc-rendezvous"
        );
        assert!("".parse::<PathSet>().is_err());
    }
}
