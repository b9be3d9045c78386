//! Packets come out in the order of the connection, whatever way they took.

use super::connection::Posted;
use super::failing::Fault;
use super::greeter::DATAGRAM;
use super::receives::RECEIVE;
use super::ring::{Pause, Slot};
use super::sending::{
    CREDITS, GOODBYE, LEND_RING, OWN_KINDS, PAUSE_RING, RESUME_RING, RING_PAUSED,
};
use super::{Arrivals, Arrived, ConnectionFailure, ConnectionId, Fabric, TransferError};
use crate::VerbsError;
use crate::objects::{Completion, WorkStatus};
use crate::packet::{Arrival, Malformed, Messages, PacketHeader};

impl Fabric {
    /// Takes what the adapters have finished, a batch of each. True if there was anything.
    pub(super) fn take_completions(&mut self) -> bool {
        let mut any = false;
        for rail in 0..self.rails.len() {
            if self.rails[rail].is_broken {
                continue;
            }
            match self.look_at_queue(rail) {
                Ok(some) => any |= some,
                Err(error) => self.rail_failed(rail, &error.to_string()),
            }
        }
        while let Some((rail, completion)) = self.taken.pop_front() {
            self.completed(rail, &completion);
        }
        any
    }

    /// Takes completions off a queue. Whose a packet is that came is known by the number of its
    /// queue pair, which may be another one's as soon as this one is destroyed. True if there were
    /// any.
    pub(super) fn look_at_queue(&mut self, rail: usize) -> Result<bool, VerbsError> {
        let (taken, arrived, by_pair) = (&mut self.taken, &mut self.arrived, &self.by_pair);
        self.rails[rail].queue.poll(|completion| {
            if completion.id & RECEIVE == 0 {
                taken.push_back((rail, completion));
                return;
            }
            let connection = by_pair.get(&(rail, completion.queue_pair)).copied();
            arrived.push_back(Arrived {
                rail,
                buffer: completion.id as u32,
                len: completion.bytes,
                connection: connection.filter(|_| completion.status == WorkStatus::Done),
            });
        })
    }

    fn completed(&mut self, rail: usize, completion: &Completion) {
        if completion.id & DATAGRAM != 0 {
            self.datagram_completed(rail, completion);
            return;
        }
        let number = (completion.id >> 32) as u32;
        let place = (completion.id >> 24 & 0xff) as usize;
        let serial = completion.id as u32 & 0xff_ffff;
        match completion.status {
            WorkStatus::Done => self.retire(number, place, serial),
            status => self.request_failed(number, place, serial, status),
        }
    }

    /// A request has succeeded, and with it all that were posted before it on its stream.
    fn retire(&mut self, number: u32, place: usize, serial: u32) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let Some(Some(stream)) = connection.streams.get_mut(place) else {
            return;
        };
        let mut over = Vec::new();
        while let Some((first, posted)) = stream.posted.pop_front() {
            stream.free += 1;
            match posted {
                Posted::Packet { buffer, .. } => self.packets.put_back(buffer),
                Posted::Part(part) => over.push(part),
                Posted::Ping => {}
            }
            if first == serial {
                break;
            }
        }
        connection.heard_at = self.looked_at;
        connection.in_vain = 0;
        for part in over {
            self.part_over(part, Ok(()));
        }
        self.go_on(number);
    }

    fn request_failed(&mut self, number: u32, place: usize, serial: u32, status: WorkStatus) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let Some(Some(stream)) = connection.streams.get_mut(place) else {
            return;
        };
        stream.pair.has_failed();
        // What the peer refused is refused on every stream: it is not tried again.
        if status == WorkStatus::RemoteAccess {
            let refused =
                |(n, posted): &(u32, Posted)| *n == serial && matches!(posted, Posted::Part(_));
            let at = stream.posted.iter().position(refused);
            if let Some((_, Posted::Part(part))) = at.and_then(|at| stream.posted.remove(at)) {
                connection.in_vain = 0;
                self.part_over(part, Err(TransferError::Refused));
            }
        }
        let fault = match status {
            WorkStatus::NoAnswer => Fault::Way("no answer to any repetition".to_owned()),
            WorkStatus::NoReceive => Fault::Way("the peer has no receive".to_owned()),
            WorkStatus::Flushed => Fault::Request("the queue pair was flushed".to_owned()),
            WorkStatus::RemoteAccess => {
                Fault::Request("the peer's adapter refused access".to_owned())
            }
            other => Fault::Request(format!("{other:?}")),
        };
        self.stream_failed(number, place, fault);
    }

    /// Puts the messages of one packet into `arrivals`. False if there is none.
    pub(super) fn take_packet(&mut self, arrivals: &mut Arrivals) -> bool {
        while let Some((number, packet)) = self.late.pop_front() {
            *arrivals.bytes_mut() = packet;
            if self.decode(number, arrivals) {
                return true;
            }
        }
        let mut at = 0;
        while let Some(&number) = self.ring_connections.get(at) {
            if self.take_from_ring(number, arrivals) {
                return true;
            }
            // A ring that was just paused, or whose connection failed, is out of the list, and
            // another one in its place.
            if self.ring_connections.get(at) == Some(&number) {
                at += 1;
            }
        }
        while let Some(arrived) = self.arrived.pop_front() {
            let owner = arrived.connection;
            if owner.is_some_and(|number| self.becomes_ready(number)) {
                // The caller hears of the peer first.
                self.arrived.push_front(arrived);
                return false;
            }
            let receives = &mut self.rails[arrived.rail].receives;
            receives.copy(arrived.buffer, arrived.len, arrivals.bytes_mut());
            let holder = receives.holder(arrived.buffer);
            let connections = &self.connections;
            let lent = receives.lend(arrived.buffer, || {
                connections.get(&owner?)?.pair(arrived.rail, holder)
            });
            if let Err(error) = lent {
                tracing::error!("a receive buffer is lost: {error}");
            }
            let Some(number) = owner else { continue };
            if self.admit(number, arrivals) {
                return true;
            }
        }
        false
    }

    fn take_from_ring(&mut self, number: u32, arrivals: &mut Arrivals) -> bool {
        while let Some(connection) = self.connections.get_mut(&number) {
            let Some(ring) = &mut connection.ring_in else {
                return false;
            };
            if ring.pause == Pause::Granted {
                return false;
            }
            match ring.reader.poll(&ring.memory, arrivals.bytes_mut()) {
                Slot::Empty => return false,
                Slot::Nonsense => {
                    self.corrupt(
                        number,
                        "a slot of its ring has an impossible length, or was not free",
                    );
                    return false;
                }
                Slot::Packet(_) => {}
            }
            let must_tell = ring.reader.must_tell();
            if must_tell
                && self
                    .send(ConnectionId(number), CREDITS, 0, 0, |_| {})
                    .is_err()
            {
                // The next packet to that peer carries them.
            }
            // A slot's packet is filled up to a multiple of four.
            if let Some(header) = arrivals.bytes().first_chunk::<{ crate::packet::HEADER }>() {
                let bytes = usize::from(u16::from_le_bytes([header[6], header[7]]));
                let exact = crate::packet::HEADER + bytes;
                if arrivals.bytes().len().wrapping_sub(exact) < 4 {
                    arrivals.bytes_mut().truncate(exact);
                }
            }
            if self.admit(number, arrivals) {
                return true;
            }
        }
        false
    }

    /// A packet is in `arrivals`: is it its turn? True if there are messages for the caller.
    fn admit(&mut self, number: u32, arrivals: &mut Arrivals) -> bool {
        let now = self.looked_at;
        let Some(connection) = self.connections.get_mut(&number) else {
            return false;
        };
        connection.heard_at = now;
        let arrival = PacketHeader::split(arrivals.bytes()).and_then(|(header, _)| {
            let arrival = connection.arrivals.arrive(header.sequence)?;
            Ok((header, arrival))
        });
        match arrival {
            Err(error) => {
                self.corrupt(number, &error.to_string());
                false
            }
            Ok((_, Arrival::Again)) => false,
            Ok((header, Arrival::Early)) => {
                let packet = core::mem::take(arrivals.bytes_mut());
                connection.arrivals.keep(header.sequence, packet);
                false
            }
            Ok((_, Arrival::Now)) => {
                let messages = self.decode(number, arrivals);
                if let Some(connection) = self.connections.get_mut(&number) {
                    while let Some(packet) = connection.arrivals.take_next() {
                        self.late.push_back((number, packet));
                    }
                }
                messages
            }
        }
    }

    /// Takes the packet in `arrivals` apart. True if there are messages for the caller.
    fn decode(&mut self, number: u32, arrivals: &mut Arrivals) -> bool {
        arrivals.begin(ConnectionId(number));
        let Some(connection) = self.connections.get_mut(&number) else {
            return false;
        };
        connection.received = connection.received.saturating_add(1);
        let mut own = Vec::new();
        let read = read_packet(arrivals, &mut connection.last_received, &mut own);
        let freed = match read {
            Ok(freed) => freed,
            Err(error) => {
                arrivals.begin(ConnectionId(number));
                self.corrupt(number, &error.to_string());
                return false;
            }
        };
        let ring = connection.ring_out.as_mut().filter(|_| freed > 0);
        if ring.is_some_and(|ring| !ring.give_back(freed)) {
            self.corrupt(number, "it gives back more slots of a ring than there are");
            return false;
        }
        let often = connection.received == self.settings.ring_after;
        match &mut connection.ring_in {
            None if often => self.lend_ring(number),
            Some(ring) if ring.pause == Pause::Granted => {
                ring.beside = ring.beside.saturating_add(1);
                self.resume_ring(number);
            }
            _ => {}
        }
        for (kind, payload) in own {
            self.own_message(number, kind, &payload);
        }
        !arrivals.is_empty()
    }

    fn own_message(&mut self, number: u32, kind: u8, payload: &[u8]) {
        match kind {
            CREDITS => {}
            GOODBYE => self.end(number, ConnectionFailure::Closed),
            LEND_RING => self.borrow_ring(number, payload),
            PAUSE_RING => self.asked_to_pause(number),
            RING_PAUSED => self.ring_paused(number),
            RESUME_RING => self.asked_to_resume(number),
            other => self.corrupt(number, &format!("a message of unknown kind {other:#04x}")),
        }
    }
}

/// Reads the packet in `arrivals`: the caller's messages stay there, the fabric's own are taken
/// out. Gives the slots given back.
fn read_packet(
    arrivals: &mut Arrivals,
    last: &mut Option<crate::packet::Form>,
    own: &mut Vec<(u8, Vec<u8>)>,
) -> Result<u16, Malformed> {
    // The bytes are lent out while the messages in them are noted.
    let packet = core::mem::take(arrivals.bytes_mut());
    let read = note_messages(&packet, last, arrivals, own);
    *arrivals.bytes_mut() = packet;
    read
}

fn note_messages(
    packet: &[u8],
    last: &mut Option<crate::packet::Form>,
    arrivals: &mut Arrivals,
    own: &mut Vec<(u8, Vec<u8>)>,
) -> Result<u16, Malformed> {
    let (header, bytes) = PacketHeader::split(packet)?;
    for message in Messages::new(bytes, last) {
        let message = message?;
        if message.form.kind >= OWN_KINDS {
            own.push((message.form.kind, message.payload.to_vec()));
        } else {
            let at = message.payload.as_ptr() as usize - packet.as_ptr() as usize;
            arrivals.push(message.form, at);
        }
    }
    Ok(header.freed)
}
