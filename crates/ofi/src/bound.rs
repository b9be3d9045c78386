//! The endpoints that are bound to a completion queue or a counter, and what readers of that sleep
//! on.
//!
//! A reader sleeps on the descriptor of the wait object, if there is one. Before it sleeps, it arms
//! the endpoints, so that senders ring. What a call of another thread, or about another object,
//! brings rings nobody: for that there is [`Bound::wake`].

use core::cell::{Cell, RefCell};
use core::ffi::{c_int, c_void};
use std::time::Instant;

use crate::endpoint::Endpoint;
use crate::turns::Turns;
use crate::wait::{self, LONGEST, Patience, Told, WaitObject};

/// Touched only in turns of the object, which are those of the endpoints.
pub(crate) struct Bound {
    /// Each makes progress when the object is read. An endpoint takes itself out before it goes.
    endpoints: RefCell<Vec<*const Endpoint>>,
    wait: Option<WaitObject>,
    /// The kind of wait object that the application has asked for.
    kind: u32,
    /// Somebody sleeps on the descriptor, or is about to, and was not woken yet.
    armed: Cell<bool>,
}

impl Bound {
    pub(crate) fn new(wait: Option<WaitObject>, kind: u32) -> Self {
        Self {
            endpoints: RefCell::default(),
            wait,
            kind,
            armed: Cell::new(false),
        }
    }

    /// The kind of wait object that the application has asked for.
    pub(crate) fn kind(&self) -> u32 {
        self.kind
    }

    pub(crate) fn has_descriptor(&self) -> bool {
        self.wait.is_some()
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

    /// An endpoint closes, which may not be among these.
    pub(crate) fn remove(&self, endpoint: &Endpoint) {
        let gone = core::ptr::from_ref(endpoint);
        let mut endpoints = self.endpoints.borrow_mut();
        let before = endpoints.len();
        endpoints.retain(|known| *known != gone);
        if let (true, Some(wait)) = (endpoints.len() < before, &self.wait) {
            wait.remove(endpoint.wake_fd());
        }
    }

    /// What `body` finds at the endpoint of this number.
    pub(crate) fn at<R>(&self, number: u16, body: impl FnOnce(&Endpoint) -> R) -> Option<R> {
        let endpoints = self.endpoints.borrow();
        // SAFETY: an endpoint takes itself out before it goes.
        let mut all = endpoints.iter().map(|endpoint| unsafe { &**endpoint });
        all.find(|endpoint| endpoint.number == number).map(body)
    }

    /// Shows what has come to those that own the receives. True if there was anything.
    pub(crate) fn show_arrived(&self) -> bool {
        let endpoints = self.endpoints.borrow();
        // SAFETY: an endpoint takes itself out before it goes.
        let all = endpoints.iter().map(|endpoint| unsafe { &**endpoint });
        all.fold(false, |any, endpoint| any | endpoint.show_arrived())
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

    /// Something has changed for which nobody may ring: wakes whoever sleeps. True if somebody may
    /// sleep.
    #[inline(always)]
    pub(crate) fn wake(&self) -> bool {
        let armed = self.armed.get();
        if armed {
            self.wake_sleeper();
        }
        armed
    }

    #[cold]
    fn wake_sleeper(&self) {
        self.armed.set(false);
        self.call();
    }

    /// The descriptor becomes readable, whether or not anybody sleeps.
    pub(crate) fn call(&self) {
        if let Some(wait) = &self.wait {
            wait.call();
        }
    }

    /// Whether the descriptor becomes readable with the next change. `heard`: all have heard the
    /// last call. Arming makes progress once more, so callers look again.
    pub(crate) fn arm(&self, heard: bool) -> bool {
        if let Some(wait) = &self.wait {
            if heard {
                wait.heard();
            }
            self.armed.set(true);
        }
        self.endpoints.borrow().iter().all(|endpoint| {
            // SAFETY: an endpoint takes itself out before it goes.
            unsafe { (**endpoint).arm() }
        })
    }

    /// Waits in a call of this name until `look` has an answer. It is asked in each turn, and told
    /// whether the time (ms, negative for none) is over: then it has one. `may_sleep` arms the
    /// descriptor: the call sleeps after `Some(true)`, and looks again at once after `Some(false)`,
    /// since something has come. `None`: there is no descriptor to sleep on, and the call tries
    /// again and again.
    pub(crate) fn wait<T>(
        &self,
        call: &'static str,
        turns: &Turns,
        timeout: c_int,
        mut look: impl FnMut(bool) -> Option<T>,
        may_sleep: impl Fn() -> Option<bool>,
    ) -> T {
        let deadline = wait::deadline(timeout);
        let (mut patience, mut told) = (Patience::new(), Told::new());
        loop {
            let over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            let on_descriptor = {
                let turn = turns.data();
                if let Some(answer) = look(over) {
                    return answer;
                }
                let armed = may_sleep();
                if armed == Some(false) {
                    continue;
                }
                self.tell(&mut told, call);
                turn.found_nothing();
                armed.is_some()
            };
            if on_descriptor {
                self.sleep(deadline);
            } else {
                patience.step();
            }
        }
    }

    /// The call of this name is about to sleep.
    fn tell(&self, told: &mut Told, call: &'static str) {
        // SAFETY: an endpoint takes itself out before it goes.
        unsafe { told.look(call, &self.endpoints.borrow()) };
    }

    /// Sleeps once on the descriptor, until the deadline at most.
    fn sleep(&self, deadline: Option<Instant>) {
        if let Some(wait) = &self.wait {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            wait.sleep(left.unwrap_or(LONGEST).min(LONGEST));
        }
    }

    /// `fi_control` of the object.
    ///
    /// # Safety
    /// As [`wait::control`].
    pub(crate) unsafe fn control(&self, what: c_int, argument: *mut c_void) -> Result<(), i32> {
        // SAFETY: the caller's promise.
        unsafe { wait::control(self.wait.as_ref(), self.kind, what, argument) }
    }
}
