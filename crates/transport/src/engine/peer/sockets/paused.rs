//! What waits until a descriptor is free, or memory: connections to be accepted, and messages that
//! bring descriptors. A few descriptors are kept for those.

use core::time::Duration;
use std::os::fd::{AsFd, OwnedFd};

use limic_shm::control::{ControlError, PidfdError, Socket, Trigger, many_wait_to_be_closed};
use limic_shm::system::{self, Instant};
use rustix::io::Errno;

use super::{FIRST, LISTENER, Sockets};

/// Descriptors that are kept for those that come: a connection, its process, and as many as a
/// greeting brings. An arena brings one, but may stand behind a greeting over a second connection.
const RESERVE_FDS: usize = 5;
/// How long no connection is accepted after that has failed.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// Whether a process is not watched because no descriptor is free.
pub(super) fn is_for_room(pidfd: &Result<OwnedFd, PidfdError>) -> bool {
    matches!(
        pidfd,
        Err(PidfdError::Refused {
            errno: Errno::MFILE | Errno::NFILE,
            ..
        })
    )
}

impl Sockets {
    /// Makes descriptors that can be given up for others.
    pub(crate) fn refill_reserve(&mut self) {
        while self.reserve_fds.len() < RESERVE_FDS {
            match self.doorbell.for_peers().try_clone_to_owned() {
                Ok(another) => self.reserve_fds.push(system::opened(another)),
                Err(_) => return,
            }
        }
    }

    /// Gives the kept descriptors up, for as long as it takes to map what comes with a message.
    /// False if there are none.
    pub(crate) fn give_up_reserve(&mut self) -> bool {
        let any = !self.reserve_fds.is_empty();
        self.reserve_fds.clear();
        any
    }

    /// The process at the other end of a connection.
    pub(super) fn pidfd_of(&mut self, socket: &Socket) -> Result<OwnedFd, PidfdError> {
        let pidfd = socket.pidfd();
        if !is_for_room(&pidfd) || !self.give_up_reserve() {
            return pidfd;
        }
        let pidfd = socket.pidfd();
        self.refill_reserve();
        pidfd
    }

    /// Watches processes that could not be watched for want of a descriptor. Gives the connections
    /// of those that have died meanwhile.
    fn watch_processes(&mut self) -> Vec<u32> {
        let mut dead = self.indices_where(|connection| connection.unwatched);
        dead.retain(|index| {
            let pidfd = self.get(*index).map(|connection| connection.socket.pidfd());
            if let Some(pidfd) = pidfd {
                self.note_process(*index, pidfd);
            }
            self.has_died(*index)
        });
        dead
    }

    /// The next connection that wants to be accepted. After a failure nobody is accepted for a
    /// while.
    pub(crate) fn accept(&mut self) -> Option<Socket> {
        let accepted = if many_wait_to_be_closed() {
            Err(std::io::Error::other(
                "many descriptors that peers have passed wait to be closed",
            ))
        } else {
            self.listener.accept()
        };
        match accepted {
            Ok(accepted) => {
                self.accept_ok |= accepted.is_some();
                accepted
            }
            Err(error) => {
                // Mostly no descriptor is free. The connection stays in the queue, and would wake
                // this endpoint all the time.
                if core::mem::replace(&mut self.accept_ok, false) {
                    tracing::warn!(
                        "connections cannot be accepted: {error}; tried again every {} ms (ulimit -n?)",
                        ACCEPT_BACKOFF.as_millis()
                    );
                }
                if self.events.remove(self.listener.as_fd()).is_ok() {
                    self.paused_since = Some(Instant::now());
                }
                None
            }
        }
    }

    /// Accepts no further connection.
    pub(crate) fn stop_listening(&mut self) {
        self.listener.stop();
    }

    /// After the last connection was accepted.
    pub(crate) fn forget_listener(&mut self) {
        // It fails only if the listener is not watched at the moment.
        let _ = self.events.remove(self.listener.as_fd());
        self.paused_since = None;
    }

    /// The next message of a connection waits, and would wake this endpoint all the time.
    pub(crate) fn pause(&mut self, index: u32, why: &ControlError) {
        let Some(Some(connection)) = self.connections.get_mut(index as usize) else {
            return;
        };
        if self.events.remove(connection.socket.as_fd()).is_ok() {
            connection.unread = true;
            self.paused_since.get_or_insert_with(Instant::now);
        }
        if core::mem::replace(&mut self.accept_ok, false) {
            tracing::warn!(
                "what a peer hands over waits: {why}; tried again every {} ms",
                ACCEPT_BACKOFF.as_millis()
            );
        }
    }

    /// How long what is paused still waits, if anything is.
    pub(crate) fn paused_for(&self) -> Option<Duration> {
        self.paused_since
            .map(|since| ACCEPT_BACKOFF.saturating_sub(since.elapsed()))
    }

    /// Watches again what was paused, if its time is over. Gives the connections that still cannot
    /// be watched, or whose process has died.
    pub(crate) fn resume(&mut self) -> Vec<u32> {
        if self.paused_for() != Some(Duration::ZERO) {
            return Vec::new();
        }
        self.paused_since = None;
        let mut unwatched = self.watch_processes();
        for (index, connection) in self.connections.iter_mut().enumerate() {
            let Some(connection) = connection else {
                continue;
            };
            if connection.unread {
                let token = FIRST + 2 * index as u64;
                let watched = self
                    .events
                    .add(connection.socket.as_fd(), token, Trigger::Level);
                connection.unread = watched.is_err();
                if watched.is_err() {
                    unwatched.push(index as u32);
                    self.paused_since = Some(Instant::now());
                }
            }
        }
        let watched = self
            .events
            .add(self.listener.as_fd(), LISTENER, Trigger::Level);
        // It is there already if only a connection was paused.
        if watched.is_err_and(|error| error.kind() != std::io::ErrorKind::AlreadyExists) {
            self.paused_since = Some(Instant::now());
        }
        unwatched
    }

    /// Whether connections wait to be accepted until a descriptor is free. What a peer has handed
    /// over may lie in one of them.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused_since.is_some()
    }
}

#[cfg(test)]
impl super::Connection {
    /// As if no descriptor had been free to watch its peer's process.
    pub(crate) fn unwatch(&mut self) {
        self.unwatched = true;
    }
}
