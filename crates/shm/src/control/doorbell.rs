//! The door bell: how a peer wakes an endpoint that sleeps in an event set.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{AtFlags, FileType, StatxFlags, statx};
use rustix::io::{Errno, write};

use super::{EventSet, Trigger};
use crate::world::{self, Call};

/// Why a descriptor that a peer gave is no bell.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DoorbellError {
    /// It is a file, a pipe, a socket or another thing on which a write could
    /// block or do harm.
    #[error(
        "the descriptor that the peer gave as its bell is no eventfd but {what}: refuse the peer"
    )]
    NotEventfd {
        /// What it is.
        what: String,
    },
    /// The kernel does not say what it is.
    #[error("the bell that the peer gave cannot be examined: {0}")]
    System(#[from] Errno),
}

/// An eventfd that its owner watches edge-triggered and that peers write to.
///
/// # Why a ring needs no read
///
/// Each write to an eventfd wakes the waiters of that moment and so queues the
/// entry of an edge-triggered epoll set anew, whether or not the counter was
/// read in between; the wait then reports it as long as the counter is not 0.
/// The counter starts at 1 and a ring adds 0, so it stays there: nothing
/// has to be read, and no number of rings can fill it up.
///
/// Adding 0 rather than 1 matters against a hostile peer. It could fill the
/// counter and clear O_NONBLOCK (which all holders of the descriptor share), and
/// everybody who adds 1 would then block in the kernel. A write of 0 always fits,
/// so it neither blocks nor fails.
///
/// # Limits
///
/// Who holds the descriptor can also read it. A peer that does so sets the counter
/// to 0 and mutes the bell. So a sleep that must not depend on the
/// honesty of peers needs a time limit.
#[derive(Debug)]
pub struct Doorbell {
    fd: OwnedFd,
}

impl Doorbell {
    /// A new bell (close-on-exec, non-blocking).
    ///
    /// # Errors
    ///
    /// What the kernel says (`EMFILE`, `ENOMEM`).
    pub fn new() -> io::Result<Self> {
        world::call(Call::Open)?;
        let fd = eventfd(1, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            fd: world::opened(fd),
        })
    }

    /// Takes a descriptor that a peer sent, after a check of what it is.
    ///
    /// # Errors
    ///
    /// [`DoorbellError`] if it is no eventfd: writing to it could block or do harm.
    pub fn from_fd(fd: OwnedFd) -> Result<Self, DoorbellError> {
        // The link is made by the kernel alone, and a file's own would begin with
        // a slash. Nothing here asks the file system behind the descriptor: that
        // may be a FUSE daemon of the peer, which lets askers wait for ever.
        let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
        if let Ok(name) = std::fs::read_link(link) {
            if name.as_os_str() == "anon_inode:[eventfd]" {
                return Ok(Self { fd });
            }
            return Err(DoorbellError::NotEventfd {
                what: name.to_string_lossy().into_owned(),
            });
        }
        // Without /proc this has to do: kernel objects without a file have no file
        // type, and to the others of that sort (epoll, timerfd, pidfd ...) a
        // write fails at once.
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let mode = statx(&fd, "", flags, StatxFlags::TYPE)?.stx_mode;
        match FileType::from_raw_mode(mode.into()) {
            FileType::Unknown => Ok(Self { fd }),
            kind => Err(DoorbellError::NotEventfd {
                what: format!("a {kind:?}"),
            }),
        }
    }

    /// Puts the owner's bell into its event set: edge-triggered, see the type.
    /// The first wait after this may report it though nobody rang.
    ///
    /// # Errors
    ///
    /// As [`EventSet::add`].
    pub fn watch(&self, events: &EventSet, token: u64) -> io::Result<()> {
        events.add(self.fd.as_fd(), token, Trigger::Edge)
    }

    /// Wakes the owner. One system call; never blocks. There is nothing to do
    /// about an error (the owner is gone or handed over nonsense): it is dropped.
    pub fn ring(&self) {
        loop {
            match write(&self.fd, &0_u64.to_ne_bytes()) {
                // Not seen with an eventfd, which does not wait; cheap to honour.
                Err(Errno::INTR) => {}
                // EAGAIN is success: the counter is full, so the bell is ringing.
                Ok(_) | Err(_) => return,
            }
        }
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
