//! Completion queues: lists of completions, in the order in which their operations ended.
//!
//! Here the list is filled, by endpoints; `read` is how applications empty it, `idle` what happens
//! when it is empty, `calls` what libfabric calls.

mod calls;
mod completion;
mod idle;
mod list;
mod owned;
mod read;

use std::sync::Arc;

use crate::bound::Bound;
use crate::domain::Domain;
use crate::endpoint::Endpoint;
use crate::object::{Head, Object};
use crate::peer::OwnersQueue;
use crate::signal::Signals;
use crate::turns::Turns;
use limic_ofi_abi::objects::fid_cq;
use limic_ofi_abi::*;

pub(crate) use self::calls::open;
pub(crate) use self::completion::Completion;
use self::idle::Idle;
use self::list::List;

/// A completion queue.
#[repr(C)]
pub(crate) struct Queue {
    head: Head<fid_cq>,
    pub(crate) domain: Arc<Domain>,
    pub(crate) turns: Arc<Turns>,
    /// What nobody has read yet.
    list: List,
    /// Bytes of a completion in the application's format.
    entry: usize,
    idle: Idle,
    /// Endpoints that report here. Nobody sleeps while the list holds anything.
    bound: Bound,
    /// The condition of `sread` is a number of completions.
    threshold: bool,
    signals: Signals,
    /// Another provider's queue, to which all completions go on.
    owner: Option<OwnersQueue>,
}

// SAFETY: `repr(C)`, and the head comes first.
unsafe impl Object for Queue {
    const CLASS: usize = class::CQ;
}

// SAFETY: touched only in its turns, or in those that they are joined to.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

impl Queue {
    /// Puts a completion at the end.
    #[inline(always)]
    pub(crate) fn push(&self, completion: Completion) {
        if self.list.push(completion) {
            // A call of another thread, or about another queue, may have put it here, so that
            // nobody rings for it. Only an empty list is slept on.
            self.bound.wake();
        }
    }

    /// An endpoint reports here from now on.
    pub(crate) fn add(&self, endpoint: &Endpoint) -> Result<(), i32> {
        self.bound.add(endpoint)
    }

    /// An endpoint closes: those of its completions that nobody has read are forgotten.
    pub(crate) fn remove(&self, endpoint: &Endpoint) {
        self.bound.remove(endpoint);
        self.list.retain(|one| one.endpoint() != endpoint.number);
    }

    /// True if anything moved.
    #[inline(always)]
    pub(crate) fn progress(&self) -> bool {
        self.bound.progress()
    }

    /// Whether nothing is there, and the descriptor becomes readable as soon as something is:
    /// senders ring, and so does whoever puts something into the list.
    pub(crate) fn may_sleep(&self) -> bool {
        self.progress();
        if self.has_any() || self.signals.take() {
            return false;
        }
        self.bound.arm(self.signals.all_have_heard()) && !self.has_any()
    }

    pub(crate) fn has_any(&self) -> bool {
        !self.list.is_empty()
    }
}
