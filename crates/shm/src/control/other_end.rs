//! Who is at the other end of a connection, and whether it is still there.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, pidfd_open};

use super::{ControlError, PidfdError, Socket};
use crate::system;

/// Who is at the other end, as the kernel recorded it: for a connection from
/// [`Listener::accept`](super::Listener::accept) the process that connected, for
/// one from [`Socket::connect`] the process that listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    /// Process id as this process sees it; 0 if it is in a pid namespace that
    /// this process cannot see into.
    pub pid: i32,
    /// Effective user id at that time.
    pub uid: u32,
    /// Effective group id at that time.
    pub gid: u32,
}

impl Socket {
    /// Who is at the other end (SO_PEERCRED).
    ///
    /// # Errors
    ///
    /// [`ControlError::System`] if the kernel does not say.
    pub fn credentials(&self) -> Result<Credentials, ControlError> {
        let mut ucred = MaybeUninit::<libc::ucred>::zeroed();
        let len = peer_option(self, libc::SO_PEERCRED, &mut ucred).map_err(|errno| {
            ControlError::System {
                step: "SO_PEERCRED of a connection",
                errno,
            }
        })?;
        if len != size_of::<libc::ucred>() {
            let errno = Errno::INVAL;
            return Err(ControlError::System {
                step: "SO_PEERCRED of a connection",
                errno,
            });
        }
        // SAFETY: three integers, for which all zeroes, as initialized above,
        // and whatever the kernel wrote over them are valid values.
        let ucred = unsafe { ucred.assume_init() };
        Ok(Credentials {
            pid: system::pid_of_peer(self.as_fd()).unwrap_or(ucred.pid),
            uid: ucred.uid,
            gid: ucred.gid,
        })
    }

    /// A pidfd of the process at the other end: readable once it is dead, even
    /// while its children still hold the socket open.
    ///
    /// By SO_PEERPIDFD (Linux 6.5), which names the very process that connected;
    /// on older kernels by `pidfd_open`, where a pid that was reused since could
    /// be taken for the peer.
    ///
    /// # Errors
    ///
    /// [`PidfdError`] with the reason; the end of the connection then has to do.
    pub fn pidfd(&self) -> Result<OwnedFd, PidfdError> {
        if let Some(simulated) = system::pidfd(self.as_fd()) {
            return simulated;
        }
        let mut fd = MaybeUninit::new(-1);
        match peer_option(self, libc::SO_PEERPIDFD, &mut fd) {
            Ok(len) => {
                // SAFETY: an integer, initialized above.
                let fd: libc::c_int = unsafe { fd.assume_init() };
                if len == size_of::<libc::c_int>() && fd >= 0 {
                    // SAFETY: the kernel has just opened this descriptor for us
                    // (close-on-exec, as all pidfds are); nobody else owns it.
                    return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
                }
            }
            // Reaped already: EINVAL up to 6.13, ESRCH later.
            Err(Errno::INVAL | Errno::SRCH) => return Err(PidfdError::Dead),
            Err(Errno::NOPROTOOPT) => {}
            Err(errno) => {
                let pid = self.credentials().map_or(0, |peer| peer.pid);
                return Err(PidfdError::Refused {
                    pid,
                    step: "SO_PEERPIDFD",
                    errno,
                });
            }
        }
        let pid = match self.credentials() {
            Ok(peer) => peer.pid,
            Err(ControlError::System { step, errno }) => {
                return Err(PidfdError::Refused {
                    pid: 0,
                    step,
                    errno,
                });
            }
            Err(_) => 0,
        };
        let known = rustix::process::Pid::from_raw(pid).ok_or(PidfdError::OtherNamespace)?;
        pidfd_open(known, PidfdFlags::empty()).map_err(|errno| match errno {
            Errno::SRCH => PidfdError::Dead,
            errno => PidfdError::Refused {
                pid,
                step: "pidfd_open",
                errno,
            },
        })
    }

    /// Whether there is something to read, or the other end is gone.
    #[must_use]
    pub fn has_something(&self) -> bool {
        is_ready(&mut [PollFd::new(self, PollFlags::IN | PollFlags::RDHUP)])
    }

    /// Whether the other end is gone, or its process, of which this is the pidfd.
    #[must_use]
    pub fn has_hung_up(&self, pidfd: Option<&OwnedFd>) -> bool {
        let mut fds = vec![PollFd::new(self, PollFlags::RDHUP)];
        fds.extend(pidfd.map(|fd| PollFd::new(fd, PollFlags::IN)));
        is_ready(&mut fds)
    }
}

/// Whether something that is asked for, or the end, is there at one of these.
fn is_ready(fds: &mut [PollFd<'_>]) -> bool {
    poll(fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Reads the socket option `name` of SOL_SOCKET into `value`; gives the length
/// that the kernel wrote.
fn peer_option<T>(
    fd: &impl AsFd,
    name: libc::c_int,
    value: &mut MaybeUninit<T>,
) -> Result<usize, Errno> {
    // T is an int or a ucred: a few bytes.
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` has room for `len` bytes, which is the most that the
    // kernel writes, and both pointers are valid for the whole call.
    let answer = unsafe {
        libc::getsockopt(
            fd.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            value.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if answer == 0 {
        return Ok(len as usize);
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
}
