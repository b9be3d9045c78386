//! A stream breaks: the others take over what it had, or it waits until there is one again. The
//! peer is lost if it is reached by none. With a device all streams through it break.

use core::fmt;
use std::collections::VecDeque;

use super::ConnectionFailure;
use super::connection::{Connection, Mend, Posted};
use super::sending::work_id;
use super::{Event, Fabric};
use crate::objects::{SendKind, SendWork};

/// Times that the last stream may break by requests before any request succeeds.
const IN_VAIN: u32 = 8;

/// Why a stream broke.
#[derive(Debug)]
pub(super) enum Fault {
    /// The peer is not reached by it.
    Way(String),
    /// By a request, here or at the peer, which is there.
    Request(String),
    /// The peer makes it anew.
    Peer,
    /// This end goes by another adapter.
    Left(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Way(why) | Self::Request(why) | Self::Left(why) => f.write_str(why),
            Self::Peer => f.write_str("the peer makes it anew"),
        }
    }
}

impl Connection {
    /// Whether the connection goes on without streams until one is made anew.
    fn outlasts(&mut self, fault: &Fault) -> bool {
        match fault {
            Fault::Way(_) => false,
            Fault::Request(_) => {
                self.in_vain += 1;
                self.in_vain <= IN_VAIN
            }
            Fault::Peer | Fault::Left(_) => true,
        }
    }
}

impl Fabric {
    /// A stream has failed. Its queue pair is destroyed, so that no adapter touches the memory of
    /// its requests any more, and they go to another stream, or wait until there is one: packets
    /// carry sequence numbers, so that one which arrived before is not read twice, and transfers
    /// may be repeated.
    pub(super) fn stream_failed(&mut self, number: u32, place: usize, fault: Fault) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let Some(stream) = connection.streams.get_mut(place).and_then(Option::take) else {
            return;
        };
        let (rail, rail_there) = (stream.rail, stream.rail_there);
        let posted = self.take_down(stream);
        // By another rail the peer may be reached, whatever has happened to this one.
        let next = self.rails_in_order(rail).first().copied();
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        // Whether slots were written is not known, so the ring is not used again.
        connection.ring_out = None;
        if !connection.is_ready() {
            // Nothing was posted before a contact: its device has failed.
            return self.greet_anew(number);
        }
        let left = connection.live_streams();
        let is_mended = |next| next != rail || connection.outlasts(&fault);
        let is_kept = left > 0 || next.is_some_and(is_mended);
        if !is_kept {
            self.put_back(posted);
            // The peer may live where an adapter of this side has failed.
            let why = if self.rails[rail].is_broken {
                ConnectionFailure::Local(fault.to_string())
            } else {
                ConnectionFailure::Lost(fault.to_string())
            };
            self.end(number, why);
            return;
        }
        let id = connection.id;
        tracing::warn!("stream {place} to peer {id:#x} failed ({fault}); {left} left take over");
        for (_, posted) in posted {
            match posted {
                Posted::Packet { buffer, len } => {
                    connection.again.push_back((buffer, len));
                    self.counts.moved += 1;
                }
                Posted::Part(part) => connection.waiting.push_front(part),
                Posted::Ping => {}
            }
        }
        self.post_again(number);
        self.begin_mend(number, place, rail, rail_there);
        self.post_parts(number);
    }

    /// The buffers of packets that go nowhere any more.
    fn put_back(&mut self, posted: VecDeque<(u32, Posted)>) {
        for (_, posted) in posted {
            if let Posted::Packet { buffer, .. } = posted {
                self.packets.put_back(buffer);
            }
        }
    }

    /// There is room again: what waits for it goes.
    pub(super) fn go_on(&mut self, number: u32) {
        self.post_again(number);
        self.flush(number);
        self.answer_pause(number);
        self.post_parts(number);
    }

    /// Posts packets that wait to go a second time.
    pub(super) fn post_again(&mut self, number: u32) {
        while let Some(connection) = self.connections.get_mut(&number) {
            let stream = connection.control_stream();
            if stream.is_none_or(|(_, stream)| stream.free == 0) {
                return;
            }
            let Some((buffer, len)) = connection.again.pop_front() else {
                return;
            };
            self.post_packet(number, buffer, len);
        }
    }

    /// Hears of devices that have failed: requests there never end, not even by an error. And of
    /// ports that go down and come back.
    pub(super) fn hear_devices(&mut self) {
        for rail in 0..self.rails.len() {
            let it = &mut self.rails[rail];
            it.take_events();
            if it.has_failed && !it.is_broken {
                self.rail_failed(rail, "its driver says so");
            }
            match self.rails[rail].port_told.take() {
                Some(true) => self.port_came(rail),
                Some(false) => self.port_went(rail),
                None => {}
            }
        }
    }

    /// A device failed: all streams through it do. They are made anew by the other one, if that
    /// works.
    pub(super) fn rail_failed(&mut self, rail: usize, why: &str) {
        let name = self.rails[rail].domain.context().name();
        let why = format!("{name} of this side has failed: {why}");
        tracing::error!("{why}");
        self.rails[rail].is_broken = true;
        self.rails[rail].notifier.silence();
        self.leave(rail, |_| true, || Fault::Way(why.clone()));
        let connections = self.connections.iter();
        let over = connections.filter(|(_, connection)| connection.is_cut_off());
        for number in over.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.end(number, ConnectionFailure::Local(why.clone()));
        }
    }

    /// Streams through a rail end, of these connections.
    fn leave(
        &mut self,
        rail: usize,
        which: impl Fn(&Connection) -> bool,
        fault: impl Fn() -> Fault,
    ) {
        let (mut there, mut unmended) = (Vec::new(), Vec::new());
        for (number, connection) in &mut self.connections {
            if !which(connection) {
                continue;
            }
            let streams = connection.streams.iter().enumerate();
            let on_it = streams.filter(|(_, it)| it.as_ref().is_some_and(|it| it.rail == rail));
            there.extend(on_it.map(|(place, _)| (*number, place)));
            let mends = core::mem::take(&mut connection.mends).into_iter();
            let (gone, left): (Vec<Mend>, _) = mends.partition(|mend| mend.rail == rail);
            connection.mends = left;
            unmended.extend(gone.into_iter().map(|mend| (*number, mend)));
        }
        for (number, mend) in unmended {
            if let Some(stream) = mend.stream {
                self.take_down(stream);
            }
            self.begin_mend(number, mend.place, rail, mend.rail_there);
        }
        for (number, place) in there {
            self.stream_failed(number, place, fault());
        }
    }

    /// The other rail, if it works, and whether its port is up.
    fn beside(&self, rail: usize) -> Option<(usize, bool)> {
        let other = self.rails_from(rail).find(|other| *other != rail)?;
        let port = self.rails[other].port_now(&self.settings);
        Some((other, port.is_ok()))
    }

    /// A port of this side is down. Its streams end at once where another port serves. The peer may
    /// not notice, and gives up in the end. Elsewhere adapters repeat what is under way, until the
    /// port is back or they give up.
    fn port_went(&mut self, rail: usize) {
        let Some((other, true)) = self.beside(rail) else {
            return;
        };
        let is_lone = self.settings.streams == 1;
        let has_other = |connection: &Connection| {
            let mut streams = connection.streams.iter().flatten();
            is_lone || streams.any(|stream| stream.rail == other)
        };
        let name = self.rails[rail].domain.context().name();
        let why = format!("the port of {name} is down");
        self.leave(rail, has_other, || Fault::Left(why.clone()));
    }

    /// A port of this side is up again: peers are told at once of the streams that are made anew
    /// there. Streams that stayed where the other port is down, for want of this one, leave it now.
    fn port_came(&mut self, rail: usize) {
        self.rails[rail].rests_until = self.looked_at;
        for connection in self.connections.values_mut() {
            for mend in connection.mends.iter_mut().filter(|it| it.rail == rail) {
                (mend.next, mend.tries) = (self.looked_at, 0);
            }
        }
        if let Some((other, false)) = self.beside(rail) {
            self.port_went(other);
        }
    }

    pub(super) fn corrupt(&mut self, number: u32, what: &str) {
        self.end(number, ConnectionFailure::Corrupt(what.to_owned()));
    }

    /// A connection is over.
    pub(super) fn end(&mut self, number: u32, why: ConnectionFailure) {
        let Some(over) = self.connections.remove(&number).map(|over| *over) else {
            return;
        };
        if let Some(known) = self.known.get_mut(&over.id).filter(|_| over.heard != 0) {
            known.over = over.heard;
        }
        let mends = over.mends.into_iter().map(|mend| mend.stream);
        for stream in over.streams.into_iter().chain(mends).flatten() {
            let posted = self.take_down(stream);
            self.put_back(posted);
        }
        if let Some(open) = over.open {
            self.open_packets -= u32::from(!open.had_time);
            self.packets.put_back(open.buffer);
        }
        for (buffer, _) in over.again {
            self.packets.put_back(buffer);
        }
        if over.ring_in.is_some() {
            self.rings_granted -= 1;
            self.ring_connections.retain(|other| *other != number);
        }
        self.fail_transfers(number, &why);
        self.events.push_back(Event::Failed {
            connection: super::ConnectionId(number),
            why,
        });
    }

    /// Asks a silent peer whether it lives: an empty write, which its adapter answers. A failure
    /// comes as any other.
    pub(super) fn ping(&mut self, number: u32) {
        let now = self.looked_at;
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        connection.pinged_at = now;
        if let Some((place, _)) = connection.control_stream() {
            self.ping_by(number, place);
        }
    }

    /// Asks by the stream of this place. When the answer comes, all before it has arrived.
    pub(super) fn ping_by(&mut self, number: u32, place: usize) {
        let connection = self.connections.get_mut(&number);
        let stream = connection.and_then(|it| it.streams.get_mut(place)?.as_mut());
        let Some(stream) = stream else {
            return;
        };
        // A full queue asks by itself, and so does a transfer. Behind a read there must be no empty
        // write: if the read is repeated then, Soft-RoCE of Linux 7.2 takes the write's length,
        // zero, for the read's, and refuses it (`read_reply` in the kernel's rxe_resp.c).
        let asks = |(_, posted): &(u32, Posted)| matches!(posted, Posted::Ping | Posted::Part(_));
        if stream.free == 0 || stream.posted.iter().any(asks) {
            return;
        }
        let work = SendWork {
            id: work_id(number, place, stream.next),
            kind: SendKind::Write(crate::objects::RemoteMemory { start: 0, key: 0 }),
            slices: &[],
            inline: false,
            signalled: true,
        };
        // SAFETY: it names no memory.
        let result = unsafe { stream.pair.post(&work) };
        stream.account(true, Posted::Ping);
        if let Err(error) = result {
            self.stream_failed(number, place, Fault::Request(error.to_string()));
        }
    }
}
