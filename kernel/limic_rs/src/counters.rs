// SPDX-License-Identifier: GPL-2.0

//! What there is now, and what has happened.

use crate::costs;
use kernel::fmt;
use kernel::sync::atomic::{Atomic, Relaxed};

/// All counters of the module.
pub(crate) struct Counters {
    // What there is now. Changed where something is made, pinned or freed, which costs far more
    // than the count.
    pub(crate) sessions: Atomic<i64>,
    pub(crate) groups: Atomic<i64>,
    pub(crate) exposures: Atomic<i64>,
    pub(crate) pinned_pages: Atomic<i64>,
    /// Buffers that stay pinned for use again.
    pub(crate) kept: Atomic<i64>,
    /// Descriptors that had to be allocated, since the pool had none.
    pub(crate) pool_empty: Atomic<i64>,
    // What happened while measuring was on.
    events: [Atomic<i64>; EVENTS.len()],
}

/// Things that are counted while measuring is on.
#[derive(Clone, Copy)]
pub(crate) enum Event {
    /// Messages whose sender came second.
    SendMatched,
    /// Messages whose sender came first, and was pinned.
    SendQueued,
    /// Messages that the kernel keeps for the receiver.
    SendBuffered,
    /// Messages whose receiver came second.
    RecvMatched,
    /// Messages whose receiver came first, and was pinned.
    RecvQueued,
    /// Receives that were shorter than their message.
    Truncated,
    /// Requests that were taken back.
    Cancelled,
    /// Copy calls on exposures.
    Copies,
    /// Bytes that copy calls and messages moved.
    Bytes,
    /// Copies that ended early.
    Stopped,
    /// Waits that slept.
    Slept,
    /// Buffers that were found pinned.
    Reused,
}

const EVENTS: [&str; 12] = [
    "send_matched",
    "send_queued",
    "send_buffered",
    "recv_matched",
    "recv_queued",
    "truncated",
    "cancelled",
    "copies",
    "bytes",
    "stopped",
    "slept",
    "reused",
];

const ZERO: Atomic<i64> = Atomic::new(0);

pub(crate) static COUNTERS: Counters = Counters {
    sessions: Atomic::new(0),
    groups: Atomic::new(0),
    exposures: Atomic::new(0),
    pinned_pages: Atomic::new(0),
    kept: Atomic::new(0),
    pool_empty: Atomic::new(0),
    events: [ZERO; EVENTS.len()],
};

/// Counts something, if measuring is on.
#[inline]
pub(crate) fn count(event: Event, number: u64) {
    if costs::measuring() {
        if let Some(counter) = COUNTERS.events.get(event as usize) {
            counter.add(number as i64, Relaxed);
        }
    }
}

/// Sets the counts of events to 0.
pub(crate) fn reset() {
    for event in &COUNTERS.events {
        event.store(0, Relaxed);
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = [
            ("sessions", &self.sessions),
            ("groups", &self.groups),
            ("exposures", &self.exposures),
            ("pinned_pages", &self.pinned_pages),
            ("kept", &self.kept),
            ("pool_empty", &self.pool_empty),
        ];
        for (name, counter) in now {
            writeln!(f, "{name} {}", counter.load(Relaxed))?;
        }
        for (name, counter) in EVENTS.iter().zip(&self.events) {
            writeln!(f, "{name} {}", counter.load(Relaxed))?;
        }
        Ok(())
    }
}
