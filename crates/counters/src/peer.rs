//! Whom counts are about.

use core::fmt;

/// Another endpoint, as seen from this one: an index into its table of peers.
///
/// A `Peer` means something only at the endpoint that handed it out. In a `World` the index equals
/// the rank.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer(
    // Open to limic's own crates; others have `index` and `from_index`.
    #[doc(hidden)] pub u32,
);

impl Peer {
    /// The position in the endpoint's table of peers; in a `World`, the rank.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0
    }

    /// The peer at a position of the table, for callers that keep plain numbers (a C interface).
    ///
    /// An index that the endpoint never handed out is refused with `Error::UnknownPeer` where it is
    /// used.
    #[must_use]
    pub const fn from_index(index: u32) -> Self {
        Self(index)
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer {}", self.0)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
