//! Whether a process lives.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Socket;

/// What tells that the process of a peer is through with what it was given here.
#[derive(Debug)]
pub enum PeerProcess {
    /// A pidfd: the process has ended.
    Pidfd(OwnedFd),
    /// A connection, where the kernel gives no pidfd. This side has ended its own half, and the
    /// peer's half ends with its process, or with the progress call in which the peer reads that it
    /// was given up. In a progress call it is in the middle of nothing.
    Connection(Socket),
}

impl PeerProcess {
    /// Of the peer at the other end of a connection that is given up.
    #[must_use]
    pub fn new(pidfd: Option<OwnedFd>, connection: Socket) -> Self {
        match pidfd {
            Some(pidfd) => Self::Pidfd(pidfd),
            None => {
                connection.end_sending();
                Self::Connection(connection)
            }
        }
    }

    /// Whether it is through.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        match self {
            Self::Pidfd(pidfd) => has_ended(pidfd),
            Self::Connection(connection) => is_ready(connection, PollFlags::RDHUP),
        }
    }
}

/// Whether the process of a pidfd has ended.
#[must_use]
pub fn has_ended(pidfd: &OwnedFd) -> bool {
    is_ready(pidfd, PollFlags::IN)
}

fn is_ready(fd: &impl AsFd, what: PollFlags) -> bool {
    let mut fds = [PollFd::new(fd, what)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}
