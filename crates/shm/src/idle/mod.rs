//! How an endpoint waits: it spins, yields, sleeps, and is woken up.
//!
//! [`Backoff`] says when it does which of these; [`Wakeup`] is its sleep; [`Poller`] its sleep in a
//! poll loop of the application; [`TimeShare`] what it gives of its time to work that peers cause.

mod backoff;
mod poller;
mod time_share;

use core::time::Duration;
use std::io;

pub use self::backoff::{Backoff, Patience, Step};
pub use self::poller::Poller;
pub use self::time_share::TimeShare;
use crate::control::{EventSet, Timer};
use crate::ring::Mapped;
use crate::ring::wakeup::{AsymmetricFence, Sleeper};

/// Sleep and wake-up of one endpoint.
#[derive(Debug)]
pub struct Wakeup {
    sleeper: Sleeper<Mapped>,
    /// The application's poll loop, if it has one.
    pub poller: Poller,
    fence: AsymmetricFence,
    /// Ends sleeps for which no peer rings; made when the first one needs it.
    timer: Option<Timer>,
    /// Polls before yielding.
    spins: u32,
    /// Polls before yielding where what is waited for needs this processor.
    spin_limit: u32,
    /// There are more endpoints than processors.
    oversubscribed: bool,
}

impl Wakeup {
    /// `spins`: polls before yielding; `oversubscribed`: there are more endpoints than processors.
    pub fn new(
        sleeper: Sleeper<Mapped>,
        poller: Poller,
        fence: AsymmetricFence,
        spins: u32,
        oversubscribed: bool,
    ) -> Self {
        Self {
            sleeper,
            poller,
            fence,
            timer: None,
            spins,
            spin_limit: spins,
            oversubscribed,
        }
    }

    /// The fence by which senders and a receiver that goes to sleep see each other's stores.
    pub fn fence(&self) -> AsymmetricFence {
        self.fence
    }

    /// Polls before yielding.
    #[inline(always)]
    pub fn spins(&self) -> u32 {
        self.spins
    }

    /// Polls before a wait gives the processor away.
    #[inline(always)]
    pub fn spin_limit(&self) -> u32 {
        self.spin_limit
    }

    /// Sets both limits.
    pub fn set_spins(&mut self, spins: u32, limit: u32) {
        self.spins = spins;
        self.spin_limit = limit;
    }

    /// Sets whether there are more endpoints than processors.
    pub fn set_oversubscribed(&mut self, oversubscribed: bool) {
        self.oversubscribed = oversubscribed;
    }

    /// Whether there are more endpoints than processors, so that a peer may not run at the same
    /// time.
    pub fn is_oversubscribed(&self) -> bool {
        self.oversubscribed
    }

    /// Asks senders to ring from now on. False if a message may have come meanwhile.
    pub fn announce(&mut self) -> bool {
        self.sleeper.announce()
    }

    /// Senders need not ring any more; another thread that polls would not be woken.
    pub fn wake_up(&mut self) {
        self.sleeper.wake_up();
        self.poller.notify();
    }

    /// Makes the event set ready after a while, under this token.
    ///
    /// # Errors
    ///
    /// No descriptor is free for a timer, or the kernel refuses it.
    pub fn set_timer(&mut self, events: &EventSet, token: u64, after: Duration) -> io::Result<()> {
        let timer = match self.timer.take() {
            Some(timer) => timer,
            None => {
                let timer = Timer::new()?;
                timer.watch(events, token)?;
                timer
            }
        };
        self.timer.insert(timer).set(after)
    }
}
