//! What a program polls that has a loop of its own: readable while the endpoint is wanted.
//!
//! Several threads may use an endpoint in turn, and one of them polls. A call of another thread may
//! see to the very events that the poller waits for, or sleep itself and take the announcement down
//! afterwards: then the descriptor would never become readable, although peers count on a poller
//! who is awake. So whoever disturbs an armed endpoint calls the poller, by an event that nobody
//! else consumes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::control::{Doorbell, EventSet, Trigger};

/// A descriptor that a program polls in its loop.
#[derive(Debug)]
pub struct Poller {
    /// The engine's events, and the call.
    set: EventSet,
    call: Doorbell,
    /// Somebody polls, or is about to, and was not called since.
    armed: bool,
    /// The descriptor is readable because of a call.
    called: bool,
}

/// Both tell only that there is something.
const ANY: u64 = 0;

impl Poller {
    /// Readable when these events are, too.
    ///
    /// # Errors
    ///
    /// No descriptor is free for it.
    pub fn new(events: &EventSet) -> io::Result<Self> {
        let set = EventSet::new()?;
        let call = Doorbell::new()?;
        set.add(events.as_fd(), ANY, Trigger::Level)?;
        call.watch(&set, ANY)?;
        Ok(Self {
            set,
            call,
            armed: false,
            called: false,
        })
    }

    /// What is polled.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }

    /// Nobody polls in a forked child, whose descriptors are its parent's.
    pub fn leave_to_parent(&mut self) {
        self.armed = false;
        self.called = false;
    }

    /// Peers ring from now on; who polls is to be called if they have no reason to any more.
    pub fn arm(&mut self) {
        self.armed = true;
    }

    /// Somebody is about to arm the endpoint, again perhaps: the descriptor is not readable because
    /// of what was before. True if it is armed already.
    pub fn disarm(&mut self) -> bool {
        if core::mem::take(&mut self.called) {
            self.call.silence();
        }
        core::mem::take(&mut self.armed)
    }

    /// What the poller waits for was seen to, or peers do not ring any more: who polls looks for
    /// himself.
    pub fn notify(&mut self) {
        if core::mem::take(&mut self.armed) {
            self.called = true;
            self.call.ring();
        }
    }
}
