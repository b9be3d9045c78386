//! What was moved: cheap counts by path and peer, and a histogram of sizes (K8).

use crate::Peer;
use crate::policy::Path;

/// Number of histogram classes: 0 bytes, then one per power of two up to 2^63.
pub const SIZE_CLASSES: usize = 65;

/// Messages and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages.
    pub messages: u64,
    /// Bytes of payload.
    pub bytes: u64,
}

impl Traffic {
    #[inline(always)]
    pub(crate) fn add(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
    }
}

/// What one endpoint has moved since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Sends, by the path that carried them. Long messages count where their path is chosen: at the receiver.
    pub paths: Vec<(Path, Traffic)>,
    /// What was sent to each peer.
    pub sent: Vec<(Peer, Traffic)>,
    /// What was received from each peer.
    pub received: Vec<(Peer, Traffic)>,
    /// Sends by size: class 0 is the empty message, class `k` holds `2^(k-1)` to `2^k - 1` bytes.
    pub sizes: Vec<u64>,
    /// Messages that arrived before their receive was posted.
    pub unexpected: u64,
    /// Bytes of unexpected messages held right now.
    pub unexpected_bytes: u64,
    /// Times that this endpoint slept.
    pub sleeps: u64,
    /// Messages that went ahead of a receiver that lags behind: they lie in shared memory until it takes them, and
    /// their senders did not wait (H4). Part of the eager path's traffic.
    pub ahead: Traffic,
    /// Peers that lag behind this endpoint's messages now, as they said.
    pub lagging: Vec<Peer>,
    /// Peers that this endpoint has told that it lags behind now.
    pub behind: Vec<Peer>,
    /// Times that a peer said that it lags behind, or that it keeps pace again.
    pub skew_changes: u64,
    /// Times that this endpoint was found on another CPU than before.
    pub migrations: u64,
    /// Times that it was found to have moved to another cache or package, so that other thresholds hold (H3).
    pub relocations: u64,
    /// Long messages that take another path than the policy's table says, because it was measured to be faster.
    pub corrections: Vec<Correction>,
}

/// Long messages from a peer, from one length up to below the next power of two, that take another path than the
/// policy's table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Correction {
    /// Their sender.
    pub peer: Peer,
    /// The shortest of them in bytes.
    pub from_bytes: u64,
    /// The path that they take.
    pub path: Path,
}

/// The histogram class of a length.
#[inline(always)]
#[must_use]
pub fn size_class(bytes: u64) -> usize {
    (u64::BITS - bytes.leading_zeros()) as usize
}

/// The counts while they grow, in plain arrays.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) paths: [Traffic; Path::ALL.len()],
    pub(crate) sizes: [u64; SIZE_CLASSES],
    pub(crate) unexpected: u64,
    pub(crate) unexpected_bytes: u64,
    pub(crate) sleeps: u64,
    pub(crate) ahead: Traffic,
    pub(crate) skew_changes: u64,
    pub(crate) migrations: u64,
    pub(crate) relocations: u64,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            paths: [Traffic::default(); Path::ALL.len()],
            sizes: [0; SIZE_CLASSES],
            unexpected: 0,
            unexpected_bytes: 0,
            sleeps: 0,
            ahead: Traffic::default(),
            skew_changes: 0,
            migrations: 0,
            relocations: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn path(&mut self, path: Path, bytes: u64) {
        self.paths[path.index()].add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_fall_into_powers_of_two() {
        for (bytes, class) in [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (u64::MAX, 64)] {
            assert_eq!(size_class(bytes), class);
        }
        assert!(size_class(u64::MAX) < SIZE_CLASSES);
    }
}
