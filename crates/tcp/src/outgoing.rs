//! What a connection has to send: bytes that the socket has not taken yet.

use std::os::fd::BorrowedFd;

use limic_fabric::Stretch;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::sockets;

/// Bytes in order. The room for them stays when they are gone.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    room: Vec<u8>,
    start: usize,
    end: usize,
}

impl Outgoing {
    /// Whether the socket has taken everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// Room for so many bytes more, which the caller fills.
    pub(crate) fn add(&mut self, len: usize) -> &mut [u8] {
        if self.is_empty() {
            self.clear();
        }
        let end = self.end + len;
        if end > self.room.len() {
            // What went is not kept for ever.
            self.room.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            let needed = self.end + len;
            if needed > self.room.len() {
                self.room.resize(needed.next_power_of_two(), 0);
            }
        }
        let start = self.end;
        self.end += len;
        &mut self.room[start..self.end]
    }

    /// Nothing is to be sent any more.
    pub(crate) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Writes what waits and some data behind it, as much as the socket takes at once. Gives how
    /// many bytes of the data it took.
    ///
    /// # Errors
    /// The connection is broken.
    ///
    /// # Safety
    /// The data can be read during the call.
    #[expect(unsafe_code, reason = "the data is the caller's")]
    pub(crate) unsafe fn write_before(
        &mut self,
        socket: BorrowedFd<'_>,
        data: &[Stretch],
    ) -> Result<usize, Errno> {
        let waiting = &self.room[self.start..self.end];
        let sent = loop {
            // SAFETY: the caller's promise.
            match unsafe { sockets::send_all_of(socket, waiting, data) } {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break 0,
                sent => break sent?,
            }
        };
        let of_waiting = sent.min(waiting.len());
        self.start += of_waiting;
        Ok(sent - of_waiting)
    }

    /// Writes as much as the socket takes. True if nothing is left.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn write(&mut self, socket: BorrowedFd<'_>) -> Result<bool, Errno> {
        while !self.is_empty() {
            // A peer that is gone is an error here, and not a signal.
            match send(
                socket,
                &self.room[self.start..self.end],
                SendFlags::NOSIGNAL,
            ) {
                Ok(sent) => self.start += sent,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn bytes_go_in_order_through_a_socket_that_is_full_now_and_then() {
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        far.set_nonblocking(true).unwrap();
        let mut outgoing = Outgoing::default();
        let (mut next, mut expected) = (0_u8, 0_u8);
        let mut blocked = 0;
        for round in 0..4000_usize {
            for byte in outgoing.add(round % 700) {
                *byte = next;
                next = next.wrapping_add(1);
            }
            if !outgoing.write(near.as_fd()).unwrap() {
                blocked += 1;
                let mut room = vec![0; 150_000];
                let got = far.read(&mut room).unwrap();
                for byte in &room[..got] {
                    assert_eq!(*byte, expected);
                    expected = expected.wrapping_add(1);
                }
            }
        }
        assert!(blocked > 0 && outgoing.room.len() < 1 << 20);
    }
}
