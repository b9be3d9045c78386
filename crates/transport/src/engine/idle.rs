//! Waiting without burning what others need: spin, then yield, then sleep.

use core::time::Duration;

use limic_shm::control::Timer;

use super::accepting::DEAF;
use super::connections::TIMER;
use super::{Core, Engine};
use crate::counters::Event;

/// The longest sleep without looking around: a guard against a peer that meddles with the wake-up
/// flag, not something that anybody waits for.
const LONGEST: Duration = Duration::from_millis(250);
/// The longest sleep while something waits for room in a ring that several senders share: the receiver cannot know whom to
/// ring then; or for the end of an access to a region, of which its owner is not told (each access would have to look whether the
/// owner wants to know).
const BLOCKED: Duration = Duration::from_millis(1);
/// Polls between two looks at the sockets (new connections, dead peers): about 20 us of spinning.
const SOCKETS: u32 = 512;
/// Polls without a pause: about 20 us.
const EAGER_POLLS: u32 = 1000;
/// Yields before sleeping.
const YIELDS: u32 = 16;

/// How long somebody has waited in vain.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    polls: u32,
    yields: u32,
}

impl Patience {
    /// Something moved.
    #[inline(always)]
    pub(crate) fn reset(&mut self) {
        self.polls = 0;
        self.yields = 0;
    }
}

impl Engine {
    /// One step of waiting after a progress that moved nothing.
    #[inline]
    pub(crate) fn be_patient(&mut self, patience: &mut Patience) {
        patience.polls += 1;
        if patience.polls < self.core.polls_alone {
            // The pause instruction takes 15 to 60 ns, most of a short message's time. A neighbour on the same core
            // gets the pauses of those who wait longer.
            if patience.polls > EAGER_POLLS {
                core::hint::spin_loop();
            }
            if patience.polls.is_multiple_of(SOCKETS) {
                self.look_at_sockets();
            }
            return;
        }
        self.give_way(patience);
    }

    #[cold]
    fn give_way(&mut self, patience: &mut Patience) {
        if patience.polls < self.core.spins {
            // Not to a peer, but to the kernel, which does an adapter's work.
            rustix::thread::sched_yield();
            if patience.polls.is_multiple_of(SOCKETS) {
                self.look_at_sockets();
            }
            return;
        }
        if !self.core.work.streams.is_empty() {
            // The receiver of a stream does not run beside its sender.
            self.core.crowded = super::streams::CROWDED;
        }
        if patience.yields == 0 {
            self.core.look_where_it_runs();
        }
        if patience.yields < YIELDS {
            patience.yields += 1;
            rustix::thread::sched_yield();
            return;
        }
        self.sleep(None);
        patience.polls = 0;
        // Who was woken up is likely to be woken again soon: spin less than at first, but spin.
        patience.yields = YIELDS / 2;
    }

    /// Looks for new connections and dead peers.
    #[cold]
    pub(crate) fn look_at_sockets(&mut self) -> bool {
        let happened = self.core.poll_events(Some(Duration::ZERO));
        self.bury_dead();
        happened
    }

    /// Asks senders to ring. False if something moved: there is work, and nobody needs to ring.
    pub(crate) fn arm(&mut self) -> bool {
        self.inputs.mend();
        if !self.core.sleeper.announce() {
            self.core.wake_up();
            return false;
        }
        self.arm_remote();
        // Pairs with the senders' look at the flag: what was published before they looked is seen now.
        if self.progress() {
            self.core.wake_up();
            return false;
        }
        true
    }

    /// As [`arm`](Self::arm), for a caller that sleeps on the event set's descriptor without a limit. What nobody rings for
    /// makes that readable in time, and a ring that never comes does not keep the caller asleep: see [`LONGEST`].
    pub(crate) fn arm_for_poll(&mut self) -> bool {
        let another_polls = self.core.poller.disarm();
        let armed = self.try_to_arm_for_poll();
        if armed | another_polls {
            self.core.poller.arm();
        }
        if !armed {
            self.core.poller.disturb();
        }
        armed
    }

    fn try_to_arm_for_poll(&mut self) -> bool {
        // Takes what the descriptor has reported already, so that it is not readable for nothing.
        self.look_at_sockets();
        if !self.arm() {
            return false;
        }
        let must_look = self.core.must_look_after();
        if let Err(error) = self.core.set_timer(must_look.unwrap_or(LONGEST)) {
            // Mostly no descriptor is free. Then the caller does not sleep, if something waits for which nobody rings.
            tracing::debug!("no timer: {error}");
            if must_look.is_some() {
                self.core.wake_up();
                return false;
            }
        }
        true
    }

    /// Sleeps until a peer rings, a socket has news, or the time is over.
    pub(crate) fn sleep(&mut self, timeout: Option<Duration>) {
        if !self.arm() {
            return;
        }
        let longest = self.core.must_look_after().unwrap_or(LONGEST);
        self.core.tally.event(Event::Sleeps);
        let woken = self
            .core
            .poll_events(Some(timeout.unwrap_or(longest).min(longest)));
        if woken {
            self.core.tally.event(Event::WakeUps);
        }
        self.core.wake_up();
        self.bury_dead();
    }
}

impl Core {
    /// Senders need not ring any more; another thread that polls would wait for that in vain.
    fn wake_up(&mut self) {
        self.sleeper.wake_up();
        self.poller.disturb();
    }

    /// How long this endpoint may sleep at most, if something waits for which nobody rings: room in a ring that several
    /// senders share, the end of an access, a peer that accepts nobody, an own descriptor, the fabric.
    fn must_look_after(&self) -> Option<Duration> {
        let blocked = (self.has_work() || self.regions.has_revoked()).then_some(BLOCKED);
        let deaf = self
            .deaf_since
            .map(|since| DEAF.saturating_sub(since.elapsed()));
        let waits = [blocked, deaf, self.remote.patience()];
        waits.into_iter().flatten().min()
    }

    fn set_timer(&mut self, after: Duration) -> std::io::Result<()> {
        let timer = match self.timer.take() {
            Some(timer) => timer,
            None => {
                let timer = Timer::new()?;
                timer.watch(&self.events, TIMER)?;
                timer
            }
        };
        self.timer.insert(timer).set(after)
    }
}

#[cfg(test)]
#[path = "idle_tests.rs"]
mod tests;
