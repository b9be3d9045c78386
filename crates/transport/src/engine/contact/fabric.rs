//! Peers meet over the fabric.

use limic_fabric::ConnectionFailure;
use limic_records::Update;

use super::{connections, failure, handshake};
use crate::counters::Event;
use crate::engine::control::{counting, spins};
use crate::engine::cx::Cx;
use crate::engine::fabric::{Link, NotBegun};
use crate::engine::outbox;
use crate::engine::peer::greeting;
use crate::engine::peer::table::Channel;
use crate::engine::protocol::send;
use crate::error::PeerFailure;

/// Makes the first contact with a peer over the fabric.
pub(crate) fn connect(cx: &mut Cx, to: u32) {
    let Some(peer) = cx.peers.get(to) else {
        return;
    };
    let address = peer.address;
    match cx.fabric.connect(&address) {
        Ok(link) => {
            cx.sockets.note_contact(true);
            reached(cx, link, to);
        }
        Err(NotBegun::NoNetwork) => failure::fail_peer(cx, to, PeerFailure::OtherNode),
        // For want of something that this process may have again soon.
        Err(NotBegun::Failed(ConnectionFailure::Short(what))) => {
            connections::retry_with_room(cx, to, &what);
        }
        Err(NotBegun::Failed(why)) => on_failed(cx, to, why),
    }
}

/// A connection with a peer has failed. The log has the network's own words, which say more than
/// those who wait for the peer are told: addresses, errors of the system, times.
pub(crate) fn on_failed(cx: &mut Cx, number: u32, why: ConnectionFailure) {
    match why {
        ConnectionFailure::Closed => {}
        _ if cx.peers.has_returned(number) => {
            tracing::debug!("peer {number} over a network, again: {why}");
        }
        _ => tracing::warn!("peer {number} over a network: {why}"),
    }
    let why = match why {
        ConnectionFailure::Unreachable(_) => PeerFailure::Unreachable,
        ConnectionFailure::Lost(_) => PeerFailure::Died,
        ConnectionFailure::Closed => PeerFailure::Closed,
        ConnectionFailure::Corrupt(what) => PeerFailure::Corrupt(what),
        ConnectionFailure::Local(what) => PeerFailure::NotMet(what),
        other => PeerFailure::NotMet(other.to_string()),
    };
    failure::fail_peer(cx, number, why);
}

/// A peer that failed is to be tried again, unless it sent what makes no sense. What failed with it
/// stays failed.
pub(crate) fn try_anew(cx: &mut Cx, number: u32) {
    let Some(peer) = cx.peers.get(number) else {
        return;
    };
    match peer.failure() {
        None | Some(PeerFailure::Corrupt(_)) => return,
        Some(_) if !cx.fabric.takes(&peer.address) => return,
        Some(_) => {}
    }
    cx.peers.forgive(number);
    cx.matching.deaths.forget(number);
}

fn reached(cx: &mut Cx, link: Link, number: u32) {
    cx.fabric.reached(link, number);
    spins::update_spins(cx);
    counting::assign_row(cx, number);
    cx.peers.up(number, Channel::Fabric(link));
}

/// A connection is ready. `id` is the endpoint at its other end, by its greeting; the hello says
/// the rest, and must say the same.
pub(crate) fn on_connected(cx: &mut Cx, link: Link, known: Option<u32>, id: u64, hello: &[u8]) {
    let address = match greeting::address_in(hello) {
        Ok(address) => address,
        Err(why) => return refuse(cx, link, known, &why.to_string()),
    };
    let number = match known {
        Some(number) => Some(number),
        None if !cx.peers.knows(&address) && cx.peers.len() >= handshake::MOST_PEERS => {
            return refuse(cx, link, None, handshake::TOO_MANY);
        }
        None => Some(address)
            .filter(|address| address.id == id && address.id != cx.identity.address.id)
            .and_then(|address| cx.peers.enter(&address, &cx.identity.address))
            // Messages go to this peer already: no other connection takes their way.
            .filter(|number| cx.peers.channel(*number).is_none()),
    };
    let living = number.filter(|number| {
        // It failed, and has connected anew since: it lives.
        try_anew(cx, *number);
        cx.peers
            .get(*number)
            .is_some_and(|peer| peer.failure().is_none())
    });
    let Some(number) = living else {
        return cx.fabric.disconnect(link);
    };
    reached(cx, link, number);
    cx.counters.event(Event::Attached);
    if cx.matching.is_over_budget() {
        outbox::control(cx, number, Update::AskFirst(true).encode());
    }
    send::flush(cx, number);
}

/// Ends a connection with an endpoint that cannot be talked to.
fn refuse(cx: &mut Cx, link: Link, known: Option<u32>, why: &str) {
    match known {
        Some(number) => failure::fail_peer(cx, number, PeerFailure::NotMet(why.to_owned())),
        None => handshake::count_refusal(cx, why),
    }
    cx.fabric.disconnect(link);
}
