//! Peers meet at the first message: two greetings over a connection, and each side attaches the
//! other's segment.

use core::time::Duration;
use std::os::fd::OwnedFd;

use limic_shm::control::{ControlError, Sent};

use super::{attach, connections, failure};
use crate::counters::Event;
use crate::engine::cx::Cx;
use crate::engine::peer::greeting::{self, BadGreeting, Greeting, Pending, u32_at, u64_at};
use crate::engine::peer::inquiry;
use crate::engine::protocol::send;
use crate::error::PeerFailure;

/// Connections with one peer. Two are usual, if both made the first contact at once; others may not
/// have ended yet.
const MOST_CONNECTIONS: usize = 4;
/// Endpoints that may have made the first contact, together with those that are known by address.
pub(super) const MOST_PEERS: u32 = 1 << 18;
/// Why there is no other one.
pub(super) const TOO_MANY: &str = "this endpoint has known 262144 others, of which each keeps its \
                                   number, and meets no more for as long as it lives; open \
                                   another one";
/// Endpoints of one process that may have made the first contact and are not gone: each takes a
/// mapping here, of which the kernel lets a process have some 65000.
const MOST_OF_PROCESS: u32 = 4096;

/// What this endpoint says to a peer when they meet.
pub(crate) fn greeting(cx: &mut Cx, kind: u32, to: u32) -> Greeting {
    let secret = cx.peers.find(to).map_or(0, |peer| peer.address.secret);
    Greeting {
        kind,
        secret,
        address: cx.identity.address,
        number: to,
        process: limic_copy::same_process::identity(),
        probe: cx.identity.probe.data(),
        place: cx.identity.place.place(),
        epoch: cx.memory.segment.epoch(),
        kmod: cx.transfers.kmod.session(),
    }
}

/// Sends a greeting, the first message of this side over a connection.
///
/// # Errors
/// The peer has gone, or it has to wait ([`ControlError::is_temporary`]).
pub(crate) fn greet(
    cx: &mut Cx,
    connection: u32,
    greeting: &Greeting,
) -> core::result::Result<(), ControlError> {
    let [shared, owner] = cx.memory.segment.fds();
    let fds = [shared, owner, cx.sockets.doorbell().for_peers()];
    let entry = cx.sockets.get(connection).ok_or(ControlError::Closed)?;
    match entry.socket.send(&greeting.encode(), &fds) {
        Ok(Sent::Done) => Ok(()),
        // Nothing was sent before it, so that it is the kernel's memory that is short.
        Ok(Sent::WouldBlock) => Err(ControlError::InFlight),
        Err(error) => {
            tracing::debug!("a greeting could not be sent: {error}");
            Err(error)
        }
    }
}

pub(crate) fn on_message(cx: &mut Cx, index: u32, bytes: &[u8], fds: Vec<OwnedFd>) {
    let Some(connection) = cx.sockets.get_mut(index) else {
        return;
    };
    let peer = connection.peer;
    match u32_at(bytes, 0) {
        greeting::HELLO if peer.is_none() => on_hello(cx, index, bytes, fds),
        greeting::WELCOME => {
            if let Some(peer) = peer {
                on_welcome(cx, index, peer, bytes, fds);
            }
        }
        greeting::REFUSAL => {
            if let Some(peer) = peer {
                let why = String::from_utf8_lossy(bytes.get(4..).unwrap_or_default());
                // Another process's text goes to a terminal: no control sequences.
                let why = why.replace(char::is_control, " ");
                // Over the other connection it may have said more, if both made the first contact
                // at once.
                cx.peers.notes.ended(peer, PeerFailure::Refused(why));
            }
        }
        greeting::ARENA => {
            let pair = peer.and_then(|peer| cx.peers.pair(peer));
            if let (Some(pair), Some(fd)) = (pair, fds.into_iter().next()) {
                pair.arenas.map(u32_at(bytes, 4), u64_at(bytes, 8), fd);
            }
        }
        greeting::ASK => inquiry::on_ask(&cx.sockets, index, u32_at(bytes, 4)),
        greeting::ANSWER => {
            if let Some(peer) = peer {
                inquiry::on_answer(&mut cx.peers, peer, u32_at(bytes, 4));
            }
        }
        greeting::GOODBYE => {
            connection.said_goodbye = true;
            // A child of the peer may keep the connection open, so its end says nothing.
            if let Some(peer) = peer {
                cx.peers.notes.ended(peer, PeerFailure::Closed);
            }
        }
        other => tracing::debug!("control message {other} is not known and left aside"),
    }
}

/// A peer makes the first contact.
fn on_hello(cx: &mut Cx, index: u32, bytes: &[u8], fds: Vec<OwnedFd>) {
    let hello = match Greeting::decode(bytes) {
        Ok(hello) if hello.secret == cx.identity.address.secret => hello,
        Ok(_) => return refuse(cx, index, "it does not know this endpoint's secret"),
        Err(BadGreeting::Version { theirs }) => {
            let why = format!(
                "protocol version {theirs} meets {}; build all ranks with one version of limic",
                greeting::PROTOCOL
            );
            return refuse(cx, index, &why);
        }
        Err(error) => return refuse(cx, index, &error.to_string()),
    };
    if hello.address.id == cx.identity.address.id {
        return refuse(cx, index, "it greets with this endpoint's own address");
    }
    let pid = cx.sockets.pid_of(index);
    let left = cx.quarantine.count_of(pid) + cx.arenas.count_of(pid);
    if cx.sockets.is_over_share(pid, left) {
        let why = "its process has half of the descriptors that may be open there (ulimit -n)";
        return refuse(cx, index, why);
    }
    let mut contact_by = None;
    if !cx.peers.knows(&hello.address) {
        if cx.peers.len() >= MOST_PEERS {
            return refuse(cx, index, TOO_MANY);
        }
        // The kernel gives no number to a process of another namespace; all of those count as one.
        if cx.peers.contacts.by(pid) >= MOST_OF_PROCESS {
            let why = "its process has made the first contact for too many endpoints";
            return refuse(cx, index, why);
        }
        contact_by = Some(pid);
    }
    let Some(peer) = cx.peers.enter(&hello.address, &cx.identity.address) else {
        return refuse(cx, index, "its address differs from the one it has here");
    };
    if let Some(pid) = contact_by {
        cx.peers.contacts.count(peer, pid);
    }
    if cx.identity.is_closed() {
        return refuse_closed(cx, index);
    }
    let failed = cx
        .peers
        .get(peer)
        .and_then(|entry| entry.failure().cloned());
    if let Some(why) = failed {
        return refuse(
            cx,
            index,
            &format!("this endpoint has given the peer up: {why}"),
        );
    }
    if cx.sockets.of_peer(peer).len() >= MOST_CONNECTIONS {
        return refuse(cx, index, "it has connections enough");
    }
    if let Some(connection) = cx.sockets.get_mut(index) {
        connection.peer = Some(peer);
    }
    meet(cx, index, peer, Pending::new(hello, fds));
}

/// How long a peer waits to be met while this process has no memory for its segment.
const GIVES_UP_AFTER: Duration = Duration::from_secs(10);

/// Attaches a peer that has greeted. One that makes the first contact is welcomed in between: when
/// its segment is mapped, since it sends from then on; and before anything is sent to it, since
/// that would be lost. What this process is too short of memory or descriptors for waits.
pub(crate) fn meet(cx: &mut Cx, index: u32, peer: u32, mut pending: Pending) {
    let is_hello = pending.greeting.kind == greeting::HELLO;
    match attach::map(cx, peer, &mut pending) {
        Ok(()) => {}
        Err(unmapped) if unmapped.is_temporary && pending.since.elapsed() < GIVES_UP_AFTER => {
            let why = format!("{}; tried for {} s", unmapped.why, GIVES_UP_AFTER.as_secs());
            return connections::keep_greeting(cx, index, peer, pending, &why);
        }
        Err(unmapped) => {
            refuse(cx, index, &unmapped.why);
            if !is_hello {
                failure::fail_peer(cx, peer, PeerFailure::NotMet(unmapped.why));
            }
            return;
        }
    }
    let mut gone = false;
    if is_hello {
        let welcome = greeting(cx, greeting::WELCOME, peer);
        match greet(cx, index, &welcome) {
            Err(error) if error.is_temporary() => {
                let why = error.to_string();
                return connections::keep_greeting(cx, index, peer, pending, &why);
            }
            welcomed => gone = welcomed.is_err(),
        }
    }
    if let Some(mapped) = pending.mapped {
        attach::attach(cx, peer, index, &pending.greeting, *mapped);
        cx.sockets.note_contact(true);
    }
    if gone {
        // Its goodbye is still to be read, and so are its last records.
        connections::end(cx, index);
    }
    send::flush(cx, peer);
}

fn on_welcome(cx: &mut Cx, index: u32, peer: u32, bytes: &[u8], fds: Vec<OwnedFd>) {
    match Greeting::decode(bytes) {
        Ok(welcome) => meet(cx, index, peer, Pending::new(welcome, fds)),
        Err(error) if cx.peers.is_unmet(peer) => {
            failure::fail_peer(cx, peer, PeerFailure::NotMet(error.to_string()));
        }
        // It speaks this version: the two have met.
        Err(error) => connections::break_off(cx, peer, &error),
    }
}

/// Answers a hello that comes too late.
fn refuse_closed(cx: &mut Cx, index: u32) {
    if let Some(connection) = cx.sockets.get(index) {
        // If it cannot be sent, the end of the connection says nearly the same.
        let _ = connection
            .socket
            .send(&greeting::GOODBYE.to_le_bytes(), &[]);
    }
    connections::drop_connection(cx, index);
}

/// Counts a connection that is refused, and says why once.
pub(crate) fn count_refusal(cx: &Cx, why: &str) {
    cx.counters.event(Event::Refused);
    // Any process of the network namespace can connect again and again.
    if cx.counters.reason(None, u32::MAX, why) {
        tracing::warn!("a connection was refused: {why}");
    }
}

pub(crate) fn refuse(cx: &mut Cx, index: u32, why: &str) {
    count_refusal(cx, why);
    if let Some(connection) = cx.sockets.get(index) {
        let mut message = greeting::REFUSAL.to_le_bytes().to_vec();
        message.extend(why.bytes().take(1024));
        // If it cannot be sent, the end of the connection says the same with fewer words.
        let _ = connection.socket.send(&message, &[]);
    }
    connections::drop_connection(cx, index);
}
