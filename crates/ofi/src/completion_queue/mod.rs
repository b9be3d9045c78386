//! Completion queues: a list of nodes, in the order in which their operations ended.
//!
//! Here the list is filled, by endpoints; `read` is how applications empty it, `idle` what happens
//! when it is empty, `calls` what libfabric calls.

mod calls;
mod idle;
mod owned;
mod read;
mod signal;

use core::cell::Cell;
use std::sync::Arc;

use crate::bound::Bound;
use crate::domain::Domain;
use crate::endpoint::Endpoint;
use crate::node::{Node, give_back};
use crate::object::{Head, Object};
use crate::peer::OwnersQueue;
use crate::turns::Turns;
use limic_ofi_abi::objects::fid_cq;
use limic_ofi_abi::*;

pub(crate) use self::calls::open;
use self::idle::Idle;
use self::signal::Signals;

/// A completion queue.
#[repr(C)]
pub(crate) struct Queue {
    head: Head<fid_cq>,
    pub(crate) domain: Arc<Domain>,
    pub(crate) turns: Arc<Turns>,
    /// Oldest and youngest completion.
    first: Cell<*mut Node>,
    last: Cell<*mut Node>,
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
    ///
    /// # Safety
    /// The node is in no list, and stays where it is until it is taken out.
    #[inline(always)]
    pub(crate) unsafe fn push(&self, node: *mut Node) {
        // SAFETY: the caller's promise; what is in the list was pushed under it.
        unsafe {
            (*node).next = core::ptr::null_mut();
            let last = self.last.get();
            if last.is_null() {
                self.first.set(node);
                // A call of another thread, or about another queue, may have put it here, so that
                // nobody rings for it. Only an empty list is slept on.
                self.bound.wake();
            } else {
                (*last).next = node;
            }
        }
        self.last.set(node);
    }

    /// Takes the oldest completion out.
    ///
    /// # Safety
    /// `node` is the first.
    #[inline(always)]
    unsafe fn pop(&self, node: *mut Node) {
        // SAFETY: the caller's promise.
        let next = unsafe { (*node).next };
        self.first.set(next);
        if next.is_null() {
            self.last.set(core::ptr::null_mut());
        }
    }

    /// An endpoint reports here from now on.
    pub(crate) fn add(&self, endpoint: &Endpoint) -> Result<(), i32> {
        self.bound.add(endpoint)
    }

    /// An endpoint closes: what it has not reported yet is forgotten, since the memory of its nodes
    /// may go.
    pub(crate) fn remove(&self, endpoint: &Endpoint) {
        self.bound.remove(endpoint);
        let mut node = self.first.replace(core::ptr::null_mut());
        self.last.set(core::ptr::null_mut());
        while !node.is_null() {
            // SAFETY: nodes in the list are alive.
            unsafe {
                let next = (*node).next;
                if (*node).endpoint() == endpoint.number {
                    give_back(node);
                } else {
                    self.push(node);
                }
                node = next;
            }
        }
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
        !self.first.get().is_null()
    }
}
