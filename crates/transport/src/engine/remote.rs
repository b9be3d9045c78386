//! Peers over verbs: the same records as in shared memory, in packets of the fabric; long messages by RDMA reads of
//! the receiver (U6), or in packets where memory cannot be registered or lies in several pieces.
//!
//! A peer has either a link (shared memory) or a wire (a connection of the fabric). Everything above, matching
//! and requests, is the same for both, so a receive from any source takes from both.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use limic_ibverbs::fabric::{
    ConnectionFailure, ConnectionId, Event, Fabric, FabricAddress, FabricSettings, Inbox,
    RemoteRange, Spread,
};
use limic_ibverbs::objects::Access;

use super::requests::{Incoming, ReceiveStage, SendStage, Slot};
use super::stash::Offer;
use super::wire::{self, Control};
use super::{Core, Engine};
use crate::buffer::{Behind, Place, Source, put_words, words};
use crate::error::PeerFailure;
use crate::policy::Path;
use crate::settings::{Settings, VerbsUse};
use crate::{Address, Error, RequestId, Result};

/// Events handled before the rings get their turn.
const BATCH: usize = 32;
/// Bytes before the payload of a [`wire::PIECE`].
const OFFSET_BYTES: u64 = 8;
/// Shorter messages than this are not worth a registration at each end.
const WORTH_REGISTERING: u64 = 16 << 10;

/// The fabric of an endpoint, if it has one.
pub(crate) struct Remote {
    fabric: Option<Fabric>,
    inbox: Inbox,
    only: bool,
    /// This endpoint, which reaches itself without an adapter.
    myself: u64,
    /// The peer at the other end of each connection.
    peers: HashMap<ConnectionId, u32>,
    /// What offered sends registered, until they are over: by request, with the peer.
    offered: HashMap<u64, Arc<Spread>>,
    /// What receives registered while they read.
    reading: HashMap<u64, Arc<Spread>>,
    /// Peers that hold too many unexpected bytes, and are asked first.
    ask_first: Vec<u32>,
    /// Peers that were told to ask first.
    told: bool,
    process: u32,
}

impl Remote {
    /// Opens the fabric that the settings ask for, and puts its address into the endpoint's.
    pub(crate) fn open(settings: &Settings, address: &mut Address) -> Result<Self> {
        let verbs = settings.verbs();
        let mut remote = Self {
            fabric: None,
            inbox: Inbox::new(),
            only: verbs.used == VerbsUse::Only,
            myself: address.id,
            peers: HashMap::new(),
            offered: HashMap::new(),
            reading: HashMap::new(),
            ask_first: Vec::new(),
            told: false,
            process: std::process::id(),
        };
        // A machine without a device is not asked again at each endpoint.
        static NO_DEVICE: AtomicBool = AtomicBool::new(false);
        let known_absent = NO_DEVICE.load(Ordering::Relaxed) && !remote.only;
        if verbs.used == VerbsUse::Off || known_absent {
            return Ok(remote);
        }
        let wanted = FabricSettings {
            streams: verbs.streams,
            send_entries: verbs.entries,
            coalesce: verbs.coalesce,
            // Adapters give no notice of what a peer writes into a ring, and this endpoint sleeps.
            ring_slots: 0,
            ..FabricSettings::DEFAULT
        };
        // The hello is the whole address, which the peer may not know: fill in the fabric's part first.
        let opened = Fabric::open(wanted, address.id, address.secret, Vec::new());
        match opened {
            Ok(mut fabric) => {
                if let Some(bytes) = fabric.address().to_bytes() {
                    address.fabric = bytes;
                    fabric.set_hello(address.to_bytes().to_vec());
                    remote.fabric = Some(fabric);
                } else if remote.only {
                    return Err(no_fabric("its subnet prefix does not begin with fe80"));
                }
            }
            Err(why) if remote.only => return Err(no_fabric(&why.to_string())),
            Err(why) => {
                NO_DEVICE.store(true, Ordering::Relaxed);
                tracing::debug!("verbs are off: {why}");
            }
        }
        Ok(remote)
    }

    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        self.fabric.is_some()
    }

    /// Whether a peer is reached over the fabric.
    pub(crate) fn takes(&self, address: &Address) -> bool {
        self.is_open()
            && address.id != self.myself
            && (self.only || !address.is_local())
            && FabricAddress::from_bytes(&address.fabric).is_some()
    }

    /// The send is over, and its memory nobody's but the application's.
    #[inline]
    pub(crate) fn send_is_over(&mut self, id: RequestId) {
        if !self.offered.is_empty() {
            self.offered.remove(&id.0);
        }
    }

    /// Descriptors to sleep on, as this endpoint's own.
    pub(crate) fn wake_fds(&self) -> Vec<OwnedFd> {
        let fds = self.fabric.iter().flat_map(Fabric::wake_fds);
        fds.filter_map(|fd| fd.try_clone_to_owned().ok()).collect()
    }

    /// The longest sleep that greetings, silent peers and rings allow.
    pub(crate) fn patience(&self) -> Option<core::time::Duration> {
        self.fabric.as_ref()?.patience()
    }

    fn connection_of(&self, peer: u32) -> Option<ConnectionId> {
        let found = self.peers.iter().find(|(_, number)| **number == peer);
        found.map(|(connection, _)| *connection)
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // A forked child has a copy of the queues, which are its parent's.
        if std::process::id() != self.process {
            core::mem::forget(self.fabric.take());
        }
    }
}

fn no_fabric(why: &str) -> Error {
    Error::Settings(format!(
        "all peers are to be reached over verbs (LIMIC_VERBS=only), which are off: {why}"
    ))
}

/// A payload that came in a packet: a private copy.
struct Came<'a>(&'a [u8]);

impl Source for Came<'_> {
    fn len(&self) -> u64 {
        Source::len(self.0)
    }
    unsafe fn get(&self, at: u64, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { Source::get(self.0, at, to, len) }
    }
}

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

    fn wire_up(&mut self, connection: ConnectionId, number: u32) {
        self.remote.peers.insert(connection, number);
        if let Some(peer) = self.peers.get(number) {
            peer.wire = Some(connection.0);
            peer.connecting = true;
        }
    }

    /// Takes what came over the fabric. True if anything did.
    pub(crate) fn poll_remote(&mut self) -> bool {
        let mut inbox = core::mem::take(&mut self.remote.inbox);
        let mut moved = false;
        for _ in 0..BATCH {
            let event = self.remote.fabric.as_mut().and_then(|f| f.poll(&mut inbox));
            let Some(event) = event else { break };
            moved = true;
            self.on_event(event, &inbox);
        }
        self.remote.inbox = inbox;
        moved
    }

    fn on_event(&mut self, event: Event, inbox: &Inbox) {
        match event {
            Event::Messages => {
                let from = self.remote.peers.get(&inbox.connection()).copied();
                let Some(from) = from else { return };
                for (form, payload) in inbox.messages() {
                    self.on_record(from, form.kind, form.tag, &Came(payload));
                }
            }
            Event::Connected {
                connection, hello, ..
            } => self.on_connected(connection, &hello),
            Event::Transferred { token, result } => {
                self.on_read(token, result.err().map(|error| error.to_string()));
            }
            Event::Failed { connection, why } => {
                if let Some(number) = self.remote.peers.remove(&connection) {
                    self.fail_peer(number, failure(why));
                }
            }
        }
    }

    fn on_connected(&mut self, connection: ConnectionId, hello: &[u8]) {
        let number = match self.remote.peers.get(&connection).copied() {
            Some(number) => Some(number),
            None => Address::from_bytes(hello)
                .ok()
                .and_then(|address| self.peers.enter(&address, &self.address)),
        };
        let living = number.filter(|number| {
            self.peers
                .get(*number)
                .is_some_and(|peer| peer.failure.is_none())
        });
        match living {
            Some(number) => {
                self.wire_up(connection, number);
                self.flush(number);
            }
            None => {
                if let Some(fabric) = &mut self.remote.fabric {
                    fabric.disconnect(connection);
                }
            }
        }
    }

    /// Pushes the backlog of a peer over the fabric as far as there is room. True if anything went.
    pub(crate) fn flush_remote(&mut self, to: u32, wire: u32) -> bool {
        let connection = ConnectionId(wire);
        let mut moved = false;
        let several = |peer: &mut super::peers::PeerEntry| peer.backlog.len() > 1;
        if self.peers.get(to).is_some_and(several)
            && let Some(fabric) = &mut self.remote.fabric
        {
            fabric.cork(connection);
        }
        while let Some(peer) = self.peers.get(to) {
            let gone = match peer.backlog.front() {
                None => break,
                Some(super::peers::Outgoing::Control(control)) => {
                    let control = *control;
                    self.remote.control(connection, &control)
                }
                Some(super::peers::Outgoing::Message(id)) => {
                    let id = *id;
                    self.push_remote(to, connection, id)
                }
            };
            if !gone {
                break;
            }
            moved = true;
            if let Some(peer) = self.peers.get(to) {
                peer.backlog.pop_front();
            }
        }
        if let Some(fabric) = &mut self.remote.fabric {
            fabric.uncork(connection);
        }
        moved
    }

    /// The turn of a queued send has come. True if it left the backlog.
    fn push_remote(&mut self, to: u32, connection: ConnectionId, id: RequestId) -> bool {
        // Cancelled meanwhile: nothing to push.
        let Some(slot) = self.requests.find(id) else {
            return true;
        };
        let Some(sending) = self.requests.sending(slot) else {
            return true;
        };
        let Some(fabric) = &mut self.remote.fabric else {
            return true;
        };
        let (tag, len, immediate) = (sending.tag, sending.data.len(), sending.immediate);
        match sending.stage {
            SendStage::Queued => {
                let ahead = immediate.map_or(0, |_| wire::IMMEDIATE_BYTES);
                let most = fabric.longest_message(connection) as u64;
                if len + ahead <= most && !self.remote.ask_first.contains(&to) {
                    let kind = immediate.map_or(wire::EAGER, |_| wire::EAGER_IMMEDIATE);
                    let sent = fabric.send(connection, kind, tag, (ahead + len) as usize, |room| {
                        let mut place = Place::new(room);
                        if let Some(word) = immediate {
                            put_words(&mut place, &[word]);
                        }
                        let mut behind = Behind {
                            inner: &mut place,
                            skip: ahead,
                        };
                        sending.data.copy_to(0, len, &mut behind);
                    });
                    if sent.is_err() {
                        return false;
                    }
                    self.tally.sent(Path::RcEager, len);
                    self.requests
                        .complete(slot, super::send::sent(to, tag, len));
                    return true;
                }
                self.offer_remote(slot, connection, id)
            }
            SendStage::Put { key, offset } => {
                let control = Control::new(wire::PUT, [id.0, key, offset, len]);
                self.remote.control(connection, &control)
            }
            _ => true,
        }
    }

    /// Offers a long message; the receiver may read it out of registered memory.
    fn offer_remote(&mut self, slot: Slot, connection: ConnectionId, id: RequestId) -> bool {
        let Some(sending) = self.requests.sending(slot) else {
            return true;
        };
        let (tag, len) = (sending.tag, sending.data.len());
        let (mut flags, word) = wire::immediate_words(sending.immediate);
        let (mut address, mut keys) = (0, 0);
        match sending.data.slices() {
            [one] if len >= WORTH_REGISTERING => {
                if !self.remote.offered.contains_key(&id.0)
                    && let Some(fabric) = &self.remote.fabric
                {
                    // SAFETY: the bytes are the operation's and are only read; the registration goes when the operation is over
                    // (`send_is_over`), before the application has its buffer back.
                    let spread = unsafe {
                        fabric.register(one.start.cast_mut(), one.len, Access::REMOTE_READ)
                    };
                    match spread {
                        Ok(spread) => {
                            self.remote.offered.insert(id.0, spread);
                        }
                        Err(error) => tracing::debug!("a message goes in packets: {error}"),
                    }
                }
                if let Some(spread) = self.remote.offered.get(&id.0) {
                    (address, keys) = (spread.start(), spread.remote_keys());
                }
            }
            [_] => {}
            _ => flags |= wire::IN_PIECES,
        }
        let words = [id.0, len, address, keys, flags, word];
        let control = Control::new(wire::READY_TO_SEND, words).with_tag(tag);
        if !self.remote.control(connection, &control) {
            return false;
        }
        if let Some(sending) = self.requests.sending(slot) {
            sending.stage = SendStage::Offered { retracting: false };
        }
        true
    }

    /// Starts the transfer of a matched message: a read by RDMA if both ends are registered, else in packets.
    pub(crate) fn accept_remote(
        &mut self,
        slot: Slot,
        offer: &Offer,
        incoming: Incoming,
        wire: u32,
    ) {
        let id = self.requests.id(slot);
        let room =
            self.requests
                .receiving(slot)
                .and_then(|receiving| match receiving.into.slices() {
                    [one] => Some(*one),
                    _ => None,
                });
        if offer.key != 0
            && let Some(room) = room
            && let Some(fabric) = &mut self.remote.fabric
        {
            let len = incoming.wanted as usize;
            // SAFETY: the room is the operation's until it is over, which is when the read is, or when its queue pairs are
            // destroyed (`disconnect`); the registration is dropped before the operation completes.
            let read = unsafe { fabric.register(room.start, len, Access::LOCAL) }
                .map_err(|error| error.to_string())
                .and_then(|spread| {
                    let remote = RemoteRange {
                        start: offer.address,
                        keys: offer.key,
                    };
                    // SAFETY: as above.
                    unsafe { fabric.read(ConnectionId(wire), remote, &spread, 0, len, id.0) }
                        .map_err(|error| error.to_string())?;
                    Ok(spread)
                });
            match read {
                Ok(spread) => {
                    self.remote.reading.insert(id.0, spread);
                    let mut incoming = incoming;
                    incoming.path = Path::RcRendezvous;
                    if let Some(receiving) = self.requests.receiving(slot) {
                        receiving.stage = ReceiveStage::Reading(incoming);
                    }
                    return;
                }
                Err(why) => tracing::debug!("a message comes in packets: {why}"),
            }
        }
        let mut incoming = incoming;
        incoming.path = Path::RcEager;
        self.ask_for_stream(slot, &incoming);
    }

    /// A read is over.
    fn on_read(&mut self, token: u64, failed: Option<String>) {
        self.remote.reading.remove(&token);
        let Some(slot) = self.requests.find(RequestId(token)) else {
            return;
        };
        let Some(receiving) = self.requests.receiving(slot) else {
            return;
        };
        let ReceiveStage::Reading(incoming) = receiving.stage else {
            return;
        };
        match failed {
            None => self.finish_receive(slot, &incoming),
            Some(why) => {
                tracing::warn!(
                    "rc-rendezvous with peer {}: {why}; using packets",
                    incoming.from
                );
                self.ask_for_stream(slot, &incoming);
            }
        }
    }

    /// Sends the next bytes of a long message in packets: (bytes moved, it is over).
    pub(crate) fn push_stream_remote(&mut self, slot: Slot, wire: u32) -> (bool, bool) {
        let connection = ConnectionId(wire);
        let mut moved = false;
        loop {
            let Some(sending) = self.requests.sending(slot) else {
                return (moved, true);
            };
            let SendStage::Streaming {
                remote,
                at,
                end,
                confirm,
            } = sending.stage
            else {
                return (moved, true);
            };
            if at == end {
                self.streamed(slot, confirm);
                return (moved, true);
            }
            let Some(fabric) = &mut self.remote.fabric else {
                return (moved, true);
            };
            let most = fabric.longest_message(connection) as u64 - OFFSET_BYTES;
            let len = most.min(end - at);
            let sent = fabric.send(
                connection,
                wire::PIECE,
                remote,
                (OFFSET_BYTES + len) as usize,
                |room| {
                    let mut place = Place::new(room);
                    put_words(&mut place, &[at]);
                    let mut behind = Behind {
                        inner: &mut place,
                        skip: OFFSET_BYTES,
                    };
                    sending.data.copy_to(at, len, &mut behind);
                },
            );
            if sent.is_err() {
                return (moved, false);
            }
            sending.stage = SendStage::Streaming {
                remote,
                at: at + len,
                end,
                confirm,
            };
            moved = true;
        }
    }

    /// Tells the peers over the fabric whether they have to ask before they send.
    pub(crate) fn tell_pressed(&mut self, pressed: bool) {
        if self.remote.told == pressed {
            return;
        }
        self.remote.told = pressed;
        let peers: Vec<u32> = self.remote.peers.values().copied().collect();
        for peer in peers {
            self.control(peer, Control::new(wire::PRESSED, [u64::from(pressed)]));
        }
    }

    /// A peer wants to be asked before it is sent to, or does no longer.
    pub(crate) fn on_pressed(&mut self, from: u32, source: &impl Source) {
        let [pressed] = words::<1>(source);
        self.remote.ask_first.retain(|peer| *peer != from);
        if pressed != 0 {
            self.remote.ask_first.push(from);
        }
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

impl Engine {
    /// Asks the adapters for notice of what comes next.
    pub(crate) fn arm_remote(&mut self) {
        if let Some(fabric) = &mut self.core.remote.fabric
            && let Err(error) = fabric.arm()
        {
            tracing::warn!("no notice of completions: {error}");
        }
    }
}

impl Remote {
    /// Sends a control record. False: no room now.
    fn control(&mut self, to: ConnectionId, control: &Control) -> bool {
        let Some(fabric) = &mut self.fabric else {
            return true;
        };
        let bytes = wire::WORDS * 8;
        fabric
            .send(to, control.kind, control.tag, bytes, |room| {
                put_words(&mut Place::new(room), &control.words);
            })
            .is_ok()
    }
}

fn failure(why: ConnectionFailure) -> PeerFailure {
    match why {
        ConnectionFailure::Unreachable(_) => PeerFailure::Unreachable,
        ConnectionFailure::Lost(_) => PeerFailure::Died,
        ConnectionFailure::Closed => PeerFailure::Closed,
        ConnectionFailure::Corrupt(what) => PeerFailure::Corrupt(what),
        other => PeerFailure::Refused(other.to_string()),
    }
}
