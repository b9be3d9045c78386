//! Waiting: looking at mapped memory, then yielding, then sleeping on the session's descriptor.

use core::time::Duration;
use std::os::fd::AsFd;

use limic_shm::idle::{Backoff, Patience, Step};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{KernelEngine, Operation, Sending};
use crate::Selector;
use crate::counters::Event;
use crate::engine::matching::posted::query;
use crate::engine::patience::{self, Awaited};
use crate::error::Outcome;
use crate::raw::RequestId;

/// The longest sleep without looking around.
const LONGEST: Duration = Duration::from_millis(250);
/// The longest sleep while the module could not take a send: nobody tells when there is room.
const BLOCKED: Duration = Duration::from_millis(1);

fn sought(call: &str, selector: &Selector) -> String {
    let from = selector.source.map(|peer| format!("peer {}", peer.0));
    patience::message(call, &query(selector), from)
}

impl KernelEngine {
    /// Progress until there is an answer.
    fn wait_until<T>(
        &mut self,
        awaited: Awaited<'_>,
        mut ask: impl FnMut(&mut Self) -> Option<T>,
    ) -> T {
        let mut backoff = Backoff::default();
        let mut patience = Patience::default();
        loop {
            if let Some(answer) = ask(self) {
                return answer;
            }
            if self.poll() {
                backoff.reset();
                continue;
            }
            match backoff.next(self.spins, self.spins) {
                Step::Spin | Step::Sockets => {}
                Step::Yield { .. } => rustix::thread::sched_yield(),
                Step::Sleep => {
                    if patience.is_over(self.patience()) {
                        self.say_awaited(awaited);
                    }
                    self.sleep(None);
                }
            }
        }
    }

    /// Waits for one request.
    pub(super) fn wait(&mut self, id: RequestId) -> Outcome {
        self.wait_until(Awaited::Operation(id), |engine| {
            engine.requests.take_outcome(id)
        })
    }

    /// Waits for one of several requests.
    pub(super) fn wait_any(&mut self, ids: &[RequestId]) -> Option<(usize, Outcome)> {
        if ids.is_empty() {
            return None;
        }
        Some(self.wait_until(Awaited::OneOf(ids), |engine| engine.requests.take_any(ids)))
    }

    /// Both only grow, so their sum is another one if either is.
    pub(super) fn news(&self) -> u64 {
        let arrivals = self
            .module
            .as_ref()
            .map_or(0, |module| module.seen.arrivals);
        self.requests.completed().wrapping_add(arrivals.into())
    }

    /// Tests one request.
    pub(super) fn test(&mut self, id: RequestId) -> Option<Outcome> {
        if !self.requests.is_over(id) {
            self.poll();
        }
        self.requests.take_outcome(id)
    }

    /// Asks the module to make the descriptor readable when something happens from now on. False if
    /// something moved.
    fn listen(&mut self) -> bool {
        let Some(module) = &self.module else {
            return false;
        };
        if module.messages.forget_news().is_err() {
            self.give_up();
            return false;
        }
        // What happened before the call shows now, what happens after it makes the descriptor
        // readable.
        !self.poll()
    }

    /// For the poll loop of a runtime: false if there is work already.
    pub(super) fn arm_for_poll(&mut self) -> bool {
        self.listen() && self.queue.backlog.is_empty()
    }

    /// Sleeps until something happens or the time is over.
    pub(super) fn sleep(&mut self, timeout: Option<Duration>) {
        if !self.listen() {
            if self.module.is_none() {
                rustix::thread::sched_yield();
            }
            return;
        }
        let longest = if self.queue.backlog.is_empty() {
            LONGEST
        } else {
            BLOCKED
        };
        let time = timeout.unwrap_or(longest).min(longest);
        let time = Timespec {
            tv_sec: time.as_secs() as i64,
            tv_nsec: time.subsec_nanos().into(),
        };
        self.counters.event(Event::Sleeps);
        let mut entries = [PollFd::from_borrowed_fd(self.wake.as_fd(), PollFlags::IN)];
        // An error is a signal, after which the caller looks again like after anything else.
        if poll(&mut entries, Some(&time)).is_ok_and(|ready| ready > 0) {
            self.counters.event(Event::WakeUps);
        }
    }

    /// After how long a wait says what it waits for.
    pub(crate) fn patience(&self) -> Duration {
        self.settings.patience()
    }

    /// Says what a wait has waited for, for long.
    #[cold]
    pub(crate) fn say_awaited(&self, awaited: Awaited<'_>) {
        let what = match awaited {
            Awaited::Operation(id) => self.described(id),
            Awaited::OneOf(ids) => patience::one_of(ids, |id| self.described(id)),
            Awaited::Message(call, selector) => Some(sought(call, selector)),
            Awaited::UnderWay(call) => {
                let ids = self.requests.ids();
                Some(patience::under_way(call, &ids, |id| self.described(id)))
            }
            Awaited::Contact(_) | Awaited::Region(_) | Awaited::Polled | Awaited::Taking(_) => None,
        };
        if let Some(what) = what {
            patience::say_line(self.address.id, self.patience(), &what);
        }
    }

    fn described(&self, id: RequestId) -> Option<String> {
        let slot = self.requests.find(id)?;
        match self.requests.under_way(slot)? {
            Operation::Send(Sending { to, tag, .. }) => Some(format!(
                "send of tag {tag} to peer {to}, which has not received it"
            )),
            Operation::Receive(receiving) => Some(sought("recv", &receiving.selector)),
            Operation::Over => None,
        }
    }
}
