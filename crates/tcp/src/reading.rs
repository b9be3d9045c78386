//! What comes over a connection.

use std::os::fd::AsFd;

use limic_fabric::{Arrivals, ConnectionFailure, ConnectionId, Event};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::fabric::TcpFabric;
use crate::record::{self, HEADER, LONG};
use crate::sockets;

/// Bytes that are read at a time while messages are short: many of them.
const WIDE: usize = 64 << 10;
/// The same behind a long message, where most likely another one begins: what comes with its
/// beginning is copied once more, and the rest goes to its place at once.
const NARROW: usize = 4 << 10;
/// What may lie here of a record that is not long, or of the beginning of a long one.
const KEPT: usize = HEADER + LONG;

impl TcpFabric {
    /// Reads a connection once. True if there are messages in `arrivals`.
    pub(crate) fn read(&mut self, number: u32, arrivals: &mut Arrivals) -> bool {
        let Some(connection) = self.connection(number) else {
            return false;
        };
        connection.listed = false;
        let (true, Some(socket)) = (connection.is_ready(), &connection.socket) else {
            return false;
        };
        if connection.to_come > 0 {
            let left = connection.to_come;
            let connection = ConnectionId(number);
            self.events.push_back(Event::More { connection, left });
            return false;
        }
        arrivals.begin(ConnectionId(number));
        let mut bytes = core::mem::take(arrivals.bytes_mut());
        bytes.resize(KEPT + WIDE, 0);
        let have = connection.input.len();
        bytes[..have].copy_from_slice(&connection.input);
        let end = have + if connection.long { NARROW } else { WIDE };
        let got = recv(socket.as_fd(), &mut bytes[have..end], RecvFlags::empty());
        let whole = have + got.map_or(0, |(_, got)| got);
        let came = self.came(number, got.map(|(_, got)| got), whole == end);
        if came {
            self.take_records(number, &bytes[..whole], arrivals);
        }
        *arrivals.bytes_mut() = bytes;
        came && !arrivals.is_empty()
    }

    /// Reads bytes of the long message that has begun; gives their number.
    ///
    /// # Safety
    /// `into` has room for `len` bytes.
    #[expect(unsafe_code, reason = "the room is the caller's")]
    pub(crate) unsafe fn read_rest(&mut self, number: u32, into: *mut u8, len: usize) -> usize {
        let Some(connection) = self.connection(number) else {
            return 0;
        };
        let len = len.min(connection.to_come);
        let (true, Some(socket)) = (len > 0 && connection.is_ready(), &connection.socket) else {
            return 0;
        };
        // SAFETY: the caller's promise.
        let got = unsafe { sockets::receive(socket.as_fd(), into, len) };
        connection.to_come -= got.unwrap_or(0);
        // Behind the end of a message there may be nothing: its receiver does not wait for that.
        let more = got == Ok(len) && connection.to_come > 0;
        if self.came(number, got, more) {
            got.unwrap_or(0)
        } else {
            0
        }
    }

    /// So many bytes have come, or none. `more`: most likely there are more. False if there are
    /// none.
    fn came(&mut self, number: u32, got: Result<usize, Errno>, more: bool) -> bool {
        let Some(connection) = self.connection(number) else {
            return false;
        };
        let broken = connection.broken.is_some();
        match got {
            Ok(1..) => {}
            // All that came before it broke has been read.
            Err(Errno::AGAIN) if broken => {
                self.ended(number, None);
                return false;
            }
            Err(Errno::AGAIN | Errno::INTR) => return false,
            ended => {
                self.ended(number, ended.err());
                return false;
            }
        }
        if more || broken {
            // A connection that is broken is read to its end.
            self.list(number);
        }
        self.was_read(number, more);
        true
    }

    /// Notes the records among the bytes that have come.
    fn take_records(&mut self, number: u32, bytes: &[u8], arrivals: &mut Arrivals) {
        let taken = match record::take(bytes, arrivals) {
            Ok(taken) => taken,
            Err(why) => {
                arrivals.begin(ConnectionId(number));
                return self.fail(number, ConnectionFailure::Corrupt(why));
            }
        };
        if let Some(connection) = self.connection(number) {
            connection.long = taken.long;
            connection.to_come = taken.to_come;
            connection.input.clear();
            connection.input.extend_from_slice(&bytes[taken.bytes..]);
        }
        if taken.goodbye {
            self.fail(number, ConnectionFailure::Closed);
        } else if taken.to_come > 0 {
            self.list(number);
        }
    }

    /// A connection has ended without a goodbye.
    fn ended(&mut self, number: u32, error: Option<Errno>) {
        let broken = self.connection(number).and_then(|c| c.broken.take());
        // The kernel tells an error once: to the one who reads or to the one who writes.
        let why = match error.or(broken) {
            Some(error) if sockets::is_network_away(error) => {
                ConnectionFailure::Unreachable(error.to_string())
            }
            Some(error) => ConnectionFailure::Lost(error.to_string()),
            None => ConnectionFailure::Lost("it ended".to_owned()),
        };
        self.fail(number, why);
    }
}
