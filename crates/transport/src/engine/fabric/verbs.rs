//! A fabric of verbs.

use core::cell::Cell;
use core::time::Duration;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use limic_ibverbs::VerbsError;
use limic_ibverbs::fabric::{
    ConnectionFailure, ConnectionId, Event as FabricEvent, Fabric, FabricAddress, FabricCounts,
    FabricSettings, Inbox, Keep, RemoteRange, Spread,
};
use limic_ibverbs::objects::Access;

use limic_shm::world::Instant;

use super::Happened;
use crate::buffer::{PrivateBytes, put_words};
use crate::counters::{Event, Recorder};
use crate::engine::frame::{ControlRecord, Offer};
use crate::error::PeerFailure;
use crate::raw::{RawSlice, RawSliceMut};
use crate::settings::{Settings, VerbsCache, VerbsConnect, VerbsUse};
use crate::{Address, Error, RequestId, Result};

/// The fabric of an endpoint, if it has one.
pub(crate) struct FabricChannel {
    fabric: Option<Fabric>,
    only: bool,
    connect: VerbsConnect,
    /// What the fabric had counted when it was last written down.
    counted: Cell<FabricCounts>,
    /// This endpoint, which reaches itself without an adapter.
    myself: u64,
    /// The peer at the other end of each connection.
    peers: HashMap<ConnectionId, u32>,
    /// What offered sends registered, until they are over: by request.
    offered: HashMap<u64, Arc<Spread>>,
    /// What receives registered while they read.
    reading: HashMap<u64, Arc<Spread>>,
    /// Peers that hold too many unexpected bytes, and are asked first.
    ask_first: Vec<u32>,
    /// Peers were told to ask first.
    told: bool,
}

impl FabricChannel {
    /// Opens the fabric that the settings ask for, and puts its address into the endpoint's.
    pub(crate) fn open(settings: &Settings, address: &mut Address) -> Result<Self> {
        let verbs = settings.verbs();
        let mut channel = Self {
            fabric: None,
            only: verbs.used == VerbsUse::Only,
            connect: verbs.connect,
            counted: Cell::default(),
            myself: address.id,
            peers: HashMap::new(),
            offered: HashMap::new(),
            reading: HashMap::new(),
            ask_first: Vec::new(),
            told: false,
        };
        // A machine without a device is not asked again at each endpoint.
        static NO_DEVICE: AtomicBool = AtomicBool::new(false);
        let known_absent = NO_DEVICE.load(Ordering::Relaxed) && !channel.only;
        if verbs.used == VerbsUse::Off || known_absent {
            return Ok(channel);
        }
        let wanted = FabricSettings {
            streams: verbs.streams,
            send_entries: verbs.entries,
            coalesce: verbs.coalesce,
            devices: verbs.devices,
            rings: verbs.rings,
            keep: match verbs.cache {
                VerbsCache::Off => Keep::Nothing,
                VerbsCache::Auto => Keep::OnDemand,
                VerbsCache::Watch => Keep::Watched,
            },
            timeout: FabricSettings::timeout_for(verbs.retry, FabricSettings::DEFAULT.retries),
            ..FabricSettings::DEFAULT
        };
        // The hello is the whole address, which the peer may not know: fill in the fabric's part
        // first.
        let opened = Fabric::open(wanted, address.id, address.secret, Vec::new());
        match opened {
            Ok(mut fabric) => {
                if let Some(bytes) = fabric.address().to_bytes() {
                    address.fabric = bytes;
                    fabric.set_hello(address.to_bytes().to_vec());
                    channel.fabric = Some(fabric);
                } else if channel.only {
                    return Err(no_fabric("its subnet prefix does not begin with fe80"));
                }
            }
            Err(why) if channel.only => return Err(no_fabric(&why.to_string())),
            Err(
                why @ (VerbsError::NoLibrary(_)
                | VerbsError::NoDevice(_)
                | VerbsError::NoPort { .. }),
            ) => {
                NO_DEVICE.store(true, Ordering::Relaxed);
                tracing::debug!("verbs are off: {why}");
            }
            // There is a device, and settings or limits are in the way: the next endpoint may have
            // others.
            Err(why) => tracing::warn!("verbs are off: {why}"),
        }
        Ok(channel)
    }

    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        self.fabric.is_some()
    }

    /// Whether there are peers over the fabric, and threads of the kernel do its work.
    /// A forked child has a copy of the queues, which are its parent's.
    pub(crate) fn leave_to_parent(&mut self) {
        core::mem::forget(self.fabric.take());
    }

    pub(crate) fn needs_processors(&self) -> bool {
        let fabric = self.fabric.as_ref();
        !self.peers.is_empty() && fabric.is_some_and(Fabric::in_software)
    }

    /// Whether a peer is reached over the fabric.
    pub(crate) fn takes(&self, address: &Address) -> bool {
        self.is_open()
            && address.id != self.myself
            && (self.only || !address.is_local())
            && FabricAddress::from_bytes(&address.fabric).is_some()
    }

    /// Whether messages whose sends are over wait for an entry of a queue pair.
    #[inline(always)]
    pub(crate) fn holds_messages(&self) -> bool {
        self.fabric.as_ref().is_some_and(Fabric::holds_messages)
    }

    /// Whether the ranks of a job meet before their first message.
    pub(crate) fn connects_at_start(&self) -> bool {
        self.connect == VerbsConnect::Static
    }

    /// Descriptors to sleep on, as this endpoint's own.
    pub(crate) fn wake_fds(&self) -> Vec<OwnedFd> {
        let fds = self.fabric.iter().flat_map(Fabric::wake_fds);
        fds.filter_map(|fd| fd.try_clone_to_owned().ok()).collect()
    }

    /// The longest sleep that greetings, silent peers and rings allow.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.fabric.as_ref()?.patience()
    }

    /// Asks the adapters for notice of what comes next.
    pub(crate) fn arm(&mut self) {
        if let Some(Err(error)) = self.fabric.as_mut().map(Fabric::arm) {
            tracing::warn!("no notice of completions: {error}");
        }
    }

    /// Begins a connection with a peer; gives its number.
    ///
    /// # Errors
    /// The address has no part of the fabric, or no connection can be made.
    pub(crate) fn connect(
        &mut self,
        address: &Address,
        peer: u32,
    ) -> core::result::Result<u32, PeerFailure> {
        let there = FabricAddress::from_bytes(&address.fabric).ok_or(PeerFailure::OtherNode)?;
        let fabric = self.fabric.as_mut().ok_or(PeerFailure::OtherNode)?;
        let connection = fabric
            .connect(&there, address.id, address.secret)
            .map_err(|error| PeerFailure::Refused(error.to_string()))?;
        self.peers.insert(connection, peer);
        Ok(connection.0)
    }

    /// A connection that a peer began is with this one.
    pub(crate) fn accepted(&mut self, connection: u32, peer: u32) {
        self.peers.insert(ConnectionId(connection), peer);
    }

    /// Whether a connection is ready.
    pub(crate) fn is_connected(&self, connection: u32) -> bool {
        let fabric = self.fabric.as_ref();
        fabric.is_some_and(|fabric| fabric.is_connected(ConnectionId(connection)))
    }

    /// Ends a connection with a peer that failed: nothing touches memory of its operations
    /// afterwards.
    pub(crate) fn give_up(&mut self, connection: u32, peer: u32) {
        self.ask_first.retain(|other| *other != peer);
        self.peers.remove(&ConnectionId(connection));
        self.disconnect(connection);
    }

    /// Ends a connection.
    pub(crate) fn disconnect(&mut self, connection: u32) {
        if let Some(fabric) = &mut self.fabric {
            fabric.disconnect(ConnectionId(connection));
        }
    }

    /// Says goodbye over the fabric, and closes it.
    pub(crate) fn close(&mut self, until: Instant) {
        if let Some(mut fabric) = self.fabric.take() {
            fabric.close(until);
        }
        self.offered.clear();
        self.reading.clear();
    }

    /// What happened next at the adapters. Records lie in the inbox then.
    pub(crate) fn poll(&mut self, inbox: &mut Inbox) -> Option<Happened> {
        let event = self.fabric.as_mut()?.poll(inbox)?;
        Some(match event {
            FabricEvent::Messages => match self.peers.get(&inbox.connection()) {
                Some(from) => Happened::Records(*from),
                None => Happened::Nothing,
            },
            FabricEvent::Connected {
                connection,
                peer,
                hello,
            } => Happened::Connected {
                known: self.peers.get(&connection).copied(),
                connection: connection.0,
                id: peer,
                hello,
            },
            FabricEvent::Transferred { token, result } => {
                self.reading.remove(&token);
                let failed = result.err().map(|error| error.to_string());
                Happened::Read(RequestId(token), failed)
            }
            FabricEvent::Failed { connection, why } => match self.peers.remove(&connection) {
                Some(peer) => Happened::Failed(peer, failure(why)),
                None => Happened::Nothing,
            },
        })
    }

    /// Holds packets of a connection back, since more follow at once.
    pub(crate) fn cork(&mut self, connection: u32) {
        if let Some(fabric) = &mut self.fabric {
            fabric.cork(ConnectionId(connection));
        }
    }

    /// Lets packets of a connection go.
    pub(crate) fn uncork(&mut self, connection: u32) {
        if let Some(fabric) = &mut self.fabric {
            fabric.uncork(ConnectionId(connection));
        }
    }

    /// The longest payload of a record.
    pub(crate) fn longest_record(&self, connection: u32) -> u64 {
        self.fabric.as_ref().map_or(0, |fabric| {
            fabric.longest_message(ConnectionId(connection)) as u64
        })
    }

    /// Sends a record of `len` bytes, which `fill` writes. False: no room now.
    pub(crate) fn push(
        &mut self,
        connection: u32,
        (kind, tag): (u8, u64),
        len: u64,
        fill: impl FnOnce(&mut PrivateBytes<'_>),
    ) -> bool {
        let Some(fabric) = &mut self.fabric else {
            return true;
        };
        let to = ConnectionId(connection);
        let pushed = fabric.send(to, kind, tag, len as usize, |room| {
            fill(&mut PrivateBytes::new(room));
        });
        pushed.is_ok()
    }

    /// Sends a control record. False: no room now.
    pub(crate) fn push_control(&mut self, connection: u32, control: &ControlRecord) -> bool {
        let words = control.words();
        let (form, len) = ((control.kind, control.tag), size_of_val(words) as u64);
        self.push(connection, form, len, |bytes| put_words(bytes, words))
    }

    /// Registers the bytes of a send, for its receiver to read; gives their address and key.
    ///
    /// # Safety
    /// The bytes stay until [`send_is_over`](Self::send_is_over).
    pub(crate) unsafe fn register_send(
        &mut self,
        id: RequestId,
        bytes: RawSlice,
    ) -> Option<(u64, u64)> {
        if !self.offered.contains_key(&id.0) {
            let fabric = self.fabric.as_mut()?;
            let start = bytes.start.cast_mut();
            // SAFETY: the bytes are only read. The registration goes when the operation is over
            // (the caller's promise), before the application has its buffer back; or it is kept,
            // and the peer, which has the key, can go on reading what lies there: it gets bytes
            // that may be any, and nothing here changes.
            let spread = unsafe { fabric.register_again(start, bytes.len, Access::REMOTE_READ) };
            match spread {
                Ok(spread) => {
                    self.offered.insert(id.0, spread);
                }
                Err(error) => tracing::debug!("a message goes in packets: {error}"),
            }
        }
        let spread = self.offered.get(&id.0)?;
        Some((spread.start(), spread.remote_keys()))
    }

    /// The send is over, and its memory nobody's but the application's.
    #[inline]
    pub(crate) fn send_is_over(&mut self, id: RequestId) {
        if !self.offered.is_empty() {
            self.offered.remove(&id.0);
        }
    }

    /// Starts to read the first `len` bytes of an offered message.
    ///
    /// # Errors
    /// Memory cannot be registered, or the read not begun.
    ///
    /// # Safety
    /// The room has `len` bytes, and is the request's until [`Happened::Read`] or
    /// [`give_up`](Self::give_up).
    pub(crate) unsafe fn start_read(
        &mut self,
        connection: u32,
        id: RequestId,
        offer: &Offer,
        room: RawSliceMut,
        len: usize,
    ) -> core::result::Result<(), String> {
        let fabric = self.fabric.as_mut().ok_or("verbs are off")?;
        // SAFETY: the room is the operation's until it is over, which is when the read is, or when
        // its queue pairs are destroyed. The registration is dropped before the operation
        // completes, or kept: peers have no key for it, so only reads that this endpoint starts
        // write there.
        let spread = unsafe { fabric.register_again(room.start, len, Access::LOCAL) }
            .map_err(|error| error.to_string())?;
        let remote = RemoteRange {
            start: offer.address,
            keys: offer.key,
        };
        let from = ConnectionId(connection);
        // SAFETY: as above.
        unsafe { fabric.read(from, remote, &spread, 0, len, id.0) }
            .map_err(|error| error.to_string())?;
        self.reading.insert(id.0, spread);
        Ok(())
    }

    /// Whether a peer is asked before it is sent to.
    pub(crate) fn asks_first(&self, peer: u32) -> bool {
        self.ask_first.contains(&peer)
    }

    /// A peer wants to be asked before it is sent to, or does no longer.
    pub(crate) fn ask_first(&mut self, peer: u32, ask: bool) {
        self.ask_first.retain(|other| *other != peer);
        if ask {
            self.ask_first.push(peer);
        }
    }

    /// This endpoint wants to be asked first, or does no longer: the peers to be told.
    pub(crate) fn tell_over_budget(&mut self, over_budget: bool) -> Vec<u32> {
        if core::mem::replace(&mut self.told, over_budget) == over_budget {
            return Vec::new();
        }
        self.peers.values().copied().collect()
    }

    /// Whether peers were told to ask first.
    pub(crate) fn is_over_budget(&self) -> bool {
        self.told
    }

    /// Writes down what the fabric has counted since the last time.
    pub(crate) fn publish(&self, counters: &Recorder) {
        let Some(fabric) = &self.fabric else { return };
        let counts = fabric.counts();
        if counts == self.counted.get() {
            return;
        }
        self.counted.set(counts);
        for (event, count) in [
            (Event::VerbsMessages, counts.messages),
            (Event::VerbsPackets, counts.packets),
            (Event::RingMessages, counts.ring_messages),
            (Event::RingPauses, counts.ring_pauses),
            (Event::RegistrationHits, counts.registrations_found),
            (Event::RegistrationMisses, counts.registrations_made),
        ] {
            // They only grow.
            counters.at_least(event, count);
        }
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

fn no_fabric(why: &str) -> Error {
    Error::Settings(format!(
        "all peers are to be reached over verbs (LIMIC_VERBS=only), which are off: {why}"
    ))
}
