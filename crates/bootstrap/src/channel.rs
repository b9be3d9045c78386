//! Lines over the connection to a PMI-1 launcher, each wait bounded.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::BootstrapError;
use super::wire::{LineBuffer, Message};

const LAUNCHER: &str = "PMI-1";
const ADVICE: &str =
    "the connection that the launcher handed over does not work; start the job again";

/// The client's end of the connection.
#[derive(Debug)]
pub(super) struct Channel {
    fd: OwnedFd,
    lines: LineBuffer,
    limit: Option<Duration>,
}

impl Channel {
    /// `limit` bounds each wait for the launcher; `None` waits for ever.
    pub(super) fn new(fd: OwnedFd, limit: Option<Duration>) -> Self {
        Self {
            fd,
            lines: LineBuffer::default(),
            limit,
        }
    }

    /// Sends one message whole.
    pub(super) fn send(
        &mut self,
        step: &'static str,
        message: &Message,
    ) -> Result<(), BootstrapError> {
        let deadline = self.deadline();
        let line = message.encode();
        let mut rest = line.as_slice();
        while !rest.is_empty() {
            // NOSIGNAL: a launcher that is gone must be an error here, not a SIGPIPE to a host
            // program in C.
            match send(&self.fd, rest, SendFlags::NOSIGNAL) {
                Ok(sent) => rest = &rest[sent..],
                Err(Errno::AGAIN) => self.wait(step, PollFlags::OUT, deadline)?,
                Err(errno) => self.check(step, errno)?,
            }
        }
        Ok(())
    }

    /// The next message from the launcher.
    pub(super) fn receive(&mut self, step: &'static str) -> Result<Message, BootstrapError> {
        let deadline = self.deadline();
        let protocol = |detail: String| BootstrapError::Protocol {
            launcher: LAUNCHER,
            step,
            detail,
        };
        loop {
            let line = self.lines.next_line();
            if let Some(line) = line.map_err(|error| protocol(error.to_string()))? {
                return Message::parse(&line).map_err(|error| {
                    let text = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
                    protocol(format!("{error}: {text:?}"))
                });
            }
            self.wait(step, PollFlags::IN, deadline)?;
            let mut bytes = [0; 4096];
            match recv(&self.fd, &mut bytes[..], RecvFlags::empty()) {
                Ok((_, 0)) => return Err(gone(step)),
                Ok((_, count)) => self.lines.push(&bytes[..count.min(4096)]),
                Err(Errno::AGAIN) => {}
                Err(errno) => self.check(step, errno)?,
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.limit
            .and_then(|limit| Instant::now().checked_add(limit))
    }

    /// Waits until the connection is ready or ended, at most until `deadline`.
    fn wait(
        &self,
        step: &'static str,
        flags: PollFlags,
        deadline: Option<Instant>,
    ) -> Result<(), BootstrapError> {
        loop {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let timeout = left.and_then(|left| Timespec::try_from(left).ok());
            let mut ready = [PollFd::new(&self.fd, flags)];
            match poll(&mut ready, timeout.as_ref()) {
                Ok(0) => {
                    return Err(BootstrapError::Timeout {
                        launcher: LAUNCHER,
                        step,
                        seconds: self.limit.unwrap_or_default().as_secs(),
                    });
                }
                Ok(_) => return Ok(()),
                Err(errno) => self.check(step, errno)?,
            }
        }
    }

    /// `Ok` if the call is to be made again.
    fn check(&self, step: &'static str, errno: Errno) -> Result<(), BootstrapError> {
        match errno {
            Errno::INTR => Ok(()),
            Errno::PIPE | Errno::CONNRESET => Err(gone(step)),
            errno => Err(BootstrapError::Io {
                launcher: LAUNCHER,
                step,
                source: errno.into(),
                advice: ADVICE,
            }),
        }
    }
}

fn gone(step: &'static str) -> BootstrapError {
    BootstrapError::LauncherGone {
        launcher: LAUNCHER,
        step,
    }
}
