//! Completion queues: a list of nodes, in the order in which their operations ended.
//!
//! Here the list is filled, by endpoints; `read` is how applications empty it, `idle` what happens
//! when it is empty, `calls` what libfabric calls.

mod calls;
mod idle;
mod read;
mod signal;

use core::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::abi::objects::fid_cq;
use crate::abi::*;
use crate::domain::Domain;
use crate::endpoint::Endpoint;
use crate::node::Node;
use crate::object::{Head, Object};
use crate::wait::WaitObject;

pub(crate) use self::calls::open;
use self::idle::Idle;
use self::signal::Signals;

/// A completion queue.
#[repr(C)]
pub(crate) struct Queue {
    head: Head<fid_cq>,
    pub(crate) domain: Arc<Domain>,
    /// Oldest and youngest completion.
    first: Cell<*mut Node>,
    last: Cell<*mut Node>,
    /// Bytes of a completion in the application's format.
    entry: usize,
    idle: Idle,
    /// Endpoints that report here; each makes progress when the queue is read.
    endpoints: RefCell<Vec<*const Endpoint>>,
    wait: Option<WaitObject>,
    wait_kind: u32,
    /// The condition of `sread` is a number of completions.
    threshold: bool,
    /// Somebody sleeps on the descriptor, or is about to, and was not woken yet. Never while the
    /// list holds anything.
    armed: Cell<bool>,
    signals: Signals,
}

// SAFETY: `repr(C)`, and the head comes first.
unsafe impl Object for Queue {
    const CLASS: usize = class::CQ;
}

// SAFETY: touched only in calls that have entered its domain.
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
                // Only an empty list is slept on.
                if self.armed.get() {
                    self.wake();
                }
            } else {
                (*last).next = node;
            }
        }
        self.last.set(node);
    }

    /// Something is there that a call of another thread, or about another queue, has put here:
    /// nobody may ring for it.
    #[cold]
    fn wake(&self) {
        self.armed.set(false);
        if let Some(wait) = &self.wait {
            wait.call();
        }
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
        let mut endpoints = self.endpoints.borrow_mut();
        if endpoints.contains(&core::ptr::from_ref(endpoint)) {
            return Ok(());
        }
        if let Some(wait) = &self.wait {
            let added = wait.add(endpoint.wake_fd(), endpoint.number);
            added.map_err(|errno| errno.raw_os_error())?;
        }
        endpoints.push(endpoint);
        Ok(())
    }

    /// An endpoint closes: what it has not reported yet is forgotten, since the memory of its nodes
    /// may go.
    pub(crate) fn remove(&self, endpoint: &Endpoint) {
        let gone = core::ptr::from_ref(endpoint);
        self.endpoints.borrow_mut().retain(|known| *known != gone);
        if let Some(wait) = &self.wait {
            wait.remove(endpoint.wake_fd());
        }
        let mut node = self.first.replace(core::ptr::null_mut());
        self.last.set(core::ptr::null_mut());
        while !node.is_null() {
            // SAFETY: nodes in the list are alive.
            unsafe {
                let next = (*node).next;
                if (*node).endpoint() == endpoint.number {
                    self.domain.pool.give_back(node);
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
        let mut moved = false;
        for endpoint in self.endpoints.borrow().iter() {
            // SAFETY: an endpoint takes itself out before it goes.
            moved |= unsafe { (**endpoint).progress() };
        }
        moved
    }

    /// Whether nothing is there, and the descriptor becomes readable as soon as something is:
    /// senders ring, and so does whoever puts something into the list.
    pub(crate) fn may_sleep(&self) -> bool {
        self.progress();
        if self.has_any() || self.signals.take() {
            return false;
        }
        if let Some(wait) = &self.wait {
            if self.signals.all_have_heard() {
                wait.heard();
            }
            self.armed.set(true);
        }
        let armed = self.endpoints.borrow().iter().all(|endpoint| {
            // SAFETY: an endpoint takes itself out before it goes.
            unsafe { (**endpoint).arm() }
        });
        // Arming makes progress once more.
        armed && !self.has_any()
    }

    pub(crate) fn has_any(&self) -> bool {
        !self.first.get().is_null()
    }
}
