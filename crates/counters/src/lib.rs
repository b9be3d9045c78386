//! What was moved: counts by path and peer, a histogram of sizes, and reasons.
//!
//! A [`Recorder`] counts in a page. `Endpoint::counters` reads it from inside; [`exit_report`]
//! writes it down at the end (`LIMIC_STATS`); [`of_process`] reads it from outside at any time, as
//! `limic info --pid` does. A short message costs three additions, and others five, to words of
//! this endpoint's own cache lines. docs/counters.md lists names, units and formats.

#![deny(unsafe_code)]

#[cfg(test)]
#[expect(unsafe_code, reason = "forks")]
#[path = "../../shm/src/process/child.rs"]
mod child;
mod event;
#[expect(
    unsafe_code,
    reason = "registers a function that runs at the process's end"
)]
pub mod exit_report;
mod layout;
mod page;
mod peer;
mod reader;
#[expect(unsafe_code, reason = "words of a page whose indices are constants")]
mod recorder;
mod text;

use limic_policy::Path;

pub use event::Event;
pub use page::{Page, PageError, PeerCounts};
pub use peer::Peer;
pub use reader::{CountersError, Found, of_process};
pub use recorder::{Recorder, Row};

/// Number of histogram classes: 0 bytes, then one per power of two up to 2^63.
pub const SIZE_CLASSES: usize = 65;

/// Messages and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Traffic {
    /// Messages.
    pub messages: u64,
    /// Bytes of payload.
    pub bytes: u64,
}

impl Traffic {
    fn plus(self, other: Self) -> Self {
        Self {
            messages: self.messages.wrapping_add(other.messages),
            bytes: self.bytes.wrapping_add(other.bytes),
        }
    }

    fn sum(all: impl Iterator<Item = Self>) -> Self {
        all.fold(Self::default(), Self::plus)
    }

    /// What it has more than `other`; nothing where that has more, which may be counted meanwhile.
    fn beyond(self, other: Self) -> Self {
        Self {
            messages: self.messages.saturating_sub(other.messages),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

/// What one endpoint has moved since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages by the path that carried them, each counted once in a pair: where the path is
    /// chosen. That is the sender, and for long messages the receiver.
    pub paths: Vec<(Path, Traffic)>,
    /// Sends that are done, by path; one-sided writes too.
    pub sent_paths: Vec<(Path, Traffic)>,
    /// Messages received, by path; one-sided reads too. What came whole through a ring counts as
    /// eager: the receiver does not tell it from inline.
    pub received_paths: Vec<(Path, Traffic)>,
    /// What was sent to each peer. Beyond the first 255 peers that it talks to, an endpoint counts
    /// for all together.
    pub sent: Vec<(Peer, Traffic)>,
    /// What was received from each peer.
    pub received: Vec<(Peer, Traffic)>,
    /// Sends that are done, by size: class 0 is the empty message, class `k` holds `2^(k-1)` to
    /// `2^k - 1` bytes.
    pub sizes: Vec<u64>,
    /// Messages that arrived before their receive was posted.
    pub unexpected: u64,
    /// Bytes of unexpected messages held right now.
    pub unexpected_bytes: u64,
    /// Times that this endpoint slept.
    pub sleeps: u64,
    /// Messages that went ahead of a receiver that lags behind: they lie in shared memory until it
    /// takes them, and their senders did not wait. Counted as path `send-ahead` too.
    pub ahead: Traffic,
    /// Peers that lag behind this endpoint's messages now, as they said.
    pub lagging: Vec<Peer>,
    /// Peers that this endpoint has told that it lags behind now.
    pub behind: Vec<Peer>,
    /// Times that a peer said that it lags behind, or that it keeps pace again.
    pub skew_changes: u64,
    /// Times that this endpoint was found on another CPU than before.
    pub migrations: u64,
    /// Times that it was found to have moved to another cache or package, so that other thresholds
    /// hold.
    pub relocations: u64,
    /// Long messages that take another path than the policy's table says, or are written past the
    /// caches, because it was measured to be faster.
    pub tuned: Vec<TunedPath>,
    /// Everything else that is counted, by name.
    pub events: Vec<(Event, u64)>,
    /// Why paths were refused or given up, and peers too: each once.
    pub reasons: Vec<Reason>,
}

impl Counters {
    /// How often something happened.
    #[must_use]
    pub fn event(&self, event: Event) -> u64 {
        let found = self.events.iter().find(|(other, _)| *other == event);
        found.map_or(0, |(_, times)| *times)
    }
}

/// Why something is not as one may expect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The path that is refused or was given up, if it is about one.
    pub path: Option<Path>,
    /// The first peer that it is about; none if that is a stranger.
    pub peer: Option<Peer>,
    /// How often the same was found, for any peer.
    pub times: u64,
    /// In words, as in the log.
    pub text: String,
}

/// Long messages from a peer, from one length up to below the next power of two, that take another
/// path than the policy's table says, or are written in another way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunedPath {
    /// Their sender.
    pub peer: Peer,
    /// The shortest of them in bytes.
    pub from_bytes: u64,
    /// The path that they take.
    pub path: Path,
    /// Their receiver writes them past its caches: messages of 4 MiB and more, where that is
    /// faster.
    pub non_temporal: bool,
}

/// The histogram class of a length.
#[inline(always)]
#[must_use]
pub fn size_class(bytes: u64) -> usize {
    (u64::BITS - bytes.leading_zeros()) as usize
}

/// The shortest and the longest message of a class.
#[must_use]
pub fn size_class_range(class: usize) -> (u64, u64) {
    match class {
        0 => (0, 0),
        class if class < SIZE_CLASSES => (1 << (class - 1), u64::MAX >> (SIZE_CLASSES - 1 - class)),
        _ => (u64::MAX, u64::MAX),
    }
}

/// The program of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_fall_into_powers_of_two() {
        for (bytes, class) in [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (u64::MAX, 64)] {
            assert_eq!(size_class(bytes), class);
            let (first, last) = size_class_range(class);
            assert!(first <= bytes && bytes <= last);
            assert_eq!((size_class(first), size_class(last)), (class, class));
        }
        assert!(size_class(u64::MAX) < SIZE_CLASSES);
    }
}
