//! The paths, and sets of them.

use core::fmt;
use core::str::FromStr;

use crate::named;
use crate::named::find;

named! {
    /// How a message gets from one endpoint to another: what settings name, counters count, and
    /// `limic info --why` prints.
    ///
    /// [`Path::parts`] says what each is made of. Nothing but printing relies on the order.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    #[repr(u8)]
    pub enum Path {
        /// An endpoint to itself.
        SelfCopy = "self",
        /// Two endpoints in one process: out of the sender's buffer.
        SameProcess = "process",
        /// In one cache line of the ring, together with the header.
        Inline = "inline",
        /// Whole, in a record of the ring or in one staging buffer, before the receive is known.
        Eager = "eager",
        /// In fragments through staging buffers, once the receive is known.
        Pipeline = "pipeline",
        /// One copy by the receiver with `process_vm_readv`.
        Cma = "cma",
        /// One copy, shared: the receiver reads from the front while the sender writes from the
        /// back.
        SplitCopy = "split-copy",
        /// A buffer in an arena of the sender is handed over.
        Loan = "loan",
        /// One copy by the receiver through the kernel module.
        Kmod = "kmod",
        /// In records over a network, coalesced while it is busy.
        Network = "network",
        /// The receiver reads out of the sender's memory over a network.
        NetworkRead = "network-read",
        /// One copy by the receiver, out of memory of the sender that it has mapped.
        PeerReadable = "peer-readable",
        /// An eager message that is longer than a record: in fragments that nobody asked for.
        EagerFragments = "eager-fragments",
        /// An eager message that a slow receiver finds in an arena of the sender.
        SendAhead = "send-ahead",
    }
}

named! {
    /// When the bytes of a message move.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Protocol {
        /// Sender and receiver are one endpoint.
        Loopback = "loopback",
        /// At once, before the receive is known.
        Eager = "eager",
        /// The sender writes into an arena of its own, and the receiver finds the bytes there.
        Arena = "arena",
        /// Once the receive is known: the sender asks, and the receiver answers.
        Rendezvous = "rendezvous",
    }
}

/// How often the bytes of a message are copied, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Copies {
    /// Never: the memory itself changes hands.
    None,
    /// Once.
    Single(Backend),
    /// Once, by both ends: each copies a part.
    Split(Backend),
    /// Twice: the sender into memory that both share, and the receiver out of it.
    Two,
    /// Into packets of the network and out of them.
    Packets,
}

named! {
    /// What carries out a single copy.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Backend {
        /// A plain copy of memory that both have mapped.
        Memory = "memory",
        /// Cross-memory attach: `process_vm_readv` and `process_vm_writev`.
        Cma = "cma",
        /// limic's kernel module.
        Kmod = "kmod",
        /// A read by the network adapter.
        Fabric = "fabric",
    }
}

/// What a [`Path`] is made of. Prints as `rendezvous, two copies, in fragments`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PathParts {
    /// When the bytes move.
    pub protocol: Protocol,
    /// How often they are copied, and by whom.
    pub copies: Copies,
    /// Whether the message is cut, so that one end copies a fragment while the other copies the
    /// next.
    pub fragments: bool,
}

impl fmt::Display for PathParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.protocol.name())?;
        match self.copies {
            Copies::None => f.write_str(", no copy")?,
            Copies::Single(backend) => write!(f, ", one copy by {}", backend.name())?,
            Copies::Split(backend) => write!(f, ", one copy by both ends over {}", backend.name())?,
            Copies::Two => f.write_str(", two copies")?,
            Copies::Packets => f.write_str(", packets")?,
        }
        f.write_str(if self.fragments { ", in fragments" } else { "" })
    }
}

impl Path {
    /// Those that settings can name. Whether an eager message goes by one of the others follows
    /// from its length and its receiver, or whether a network is used from `LIMIC_FABRIC`.
    const SETTABLE: [Self; 10] = [
        Self::SelfCopy,
        Self::SameProcess,
        Self::Inline,
        Self::Eager,
        Self::Pipeline,
        Self::Cma,
        Self::SplitCopy,
        Self::Loan,
        Self::Kmod,
        Self::PeerReadable,
    ];

    /// The paths that settings can name.
    pub fn settable() -> impl Iterator<Item = Self> {
        Self::SETTABLE.into_iter()
    }

    /// The path that settings name for it.
    #[must_use]
    pub const fn setting(self) -> Self {
        match self {
            Self::EagerFragments | Self::SendAhead => Self::Eager,
            path => path,
        }
    }

    /// What the path is made of.
    #[must_use]
    pub const fn parts(self) -> PathParts {
        use Copies::{None, Packets, Single, Split, Two};
        use Protocol::{Arena, Eager, Loopback, Rendezvous};
        let (protocol, copies, fragments) = match self {
            Self::SelfCopy => (Loopback, Single(Backend::Memory), false),
            Self::SameProcess | Self::PeerReadable => (Rendezvous, Single(Backend::Memory), false),
            Self::Inline | Self::Eager => (Eager, Two, false),
            Self::EagerFragments => (Eager, Two, true),
            Self::SendAhead => (Arena, Two, false),
            Self::Loan => (Arena, None, false),
            Self::Pipeline => (Rendezvous, Two, true),
            Self::Cma => (Rendezvous, Single(Backend::Cma), false),
            Self::SplitCopy => (Rendezvous, Split(Backend::Cma), false),
            Self::Kmod => (Rendezvous, Single(Backend::Kmod), false),
            Self::Network => (Eager, Packets, true),
            Self::NetworkRead => (Rendezvous, Single(Backend::Fabric), false),
        };
        PathParts {
            protocol,
            copies,
            fragments,
        }
    }

    /// A small number for tables of counters: less than `Path::ALL.len()`.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether it is one that `LIMIC_LONG` can ask for: bytes that move once the receive is known,
    /// between two processes of one node, out of any memory.
    #[must_use]
    pub const fn is_rendezvous(self) -> bool {
        matches!(
            self,
            Self::Pipeline | Self::Cma | Self::SplitCopy | Self::Kmod
        )
    }
}

/// The name is not that of a path, or not of one that settings can name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a path to set; accepted: self, process, inline, eager, pipeline, cma, \
     split-copy, loan, kmod, peer-readable (LIMIC_FABRIC says which networks are used)"
)]
pub struct ParsePathError(String);

impl FromStr for Path {
    type Err = ParsePathError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = find(&Self::SETTABLE, Self::name, name);
        found.ok_or_else(|| ParsePathError(name.trim().to_owned()))
    }
}

/// A set of paths that settings can name.
///
/// Read from and printed as names with commas (`inline,eager,pipeline`); `all` reads as every path.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PathSet(u16);

impl PathSet {
    /// No path.
    pub const EMPTY: Self = Self(0);
    /// Every path that settings can name.
    pub const ALL: Self = {
        let (mut all, mut i) = (Self::EMPTY, 0);
        while i < Path::SETTABLE.len() {
            all = all.with(Path::SETTABLE[i]);
            i += 1;
        }
        all
    };

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
    #[inline]
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
        }
        for path in Path::settable() {
            assert_eq!(path.to_string().parse::<Path>(), Ok(path));
        }
        assert!("send-ahead".parse::<Path>().is_err());
        assert!("network".parse::<Path>().is_err());
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
            "'egaer' is not a path to set; accepted: self, process, inline, eager, pipeline, cma, \
             split-copy, loan, kmod, peer-readable (LIMIC_FABRIC says which networks are used)"
        );
        assert!("".parse::<PathSet>().is_err());
    }
}
