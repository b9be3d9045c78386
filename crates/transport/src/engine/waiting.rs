//! Waiting: progress again and again, then yields, then sleep until somebody rings.

use core::time::Duration;

use limic_shm::idle::{Backoff, Patience, Step};
use limic_shm::system;

use super::Engine;
use super::contact::connections;
use super::control::locality;
use super::patience::{self, Awaited};
use super::peer::sockets::TIMER;
use super::progress::work;
use crate::counters::Event;
use crate::polling::longest_sleep;

impl Engine {
    /// Makes progress until `done` has an answer.
    #[inline]
    pub(crate) fn wait_until<T>(
        &mut self,
        awaited: Awaited<'_>,
        mut done: impl FnMut(&mut Self) -> Option<T>,
    ) -> T {
        let mut backoff = Backoff::default();
        let mut patience = Patience::default();
        loop {
            if let Some(answer) = done(self) {
                return answer;
            }
            self.polled.in_call();
            let before = self.kept_and_helped();
            let moved = self.progress();
            if moved && before == self.kept_and_helped() {
                backoff.reset();
                continue;
            }
            if moved {
                // What nobody here asked for is no reason to keep the processor: a flood of it
                // would, from the peer that is waited for. Something else may have come with it.
                if let Some(answer) = done(self) {
                    return answer;
                }
                if self.cx.wakeup.is_oversubscribed() {
                    // It took as long as many polls.
                    system::yield_now();
                }
            }
            self.snooze(&mut backoff, &mut patience, awaited);
        }
    }

    /// Changes whenever peers take of the time what this endpoint has not asked for: with a message
    /// that finds no receive, or an access to a region.
    #[inline(always)]
    fn kept_and_helped(&self) -> (u32, u32) {
        (self.cx.matching.kept(), self.cx.regions.help.count())
    }

    /// One step of a wait after progress that moved nothing.
    #[inline]
    fn snooze(&mut self, backoff: &mut Backoff, patience: &mut Patience, awaited: Awaited<'_>) {
        let (limit, spins) = (self.cx.wakeup.spin_limit(), self.cx.wakeup.spins());
        match backoff.next(limit, spins) {
            Step::Spin => {}
            step => self.snooze_slow(step, patience, awaited),
        }
    }

    #[cold]
    fn snooze_slow(&mut self, step: Step, patience: &mut Patience, awaited: Awaited<'_>) {
        match step {
            Step::Spin => {}
            Step::Sockets => {
                self.poll_sockets();
            }
            Step::Yield { first } => {
                self.cx.transfers.yielded();
                if first {
                    locality::check_cpu(&mut self.cx);
                }
                system::yield_now();
            }
            Step::Sleep => {
                self.cx.transfers.yielded();
                if patience.is_over(self.patience()) {
                    self.say_awaited(awaited);
                }
                self.sleep(awaited.longest_sleep());
            }
        }
    }

    /// After how long a wait says what it waits for.
    pub(crate) fn patience(&self) -> Duration {
        self.cx.settings.patience()
    }

    /// Says what a wait has waited for, for long.
    #[cold]
    pub(crate) fn say_awaited(&mut self, awaited: Awaited<'_>) {
        patience::say(&mut self.cx, awaited);
    }

    /// Asks senders to ring. False if something moved: there is work, and nobody needs to ring.
    fn arm(&mut self) -> bool {
        self.rings.repair_head();
        if !self.cx.wakeup.announce() {
            self.cx.wakeup.wake_up();
            return false;
        }
        self.cx.fabric.arm();
        self.end_rest();
        // Pairs with the senders' look at the flag: what was published before they looked is seen
        // now.
        if self.progress() {
            self.cx.wakeup.wake_up();
            return false;
        }
        // What may rest again now is to bound the sleep.
        self.end_rest();
        true
    }

    /// As [`arm`](Self::arm), for a caller that sleeps on the event set's descriptor without a
    /// limit. A timer makes the descriptor readable in time for what nobody rings for, and after
    /// [`longest_sleep`] in any case.
    pub(crate) fn arm_for_poll(&mut self) -> bool {
        self.ensure_own();
        let another_polls = self.cx.wakeup.poller.disarm();
        let armed = self.try_to_arm_for_poll();
        if armed | another_polls {
            self.cx.wakeup.poller.arm();
        }
        if !armed {
            self.cx.wakeup.poller.notify();
        }
        armed
    }

    fn try_to_arm_for_poll(&mut self) -> bool {
        if self.cx.identity.is_closed() {
            // Nobody would ring.
            return false;
        }
        // Takes what the descriptor has reported already, so that it is not readable for nothing.
        let completed = self.cx.requests.completed();
        self.poll_sockets();
        if self.cx.requests.completed() != completed || !self.arm() {
            return false;
        }
        let must_look = work::longest_sleep(&self.cx);
        let after = must_look.unwrap_or_else(longest_sleep);
        let timer = self
            .cx
            .wakeup
            .set_timer(self.cx.sockets.events(), TIMER, after);
        if let Err(error) = timer {
            // Mostly no descriptor is free. Then the caller does not sleep, if something waits for
            // which nobody rings.
            tracing::debug!("no timer: {error}");
            if must_look.is_some() {
                self.cx.wakeup.wake_up();
                return false;
            }
        }
        true
    }

    /// Sleeps until a peer rings, a socket has news, or the time is over.
    pub(crate) fn sleep(&mut self, timeout: Option<Duration>) {
        self.ensure_own();
        // Also where something moves, so that it does not sleep.
        self.polled.in_call();
        let completed = self.cx.requests.completed();
        connections::contact_sources(&mut self.cx);
        // A source that is gone has failed what is waited for.
        if self.cx.requests.completed() != completed || !self.arm() {
            return;
        }
        let longest = work::longest_sleep(&self.cx).unwrap_or_else(longest_sleep);
        let timeout = timeout.unwrap_or(longest).min(longest);
        self.cx.counters.event(Event::Sleeps);
        if connections::poll(&mut self.cx, Some(timeout)) {
            self.cx.counters.event(Event::WakeUps);
        }
        self.cx.wakeup.wake_up();
        self.handle_notes();
    }
}
