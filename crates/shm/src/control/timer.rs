//! An end for a sleep that nobody's ring ends.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::{EventSet, Trigger};
use crate::system::{self, Call};

/// A timerfd that its owner watches edge-triggered: it makes the event set readable once, when the
/// time has come, and needs no read. For those who wait on the set's descriptor with a loop of
/// their own, where [`EventSet::wait`] has a time limit.
#[derive(Debug)]
pub struct Timer {
    fd: OwnedFd,
}

impl Timer {
    /// A new timer (close-on-exec, non-blocking), which does not run.
    ///
    /// # Errors
    ///
    /// What the kernel says (`EMFILE`, `ENOMEM`).
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        system::call(Call::Open)?;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self {
            fd: system::opened(fd),
        })
    }

    /// Puts the timer into its owner's event set.
    ///
    /// # Errors
    ///
    /// As [`EventSet::add`].
    pub fn watch(&self, events: &EventSet, token: u64) -> io::Result<()> {
        events.add(self.fd.as_fd(), token, Trigger::Edge)
    }

    /// Goes off once, after this time, which is at least a nanosecond; an earlier setting is
    /// forgotten.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a time that the kernel cannot hold (centuries).
    pub fn set(&self, after: Duration) -> io::Result<()> {
        // A time of 0 would stop it.
        let after = after.max(Duration::from_nanos(1));
        let it_value = Timespec::try_from(after).map_err(|_| io::ErrorKind::InvalidInput)?;
        let value = Itimerspec {
            it_interval: Timespec::default(),
            it_value,
        };
        timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &value)?;
        Ok(())
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
