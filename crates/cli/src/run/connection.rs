//! The launcher's end of a rank's PMI socket. Nothing here waits: a rank that does not read its
//! answers, or sends half a line, holds up nobody but itself.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use limic::bootstrap::wire::{LineBuffer, WireError};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

/// A rank's answers may pile up to this many bytes before its requests are left unread.
const MAX_UNSENT: usize = 1 << 16;

/// A non-blocking socket with what is still to be cut into lines and what is still to be sent.
#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    lines: LineBuffer,
    unsent: Vec<u8>,
}

/// What reading brought.
#[derive(Debug)]
pub(super) enum Received {
    /// Bytes, perhaps whole lines.
    Bytes,
    /// Nothing for now.
    Nothing,
    /// The rank closed its end.
    End,
}

impl Connection {
    /// `socket` is non-blocking.
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            lines: LineBuffer::default(),
            unsent: Vec::new(),
        }
    }

    /// What to poll for.
    pub(super) fn interest(&self) -> PollFlags {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.has_room());
        flags.set(PollFlags::OUT, !self.unsent.is_empty());
        flags
    }

    /// Whether requests may be taken: not while their answers pile up.
    pub(super) fn has_room(&self) -> bool {
        self.unsent.len() < MAX_UNSENT
    }

    /// Nothing goes any more, and nothing comes but what is here already, and the end.
    pub(super) fn shut(&self) {
        // Of a connected pair of sockets it cannot fail.
        let _shut = shutdown(&self.socket, Shutdown::Both);
    }

    /// Reads what is there, one piece at a time.
    pub(super) fn read(&mut self) -> Received {
        let mut bytes = [0; 4096];
        match recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((_, 0)) => Received::End,
            Ok((_, count)) => {
                self.lines.push(&bytes[..count.min(4096)]);
                Received::Bytes
            }
            Err(Errno::AGAIN | Errno::INTR) => Received::Nothing,
            Err(_) => Received::End,
        }
    }

    /// The next whole line that was read.
    pub(super) fn next_line(&mut self) -> Result<Option<Vec<u8>>, WireError> {
        self.lines.next_line()
    }

    /// Queues an answer and sends what the socket takes.
    pub(super) fn answer(&mut self, line: &[u8]) {
        self.unsent.extend_from_slice(line);
        self.flush();
    }

    /// Sends what the socket takes. A rank that is gone needs no answer; its end is seen by `read`.
    pub(super) fn flush(&mut self) {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        while !self.unsent.is_empty() {
            match send(&self.socket, &self.unsent, flags) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.unsent.clear(),
            }
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
