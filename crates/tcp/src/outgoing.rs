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

    /// Writes what waits and some data behind it, as much as the socket takes, in pieces of about
    /// this many bytes. Gives how many bytes of the data it took.
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
        piece: usize,
    ) -> Result<usize, Errno> {
        let all: usize = data.iter().map(|stretch| stretch.len).sum();
        let mut gone = 0;
        loop {
            let waiting = &self.room[self.start..self.end];
            let mut most = all - gone;
            // What is left does not end with a short piece.
            if waiting.len() + most >= piece + piece / 2 {
                most = piece.saturating_sub(waiting.len());
            }
            // SAFETY: the caller's promise.
            let sent = match unsafe { sockets::send_part_of(socket, waiting, data, (gone, most)) } {
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => 0,
                sent => sent?,
            };
            let of_waiting = sent.min(waiting.len());
            let is_full = sent < waiting.len() + most;
            self.start += of_waiting;
            gone += sent - of_waiting;
            if is_full || gone == all {
                return Ok(gone);
            }
        }
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

    use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};

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

    /// One call is one packet of such a socket.
    #[test]
    #[expect(unsafe_code, reason = "write_before is given memory")]
    fn a_call_writes_one_piece_and_the_last_one_is_not_short() {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (near, far) = socketpair(family, kind, SocketFlags::NONBLOCK, None).unwrap();
        let content = vec![1; 50_000];
        for (len, calls) in [
            (14_983, &[14_999][..]),
            (14_984, &[10_000, 5000]),
            (50_000, &[10_000, 10_000, 10_000, 10_000, 10_016]),
        ] {
            let mut outgoing = Outgoing::default();
            outgoing.add(16).fill(9);
            let data = Stretch {
                start: content.as_ptr(),
                len,
            };
            // SAFETY: `content` is there.
            let gone = unsafe { outgoing.write_before(near.as_fd(), &[data], 10_000) };
            assert_eq!(gone, Ok(len));
            let mut room = [0; 20_000];
            for call in calls {
                let (_, got) = recv(&far, &mut room[..], RecvFlags::empty()).unwrap();
                assert_eq!(got, *call, "{len}");
            }
            let more = recv(&far, &mut room[..], RecvFlags::empty());
            assert_eq!(more, Err(Errno::AGAIN), "{len}");
        }
    }

    /// The data lies in two places, and pieces end anywhere in them.
    #[test]
    #[expect(unsafe_code, reason = "write_before is given memory")]
    fn data_goes_in_pieces_in_order_through_a_socket_that_is_full_now_and_then() {
        let content: Vec<u8> = (0..1_000_000_u32).map(|at| (at / 7) as u8).collect();
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        far.set_nonblocking(true).unwrap();
        let mut take = |came: &mut Vec<u8>| {
            let mut room = vec![0; 100_000];
            let got = far.read(&mut room).unwrap();
            came.extend_from_slice(&room[..got]);
        };
        for (piece, cut) in [(1000, 300_001), (65_160, 65_160), (5_000_000, 1)] {
            let mut outgoing = Outgoing::default();
            outgoing.add(16).fill(9);
            let (mut gone, mut calls) = (0, 0);
            let mut came = Vec::new();
            while gone < content.len() {
                let parts = [&content[gone.min(cut)..cut], &content[gone.max(cut)..]];
                let parts = parts.map(|part| Stretch {
                    start: part.as_ptr(),
                    len: part.len(),
                });
                // SAFETY: `content` is there.
                let taken = unsafe { outgoing.write_before(near.as_fd(), &parts, piece) };
                gone += taken.unwrap();
                calls += 1;
                take(&mut came);
            }
            while came.len() < 16 + content.len() {
                take(&mut came);
            }
            assert!(calls > 1 && outgoing.is_empty(), "it was never full");
            assert!(came[..16] == [9; 16] && came[16..] == content, "{piece}");
        }
    }
}
