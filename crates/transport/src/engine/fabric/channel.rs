//! The fabrics of an endpoint, and the peers that are reached over them.

use core::cell::Cell;
use core::time::Duration;
use std::collections::HashMap;
use std::os::fd::OwnedFd;

use limic_fabric::{Arrivals, Counts, Event, Fabric, Looks, Network, Part, Parts};

use super::burst::Burst;
use super::{Coming, Link, NotBegun, open};
use crate::counters::Recorder;
use crate::settings::{Settings, VerbsConnect};
use crate::{Address, Error, RequestId, Result};

/// The fabrics of an endpoint, if it has any.
///
/// # Invariants
/// - A link is of a fabric here, which is never taken out before all are closed.
/// - What comes in parts comes over a link with a peer.
pub(crate) struct FabricChannel {
    /// The preferred ones first: both sides of a pair take the first one that both have.
    pub(super) fabrics: Vec<Box<dyn Fabric>>,
    /// When they are looked at.
    pub(crate) looks: Looks,
    /// Peers of this node are reached over them too.
    only: bool,
    at_start: bool,
    /// What the fabrics had counted when it was last written down.
    pub(super) counted: Cell<Counts>,
    /// This endpoint, which reaches itself without a network.
    myself: u64,
    /// The peer at the other end of each connection.
    pub(super) peers: HashMap<Link, u32>,
    /// The long records that have begun to come.
    pub(super) coming: HashMap<Link, Coming>,
    /// The fabric over which each offered send is read, by request.
    pub(super) offered: HashMap<RequestId, u8>,
    /// Sends that may wait for each other.
    pub(super) burst: Option<Burst>,
}

impl FabricChannel {
    /// Opens the fabrics that the settings ask for, and puts their places into the endpoint's
    /// address.
    pub(crate) fn open(settings: &Settings, address: &mut Address) -> Result<Self> {
        let mut fabrics = open::open_all(settings, address)?;
        let mut parts = Parts::NONE;
        fabrics.retain(|fabric| {
            let part = fabric.part();
            let fits = parts.add(&part);
            if !fits {
                let name = part.network().name();
                tracing::warn!("{name} is off: the address has no room for another network");
            }
            fits
        });
        address.fabric = parts;
        let mut channel = Self {
            fabrics,
            looks: Looks::default(),
            only: settings.fabric().is_only(),
            at_start: settings.verbs().connect == VerbsConnect::Static,
            counted: Cell::default(),
            myself: address.id,
            peers: HashMap::new(),
            coming: HashMap::new(),
            offered: HashMap::new(),
            burst: None,
        };
        channel.arm_all();
        Ok(channel)
    }

    /// What peers are told when they are connected.
    pub(crate) fn set_hello(&mut self, hello: &[u8]) {
        for fabric in &mut self.fabrics {
            fabric.set_hello(hello.to_vec());
        }
    }

    /// A forked child has a copy of what is its parent's.
    pub(crate) fn leave_to_parent(&mut self) {
        self.looks.set_active(false);
        self.peers.clear();
        for fabric in self.fabrics.drain(..) {
            fabric.leave_to_parent();
        }
    }

    /// Whether peers are reached over networks.
    pub(crate) fn has_peers(&self) -> bool {
        !self.peers.is_empty()
    }

    /// Whether there are peers over networks, and threads of the kernel do the work.
    pub(crate) fn needs_processors(&self) -> bool {
        self.has_peers() && self.fabrics.iter().any(|fabric| fabric.needs_processors())
    }

    /// The first network that this endpoint and that of the address have.
    fn common(&self, address: &Address) -> Option<(u8, Part)> {
        (0_u8..).zip(&self.fabrics).find_map(|(number, fabric)| {
            let part = address.fabric.find(fabric.part().network())?;
            fabric.reaches(&part).then_some((number, part))
        })
    }

    /// Whether a peer is reached over a network.
    pub(crate) fn takes(&self, address: &Address) -> bool {
        address.id != self.myself
            && (self.only || !address.is_local())
            && self.common(address).is_some()
    }

    /// An endpoint on another node can be reached.
    ///
    /// # Errors
    /// [`Error::NoCommonNetwork`].
    pub(crate) fn check(&self, address: &Address) -> Result<()> {
        if address.is_local() || self.common(address).is_some() {
            return Ok(());
        }
        let names = |networks: &mut dyn Iterator<Item = Network>| {
            let names: Vec<_> = networks.map(Network::name).collect();
            if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(" and ")
            }
        };
        let mut here = self.fabrics.iter().map(|fabric| fabric.part().network());
        let mut there = address.fabric.iter().map(|part| part.network());
        Err(Error::NoCommonNetwork(format!(
            "{address}, which is on another node: here there is {}, there is {}",
            names(&mut here),
            names(&mut there)
        )))
    }

    /// Whether messages whose sends are over wait for the network, and not for peers alone that
    /// were [given time](Self::gave_time) already.
    #[inline(always)]
    pub(crate) fn holds_messages(&self) -> bool {
        self.looks.is_active() && self.holds_messages_slow()
    }

    #[cold]
    fn holds_messages_slow(&self) -> bool {
        self.fabrics.iter().any(|fabric| fabric.holding() > 0)
    }

    /// The peers for which messages wait now had time to make room. Nobody waits for them again
    /// before they have.
    pub(crate) fn gave_time(&mut self) {
        for fabric in &mut self.fabrics {
            fabric.gave_time();
        }
    }

    /// Whether the ranks of a job meet before their first message.
    pub(crate) fn connects_at_start(&self) -> bool {
        self.at_start
    }

    /// Descriptors to sleep on, as this endpoint's own.
    pub(crate) fn wake_fds(&self) -> Vec<OwnedFd> {
        let fds = self.fabrics.iter().flat_map(|fabric| fabric.wake_fds());
        fds.filter_map(|fd| fd.try_clone_to_owned().ok()).collect()
    }

    /// The longest sleep that the networks allow.
    pub(crate) fn longest_sleep(&self) -> Option<Duration> {
        let waits = self
            .fabrics
            .iter()
            .filter_map(|fabric| fabric.longest_sleep());
        waits.min()
    }

    /// Begins a connection with a peer.
    ///
    /// # Errors
    /// There is no common network, or no connection can be made.
    pub(crate) fn connect(&mut self, address: &Address) -> core::result::Result<Link, NotBegun> {
        let (number, part) = self.common(address).ok_or(NotBegun::NoNetwork)?;
        let fabric = &mut self.fabrics[usize::from(number)];
        let connection = fabric.connect(&part, address.id, address.secret);
        Ok(Link {
            fabric: number,
            connection: connection.map_err(NotBegun::Failed)?,
        })
    }

    /// A connection that this endpoint or a peer began is with this one.
    pub(crate) fn reached(&mut self, link: Link, peer: u32) {
        let every = self.of(link).map_or(1, |fabric| fabric.poll_every());
        self.looks.reached(every, !self.has_peers());
        self.peers.insert(link, peer);
    }

    pub(super) fn of(&mut self, link: Link) -> Option<&mut Box<dyn Fabric>> {
        self.fabrics.get_mut(usize::from(link.fabric))
    }

    /// Whether a connection is ready.
    pub(crate) fn is_connected(&self, link: Link) -> bool {
        let fabric = self.fabrics.get(usize::from(link.fabric));
        fabric.is_some_and(|fabric| fabric.is_connected(link.connection))
    }

    /// Ends a connection with a peer that failed: nothing touches memory of its operations
    /// afterwards.
    pub(crate) fn give_up(&mut self, link: Link) {
        self.lost(link);
        self.disconnect(link);
    }

    /// Ends a connection.
    pub(crate) fn disconnect(&mut self, link: Link) {
        if let Some(fabric) = self.of(link) {
            fabric.disconnect(link.connection);
        }
    }

    /// Says goodbye over the networks, writes down what they have counted, and closes them; each
    /// takes no longer than this.
    pub(crate) fn close(&mut self, within: Duration, counters: &Recorder) {
        self.looks.set_active(false);
        for fabric in &mut self.fabrics {
            fabric.close(within);
        }
        self.publish(counters);
        self.fabrics.clear();
        self.offered.clear();
    }

    /// What happened next at the networks, and at which. Records lie in `arrivals` then.
    pub(crate) fn poll(&mut self, arrivals: &mut Arrivals) -> Option<(u8, Event)> {
        self.looks.begin();
        let count = self.fabrics.len();
        for step in 0..count {
            let number = self.looks.turn(step, count);
            if !self.looks.is_at(self.fabrics[number].poll_every()) {
                continue;
            }
            if let Some(event) = self.fabrics[number].poll(arrivals) {
                self.looks.found(number);
                return Some((number as u8, event));
            }
        }
        self.looks.end();
        None
    }

    /// The peer at the other end of a connection.
    pub(crate) fn peer_at(&self, link: Link) -> Option<u32> {
        self.peers.get(&link).copied()
    }

    /// Those at the other ends of all connections.
    pub(crate) fn all_peers(&self) -> Vec<u32> {
        self.peers.values().copied().collect()
    }

    /// A connection is over. Gives the peer at its other end.
    pub(crate) fn lost(&mut self, link: Link) -> Option<u32> {
        self.coming.remove(&link);
        self.peers.remove(&link)
    }
}
