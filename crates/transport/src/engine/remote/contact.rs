//! Contact with peers over the fabric: the first one, and its end.

use std::time::Instant;

use limic_ibverbs::fabric::{ConnectionFailure, ConnectionId, FabricAddress};

use super::super::Core;
use super::super::wire::{self, Control};
use crate::Address;
use crate::counters::Event;
use crate::error::PeerFailure;

impl Core {
    /// Makes the first contact with a peer over the fabric.
    pub(crate) fn connect_remote(&mut self, to: u32) {
        let Some(peer) = self.peers.get(to) else {
            return;
        };
        let address = peer.address;
        peer.connecting = true;
        let Some(there) = FabricAddress::from_bytes(&address.fabric) else {
            return self.fail_peer(to, PeerFailure::OtherNode);
        };
        let Some(fabric) = &mut self.remote.fabric else {
            return self.fail_peer(to, PeerFailure::OtherNode);
        };
        match fabric.connect(&there, address.id, address.secret) {
            Ok(connection) => self.wire_up(connection, to),
            Err(error) => self.fail_peer(to, PeerFailure::Refused(error.to_string())),
        }
    }

    /// A peer that failed is to be tried again, unless it sent what makes no sense. What failed with it stays failed.
    pub(crate) fn try_anew(&mut self, number: u32) {
        let Some(peer) = self.peers.get(number) else {
            return;
        };
        let corrupt = matches!(peer.failure, Some(PeerFailure::Corrupt(_)));
        if peer.failure.is_none() || corrupt || !self.remote.takes(&peer.address) {
            return;
        }
        peer.failure = None;
        peer.connecting = false;
        self.unreported.retain(|(other, _)| *other != number);
    }

    fn wire_up(&mut self, connection: ConnectionId, number: u32) {
        self.remote.peers.insert(connection, number);
        self.adapt_polls();
        self.give_row(number);
        if let Some(peer) = self.peers.get(number) {
            peer.wire = Some(connection.0);
            peer.connecting = true;
        }
    }

    /// `from` is whom the connection is with, by its greeting; the hello says the rest, and must say the same.
    pub(super) fn on_connected(&mut self, connection: ConnectionId, from: u64, hello: &[u8]) {
        let number = match self.remote.peers.get(&connection).copied() {
            Some(number) => Some(number),
            None => Address::from_bytes(hello)
                .ok()
                .filter(|address| address.id == from && address.id != self.address.id)
                .and_then(|address| self.peers.enter(&address, &self.address))
                .filter(|number| !self.is_in_contact(*number)),
        };
        let living = number.filter(|number| {
            // It failed, and has connected anew since: it lives.
            self.try_anew(*number);
            self.peers
                .get(*number)
                .is_some_and(|peer| peer.failure.is_none())
        });
        match living {
            Some(number) => {
                self.wire_up(connection, number);
                self.tally.event(Event::Attached);
                if self.remote.told {
                    self.control(number, Control::new(wire::PRESSED, [1]));
                }
                self.flush(number);
            }
            None => {
                if let Some(fabric) = &mut self.remote.fabric {
                    fabric.disconnect(connection);
                }
            }
        }
    }

    /// Whether messages go to this peer already: nobody else takes its place then.
    fn is_in_contact(&mut self, number: u32) -> bool {
        let peer = self.peers.get(number);
        peer.is_some_and(|peer| {
            peer.failure.is_none() && (peer.link.is_some() || peer.wire.is_some())
        })
    }

    /// Ends the connection with a peer that failed otherwise: nothing touches memory of its operations afterwards.
    pub(crate) fn fail_remote(&mut self, number: u32) {
        self.remote.ask_first.retain(|peer| *peer != number);
        if let Some(connection) = self.remote.connection_of(number) {
            self.remote.peers.remove(&connection);
            if let Some(fabric) = &mut self.remote.fabric {
                fabric.disconnect(connection);
            }
        }
    }

    /// Says goodbye over the fabric, and closes it.
    pub(crate) fn close_remote(&mut self, until: Instant) {
        if let Some(mut fabric) = self.remote.fabric.take() {
            fabric.close(until);
        }
        self.remote.offered.clear();
        self.remote.reading.clear();
    }
}

pub(super) fn failure(why: ConnectionFailure) -> PeerFailure {
    match why {
        ConnectionFailure::Unreachable(_) => PeerFailure::Unreachable,
        ConnectionFailure::Lost(_) => PeerFailure::Died,
        ConnectionFailure::Closed => PeerFailure::Closed,
        ConnectionFailure::Corrupt(what) => PeerFailure::Corrupt(what),
        other => PeerFailure::Refused(other.to_string()),
    }
}
