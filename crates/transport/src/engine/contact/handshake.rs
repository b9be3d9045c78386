//! Peers meet at the first message: two greetings over a connection, and each side maps the other's
//! segment.

use std::os::fd::OwnedFd;

use limic_shm::control::{ControlError, PeerDoorbell, Sent};
use limic_shm::ring::shared::SharedProducer;
use limic_shm::ring::wakeup::Waker;
use limic_shm::ring::{PackedFlags, ReleaseFlags};
use limic_shm::segment::{LOAN_FLAGS, PeerSegment};

use super::{connections, failure, inquiry};
use crate::counters::Event;
use crate::engine::arena::peer_arenas::PeerArenas;
use crate::engine::control::{counting, locality, spins};
use crate::engine::cx::Cx;
use crate::engine::outbound::Outbound;
use crate::engine::peer::copies::SingleCopy;
use crate::engine::peer::greeting::{self, BadGreeting, Greeting, u32_at, u64_at};
use crate::engine::peer::pair::{Met, ShmPair};
use crate::engine::peer::table::{Channel, PeerState};
use crate::engine::protocol::send;
use crate::engine::staging::pair::StagingPair;
use crate::error::PeerFailure;
use crate::policy::select::{self, LONGEST_EAGER};
use crate::policy::{Capabilities, INLINE_CAPACITY, Path};
use crate::single_copy::RemoteProcess;
use crate::{Error, Peer, Result};

/// Connections with one peer. Two are usual, if both made the first contact at once; others may not
/// have ended yet.
const MOST_CONNECTIONS: usize = 4;
/// Endpoints that may have made the first contact, together with those that are known by address.
const MOST_PEERS: u32 = 1 << 18;
/// Endpoints of one process that may have made the first contact and are not gone: each takes a
/// mapping here, of which the kernel lets a process have some 65000.
const MOST_OF_PROCESS: u32 = 4096;

/// What this endpoint says to a peer when they meet.
pub(crate) fn greeting(cx: &Cx, kind: u32, to: u32) -> Greeting {
    let secret = cx
        .peers
        .iter()
        .nth(to as usize)
        .map_or(0, |(_, peer)| peer.address.secret);
    Greeting {
        kind,
        secret,
        address: cx.identity.address,
        number: to,
        process: crate::same_process::identity(),
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
    match entry.channel.send(&greeting.encode(), &fds) {
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
                cx.peers.ended(peer, PeerFailure::Refused(why));
            }
        }
        greeting::ARENA => {
            let pair = peer.and_then(|peer| cx.peers.pair(peer));
            if let (Some(pair), Some(fd)) = (pair, fds.into_iter().next()) {
                pair.arenas.map(u32_at(bytes, 4), u64_at(bytes, 8), fd);
            }
        }
        greeting::ASK => inquiry::on_ask(cx, index, u32_at(bytes, 4)),
        greeting::ANSWER => {
            if let Some(peer) = peer {
                inquiry::on_answer(cx, peer, u32_at(bytes, 4));
            }
        }
        greeting::GOODBYE => {
            connection.said_goodbye = true;
            // A child of the peer may keep the connection open, so its end says nothing.
            if let Some(peer) = peer {
                cx.peers.ended(peer, PeerFailure::Closed);
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
    let mut contact_by = None;
    if !cx.peers.knows(&hello.address) {
        if cx.peers.len() >= MOST_PEERS {
            return refuse(cx, index, "too many endpoints have made the first contact");
        }
        // The kernel gives no number to a process of another namespace; all of those count as one.
        let credentials = cx
            .sockets
            .get(index)
            .and_then(|connection| connection.channel.credentials().ok());
        let pid = credentials.map_or(0, |credentials| credentials.pid);
        if cx.peers.contacts_by(pid) >= MOST_OF_PROCESS {
            let why = "its process has made the first contact for too many endpoints";
            return refuse(cx, index, why);
        }
        contact_by = Some(pid);
    }
    let Some(peer) = cx.peers.enter(&hello.address, &cx.identity.address) else {
        return refuse(cx, index, "its address differs from the one it has here");
    };
    if let Some(pid) = contact_by {
        cx.peers.count_contact(peer, pid);
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
    answer(cx, index, peer, hello, fds);
}

/// Attaches a peer that has greeted, and welcomes it. If it cannot be told now, its hello is kept:
/// what is sent to a peer before its welcome is lost.
pub(crate) fn answer(cx: &mut Cx, index: u32, peer: u32, hello: Greeting, fds: Vec<OwnedFd>) {
    let welcome = greeting(cx, greeting::WELCOME, peer);
    let welcomed = greet(cx, index, &welcome);
    if let Err(error) = &welcomed {
        if error.is_temporary() {
            if let Some(connection) = cx.sockets.get_mut(index) {
                connection.pending_hello = Some(Box::new((hello, fds)));
            }
            return connections::retry_later(cx, peer, error);
        }
    }
    if let Err(error) = attach(cx, peer, index, &hello, fds) {
        return refuse(cx, index, &error.to_string());
    }
    if welcomed.is_err() {
        // It has gone already. Its goodbye is still to be read, and so are its last records.
        connections::end(cx, index);
    }
    send::flush(cx, peer);
}

fn on_welcome(cx: &mut Cx, index: u32, peer: u32, bytes: &[u8], fds: Vec<OwnedFd>) {
    let welcome = match Greeting::decode(bytes) {
        Ok(welcome) => welcome,
        Err(error) => return failure::fail_peer(cx, peer, PeerFailure::Refused(error.to_string())),
    };
    if let Err(error) = attach(cx, peer, index, &welcome, fds) {
        return failure::fail_peer(cx, peer, PeerFailure::Refused(error.to_string()));
    }
    send::flush(cx, peer);
}

/// Answers a hello that comes too late.
fn refuse_closed(cx: &mut Cx, index: u32) {
    if let Some(connection) = cx.sockets.get(index) {
        // If it cannot be sent, the end of the connection says nearly the same.
        let _ = connection
            .channel
            .send(&greeting::GOODBYE.to_le_bytes(), &[]);
    }
    connections::drop_connection(cx, index);
}

pub(crate) fn refuse(cx: &mut Cx, index: u32, why: &str) {
    tracing::warn!("a connection was refused: {why}");
    cx.counters.event(Event::Refused);
    cx.counters.reason(None, u32::MAX, why);
    if let Some(connection) = cx.sockets.get(index) {
        let mut message = greeting::REFUSAL.to_le_bytes().to_vec();
        message.extend(why.bytes().take(1024));
        // If it cannot be sent, the end of the connection says the same with fewer words.
        let _ = connection.channel.send(&message, &[]);
    }
    connections::drop_connection(cx, index);
}

/// Maps a peer's segment and finds out what this pair can do.
pub(crate) fn attach(
    cx: &mut Cx,
    peer: u32,
    index: u32,
    greeting: &Greeting,
    fds: Vec<OwnedFd>,
) -> Result<()> {
    match cx.peers.get(peer).map(|entry| &entry.state) {
        Some(PeerState::Unmet { .. }) => {}
        Some(PeerState::Failed(why)) => {
            return Err(Error::PeerFailed {
                peer: Peer(peer),
                why: PeerFailure::clone(why),
            });
        }
        // Both sides connected at the same time: the second connection only watches.
        Some(PeerState::Up(_)) | None => return Ok(()),
    }
    let text = |error: &dyn core::fmt::Display| Error::Segment(error.to_string());
    let mut fds = fds.into_iter();
    let (Some(shared), Some(owner), Some(doorbell)) = (fds.next(), fds.next(), fds.next()) else {
        return Err(Error::Segment(
            "the greeting came without its descriptors".into(),
        ));
    };
    let segment =
        PeerSegment::attach([shared, owner], Some(greeting.epoch)).map_err(|e| text(&e))?;
    let doorbell = PeerDoorbell::from_fd(doorbell).map_err(|e| text(&e))?;
    let shape = segment.shape();
    let (copies, capabilities) = single_copy(cx, peer, index, greeting);
    let producer = SharedProducer::new(segment.shared_ring(), shape.shared_slots, greeting.number)
        .map_err(|e| text(&e))?;
    let waker = Waker::new(segment.sleep(), cx.wakeup.fence()).map_err(|e| text(&e))?;
    let released =
        ReleaseFlags::new(segment.staging_flags(), shape.staging_pages()).map_err(|e| text(&e))?;
    let loans_released =
        PackedFlags::new(segment.loan_flags(), LOAN_FLAGS).map_err(|e| text(&e))?;
    let counts = counting::assign_row(cx, peer);
    cx.counters.event(Event::Attached);
    let same_process = greeting.process == crate::same_process::identity();
    let longest_record = select::longest_record(shape.ring_bytes, capabilities.max_fragment);
    let pair = ShmPair::new(Met {
        out: Outbound::new(producer, waker, doorbell, counts.clone(), longest_record),
        staging: StagingPair::new(segment.staging(), released, counts),
        arenas: PeerArenas::new(loans_released),
        copies,
        segment,
        my_number: greeting.number,
        place: (!same_process).then_some(greeting.place),
        capabilities,
    });
    // A connection before this one may have been put off.
    cx.quarantine.leave(peer);
    cx.peers.up(peer, Channel::Shm(Box::new(pair)));
    locality::update_routes(cx, peer);
    spins::update_spins(cx);
    if cx.identity.place.has_moved() {
        // Perhaps since the greeting was written.
        locality::announce_place(cx, peer);
    }
    Ok(())
}

/// The backends of single copy between this endpoint and a peer, and what the pair can do with
/// them.
fn single_copy(
    cx: &mut Cx,
    peer: u32,
    index: u32,
    greeting: &Greeting,
) -> (SingleCopy, Capabilities) {
    let allowed = cx.settings.allowed();
    let mut capabilities = Capabilities {
        paths: allowed,
        max_inline: INLINE_CAPACITY,
        max_eager: LONGEST_EAGER,
        max_fragment: u32::try_from(cx.staging.buffer_bytes).unwrap_or(u32::MAX),
    };
    let credentials = cx
        .sockets
        .get(index)
        .and_then(|connection| connection.channel.credentials().ok());
    let cma = if !allowed.contains(Path::Cma) && !allowed.contains(Path::SplitCopy) {
        RemoteProcess::none("switched off by the settings")
    } else {
        let mut probe = greeting.probe;
        probe.pid = credentials.map_or(0, |credentials| credentials.pid);
        RemoteProcess::probe(probe)
    };
    if let Some(why) = cma.refusal() {
        if allowed.contains(Path::Cma) {
            tracing::info!("cma to peer {peer}: {why}; using pipeline");
            cx.counters.reason(Some(Path::Cma), peer, why);
        }
        capabilities.demote(Path::Cma);
        capabilities.demote(Path::SplitCopy);
    }
    let kmod = cx.transfers.kmod.pair(greeting.kmod);
    if let Some(why) = kmod.refusal() {
        // A machine without the module is nothing to speak of.
        tracing::debug!("kmod to peer {peer}: {why}");
        capabilities.demote(Path::Kmod);
    }
    let same_process = greeting.process == crate::same_process::identity();
    if !same_process {
        capabilities.demote(Path::SameProcess);
    }
    // A pair that shares memory has no adapter between it.
    capabilities.demote(Path::RcEager);
    capabilities.demote(Path::RcRendezvous);
    let same_process = same_process && allowed.contains(Path::SameProcess);
    (SingleCopy::new(cma, kmod, same_process), capabilities)
}
