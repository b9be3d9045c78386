//! What an idle endpoint sleeps on.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::system::{self, Call};

/// When a watched descriptor is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// At every wait for as long as it is ready.
    Level,
    /// Once per change. A socket must then be read until it would block; a
    /// [`Timer`](super::Timer) needs no read.
    Edge,
}

/// One report of [`EventSet::wait`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Event {
    /// The token under which the descriptor was added.
    pub token: u64,
    /// There is something to read (for a pidfd: the process is dead).
    pub readable: bool,
    /// The other end has closed, or the descriptor is in error. What came
    /// before can still be read.
    pub hang_up: bool,
}

/// The most events of one wait; more ready descriptors come with the next.
const BATCH: usize = 64;

/// A set of descriptors to wait on (epoll, close-on-exec).
///
/// The set holds no descriptor: close what was added only after
/// [`EventSet::remove`], or a duplicate elsewhere keeps the entry alive.
#[derive(Debug)]
pub struct EventSet {
    epoll: OwnedFd,
}

impl EventSet {
    /// An empty set.
    ///
    /// # Errors
    ///
    /// What the kernel says (`EMFILE`, `ENOMEM`).
    pub fn new() -> io::Result<Self> {
        system::call(Call::Open)?;
        let epoll = system::opened(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        Ok(Self { epoll })
    }

    /// Watches `fd` for something to read and reports it as `token`.
    ///
    /// # Errors
    ///
    /// `EEXIST` if it is in the set, `EPERM` if it is of a kind that cannot be
    /// waited on, `ENOSPC` beyond `fs.epoll.max_user_watches`.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, trigger: Trigger) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token);
        Ok(epoll::add(&self.epoll, fd, data, flags(trigger))?)
    }

    /// Watches `fd` no longer.
    ///
    /// # Errors
    ///
    /// `ENOENT` if it is not in the set.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Waits until something is ready, `timeout` has passed (`None`: no limit;
    /// zero: only look) or a signal came. Gives how many of `events` were
    /// written: 0 after the time limit and after a signal, so that the caller
    /// looks at its own flags and deadline before it sleeps again.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `events` is empty.
    pub fn wait(&self, timeout: Option<Duration>, events: &mut [Event]) -> io::Result<usize> {
        system::wait(
            timeout,
            |timeout| self.ask(timeout, events),
            |count| *count == 0,
        )
    }

    fn ask(&self, timeout: Option<Duration>, events: &mut [Event]) -> io::Result<usize> {
        // A limit beyond what the kernel can hold (centuries) is no limit.
        let timeout = timeout.and_then(|limit| Timespec::try_from(limit).ok());
        let mut ready = [const { MaybeUninit::<epoll::Event>::uninit() }; BATCH];
        let room = events.len().min(BATCH);
        let ready = match epoll::wait(&self.epoll, &mut ready[..room], timeout.as_ref()) {
            Ok((ready, _)) => ready,
            Err(Errno::INTR) => return Ok(0),
            Err(errno) => return Err(errno.into()),
        };
        for (event, ready) in events.iter_mut().zip(ready.iter()) {
            let flags = ready.flags;
            let data = ready.data;
            *event = Event {
                token: data.u64(),
                readable: flags.contains(epoll::EventFlags::IN),
                hang_up: flags.intersects(
                    epoll::EventFlags::HUP | epoll::EventFlags::RDHUP | epoll::EventFlags::ERR,
                ),
            };
        }
        Ok(ready.len())
    }
}

/// The set itself is readable while something in it is ready: a runtime can put
/// it into its own poll loop.
impl AsFd for EventSet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

fn flags(trigger: Trigger) -> epoll::EventFlags {
    let mut flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
    if trigger == Trigger::Edge {
        flags |= epoll::EventFlags::ET;
    }
    flags
}
