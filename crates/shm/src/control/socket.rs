//! One connection between two endpoints.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, connect, recvmsg, sendmsg, shutdown,
};

use super::ControlError;
use super::closing::{self, OwnSocket};
use super::listener::{abstract_name, address, seqpacket};
use crate::system::{self, Call};

/// The most descriptors that one message may carry.
pub const MAX_FDS: usize = 4;

/// The most bytes that one message may have. Small against the socket's buffer,
/// so that a message is either taken whole or reported as [`Sent::WouldBlock`].
pub const MAX_MESSAGE: usize = 4096;

/// Looks at a message whose descriptors do not all come though some are free.
const LOOKS: u32 = 3;

/// Bytes of `fds` descriptors in a control message of `sendmsg` and `recvmsg`.
const fn control_space(fds: usize) -> usize {
    // The widths are constants far below u32::MAX.
    // SAFETY: CMSG_SPACE only computes with its argument.
    unsafe { libc::CMSG_SPACE((fds * size_of::<libc::c_int>()) as u32) as usize }
}

/// Room for exactly [`MAX_FDS`] descriptors, aligned for its header: the kernel
/// itself drops what a hostile peer adds (and says so by MSG_CTRUNC) instead of
/// filling this process' descriptor table.
#[repr(C, align(8))]
struct Control([MaybeUninit<u8>; control_space(MAX_FDS)]);

impl Control {
    const fn new() -> Self {
        Self([MaybeUninit::uninit(); control_space(MAX_FDS)])
    }
}

/// What [`Socket::send`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a message that would block was not sent"]
pub enum Sent {
    /// The message is on its way, whole.
    Done,
    /// The peer's queue is full: nothing was sent; try again later.
    WouldBlock,
}

/// What [`Socket::receive`] found.
#[derive(Debug)]
#[must_use = "descriptors in it close when it is dropped"]
pub enum Received {
    /// One whole message: its length in the caller's buffer, and its
    /// descriptors (at most [`MAX_FDS`], close-on-exec).
    Message {
        /// Bytes written to the buffer, at least 1.
        len: usize,
        /// Descriptors in the order in which they were sent.
        fds: Vec<OwnedFd>,
    },
    /// No message waits.
    WouldBlock,
    /// The peer has closed or died, and all it sent before has been received.
    Closed,
}

/// A message, as one call of the kernel gave it. What nobody takes out of it is closed so that
/// nobody waits.
struct Seen {
    len: usize,
    flags: ReturnFlags,
    fds: Vec<OwnedFd>,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            len: 0,
            flags: ReturnFlags::empty(),
            fds: Vec::new(),
        }
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        self.fds.drain(..).for_each(closing::close);
    }
}

/// A connected, non-blocking, close-on-exec SOCK_SEQPACKET socket: order and
/// message borders are kept, and the end of the peer is seen.
#[derive(Debug)]
pub struct Socket {
    fd: OwnSocket,
}

impl Socket {
    /// Connects to the [`Listener`](super::Listener) of `id`, without blocking.
    ///
    /// # Errors
    ///
    /// [`ControlError::NobodyListens`], [`ControlError::BacklogFull`] (try
    /// again), or [`ControlError::System`] with the failed step.
    pub fn connect(id: u64) -> Result<Self, ControlError> {
        let name = abstract_name(id);
        let fd = OwnSocket::new(seqpacket("socket for a connection")?);
        let address = address(&name, "address of a connection")?;
        system::name_caller(&fd);
        loop {
            // A Unix socket is connected when this returns: there is no
            // EINPROGRESS, only EAGAIN for a full queue.
            return match system::call(Call::Connect).and_then(|()| connect(&fd, &address)) {
                Ok(()) => Ok(Self { fd }),
                Err(Errno::INTR) => continue,
                Err(Errno::CONNREFUSED) => Err(ControlError::NobodyListens { name }),
                Err(Errno::AGAIN) => Err(ControlError::BacklogFull { name }),
                Err(errno) => Err(ControlError::System {
                    step: "connect of a connection",
                    errno,
                }),
            };
        }
    }

    /// Takes a connected socket that `accept` made.
    pub(super) fn from_connected(fd: OwnedFd) -> Self {
        Self {
            fd: OwnSocket::new(fd),
        }
    }

    /// Sends one message of 1 to [`MAX_MESSAGE`] bytes with at most [`MAX_FDS`]
    /// descriptors (the peer gets duplicates). Never blocks, raises no SIGPIPE.
    ///
    /// # Errors
    ///
    /// [`ControlError::Closed`] if the peer is gone; [`ControlError::Empty`],
    /// [`ControlError::TooLong`], [`ControlError::TooManyFds`] for what is not
    /// a message; [`ControlError::InFlight`] (try again);
    /// [`ControlError::System`] otherwise. Nothing was sent then.
    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<Sent, ControlError> {
        if bytes.is_empty() {
            return Err(ControlError::Empty);
        }
        if bytes.len() > MAX_MESSAGE {
            return Err(ControlError::TooLong {
                capacity: MAX_MESSAGE,
            });
        }
        if fds.len() > MAX_FDS {
            return Err(ControlError::TooManyFds { limit: MAX_FDS });
        }
        let mut control = Control::new();
        let mut ancillary = SendAncillaryBuffer::new(&mut control.0);
        if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(ControlError::TooManyFds { limit: MAX_FDS });
        }
        let slices = [IoSlice::new(bytes)];
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        loop {
            let sent = system::call(Call::Send)
                .and_then(|()| sendmsg(&self.fd, &slices, &mut ancillary, flags));
            return match sent {
                Ok(_) => Ok(Sent::Done),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => Ok(Sent::WouldBlock),
                Err(Errno::PIPE | Errno::CONNRESET | Errno::CONNREFUSED | Errno::NOTCONN) => {
                    Err(ControlError::Closed)
                }
                Err(Errno::MSGSIZE) => Err(ControlError::TooLong {
                    capacity: MAX_MESSAGE,
                }),
                Err(Errno::TOOMANYREFS) => Err(ControlError::InFlight),
                Err(errno) => Err(ControlError::System {
                    step: "sendmsg on a connection",
                    errno,
                }),
            };
        }
    }

    /// Sends no more: the other end sees the end of the connection, and this one
    /// still sees when the other is gone.
    pub fn end_sending(&self) {
        // It fails only if the connection has ended already.
        let _ = shutdown(&self.fd, Shutdown::Write);
    }

    /// Receives one message into `buffer`. Never blocks. One thread at a time may do that.
    ///
    /// Every descriptor that came is either in the result or closed.
    ///
    /// # Errors
    ///
    /// [`ControlError::NoDescriptor`] if this process has none free for those
    /// that the message carries: it stays first in the queue, so try again.
    /// [`ControlError::TooLong`] if the message is longer than `buffer`,
    /// [`ControlError::TooManyFds`] if it carries more than [`MAX_FDS`]
    /// descriptors or the system lets this process have none of them,
    /// [`ControlError::WrongFd`] if one is of another kind than peers pass. No honest
    /// peer sends such: close the connection. The message stays in it, since to drop it
    /// may wait for what is in it. [`ControlError::Empty`] if `buffer` has no room at all;
    /// [`ControlError::System`] otherwise.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Received, ControlError> {
        if buffer.is_empty() {
            return Err(ControlError::Empty);
        }
        // The peer may say more at any time.
        system::access();
        // What this process has no descriptors for would be lost: the kernel drops those that it
        // cannot give. So the message is looked at, which gives descriptors too, and taken when all
        // of them are here.
        let Some(mut seen) = self.look(buffer)? else {
            return Ok(Received::WouldBlock);
        };
        // The end of the connection, or an empty message, which `send` refuses:
        // the two cannot be told apart, and who sends the latter has only
        // ended its own connection.
        if seen.len == 0 {
            return Ok(Received::Closed);
        }
        if seen.flags.contains(ReturnFlags::CTRUNC) || seen.fds.len() > MAX_FDS {
            return Err(ControlError::TooManyFds { limit: MAX_FDS });
        }
        if seen.flags.contains(ReturnFlags::TRUNC) || seen.len > buffer.len() {
            return Err(ControlError::TooLong {
                capacity: buffer.len(),
            });
        }
        let is_wrong = |fd: &OwnedFd| !closing::closes_at_once(fd.as_fd());
        if seen.fds.iter().any(is_wrong) {
            return Err(ControlError::WrongFd);
        }
        // What it brought is open here too, so that nothing ends with it.
        self.receive_into(&mut [0], &mut [], RecvFlags::empty())?;
        Ok(Received::Message {
            len: seen.len,
            fds: core::mem::take(&mut seen.fds),
        })
    }

    /// Looks at the first message without taking it.
    fn look(&self, buffer: &mut [u8]) -> Result<Option<Seen>, ControlError> {
        let mut attempts = 0;
        loop {
            let mut control = Control::new();
            let seen = self.receive_into(buffer, &mut control.0, RecvFlags::PEEK)?;
            let Some(seen) = seen else {
                return Ok(None);
            };
            // More than there was room for is the peer's fault, fewer is not.
            let short = seen.flags.contains(ReturnFlags::CTRUNC) && seen.fds.len() < MAX_FDS;
            if !short {
                return Ok(Some(seen));
            }
            if let Err(Errno::MFILE) = fcntl_dupfd_cloexec(&self.fd, 0) {
                return Err(ControlError::NoDescriptor);
            }
            // Some were closed meanwhile, by another thread; or they were kept back for another
            // reason.
            attempts += 1;
            if attempts == LOOKS {
                return Ok(Some(seen));
            }
        }
    }

    /// One `recvmsg`. `None`: no message waits. A length of 0: the connection has ended.
    fn receive_into(
        &self,
        buffer: &mut [u8],
        control: &mut [MaybeUninit<u8>],
        flags: RecvFlags,
    ) -> Result<Option<Seen>, ControlError> {
        let flags = flags | RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let mut resets = 0;
        loop {
            // Whatever is left in it is closed when it is dropped: on every
            // path out of this function no descriptor leaks.
            let mut ancillary = RecvAncillaryBuffer::new(control);
            let mut slices = [IoSliceMut::new(buffer)];
            let message = match recvmsg(&self.fd, &mut slices, &mut ancillary, flags) {
                Ok(message) => message,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Ok(None),
                // The peer closed while messages from here were unread. The
                // kernel says so once and before what the peer had sent, which
                // is still in the queue: ask again.
                Err(Errno::CONNRESET) if resets == 0 => {
                    resets += 1;
                    continue;
                }
                Err(Errno::CONNRESET | Errno::NOTCONN) => return Ok(Some(Seen::default())),
                Err(errno) => {
                    return Err(ControlError::System {
                        step: "recvmsg on a connection",
                        errno,
                    });
                }
            };
            let mut fds = Vec::new();
            for part in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(part) = part {
                    fds.extend(part.map(system::opened));
                }
            }
            return Ok(Some(Seen {
                len: message.bytes,
                flags: message.flags,
                fds,
            }));
        }
    }

    /// Takes what the peer has sent until nothing is left but what no honest one sends.
    pub(super) fn take_all(&self) {
        while let Ok(Received::Message { .. }) = self.receive(&mut [0; MAX_MESSAGE]) {}
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.fd.shut() {
            self.take_all();
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
