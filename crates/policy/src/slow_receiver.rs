//! When a receiver counts as lagging behind one of its senders: a state machine without clock
//! or I/O.
//!
//! Such a receiver has a long unexpected queue for long. Counted are the messages that hold their
//! sender up: offers, and what a sender that was told has sent ahead. Such a message is *late* if
//! the queue of its sender was long when it was taken, and the receiver had let some time pass
//! since it last did anything for that sender. A receiver that copies as fast as it can has a long
//! queue too, but no such pauses: a stream at full bandwidth is no skew.
//!
//! Each late message fills a bucket, each message in pace drains it. The receiver lags once the
//! bucket is half full, and keeps pace again once it is empty; between the two nothing changes, so
//! that a few messages of the other kind do not flip it.

use super::ReceiverPace;

/// A queue of so many messages is long.
pub const LONG: u32 = 4;
/// Nanoseconds without a move of the receiver that make a message late: several times what matching
/// and a rendezvous without its copy take.
const LATE_NS: u64 = 5_000;
/// Late messages, more than those in pace, that make a receiver lag.
const ENTER: u8 = 8;
/// What the bucket holds: so many messages in pace end the lag.
const FULL: u8 = 16;

/// How this endpoint keeps up with one sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowReceiver {
    /// Messages of the sender that wait for their receive.
    waiting: u32,
    bucket: u8,
    slow: bool,
    /// Since when the receiver does nothing for this sender, in nanoseconds of any clock.
    idle_since_ns: u64,
}

impl SlowReceiver {
    /// Whether the sender was to be told to go ahead.
    #[inline]
    #[must_use]
    pub const fn pace(&self) -> ReceiverPace {
        if self.slow {
            ReceiverPace::Slow
        } else {
            ReceiverPace::Steady
        }
    }

    /// Messages of the sender that hold it up, and wait for their receive.
    #[inline]
    #[must_use]
    pub const fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Nothing of this sender waits, and nothing did for some time: no need to look at a clock.
    #[inline]
    #[must_use]
    pub const fn is_calm(&self) -> bool {
        self.waiting == 0 && self.bucket == 0
    }

    /// A message came before its receive.
    #[inline]
    pub fn unexpected_arrived(&mut self, now_ns: impl FnOnce() -> u64) {
        self.waiting = self.waiting.saturating_add(1);
        if self.waiting == LONG {
            self.idle_since_ns = self.idle_since_ns.max(now_ns());
        }
    }

    /// A waiting message meets its receive. `behind`: how many messages of the sender were waiting
    /// when it was sent, by the sender's own count; they may still lie in the ring, where the
    /// receiver does not see them.
    ///
    /// Gives the new state if it changed: the sender must be told.
    #[inline]
    pub fn taken(&mut self, behind: u32, now_ns: u64) -> Option<ReceiverPace> {
        let long = self.waiting.max(behind) >= LONG;
        self.waiting = self.waiting.saturating_sub(1);
        let late = long && now_ns.saturating_sub(self.idle_since_ns) >= LATE_NS;
        self.idle_since_ns = now_ns;
        self.judge(late)
    }

    /// A waiting message was withdrawn by its sender.
    #[inline]
    pub fn withdrawn(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// A message found its receive posted: the receiver was there first. Gives the new state if it
    /// changed.
    #[inline]
    pub fn was_posted(&mut self) -> Option<ReceiverPace> {
        self.judge(false)
    }

    /// The bytes of a message have arrived: until now the receiver, or the sender, was at work.
    #[inline]
    pub fn active(&mut self, now_ns: u64) {
        self.idle_since_ns = self.idle_since_ns.max(now_ns);
    }

    fn judge(&mut self, late: bool) -> Option<ReceiverPace> {
        self.bucket = if late {
            (self.bucket + 1).min(FULL)
        } else {
            self.bucket.saturating_sub(1)
        };
        let slow = if self.slow {
            self.bucket > 0
        } else {
            self.bucket >= ENTER
        };
        if slow == self.slow {
            return None;
        }
        self.slow = slow;
        if slow {
            // From here on the whole bucket has to drain.
            self.bucket = FULL;
        }
        Some(self.pace())
    }
}

#[cfg(test)]
#[path = "slow_receiver_tests.rs"]
mod tests;
