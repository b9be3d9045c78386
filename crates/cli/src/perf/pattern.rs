//! What every pattern is given, and what it gives back.

use std::time::Duration;

use limic::Endpoint;
use limic_measure::content::{Wrong, fill, rewrite};

use super::args::{Pattern, Reuse};
use super::buffers::Buffers;
use super::lane::Team;
use super::{collective, latency, window};

/// Tag of the messages that are measured.
pub(super) const DATA: u64 = 10;
/// Tag of the answer to a window.
pub(super) const ANSWER: u64 = 11;

/// Messages in a window.
pub(super) const WINDOW: usize = 64;

/// What is run: one size, for a number of round trips or windows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    pub(super) pattern: Pattern,
    pub(super) bytes: usize,
    /// Round trips, or windows, on the clock.
    pub(super) iterations: u64,
    /// Those before.
    pub(super) warmup: u64,
    pub(super) reuse: Option<Reuse>,
    /// Whether every message is filled and checked.
    pub(super) check: bool,
    /// Whether a word of each cache line of a message is written before it is sent.
    pub(super) rewrite: bool,
}

/// Why a pattern stopped.
#[derive(Debug)]
pub(super) enum Stopped {
    Limic(limic::Error),
    Content(Wrong),
}

impl From<limic::Error> for Stopped {
    fn from(error: limic::Error) -> Self {
        Self::Limic(error)
    }
}

impl From<Wrong> for Stopped {
    fn from(wrong: Wrong) -> Self {
        Self::Content(wrong)
    }
}

/// Waits until all ranks are ready to start the clock.
pub(super) type Start<'a> = &'a dyn Fn() -> limic::Result<()>;

impl Work {
    /// Runs this rank's part; the time on its clock, which is 0 if it has none.
    pub(super) fn run(
        &self,
        team: &Team<impl Endpoint>,
        buffers: &mut Buffers,
        start: Start<'_>,
    ) -> Result<Duration, Stopped> {
        match self.pattern {
            Pattern::Latency | Pattern::Cliffs => latency::run(self, team, buffers, start),
            Pattern::Barrier | Pattern::Alltoall => collective::run(self, team, buffers, start),
            Pattern::Bandwidth | Pattern::Bibandwidth | Pattern::Rate | Pattern::Pairs => {
                window::run(self, team, buffers, start)
            }
        }
    }

    /// Writes what is sent next, as far as that is asked for.
    #[inline(always)]
    pub(super) fn write(&self, message: &mut [u8], seed: u64) {
        if self.check {
            fill(message, seed);
        }
        if self.rewrite {
            rewrite(message, seed);
        }
    }

    /// Messages that one iteration moves between all ranks, in all directions together; a barrier
    /// of theirs moves `in_barrier`.
    pub(super) fn messages_per_iteration(&self, ranks: u32, in_barrier: u64) -> u64 {
        let pairs = u64::from(ranks / 2);
        match self.pattern {
            Pattern::Latency | Pattern::Cliffs => 2 * pairs,
            Pattern::Bibandwidth => 2 * WINDOW as u64 * pairs,
            Pattern::Barrier => in_barrier,
            Pattern::Alltoall => collective::messages_of_all_to_all(ranks),
            _ => WINDOW as u64 * pairs,
        }
    }

    /// Messages that follow each other in one iteration: its time divided by this is the time of a
    /// message; of collective operations, that of the operation.
    pub(super) fn steps_per_iteration(&self) -> usize {
        match self.pattern {
            Pattern::Latency | Pattern::Cliffs => 2,
            Pattern::Barrier | Pattern::Alltoall => 1,
            _ => WINDOW,
        }
    }

    /// Messages per second of all ranks in units of one per message time: both directions of a
    /// ping-pong take turns, those of `bibandwidth` do not.
    pub(super) fn streams(&self, ranks: u32, in_barrier: u64) -> f64 {
        self.messages_per_iteration(ranks, in_barrier) as f64 / self.steps_per_iteration() as f64
    }
}
