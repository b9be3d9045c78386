//! Connections to peers: begun, read, and ended. A connection stays: its end tells that the peer is
//! gone.

use core::time::Duration;

use limic_shm::control::{ControlError, MAX_MESSAGE, PeerProcess, Received, Sent, Socket};
use limic_shm::system::{self, Instant};

use super::stop_writer;
use super::{accept, fabric, failure, handshake};
use crate::engine::cx::Cx;
use crate::engine::peer::greeting::{self, Pending};
use crate::engine::peer::sockets::SocketEvent;
use crate::engine::peer::table::PeerState;
use crate::error::PeerFailure;

/// Makes the first contact with the peers that messages wait for.
#[cold]
pub(crate) fn contact_peers(cx: &mut Cx) {
    for to in cx.peers.take_to_contact() {
        if !answer_pending(cx, to) {
            start(cx, to);
        }
    }
}

/// Makes the first contact with peers from which receives wait: one that is gone cannot make it.
#[cold]
pub(crate) fn contact_sources(cx: &mut Cx) {
    if cx.matching.nothing_posted(&cx.requests) || !cx.peers.has_unmet() {
        return;
    }
    for source in cx.matching.named_sources(&cx.requests) {
        start(cx, source);
    }
}

/// Makes the first contact with a peer, or fails it.
pub(crate) fn start(cx: &mut Cx, to: u32) {
    let Some(peer) = cx.peers.get(to) else {
        return;
    };
    let PeerState::Unmet { connecting } = &mut peer.state else {
        return;
    };
    if core::mem::replace(connecting, true) {
        return;
    }
    let address = peer.address;
    if cx.fabric.takes(&address) {
        return fabric::connect(cx, to);
    }
    if !address.is_local() {
        return failure::fail_peer(cx, to, PeerFailure::OtherNode);
    }
    let connected = Socket::connect(address.id).and_then(|socket| {
        let foreign_user = cx.sockets.foreign_user(&socket)?;
        Ok((socket, foreign_user))
    });
    match connected {
        Ok((_, Some(why))) => failure::fail_peer(cx, to, PeerFailure::Refused(why)),
        Ok((socket, None)) => say_hello(cx, to, socket),
        Err(error) if error.is_temporary() => retry_later(cx, to, &error),
        Err(ControlError::NobodyListens { .. }) => {
            failure::fail_peer(cx, to, PeerFailure::Unreachable);
        }
        Err(error) => failure::fail_peer(cx, to, PeerFailure::NotMet(error.to_string())),
    }
}

fn say_hello(cx: &mut Cx, to: u32, socket: Socket) {
    let connection = cx.sockets.add(socket, Some(to));
    let hello = handshake::greeting(cx, greeting::HELLO, to);
    match handshake::greet(cx, connection, &hello) {
        Ok(()) => {
            cx.sockets.note_contact(true);
            if cx.sockets.has_died(connection) {
                end(cx, connection);
            }
        }
        Err(error) if error.is_temporary() => {
            drop_connection(cx, connection);
            retry_later(cx, to, &error);
        }
        // It closed in between: fails, after its last records were read.
        Err(_) => closed(cx, connection),
    }
}

/// The first contact with a peer that lives has to wait: the peer accepts nobody at the moment, or
/// a limit of this process is reached.
fn retry_later(cx: &mut Cx, to: u32, why: &ControlError) {
    if matches!(why, ControlError::BacklogFull { .. }) {
        begin_again(cx, to);
    } else {
        retry_with_room(cx, to, &why.to_string());
    }
}

/// The first contact with a peer waits until this process has what it is short of.
pub(crate) fn retry_with_room(cx: &mut Cx, to: u32, what: &str) {
    begin_again(cx, to);
    say_short(cx, to, &format!("{what}; tried again until it can"));
}

fn begin_again(cx: &mut Cx, to: u32) {
    let Some(peer) = cx.peers.get(to) else {
        return;
    };
    if let PeerState::Unmet { connecting } = &mut peer.state {
        *connecting = false;
    }
    cx.peers.contact_later(to);
}

/// Keeps a greeting that cannot be answered, or taken in, now.
pub(crate) fn keep_greeting(cx: &mut Cx, index: u32, peer: u32, pending: Pending, why: &str) {
    if let Some(connection) = cx.sockets.get_mut(index) {
        connection.pending = Some(Box::new(pending));
    }
    cx.peers.contact_later(peer);
    say_short(cx, peer, why);
}

/// Says once that this process is short of something that a first contact needs.
fn say_short(cx: &mut Cx, peer: u32, why: &str) {
    if cx.sockets.note_contact(false) {
        tracing::warn!("peer {peer} cannot be met: {why}");
        cx.counters.reason(None, peer, why);
    }
}

/// Looks at the greetings of a peer that waited. False if there are none.
fn answer_pending(cx: &mut Cx, peer: u32) -> bool {
    let mut answered = false;
    for index in cx.sockets.of_peer(peer) {
        let connection = cx.sockets.get_mut(index);
        if let Some(pending) = connection.and_then(|connection| connection.pending.take()) {
            handshake::meet(cx, index, peer, *pending);
            answered = true;
        }
    }
    answered
}

/// Ends a connection.
pub(crate) fn drop_connection(cx: &mut Cx, index: u32) {
    let Some(connection) = cx.sockets.remove(index) else {
        return;
    };
    let Some(peer) = connection.peer else {
        return;
    };
    if connection.has_died() {
        return;
    }
    // The peer is to see it, though a forked child of this process may hold the socket too, and
    // though a goodbye may have met a full queue.
    connection.socket.end_sending();
    let said_goodbye = connection.said_goodbye;
    // Before the peer is stopped, each split copy under way counts, and each region of an endpoint
    // that closes. Once it is, `fail_peer` ends the quarantine of those that are in neither.
    let is_closed = cx.identity.is_closed();
    let writes = (said_goodbye || is_closed) && stop_writer::is_awaited(cx, peer);
    let is_awaited = writes || (is_closed && cx.regions.are_exposed());
    if is_closed && !is_awaited {
        return;
    }
    if writes || !is_closed {
        cx.arenas
            .keep_for_living(peer, connection.pid, connection.pidfd.as_ref());
    }
    // A peer that has said goodbye is in the middle of nothing. A forked child of it may have said
    // that, so what it is in the middle of counts.
    if !said_goodbye || is_awaited {
        let process = PeerProcess::new(connection.pidfd, connection.socket);
        cx.quarantine.enter(peer, connection.pid, process);
    }
}

/// Goes on with what was paused, if its time is over.
pub(super) fn resume(cx: &mut Cx) {
    for index in cx.sockets.resume() {
        if cx.sockets.has_died(index) {
            end(cx, index);
        } else {
            read(cx, index, VISIT);
        }
    }
}

/// Looks at the sockets once, but for those that it rests from. True if anything happened.
pub(crate) fn poll(cx: &mut Cx, timeout: Option<Duration>) -> bool {
    resume(cx);
    let (events, count) = cx.sockets.wait(timeout);
    let begun = cx.sockets.begin_visit(&events[..count]);
    // New connections last: they may get the index of one that ends in this round, for which there
    // may be two events.
    let mut accept = false;
    for event in &events[..count] {
        match SocketEvent::from(*event) {
            SocketEvent::Wake => {}
            SocketEvent::Network => cx.fabric.notice(),
            SocketEvent::Accept => accept = true,
            SocketEvent::Readable(index) => read(cx, index, VISIT),
            SocketEvent::ProcessEnded(index) => end(cx, index),
        }
    }
    cx.sockets.give_back(events);
    cx.fabric.look_at_deadlines();
    if count > 0 {
        // What it would wake up for is taken out of the set.
        cx.wakeup.poller.notify();
    }
    if accept {
        accept::accept_connections(cx);
    }
    if let Some(begun) = begun {
        cx.sockets.end_visit(begun);
    }
    if cx.peers.has_to_contact() {
        contact_peers(cx);
    }
    failure::release_ended(cx);
    count > 0
}

/// Messages of one connection that are read before others have their turn.
const VISIT: usize = 8;
/// Messages that are read where all have to be: as many as no socket holds.
pub(super) const ALL: usize = 4096;

/// Reads the messages of a connection until there are none, but no more than so many.
pub(crate) fn read(cx: &mut Cx, index: u32, most: usize) {
    let mut left = most;
    read_within(cx, index, &mut left);
}

/// The same of connections that together may have so many.
pub(super) fn read_within(cx: &mut Cx, index: u32, left: &mut usize) {
    if cx.sockets.begin_reading(index) {
        read_messages(cx, index, left);
        cx.sockets.end_reading(index);
    }
}

fn read_messages(cx: &mut Cx, index: u32, left: &mut usize) {
    let mut buffer = [0; MAX_MESSAGE];
    while *left > 0 {
        let Some(connection) = cx.sockets.get(index) else {
            return;
        };
        if connection.pending.is_some() {
            // What is behind a greeting is for a pair that is made when that is taken in.
            return;
        }
        let peer = connection.peer;
        match connection.socket.receive(&mut buffer) {
            Ok(Received::Message { len, fds }) => {
                *left -= 1;
                handshake::on_message(cx, index, &buffer[..len], fds);
                cx.sockets.refill_reserve();
            }
            Ok(Received::WouldBlock) => return,
            Ok(Received::Closed) | Err(ControlError::Closed) => return closed(cx, index),
            Err(error @ ControlError::NoDescriptor) => {
                if !cx.sockets.give_up_reserve() {
                    cx.sockets.refill_reserve();
                    return cx.sockets.pause(index, &error);
                }
            }
            Err(error) if error.is_temporary() => return cx.sockets.pause(index, &error),
            Err(error) => {
                match peer {
                    Some(peer) if !matches!(error, ControlError::System { .. }) => {
                        break_off(cx, peer, &error);
                    }
                    _ => {
                        tracing::warn!("a connection is given up: {error}");
                        if let Some(peer) = peer {
                            // The peer lives, and learns it only now.
                            let why = PeerFailure::Corrupt(error.to_string());
                            cx.peers.notes.ended(peer, why);
                        }
                        closed(cx, index);
                    }
                }
                return;
            }
        }
    }
}

/// Something that breaks the rules came over the socket of a peer.
pub(crate) fn break_off(cx: &mut Cx, peer: u32, why: &dyn core::fmt::Display) {
    tracing::warn!("the connections of peer {peer} are given up: {why}");
    for index in cx.sockets.of_peer(peer) {
        closed(cx, index);
    }
}

/// Reads what a peer has sent over its connections by now. False if that is more than a socket
/// holds: it goes on all the time.
pub(crate) fn read_all_of(cx: &mut Cx, peer: u32) -> bool {
    let mut left = ALL;
    for index in cx.sockets.of_peer(peer) {
        read_within(cx, index, &mut left);
    }
    left > 0
}

/// Reads the greeting of a peer that is not met, which has sent it. One that says other things all
/// the time fails: they would be read again for each of its records.
#[cold]
pub(crate) fn read_greeting_of(cx: &mut Cx, peer: u32) {
    if !read_all_of(cx, peer) && cx.peers.is_unmet(peer) {
        let why = "it says other things all the time, and no greeting";
        failure::fail_peer(cx, peer, PeerFailure::NotMet(why.into()));
    }
}

/// The process at the other end has ended; its socket may live on in a child.
pub(crate) fn end(cx: &mut Cx, index: u32) {
    read(cx, index, ALL);
    closed(cx, index);
}

/// A connection ended.
pub(crate) fn closed(cx: &mut Cx, index: u32) {
    let Some(connection) = cx.sockets.get(index) else {
        return;
    };
    let (peer, mut goodbye) = (connection.peer, connection.said_goodbye);
    drop_connection(cx, index);
    let Some(peer) = peer else { return };
    // Where both sides made the first contact at once, it may have closed before it accepted this
    // connection, and has said goodbye over the other one.
    let others = if goodbye {
        Vec::new()
    } else {
        cx.sockets.of_peer(peer)
    };
    for other in others {
        read(cx, other, ALL);
        let other = cx.sockets.get(other);
        goodbye |= other.is_some_and(|other| other.peer == Some(peer) && other.said_goodbye);
    }
    let why = if goodbye {
        PeerFailure::Closed
    } else {
        PeerFailure::Died
    };
    cx.peers.notes.ended(peer, why);
}

/// Tells all peers that this endpoint closes in good order. Nothing is written into their memory
/// from now on: they may give it to others. One whose queue is full is told until the deadline: it
/// would take this endpoint for dead.
pub(crate) fn say_goodbye(cx: &mut Cx, deadline: Instant) {
    for peer in 0..cx.peers.len() {
        if let Some(peer) = cx.peers.get(peer) {
            peer.clear_backlog();
        }
    }
    for connection in cx.sockets.iter() {
        let goodbye = greeting::GOODBYE.to_le_bytes();
        while let Ok(Sent::WouldBlock) = connection.socket.send(&goodbye, &[]) {
            if Instant::now() >= deadline {
                break;
            }
            system::yield_now();
        }
    }
}
