//! Peers over verbs: the same records as in shared memory, in packets of the fabric; long messages by RDMA reads of
//! the receiver (U6), or in packets where memory cannot be registered or lies in several pieces.
//!
//! A peer has either a link (shared memory) or a wire (a connection of the fabric). Everything above, matching
//! and requests, is the same for both, so a receive from any source takes from both.
//!
//! - `contact`: two endpoints meet, and part;
//! - `sending`: what goes out, as far as there is room;
//! - `receiving`: what comes in, and the reads of long messages.

mod contact;
mod receiving;
mod sending;

use core::cell::Cell;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use limic_ibverbs::VerbsError;
use limic_ibverbs::fabric::{
    ConnectionId, Fabric, FabricAddress, FabricCounts, FabricSettings, Inbox, Keep, Spread,
};

use super::Engine;
use crate::counters::{Event, Tally};
use crate::settings::{Settings, VerbsCache, VerbsConnect, VerbsUse};
use crate::{Address, Error, RequestId, Result};

/// The fabric of an endpoint, if it has one.
pub(crate) struct Remote {
    fabric: Option<Fabric>,
    inbox: Inbox,
    only: bool,
    connect: VerbsConnect,
    /// What the fabric had counted when it was last written down.
    counted: Cell<FabricCounts>,
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
            connect: verbs.connect,
            counted: Cell::default(),
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
            Err(
                why @ (VerbsError::NoLibrary(_)
                | VerbsError::NoDevice(_)
                | VerbsError::NoPort { .. }),
            ) => {
                NO_DEVICE.store(true, Ordering::Relaxed);
                tracing::debug!("verbs are off: {why}");
            }
            // There is a device, and settings or limits are in the way: the next endpoint may have others.
            Err(why) => tracing::warn!("verbs are off: {why}"),
        }
        Ok(remote)
    }

    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        self.fabric.is_some()
    }

    /// Whether there are peers over the fabric, and threads of the kernel do its work.
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

    /// Whether a connection is ready.
    pub(crate) fn is_connected(&self, wire: u32) -> bool {
        let fabric = self.fabric.as_ref();
        fabric.is_some_and(|fabric| fabric.is_connected(ConnectionId(wire)))
    }

    /// Whether the ranks of a job meet before their first message.
    pub(crate) fn meets_at_start(&self) -> bool {
        self.connect == VerbsConnect::Static
    }

    /// Writes down what the fabric has counted since the last time.
    pub(crate) fn publish(&self, tally: &Tally) {
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
            tally.at_least(event, count);
        }
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
