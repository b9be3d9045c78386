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
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            paths: [Traffic::default(); Path::ALL.len()],
            sizes: [0; SIZE_CLASSES],
            unexpected: 0,
            unexpected_bytes: 0,
            sleeps: 0,
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
