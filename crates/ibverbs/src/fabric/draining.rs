//! A queue pair ends, and what it has received is kept.
//!
//! Packets that its adapter has acknowledged are still to be read. Some adapters delete the
//! completions of a queue pair that they destroy, and with a completion the receive buffer would be
//! lost too. Others add some until then. So the queue pair goes to its error state first, where an
//! adapter completes what it has begun, and it is destroyed when there is nothing more to come:
//!
//! - with a shared receive queue, when the adapter has said so (the last work request is reached);
//! - with a queue of its own, when all its receives have come back.

use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant;

use super::Fabric;
use super::connection::{Posted, Stream};
use crate::objects::{Completion, QueuePairState};

/// Adapters finish a queue pair in less than a millisecond. One that says nothing in this time is
/// not waited for again. Those of tests always say it, however little time a test has.
const LONGEST: Duration = Duration::from_millis(if cfg!(test) { 60_000 } else { 200 });

impl Fabric {
    /// Destroys a queue pair: nothing touches the memory of its requests any more, which are given
    /// back. What it has received is there to be read afterwards.
    pub(super) fn take_down(&mut self, stream: Stream) -> VecDeque<(u32, Posted)> {
        let Stream {
            mut pair,
            rail,
            posted,
            ..
        } = stream;
        let number = pair.number();
        let was_connected = pair.state() != QueuePairState::Initialised;
        match pair.fail() {
            Ok(()) if was_connected => self.drain(rail, number),
            Ok(()) => {}
            Err(error) => {
                tracing::debug!("a queue pair cannot be set to its error state: {error}");
            }
        }
        while let Ok(true) = self.look_at_queue(rail) {}
        drop(pair);
        // Its number is its own until its last completion was taken.
        while let Ok(true) = self.look_at_queue(rail) {}
        self.by_pair.remove(&(rail, number));
        // Its requests are over and go elsewhere. A completion of one, read later, would be taken
        // for that of a request of the stream that has this place by then.
        let is_of_it = |(of, it): &(usize, Completion)| (*of, it.queue_pair) == (rail, number);
        self.taken.retain(|it| !is_of_it(it));
        self.rails[rail].finished.remove(&number);
        let arrived = &self.arrived;
        self.rails[rail].receives.gone(number, |buffer| {
            let mut arrived = arrived.iter();
            arrived.any(|it| it.rail == rail && it.buffer == buffer)
        });
        posted
    }

    /// Waits until a queue pair in its error state has given all that it received.
    fn drain(&mut self, rail: usize, number: u32) {
        if !self.rails[rail].tells_ends {
            return;
        }
        let until = Instant::now() + LONGEST;
        while !self.has_given_all(rail, number) {
            if Instant::now() >= until {
                self.rails[rail].tells_ends = false;
                let device = self.rails[rail].domain.context().name();
                tracing::warn!("{device} does not say when a queue pair is at its end");
                return;
            }
            match self.look_at_queue(rail) {
                Ok(true) => {}
                Ok(false) => std::thread::yield_now(),
                // Nothing comes out of this queue any more.
                Err(_) => return,
            }
        }
    }

    fn has_given_all(&mut self, rail: usize, number: u32) -> bool {
        let it = &mut self.rails[rail];
        if it.receives.are_shared() {
            it.take_events();
            return it.finished.contains(&number);
        }
        let mut of_pair = it.receives.of(number);
        of_pair.all(|buffer| {
            let mut arrived = self.arrived.iter();
            arrived.any(|it| it.rail == rail && it.buffer == buffer)
        })
    }
}
