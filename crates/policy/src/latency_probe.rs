//! What is known of the line latency between this endpoint and a peer.

use crate::Distance;
use crate::line_latency::LatencyEstimator;

/// Long messages between two looks at the clock whether a measurement is due.
const MESSAGES: u32 = 32;

/// The measurements of a pair, and when the next one is due.
#[derive(Clone, Copy, Debug)]
pub struct LatencyProbe {
    /// What the measurements say.
    pub estimator: LatencyEstimator,
    /// Long messages until the clock is looked at.
    until_check: u32,
    /// The probe word that the peer may still write to.
    word: Option<u32>,
    /// The last that was measured, in nanoseconds one way.
    ns: u32,
    /// Messages that had come at the last look at peers with short ones.
    received: u64,
    /// And `until_check` then: long ones have come since if it is another.
    looked: u32,
}

impl LatencyProbe {
    /// Nothing is known yet. Cores are near below `near_below_ns` nanoseconds.
    #[must_use]
    pub const fn new(near_below_ns: u32) -> Self {
        Self {
            estimator: LatencyEstimator::new(near_below_ns),
            until_check: 0,
            word: None,
            ns: 0,
            received: 0,
            looked: 0,
        }
    }

    /// How far away the peer is by what was measured.
    #[must_use]
    pub const fn distance(&self) -> Option<Distance> {
        self.estimator.distance()
    }

    /// One of the two has moved.
    pub fn forget(&mut self) {
        self.estimator.forget();
        self.until_check = 0;
    }

    /// A long message is about to go. Whether it is time to look at the clock.
    #[inline]
    pub fn count_message(&mut self) -> bool {
        if self.until_check == 0 {
            self.until_check = MESSAGES;
            return true;
        }
        self.until_check -= 1;
        false
    }

    /// `received` messages have come in all. Whether some came since the last look, all of them
    /// short.
    pub fn came_short(&mut self, received: u64) -> bool {
        if core::mem::replace(&mut self.received, received) == received {
            return false;
        }
        core::mem::replace(&mut self.looked, self.until_check) == self.until_check
    }

    /// The probe word that the peer may still write to.
    #[must_use]
    pub const fn word(&self) -> Option<u32> {
        self.word
    }

    /// A measurement begins, by this word.
    pub fn begin(&mut self, word: u32) {
        self.word = Some(word);
    }

    /// The peer has done with the word.
    pub fn end(&mut self) {
        self.word = None;
    }

    /// A measurement is over; `None`: the peer was not there. True if the distance is another one
    /// now.
    pub fn measured(&mut self, ns: Option<u32>, now_ns: u64) -> bool {
        self.ns = ns.unwrap_or(self.ns);
        self.estimator.measured(ns, now_ns)
    }

    /// The last that was measured, in nanoseconds one way.
    #[must_use]
    pub const fn ns(&self) -> u32 {
        self.ns
    }
}
