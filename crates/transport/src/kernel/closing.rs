//! The end of an endpoint.

use std::time::{Duration, Instant};

use super::{KernelEngine, Operation, Place};
use crate::counters;
use crate::error::PeerFailure;
use crate::{Error, Peer};

/// How long a request that has met its other side may take to end before it is taken back by force:
/// the other's call copies in bursts, but may sleep in a page fault in between.
const MATCHED: Duration = Duration::from_secs(1);

impl KernelEngine {
    /// Closes in good order: what was sent goes out as far as peers take it within the linger time.
    /// Afterwards nobody touches memory of this process any more.
    pub(super) fn close(&mut self) {
        if self.module.is_none() || !self.process.is_current() {
            return;
        }
        let deadline = Instant::now() + self.settings.linger();
        while self.has_sends() && Instant::now() < deadline {
            if !self.poll() {
                self.sleep(Some(deadline.saturating_duration_since(Instant::now())));
            }
        }
        self.withdraw();
        self.close_regions();
        if self
            .module
            .as_ref()
            .is_some_and(|module| !module.posted.is_empty())
        {
            // The session's end stops it, unless a forked child still holds the session: never free
            // that.
            self.requests.leak_abandoned();
        }
        self.end_all(|operation| match operation {
            Operation::Send(sending) => PeerFailure::Closed.of(Peer(sending.to)),
            Operation::Receive(receiving) => match receiving.selector.source {
                Some(peer) => PeerFailure::Closed.of(peer),
                None => Error::Cancelled,
            },
            Operation::Over => Error::Cancelled,
        });
        self.counters.close();
        counters::exit_report::report(self.address.id);
    }

    /// A forked child finds that the session is its parent's: what it has of the requests is
    /// nobody's.
    #[cold]
    pub(super) fn give_up(&mut self) {
        self.end_all(|_| Error::System {
            what: "/dev/limic, which another process opened: open the endpoint in the process that uses it",
            source: crate::Errno(libc::ESTALE),
        });
    }

    /// Ends the session and all operations.
    fn end_all(&mut self, error: impl Fn(&Operation) -> Error) {
        // The session ends here, and with it what was not withdrawn.
        self.module = None;
        self.queue.backlog.clear();
        self.queue.waiting.clear();
        self.claims.clear();
        for slot in self.requests.slots() {
            let operation = self.requests.get(slot);
            if !matches!(operation, Operation::Over) {
                let error = error(operation);
                self.requests.complete(slot, Err(error));
            }
        }
    }

    fn has_sends(&mut self) -> bool {
        let requests = &mut self.requests;
        let mut slots = requests.slots().into_iter();
        slots.any(|slot| matches!(requests.get(slot), Operation::Send(_)))
    }

    /// Takes back what has not matched, and what has and does not end.
    fn withdraw(&mut self) {
        for id in self.requests.ids() {
            let slot = self.requests.find(id);
            let place = slot.and_then(|slot| self.requests.get(slot).place());
            if let Some(Place::Module(_)) = place {
                // It can only be unknown, and it was found just now.
                let _ = self.cancel(id);
            }
        }
        let deadline = Instant::now() + MATCHED;
        let left = |engine: &Self| {
            let module = engine.module.as_ref();
            module.is_some_and(|module| !module.posted.is_empty())
        };
        while left(self) && Instant::now() < deadline {
            if !self.poll() {
                self.sleep(Some(deadline.saturating_duration_since(Instant::now())));
            }
        }
        let Some(module) = &self.module else {
            return;
        };
        for (number, _) in &module.posted {
            if let Err(why) = module.messages.cancel_by_force(*number) {
                tracing::warn!("a request could not be taken back from /dev/limic: {why}");
            }
        }
        self.collect();
    }
}

impl Drop for KernelEngine {
    fn drop(&mut self) {
        self.close();
    }
}
