//! A message goes into a packet, and the packet to the peer.

use super::connection::{OpenPacket, Posted, Stream};
use super::failing::Fault;
use super::spread::key_of;
use super::{ConnectionId, Fabric, SendRefused};
use crate::objects::{LocalSlice, RemoteMemory, SendKind, SendWork};
use crate::packet::{Form, NoRoom, Packing};

/// Kinds from here on are the fabric's own.
pub(super) const OWN_KINDS: u8 = 0xf0;
/// A ring is lent to the receiver of this: start, keys, slots and bytes of a slot.
pub(super) const LEND_RING: u8 = 0xf0;
/// Nothing but the header's credits.
pub(super) const CREDITS: u8 = 0xf1;
/// The sender has closed its endpoint.
pub(super) const GOODBYE: u8 = 0xf2;
/// The sender is about to sleep: its ring is not to be written into.
pub(super) const PAUSE_RING: u8 = 0xf3;
/// The answer: behind everything that went into the ring.
pub(super) const RING_PAUSED: u8 = 0xf4;
/// The ring may be written into again.
pub(super) const RESUME_RING: u8 = 0xf5;

/// The number of a request of the send queues: connection, stream, and its number in the stream's
/// order.
pub(super) fn work_id(connection: u32, stream: usize, number: u32) -> u64 {
    // Bit 63 tells receives apart, bit 62 datagrams.
    u64::from(connection) << 32 | (stream as u64 & 0xff) << 24 | u64::from(number & 0xff_ffff)
}

impl Fabric {
    /// Sends a message of `len` bytes, which `fill` writes. It travels by itself if the connection
    /// has a free entry, else together with the next ones. Messages of one connection arrive
    /// in the order sent.
    ///
    /// # Errors
    /// [`SendRefused`]; `fill` was not called then.
    #[inline]
    pub fn send(
        &mut self,
        to: ConnectionId,
        kind: u8,
        tag: u64,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), SendRefused> {
        let most = self.longest_message(to);
        if len > most {
            return Err(SendRefused::TooLong { len, most });
        }
        let Some(connection) = self.connections.get_mut(&to.0) else {
            return Err(SendRefused::Failed);
        };
        if !connection.is_ready() {
            return Err(SendRefused::Later);
        }
        let form = Form {
            kind,
            tag,
            len: len as u32,
        };
        // Behind an open packet everything goes into it, so that order holds.
        if let Some(open) = &mut connection.open {
            let room = &mut self.packets.bytes(open.buffer)[..connection.packet_bytes as usize];
            match open.packing.add(room, form, &mut connection.last_sent) {
                Ok(space) => {
                    fill(space);
                    self.counts.messages += 1;
                    return Ok(());
                }
                Err(NoRoom) => {
                    if !self.flush(to.0) {
                        return Err(SendRefused::Later);
                    }
                }
            }
        }
        let coalesce = self.settings.coalesce;
        // Sending the open packet may have found that the connection is over.
        let Some(connection) = self.connections.get_mut(&to.0) else {
            return Err(SendRefused::Failed);
        };
        let free = connection
            .control_stream()
            .is_some_and(|(_, stream)| stream.free > 0);
        if !free && !coalesce {
            return Err(SendRefused::Later);
        }
        let Some(buffer) = self.packets.take() else {
            return Err(SendRefused::Later);
        };
        let mut packing = Packing::new(connection.sequence);
        let room = &mut self.packets.bytes(buffer)[..connection.packet_bytes as usize];
        let Ok(space) = packing.add(room, form, &mut connection.last_sent) else {
            // Cannot be: it fits an empty packet, by the check of its length.
            self.packets.put_back(buffer);
            return Err(SendRefused::Later);
        };
        fill(space);
        connection.sequence = connection.sequence.wrapping_add(1);
        let goes = free && !connection.corked;
        connection.open = Some(OpenPacket {
            buffer,
            packing,
            had_time: false,
        });
        self.open_packets += 1;
        self.counts.messages += 1;
        if goes {
            self.flush(to.0);
        }
        Ok(())
    }

    /// Says that messages which have waited are sent one after the other now, until
    /// [`uncork`](Self::uncork): they share packets even while entries are free, as they would have
    /// if they had waited here.
    #[inline]
    pub fn cork(&mut self, to: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&to.0) {
            connection.corked = self.settings.coalesce;
        }
    }

    /// The last of them has been sent.
    #[inline]
    pub fn uncork(&mut self, to: ConnectionId) {
        let connection = self.connections.get_mut(&to.0);
        let corked = connection.map(|connection| &mut connection.corked);
        if corked.is_some_and(std::mem::take) {
            self.flush(to.0);
        }
    }

    /// Posts the open packet if there is an entry for it. True if none is open afterwards.
    pub(super) fn flush(&mut self, number: u32) -> bool {
        let Some(connection) = self.connections.get_mut(&number) else {
            return true;
        };
        let free = connection
            .control_stream()
            .is_some_and(|(_, stream)| stream.free > 0);
        // What goes a second time goes first.
        if !free || !connection.again.is_empty() {
            return connection.open.is_none();
        }
        let Some(open) = connection.open.take() else {
            return true;
        };
        self.open_packets -= u32::from(!open.had_time);
        let OpenPacket {
            buffer, packing, ..
        } = open;
        let freed = connection
            .ring_in
            .as_mut()
            .map_or(0, |ring| ring.reader.take_freed());
        let len = packing.finish(self.packets.bytes(buffer), freed);
        self.counts.packets += 1;
        if self.post_packet(number, buffer, len as u32) {
            self.counts.ring_messages += u64::from(packing.messages());
        }
        true
    }

    /// Hands a packet to the first stream that is alive and has a free entry. True if it goes into
    /// the peer's ring.
    pub(super) fn post_packet(&mut self, number: u32, buffer: u32, len: u32) -> bool {
        let entries = self.settings.send_entries;
        let Some(connection) = self.connections.get_mut(&number) else {
            return false;
        };
        let padded = (len as usize).next_multiple_of(4);
        let slot = connection
            .ring_out
            .as_mut()
            .filter(|ring| ring.has_room(padded))
            .map(|ring| (ring.take(), ring.keys));
        let Some((place, stream)) = connection.control_stream() else {
            connection.again.push_back((buffer, len));
            return false;
        };
        // Requests without a completion keep their buffers, so peers that are spoken to in turn
        // could take all of them: then each asks for its own back.
        let signalled = stream.must_signal(entries) || self.packets.are_few();
        let id = work_id(number, place, stream.next);
        let rail = stream.rail;
        let (kind, slice) = match slot {
            Some((start, keys)) => {
                let framed = self.packets.frame(buffer, len as usize);
                let remote = RemoteMemory {
                    start,
                    key: key_of(keys, stream.rail_there),
                };
                let slice = self.packets.framed(buffer, rail, framed);
                (SendKind::Write(remote), slice)
            }
            None => (
                SendKind::Send,
                self.packets.slice(buffer, rail, len as usize),
            ),
        };
        let inline = slice.is_some_and(|slice| slice.len <= stream.pair.inline_bytes());
        let result = post(stream, id, kind, slice, inline, signalled);
        // Also bytes that the request took itself stay here: if its stream breaks, another one
        // takes over.
        stream.account(signalled, Posted::Packet { buffer, len });
        if let Err(error) = result {
            self.stream_failed(number, place, Fault::Request(error.to_string()));
        }
        slot.is_some()
    }

    /// Says goodbye to every peer that is connected, and waits until that has arrived or `until`.
    pub fn close(&mut self, until: std::time::Instant) {
        let mut arrivals = super::Arrivals::new();
        let ready = self.connections.iter().filter(|(_, it)| it.is_ready());
        // Each with whether it was told.
        let mut left: Vec<(u32, bool)> = ready.map(|(number, _)| (*number, false)).collect();
        while !left.is_empty() && std::time::Instant::now() < until {
            left.retain_mut(|(number, said)| {
                if !*said {
                    let sent = self.send(ConnectionId(*number), GOODBYE, 0, 0, |_| {});
                    *said = sent.is_ok();
                    return sent != Err(SendRefused::Failed);
                }
                let Some(connection) = self.connections.get(number) else {
                    return false;
                };
                let idle = connection
                    .streams
                    .iter()
                    .flatten()
                    .all(|stream| stream.posted.is_empty());
                let flushed = connection.open.is_none()
                    && connection.again.is_empty()
                    && connection.waiting.is_empty();
                if connection.open.is_none() && !idle {
                    self.ping(*number);
                }
                !(idle && flushed)
            });
            if self.poll(&mut arrivals).is_none() {
                std::thread::yield_now();
            }
        }
    }
}

fn post(
    stream: &Stream,
    id: u64,
    kind: SendKind,
    slice: Option<LocalSlice>,
    inline: bool,
    signalled: bool,
) -> Result<(), crate::VerbsError> {
    let Some(slice) = slice else {
        return Ok(());
    };
    let work = SendWork {
        id,
        kind,
        inline,
        slices: &[slice],
        signalled,
    };
    // SAFETY: unless the request takes the bytes itself, the buffer goes back to the pool only when
    // it is over, or its queue pair destroyed (`failing`); the pool's registrations outlive the
    // connections (field order).
    unsafe { stream.pair.post(&work) }
}

impl Stream {
    /// Notes a request that was just posted (or that failed to be, which ends the stream).
    pub(super) fn account(&mut self, signalled: bool, posted: Posted) {
        self.posted.push_back((self.next & 0xff_ffff, posted));
        self.next = self.next.wrapping_add(1);
        self.free = self.free.saturating_sub(1);
        self.unsignalled = if signalled { 0 } else { self.unsignalled + 1 };
    }
}
