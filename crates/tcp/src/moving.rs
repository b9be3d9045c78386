//! Messages go out.

use std::os::fd::AsFd;

use limic_fabric::{Form, SendRefused, Stretch};
use rustix::io::Errno;

use crate::connection::Connection;
use crate::fabric::TcpFabric;
use crate::record::{HEADER, LONGEST};
use crate::sockets;

/// Bytes of messages that travel together.
const TOGETHER: usize = 32 << 10;

impl TcpFabric {
    /// A connection that takes a message of `len` bytes now.
    fn taking(&mut self, number: u32, len: usize) -> Result<&mut Connection, SendRefused> {
        if len > LONGEST {
            return Err(SendRefused::TooLong { len, most: LONGEST });
        }
        let connection = self.connections.get_mut(&number);
        let connection = connection.ok_or(SendRefused::Failed)?;
        if !connection.is_ready() {
            return Err(SendRefused::Later);
        }
        // What the socket does not take is kept, and nothing is put behind it: so little is kept.
        if connection.blocked || connection.broken.is_some() || connection.to_go > 0 {
            connection.refused = true;
            connection.note_held(&mut self.holding);
            return Err(SendRefused::Later);
        }
        Ok(connection)
    }

    /// Sends a message, or lets it wait for those that follow.
    pub(crate) fn write_message(
        &mut self,
        number: u32,
        form: Form,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), SendRefused> {
        let len = form.len as usize;
        let connection = self.taking(number, len)?;
        let together = connection.out.len() + HEADER + len <= TOGETHER;
        if !connection.out.is_empty() && !together {
            self.flush(number);
            return self.write_message(number, form, fill);
        }
        let corked = connection.corked;
        let room = connection.out.add(HEADER + len);
        let (head, payload) = room.split_at_mut(HEADER);
        head.copy_from_slice(&form.to_header());
        fill(payload);
        self.counts.messages += 1;
        if corked {
            self.note_held(number);
        } else {
            self.flush(number);
        }
        Ok(())
    }

    /// Begins a message whose data stays where it is.
    ///
    /// # Safety
    /// The data can be read during the call.
    #[expect(unsafe_code, reason = "the data is the caller's")]
    pub(crate) unsafe fn begin_message(
        &mut self,
        number: u32,
        form: Form,
        head: &[u8],
        data: &[Stretch],
    ) -> Result<usize, SendRefused> {
        let connection = self.taking(number, form.len as usize)?;
        let room = connection.out.add(HEADER + head.len());
        room[..HEADER].copy_from_slice(&form.to_header());
        room[HEADER..].copy_from_slice(head);
        connection.to_go = form.len as usize - head.len();
        self.counts.messages += 1;
        // SAFETY: the caller's promise.
        Ok(unsafe { self.write_rest(number, data) })
    }

    /// Writes what waits, and data of the message that has begun; gives how many bytes of it went.
    ///
    /// # Safety
    /// The data can be read during the call.
    #[expect(unsafe_code, reason = "the data is the caller's")]
    pub(crate) unsafe fn write_rest(&mut self, number: u32, data: &[Stretch]) -> usize {
        let Some(connection) = self.connection(number) else {
            return 0;
        };
        let Some(socket) = connection.socket.as_ref() else {
            return 0;
        };
        if connection.blocked || connection.broken.is_some() {
            return 0;
        }
        if connection.piece == 0 {
            connection.piece = sockets::piece(socket.as_fd());
        }
        let piece = connection.piece;
        // SAFETY: the caller's promise.
        let written = unsafe { connection.out.write_before(socket.as_fd(), data, piece) };
        let gone = *written.as_ref().unwrap_or(&0);
        connection.to_go = connection.to_go.saturating_sub(gone);
        self.counts.packets += u64::from(gone > 0);
        let given: usize = data.iter().map(|stretch| stretch.len).sum();
        self.note_written(number, written.map(|gone| gone == given));
        gone
    }

    /// Writes what waits, as far as the socket takes it.
    pub(crate) fn flush(&mut self, number: u32) {
        let Some(connection) = self.connection(number) else {
            return;
        };
        let Some(socket) = connection.socket.as_ref() else {
            return;
        };
        if connection.broken.is_some() || connection.out.is_empty() {
            return;
        }
        let written = connection.out.write(socket.as_fd());
        self.counts.packets += 1;
        self.note_written(number, written);
    }

    /// A socket has room again. Only the event set says so: of a message that goes in parts nothing
    /// may wait here, but with its sender.
    pub(crate) fn has_room(&mut self, number: u32) {
        let waits = self.connection(number).map(|c| !c.out.is_empty());
        match waits {
            Some(true) => self.flush(number),
            Some(false) => self.note_written(number, Ok(true)),
            None => {}
        }
    }

    /// A socket took all that was written, or not; or the connection is broken.
    fn note_written(&mut self, number: u32, all: Result<bool, Errno>) {
        let Some(connection) = self.connection(number) else {
            return;
        };
        let blocked = all == Ok(false);
        let was_blocked = core::mem::replace(&mut connection.blocked, blocked);
        match all {
            Ok(all) => connection.refused &= !all,
            Err(error) => {
                // What the peer has sent before can be read still; then the connection ends.
                connection.broken = Some(error);
                connection.out.clear();
                self.list(number);
            }
        }
        self.blocked = self.blocked + u32::from(blocked) - u32::from(was_blocked);
        if blocked != was_blocked {
            self.watch_anew(number);
        }
        self.note_held(number);
    }

    fn note_held(&mut self, number: u32) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.note_held(&mut self.holding);
        }
    }
}

impl Connection {
    /// Keeps count of the connections that hold messages. A caller that has more for a peer than
    /// its socket takes has to call again in any case, and other calls do not wait for that peer.
    fn note_held(&mut self, holding: &mut u32) {
        self.had_time &= !self.out.is_empty();
        let behind = self.refused || self.to_go > 0 || self.had_time;
        let holds = self.is_ready() && !self.out.is_empty() && !behind;
        let held = core::mem::replace(&mut self.holds, holds);
        *holding = *holding + u32::from(holds) - u32::from(held);
    }
}
