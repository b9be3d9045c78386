//! An operation that was posted, done or not: its end, and what owned requests have in common.

use core::time::Duration;

use crate::error::Outcome;
use crate::polling::within;
use crate::raw::{Messages, Posted, RequestId};
use crate::{Endpoint, Error, Result};

/// Waits for what was posted, unless it is done. Then what was sent goes on its way all the same:
/// the caller may not call again for long.
#[inline]
pub(crate) fn finish<E: Messages + ?Sized>(endpoint: &E, posted: Posted) -> Outcome {
    match posted {
        Posted::Pending(id) => endpoint.wait(id),
        Posted::Done(outcome) => {
            if endpoint.holds_messages() {
                endpoint.flush();
            }
            outcome
        }
    }
}

#[derive(Debug)]
pub(crate) struct Handle<'e, E: Endpoint> {
    pub(crate) endpoint: &'e E,
    pub(crate) posted: Posted,
}

impl<E: Endpoint> Handle<'_, E> {
    /// Waits, unless it is done already. The handle has nothing to tell afterwards.
    pub(crate) fn wait(&mut self) -> Outcome {
        let told = Posted::Done(Err(Error::UnknownRequest));
        finish(self.endpoint, core::mem::replace(&mut self.posted, told))
    }

    /// Remembers the outcome, since the request is freed when it is reported done.
    pub(crate) fn test(&mut self) -> bool {
        match self.posted {
            Posted::Pending(id) => match self.endpoint.test(id) {
                Some(outcome) => self.posted = Posted::Done(outcome),
                None => return false,
            },
            Posted::Done(_) => self.push_on(),
        }
        true
    }

    /// What was sent may wait for a network, also if its send is over.
    pub(crate) fn push_on(&self) {
        if self.endpoint.holds_messages() {
            self.endpoint.progress();
        }
    }

    /// Whether it is done, or becomes so within the time.
    pub(crate) fn wait_timeout(&mut self, timeout: Duration) -> bool {
        let endpoint = self.endpoint;
        within(endpoint, timeout, || self.test())
    }

    pub(crate) fn is_over(&self) -> bool {
        self.pending().is_none_or(|id| self.endpoint.is_done(id))
    }

    pub(crate) fn cancel(&self) -> Result<()> {
        match self.posted {
            Posted::Pending(id) => self.endpoint.cancel(id),
            Posted::Done(_) => Ok(()),
        }
    }

    pub(crate) fn pending(&self) -> Option<RequestId> {
        match self.posted {
            Posted::Pending(id) => Some(id),
            Posted::Done(_) => None,
        }
    }

    /// Takes an outcome that somebody else waited for.
    pub(crate) fn learn(&mut self, outcome: Option<Outcome>) {
        if let Some(outcome) = outcome {
            self.posted = Posted::Done(outcome);
        }
    }
}
