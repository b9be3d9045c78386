//! The doorbell: how a peer wakes an endpoint that sleeps in an event set.

use core::mem::ManuallyDrop;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt::{socket_domain, socket_type};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};

use super::closing::{self, OwnSocket};
use super::{EventSet, Trigger};
use crate::system::{self, Call};

/// Bytes that one look takes away: more than the queue of a socket holds of rings.
const VISIT: usize = 512;

/// Why a descriptor that a peer gave is no doorbell.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DoorbellError {
    /// It is a file, a pipe, a socket of another kind or another thing on which a
    /// ring could block or do harm.
    #[error(
        "the descriptor that the peer gave as its doorbell is no Unix stream socket but {what}: \
         refuse the peer"
    )]
    NotUnixStream {
        /// What it is.
        what: String,
    },
    /// The kernel does not say what it is.
    #[error("the doorbell that the peer gave cannot be examined: {0}")]
    System(#[from] Errno),
}

/// The owner's end of a doorbell: a pair of connected Unix stream sockets. The owner watches and
/// reads one, and peers get the other.
///
/// # What a hostile peer can do with it
///
/// - It cannot make a ring block: whether a send waits is said with each send, and not by a flag
///   of the socket, which all its holders share.
/// - It cannot read rings away: they lie in the queue of the owner's socket, which peers do not
///   have.
/// - It can fill the queue up. A ring then fails, and need not succeed: what fills the queue lets
///   the owner wake up.
/// - It can shut the socket down. The owner's end is ready for ever then, and no ring arrives. The
///   owner learns it when it silences the doorbell, and has to look by itself from then on.
///
/// So it can keep the owner awake, by ringing all the time, or take the rings from it.
#[derive(Debug)]
pub struct Doorbell {
    waiting: OwnSocket,
    peers: PeerDoorbell,
}

impl Doorbell {
    /// A new doorbell (two descriptors, close-on-exec).
    ///
    /// # Errors
    ///
    /// What the kernel says (`EMFILE`, `ENOMEM`).
    pub fn new() -> io::Result<Self> {
        system::call(Call::Open)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (waiting, peers) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let (waiting, peers) = (system::opened(waiting), system::opened(peers));
        refuse_descriptors(&waiting);
        Ok(Self {
            waiting: OwnSocket::new(waiting),
            peers: PeerDoorbell::new(peers),
        })
    }

    /// Puts the doorbell into its owner's event set: each wait reports it until the rings are
    /// [silenced](Self::silence).
    ///
    /// # Errors
    ///
    /// As [`EventSet::add`].
    pub fn watch(&self, events: &EventSet, token: u64) -> io::Result<()> {
        // At its level and not at its edges: a ring that finds the queue full makes no edge.
        events.add(self.waiting.as_fd(), token, Trigger::Level)
    }

    /// Takes away the rings so far: to be called when the doorbell was reported, and before a
    /// look at what they were for. One system call; never blocks. Where a peer has put more into
    /// the queue than rings of honest ones, the rest is reported again. False if nobody can ring
    /// any more: a peer has shut the socket down.
    pub fn silence(&self) -> bool {
        !matches!(
            recv(&self.waiting, &mut [0; VISIT], RecvFlags::DONTWAIT),
            Ok((_, 0))
        )
    }

    /// Takes the doorbell out of its owner's event set.
    ///
    /// # Errors
    ///
    /// As [`EventSet::remove`].
    pub fn unwatch(&self, events: &EventSet) -> io::Result<()> {
        events.remove(self.waiting.as_fd())
    }

    /// Wakes the owner up, as a peer does.
    pub fn ring(&self) {
        self.peers.ring();
    }

    /// What peers ring, to be handed to them.
    #[must_use]
    pub fn for_peers(&self) -> BorrowedFd<'_> {
        self.peers.as_fd()
    }
}

/// Has the kernel refuse descriptors that are sent to a socket, as it can since Linux 6.16. Else
/// [silencing](Doorbell::silence) closes them, and may wait for that.
fn refuse_descriptors(socket: &OwnedFd) {
    const SO_PASSRIGHTS: libc::c_int = 83;
    let no = 0_i32;
    // SAFETY: an integer, and its length. An older kernel does not know the option.
    let _refused = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const no).cast(),
            size_of_val(&no) as libc::socklen_t,
        )
    };
}

/// A peer's end of another endpoint's doorbell.
#[derive(Debug)]
pub struct PeerDoorbell {
    /// There until it is dropped.
    fd: ManuallyDrop<OwnedFd>,
}

impl Drop for PeerDoorbell {
    fn drop(&mut self) {
        // SAFETY: nobody uses it after this.
        closing::close(unsafe { ManuallyDrop::take(&mut self.fd) });
    }
}

impl PeerDoorbell {
    fn new(fd: OwnedFd) -> Self {
        Self {
            fd: ManuallyDrop::new(fd),
        }
    }

    /// Takes a descriptor that a peer sent, after a check of what it is.
    ///
    /// # Errors
    ///
    /// [`DoorbellError`] if it is no Unix stream socket: on no other descriptor is it known that
    /// a ring does not block.
    pub fn from_fd(fd: OwnedFd) -> Result<Self, DoorbellError> {
        // The kernel answers both for a socket by itself, and for anything else says ENOTSOCK: no
        // file system is asked, which may be a FUSE daemon of the peer.
        let what = match socket_domain(&fd) {
            Ok(AddressFamily::UNIX) => match socket_type(&fd)? {
                SocketType::STREAM => return Ok(Self::new(fd)),
                kind => format!("a Unix socket of type {}", kind.as_raw()),
            },
            Ok(family) => format!("a socket of family {}", family.as_raw()),
            Err(Errno::NOTSOCK) => "no socket".into(),
            Err(errno) => return Err(errno.into()),
        };
        Err(DoorbellError::NotUnixStream { what })
    }

    /// Wakes the owner. One system call; never blocks. There is nothing to do
    /// about an error: the queue is full, so the doorbell rings; or its owner is
    /// gone, or handed over nonsense.
    pub fn ring(&self) {
        let _ = send(&*self.fd, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
}

impl AsFd for PeerDoorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
