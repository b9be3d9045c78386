//! What becomes of operations that were posted: waits, tests, ends that nobody waits for.

use core::time::Duration;
use std::any::Any;

use limic_shm::system::Instant;

use crate::Result;
use crate::engine::Engine;
use crate::engine::patience::Awaited;
use crate::engine::protocol::cancel;
use crate::engine_cell::{Freed, Frees};
use crate::error::Outcome;
use crate::raw::RequestId;

/// How long a peer over a network may take to make room: that of a message or two.
const ROOM_WITHIN: Duration = Duration::from_millis(10);

impl Engine {
    /// Waits for one request.
    #[inline(always)]
    pub(crate) fn wait(&mut self, id: RequestId) -> Outcome {
        if !self.cx.fabric.looks.is_active() {
            if let Some(status) = self.cx.requests.take_status(id) {
                return Ok(status);
            }
        }
        self.wait_longer(id)
    }

    #[inline(never)]
    fn wait_longer(&mut self, id: RequestId) -> Outcome {
        let outcome = self.wait_until(Awaited::Operation(id), |engine| {
            engine.cx.requests.take_outcome(id)
        });
        self.flush_pending();
        outcome
    }

    /// Waits for one of several requests.
    pub(crate) fn wait_any(&mut self, ids: &[RequestId]) -> Option<(usize, Outcome)> {
        if ids.is_empty() {
            return None;
        }
        let found = self.wait_until(Awaited::OneOf(ids), |engine| {
            engine.cx.requests.take_any(ids)
        });
        self.flush_pending();
        Some(found)
    }

    /// Both only grow, so their sum is another one if either is.
    pub(crate) fn news(&self) -> u64 {
        let kept = u64::from(self.cx.matching.kept());
        self.cx.requests.completed().wrapping_add(kept)
    }

    /// Tests one request.
    #[inline]
    pub(crate) fn test(&mut self, id: RequestId) -> Option<Outcome> {
        // Whoever learns that a send is over may not call again for long.
        if !self.cx.requests.is_over(id) || self.holds_messages() {
            self.poll();
        }
        self.cx.requests.take_outcome(id)
    }

    /// Whether what was sent waits for a network.
    #[inline(always)]
    pub(crate) fn holds_messages(&self) -> bool {
        self.cx.fabric.holds_messages()
    }

    /// A caller that has waited may not call again for long: what waits for a network, and only
    /// calls push on, goes now. It may be the record that a peer waits for.
    #[inline(always)]
    pub(crate) fn flush_pending(&mut self) {
        if self.holds_messages() {
            self.flush_pending_slow();
        }
    }

    /// A peer that reads makes room in time. One that does not cannot wait for the record either,
    /// and is not waited for.
    #[cold]
    fn flush_pending_slow(&mut self) {
        // At least once, though this thread may not run again within the time.
        self.progress();
        let end = Instant::now() + ROOM_WITHIN;
        self.wait_until(Awaited::Taking(end), |engine| {
            let over = !engine.holds_messages() || Instant::now() >= end;
            over.then_some(())
        });
        self.cx.fabric.gave_time();
    }

    pub(crate) fn cancel(&mut self, id: RequestId) -> Result<()> {
        cancel::cancel(&mut self.cx, id)?;
        // It may be over now, and another thread may poll for it.
        self.cx.wakeup.poller.notify();
        // The receiver answers: who cancels one send after the other takes the answers in between,
        // since only so many may wait (`outbox::answer`).
        self.progress();
        Ok(())
    }

    pub(crate) fn abandon(&mut self, id: RequestId, buffer: Box<dyn Any + Send>) {
        let Some(slot) = self.cx.requests.find(id) else {
            return;
        };
        if self.cx.identity.is_closed() && !self.cx.requests.is_done(slot) {
            // A peer that is stopped in the middle of a copy may still write there, and nobody
            // looks for its end any more.
            core::mem::forget(buffer);
            return;
        }
        self.cx.requests.abandon(slot, buffer);
    }
}

impl Frees for Engine {
    #[inline(always)]
    fn has_freed(&self) -> bool {
        self.cx.requests.has_freed()
    }
    fn take_freed(&mut self) -> Freed {
        self.cx.requests.take_freed()
    }
}
