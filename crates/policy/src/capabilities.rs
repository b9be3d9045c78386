//! What one pair of endpoints can do, and why it refuses the rest.

use core::fmt;

use super::{ByteSize, INLINE_CAPACITY, Locality, Path, PathSet};

/// The paths that a pair can use at this moment, with the limit of its rings.
///
/// 16 bytes, `Copy`: a pair keeps its own and takes a path out when it fails at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Paths that both ends support, that are allowed, and that have not failed.
    pub paths: PathSet,
    /// Longest message in bytes that the ring between the two holds.
    pub max_eager: u64,
}

impl Capabilities {
    /// Every path, without a limit.
    pub const ALL: Self = Self {
        paths: PathSet::ALL,
        max_eager: u64::MAX,
    };

    /// Takes a path out, as when it failed at run time.
    #[inline]
    pub fn demote(&mut self, path: Path) {
        self.paths = self.paths.without(path);
    }

    /// Why this pair cannot take `path` for a message of `bytes` bytes; `None` if it can.
    ///
    /// A few compares, no allocation.
    #[inline]
    #[must_use]
    pub fn refusal(
        &self,
        path: Path,
        bytes: u64,
        locality: Locality,
        vectored: bool,
    ) -> Option<Refusal> {
        if !self.paths.contains(path) {
            return Some(Refusal::Unavailable);
        }
        match path {
            Path::SelfCopy if locality != Locality::Itself => Some(Refusal::NotItself),
            Path::SameProcess if locality > Locality::SameProcess => Some(Refusal::OtherProcess),
            Path::Inline if bytes > INLINE_CAPACITY => Some(Refusal::TooLong {
                max: INLINE_CAPACITY,
            }),
            Path::Eager if bytes > self.max_eager => Some(Refusal::TooLong {
                max: self.max_eager,
            }),
            Path::Cma | Path::SplitCopy if vectored => Some(Refusal::Vectored),
            Path::Loan => Some(Refusal::NotLoaned),
            Path::PeerReadable => Some(Refusal::NotPeerReadable),
            _ => None,
        }
    }
}

/// Why a path is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The pair does not have the path: not built in, not allowed, not supported by both ends, or
    /// given up after a failure. The transport knows which.
    Unavailable,
    /// The message is longer than the path's memory holds.
    TooLong {
        /// The most that fits, in bytes.
        max: u64,
    },
    /// The message is too short to gain by the path.
    TooShort {
        /// The shortest that does, in bytes.
        min: u64,
    },
    /// The path serves only an endpoint and itself.
    NotItself,
    /// The path serves only endpoints within one process.
    OtherProcess,
    /// The sender's bytes lie in several slices.
    Vectored,
    /// The buffer is not a loan.
    NotLoaned,
    /// The path is for buffers that peers may read, of whatever row of the table.
    NotPeerReadable,
    /// The receiver maps no memory of the sender.
    NotShared,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable => f.write_str("not available between these two"),
            Self::TooLong { max } => write!(f, "holds at most {}", ByteSize(*max)),
            Self::TooShort { min } => write!(f, "is for at least {}", ByteSize(*min)),
            Self::NotItself => f.write_str("serves only an endpoint and itself"),
            Self::OtherProcess => f.write_str("serves only endpoints of one process"),
            Self::Vectored => f.write_str("needs the sender's bytes in one slice"),
            Self::NotLoaned => f.write_str("needs a buffer that was lent by the endpoint"),
            Self::NotPeerReadable => f.write_str("needs a buffer that peers may read"),
            Self::NotShared => f.write_str("needs another endpoint that shares memory"),
        }
    }
}
