//! What can go wrong on the control socket.

use std::io;

use rustix::io::Errno;

/// Why a step on the control socket failed.
///
/// [`ControlError::is_gone`] says whether the peer is dead or has closed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// No process listens under this id.
    #[error(
        "nobody listens on @{name} (ECONNREFUSED): the peer has ended, has not started yet, or is \
         in another network namespace (containers must share one)"
    )]
    NobodyListens {
        /// The abstract name, without its leading zero byte.
        name: String,
    },
    /// The listener's queue of connections that it has not accepted is full.
    #[error(
        "the queue of connections of @{name} is full (EAGAIN): the peer makes no progress at the \
         moment; try again, and raise net.core.somaxconn if this stays"
    )]
    BacklogFull {
        /// The abstract name, without its leading zero byte.
        name: String,
    },
    /// Another socket has the name already.
    #[error("@{name} is taken by another process (EADDRINUSE): choose another random id")]
    NameTaken {
        /// The abstract name, without its leading zero byte.
        name: String,
    },
    /// The peer has closed the connection or is dead.
    #[error("the peer has closed its control socket, or is dead")]
    Closed,
    /// A message did not fit: into the caller's buffer, or into the socket.
    #[error("a control message is too long (at most {capacity} bytes fit): close the connection")]
    TooLong {
        /// Bytes that would have fitted.
        capacity: usize,
    },
    /// A message carried more descriptors than [`MAX_FDS`](super::MAX_FDS), or
    /// a security module kept them back.
    #[error(
        "a control message carried more than {limit} descriptors, or some that this process may \
         not have: close the connection"
    )]
    TooManyFds {
        /// The most that a message may carry.
        limit: usize,
    },
    /// A message carried a descriptor that is neither memory nor a doorbell.
    #[error(
        "a control message carried a descriptor that is neither a memfd nor an idle Unix stream \
         socket: close the connection"
    )]
    WrongFd,
    /// This process has no free descriptor for those that a message carries. The
    /// message waits.
    #[error(
        "no descriptor is free for those that a control message carries (EMFILE): close some, or \
         raise RLIMIT_NOFILE (ulimit -n)"
    )]
    NoDescriptor,
    /// A message without a byte: it cannot be told from the end of the connection.
    #[error("an empty control message cannot be sent: give it at least one byte")]
    Empty,
    /// Too many descriptors are on their way between processes of this user.
    #[error(
        "too many descriptors of this user are in flight (ETOOMANYREFS): peers do not read what \
         was sent to them; raise RLIMIT_NOFILE (ulimit -n) or try again"
    )]
    InFlight,
    /// Any other answer of the kernel.
    #[error("{step} failed: {errno}")]
    System {
        /// The system call, and on what.
        step: &'static str,
        /// The kernel's answer.
        errno: Errno,
    },
}

impl ControlError {
    /// Whether this says that the other end is dead, closed or was never there.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Closed | Self::NobodyListens { .. })
    }

    /// Whether the same step may go well later: a queue or a table is full, here or at the peer.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::BacklogFull { .. } | Self::InFlight | Self::NoDescriptor => true,
            Self::System { errno, .. } => matches!(
                *errno,
                Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS
            ),
            _ => false,
        }
    }

    /// The kernel's answer behind this, for callers that report errors by number.
    pub fn errno(&self) -> Errno {
        match self {
            Self::NobodyListens { .. } => Errno::CONNREFUSED,
            Self::BacklogFull { .. } => Errno::AGAIN,
            Self::NameTaken { .. } => Errno::ADDRINUSE,
            Self::Closed => Errno::CONNRESET,
            Self::TooLong { .. } => Errno::MSGSIZE,
            Self::TooManyFds { .. } => Errno::TOOMANYREFS,
            Self::NoDescriptor => Errno::MFILE,
            Self::Empty | Self::WrongFd => Errno::INVAL,
            Self::InFlight => Errno::TOOMANYREFS,
            Self::System { errno, .. } => *errno,
        }
    }
}

impl From<ControlError> for io::Error {
    fn from(error: ControlError) -> Self {
        error.errno().into()
    }
}

/// Why there is no pidfd for a peer. Its death is then only seen as the end of
/// the connection, which a forked child that still holds the socket can delay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PidfdError {
    /// The peer has died and was reaped.
    #[error("the peer is already dead")]
    Dead,
    /// The kernel gives no pidfd for a socket and the peer's pid is not visible.
    #[error(
        "the peer is in another pid namespace (its pid reads as 0) and this kernel has no \
         SO_PEERPIDFD (Linux 6.5); its death is seen by the end of the connection only"
    )]
    OtherNamespace,
    /// The kernel or a seccomp filter refuses.
    #[error("no pidfd for pid {pid}: {step} failed: {errno}")]
    Refused {
        /// The peer's pid as this process sees it.
        pid: i32,
        /// The call that failed.
        step: &'static str,
        /// The kernel's answer.
        errno: Errno,
    },
}
