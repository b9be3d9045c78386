//! The listening socket of one endpoint.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen,
    shutdown, socket_with,
};

use super::{ControlError, Socket};
use crate::system::{self, Call};

/// Connections that may wait to be accepted. The kernel cuts this down to
/// `net.core.somaxconn` (4096 by default since Linux 5.4).
pub const BACKLOG: i32 = 4096;

/// The abstract name of the endpoint `id`, without the leading zero byte:
/// `limic/` and 16 hexadecimal digits.
pub fn abstract_name(id: u64) -> String {
    system::name(id)
}

pub(super) fn address(name: &str, step: &'static str) -> Result<SocketAddrUnix, ControlError> {
    SocketAddrUnix::new_abstract_name(name.as_bytes())
        .map_err(|errno| ControlError::System { step, errno })
}

pub(super) fn seqpacket(step: &'static str) -> Result<OwnedFd, ControlError> {
    let socket = system::call(Call::Open).and_then(|()| {
        socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )
    });
    socket
        .map(system::opened)
        .map_err(|errno| ControlError::System { step, errno })
}

/// A listening socket under an abstract name, non-blocking and close-on-exec.
///
/// The name lives as long as the socket: the kernel drops it with the last
/// descriptor, also after SIGKILL.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    id: u64,
}

impl Listener {
    /// Listens under the abstract name of `id` (see [`abstract_name`]).
    ///
    /// # Errors
    ///
    /// [`ControlError::NameTaken`] if another socket of this network namespace
    /// has the name; [`ControlError::System`] with the failed step otherwise.
    pub fn bind(id: u64) -> Result<Self, ControlError> {
        let name = abstract_name(id);
        let fd = seqpacket("socket for the listener")?;
        let address = address(&name, "address of the listener")?;
        match bind(&fd, &address) {
            Ok(()) => {}
            Err(Errno::ADDRINUSE) => return Err(ControlError::NameTaken { name }),
            Err(errno) => {
                return Err(ControlError::System {
                    step: "bind of the listener",
                    errno,
                });
            }
        }
        listen(&fd, BACKLOG).map_err(|errno| ControlError::System {
            step: "listen on the listener",
            errno,
        })?;
        system::listens(id);
        Ok(Self { fd, id })
    }

    /// The id that peers give to [`Socket::connect`].
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Refuses all further connections, as if nobody listened. Those that wait can still be
    /// [accepted](Self::accept).
    pub fn stop(&self) {
        // It fails only for descriptors that are no sockets.
        let _ = shutdown(&self.fd, Shutdown::Both);
    }

    /// Takes the next waiting connection; `None` if there is none.
    ///
    /// # Errors
    ///
    /// What the kernel says, mostly that this process has no free descriptor
    /// (`EMFILE`): the connection then goes on waiting in the queue.
    pub fn accept(&self) -> io::Result<Option<Socket>> {
        loop {
            system::call(Call::Accept)?;
            match accept_with(&self.fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(fd) => return Ok(Some(Socket::from_connected(system::opened(fd)))),
                // INVAL: it was stopped, and the queue is empty.
                Err(Errno::AGAIN | Errno::INVAL) => return Ok(None),
                // A signal came, or the peer died while it waited in the queue:
                // each time one signal or one entry fewer, so this loop ends.
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
