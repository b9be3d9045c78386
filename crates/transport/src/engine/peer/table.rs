//! The table of peers: who they are, how they are reached, and what waits for them.
//!
//! # Invariants
//! - A number means the same endpoint for as long as this one lives.
//! - Each peer with a backlog is in `backlogged`.
//! - A peer that has failed has no backlog, and is reached by no channel.
//! - `unmet` peers are in that state.

use std::collections::{BTreeSet, HashMap, VecDeque};

use limic_topology::CpuSet;

use super::contacts::Contacts;
pub(crate) use super::entry::{Accesses, BacklogEntry, Channel, PeerEntry, PeerState, Questions};
use super::notes::Notes;
use super::pair::ShmPair;
use crate::counters::Row;
use crate::engine::matching::Liveness;
use crate::error::PeerFailure;
use crate::{Address, Error, Peer, Result};

/// All peers, by number and by address.
pub(crate) struct Peers {
    entries: Vec<PeerEntry>,
    by_id: HashMap<u64, u32>,
    /// What peers were asked over their sockets: few ever are.
    pub(crate) questions: HashMap<u32, Questions>,
    /// One-sided accesses that peers help with.
    pub(crate) accesses: HashMap<u32, Accesses>,
    /// Who has made the first contact for peers.
    pub(crate) contacts: Contacts,
    /// This endpoint's own number, if it has been named.
    me: Option<u32>,
    /// Where is counted what has to do with peers that have not been met.
    shared_row: Row,
    /// Peers that were neither met nor given up yet.
    unmet: u32,
    /// Peers that share memory with this endpoint.
    attached: u32,
    /// Processes that share memory with this endpoint or did, and its own. Not more than count.
    processes: BTreeSet<i32>,
    /// CPUs that their first threads and this endpoint may run on. `None`: not known of all.
    cpus: Option<CpuSet>,
    /// Peers that are reached by a channel, but for this endpoint itself.
    reached: u32,
    /// Endpoints of this node that are known by address, this one included if it is.
    local: u32,
    /// Peers with a backlog.
    pub(crate) backlogged: Vec<u32>,
    /// Peers that a message waits for, and that have not been contacted, or are to be contacted
    /// again.
    pub(crate) to_contact: Vec<u32>,
    /// What is to be done about peers.
    pub(crate) notes: Notes,
    /// The peer to which the line latency is measured next.
    pub(crate) next_probed: u32,
    /// Why this endpoint meets nobody any more, if so.
    closed: Option<PeerFailure>,
}

/// Most processes that are told apart: more than any machine has CPUs.
const MOST_PROCESSES: usize = 1 << 13;

impl Peers {
    pub(crate) fn new(shared_row: Row) -> Self {
        Self {
            shared_row,
            entries: Vec::new(),
            by_id: HashMap::new(),
            questions: HashMap::new(),
            accesses: HashMap::new(),
            contacts: Contacts::default(),
            me: None,
            unmet: 0,
            attached: 0,
            processes: BTreeSet::from([std::process::id() as i32]),
            cpus: CpuSet::allowed().ok(),
            reached: 0,
            local: 0,
            backlogged: Vec::new(),
            to_contact: Vec::new(),
            notes: Notes::default(),
            next_probed: 0,
            closed: None,
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    /// The number of the endpoint with this address; a new one if it was not known. `None` if the
    /// address has the id of a known endpoint and differs otherwise: it was tampered with.
    pub(crate) fn enter(&mut self, address: &Address, myself: &Address) -> Option<u32> {
        if let Some(number) = self.by_id.get(&address.id) {
            let known = self.entries.get(*number as usize)?;
            return (known.address == *address).then_some(*number);
        }
        let number = self.len();
        self.by_id.insert(address.id, number);
        self.local += u32::from(address.is_local());
        let mut state = match &self.closed {
            None => PeerState::Unmet { connecting: false },
            Some(why) => PeerState::Failed(Box::new(why.clone())),
        };
        if address.id == myself.id {
            self.me = Some(number);
            if self.closed.is_none() {
                state = PeerState::Up(Channel::Loopback);
            }
        }
        self.unmet += u32::from(matches!(state, PeerState::Unmet { .. }));
        self.entries.push(PeerEntry {
            address: *address,
            state,
            backlog: VecDeque::new(),
            answers: 0,
            asked: VecDeque::new(),
            listed: false,
            shared_records: 0,
            ring: None,
            has_switched: false,
            has_returned: false,
            served: 0,
            counts: self.shared_row.clone(),
        });
        Some(number)
    }

    /// Whether an endpoint with the id of this address is known.
    pub(crate) fn knows(&self, address: &Address) -> bool {
        self.by_id.contains_key(&address.id)
    }

    #[inline]
    pub(crate) fn get(&mut self, number: u32) -> Option<&mut PeerEntry> {
        self.entries.get_mut(number as usize)
    }

    /// Like [`get`](Self::get), with the error that a caller of the interface sees.
    #[inline]
    pub(crate) fn known(&mut self, number: u32) -> Result<&mut PeerEntry> {
        let known = self.len();
        match self.entries.get_mut(number as usize) {
            Some(entry) => Ok(entry),
            // Not by `ok_or`: that makes the error, and drops it, each time.
            None => Err(Error::UnknownPeer {
                peer: Peer(number),
                known,
            }),
        }
    }

    /// A peer to which something can be sent.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::PeerFailed`].
    #[inline]
    pub(crate) fn alive(&mut self, number: u32) -> Result<&mut PeerEntry> {
        let peer = self.known(number)?;
        match peer.failure() {
            None => Ok(peer),
            Some(why) => Err(why.clone().of(Peer(number))),
        }
    }

    /// This endpoint's own number, if it has been named.
    pub(crate) fn me(&self) -> Option<u32> {
        self.me
    }

    /// The peer that shares memory with this endpoint.
    #[inline(always)]
    pub(crate) fn pair(&mut self, number: u32) -> Option<&mut ShmPair> {
        self.get(number)?.pair_mut()
    }

    /// Whether this endpoint is at work on accesses to its regions by a peer.
    pub(crate) fn serves(&mut self, number: u32) -> bool {
        self.get(number).is_some_and(|peer| peer.served > 0)
    }

    /// Messages of a peer came whole through a ring.
    #[inline(always)]
    pub(crate) fn count_received(&mut self, from: u32, messages: u64, bytes: u64) {
        if let Some(peer) = self.get(from) {
            peer.counts.received(messages, bytes);
        }
    }

    /// How a peer is reached.
    #[inline(always)]
    pub(crate) fn channel(&self, number: u32) -> Option<&Channel> {
        self.entries.get(number as usize)?.channel()
    }

    /// Peers that are named from now on have failed.
    pub(crate) fn close(&mut self, why: PeerFailure) {
        self.closed = Some(why);
    }

    /// A peer is reached by a channel from now on.
    pub(crate) fn up(&mut self, number: u32, channel: Channel) {
        let shared = matches!(channel, Channel::Shm(_));
        if let Some(peer) = self.get(number) {
            let before = core::mem::replace(&mut peer.state, PeerState::Up(channel));
            self.unmet -= u32::from(matches!(before, PeerState::Unmet { .. }));
            // One that this endpoint has called over a network is up before it answers.
            if !matches!(before, PeerState::Up(_)) {
                self.attached += u32::from(shared);
                self.reached += 1;
            }
        }
    }

    /// A peer is gone. Gives how it stood before, and its private ring; nothing if it was gone
    /// already.
    pub(crate) fn fail(
        &mut self,
        number: u32,
        why: PeerFailure,
    ) -> Option<(PeerState, Option<u32>)> {
        let peer = self.get(number)?;
        if peer.failure().is_some() {
            return None;
        }
        peer.clear_backlog();
        peer.asked.clear();
        let before = core::mem::replace(&mut peer.state, PeerState::Failed(Box::new(why)));
        let ring = peer.ring.take();
        peer.has_switched = false;
        self.unmet -= u32::from(matches!(before, PeerState::Unmet { .. }));
        self.attached -= u32::from(matches!(before, PeerState::Up(Channel::Shm(_))));
        self.accesses.remove(&number);
        let other = matches!(before, PeerState::Up(Channel::Shm(_) | Channel::Fabric(_)));
        self.reached -= u32::from(other);
        Some((before, ring))
    }

    /// A peer that has failed is to be met anew.
    pub(crate) fn forgive(&mut self, number: u32) {
        if let Some(peer) = self.get(number) {
            peer.state = PeerState::Unmet { connecting: false };
            peer.has_returned = true;
            self.unmet += 1;
        }
    }

    /// Whether a peer has failed before and was met anew.
    pub(crate) fn has_returned(&self, number: u32) -> bool {
        let peer = self.entries.get(number as usize);
        peer.is_some_and(|peer| peer.has_returned)
    }

    /// Has a peer contacted that has not met this endpoint: somebody asks whether it has sent.
    pub(crate) fn seek(&mut self, peer: u32) {
        let state = self.entries.get(peer as usize).map(|entry| &entry.state);
        let unmet = matches!(state, Some(PeerState::Unmet { connecting: false }));
        if unmet && !self.to_contact.contains(&peer) {
            self.to_contact.push(peer);
        }
    }

    /// Whether a peer was neither met nor given up yet.
    pub(crate) fn is_unmet(&self, peer: u32) -> bool {
        let entry = self.entries.get(peer as usize);
        entry.is_some_and(|entry| matches!(entry.state, PeerState::Unmet { .. }))
    }

    /// Whether there are peers that have not met this endpoint.
    pub(crate) fn has_unmet(&self) -> bool {
        self.unmet > 0
    }

    /// Peers that can send to this endpoint now.
    pub(crate) fn reached(&self) -> u32 {
        self.reached
    }

    /// Whether peers are reached through shared memory.
    pub(crate) fn shares_memory(&self) -> bool {
        self.attached > 0
    }

    /// Endpoints that share this machine's processors with this one, as far as is known, itself
    /// included.
    pub(crate) fn neighbours(&self) -> u32 {
        self.local.max(self.attached + 1)
    }

    /// A peer of this process shares memory with this endpoint, and may run on these CPUs.
    pub(crate) fn runs_on(&mut self, process: i32, cpus: Option<&CpuSet>) {
        if self.processes.len() < MOST_PROCESSES {
            self.processes.insert(process);
        }
        match (&mut self.cpus, cpus) {
            (Some(all), Some(more)) => all.insert_all(more),
            (all, _) => *all = None,
        }
    }

    /// Whether the processes that share memory with this endpoint have fewer CPUs than they are:
    /// the job may have a part of the machine only. Where a process has several endpoints, their
    /// threads may be bound elsewhere than its first one.
    pub(crate) fn is_crowded(&self) -> bool {
        // Those of peers that are gone stay in the set.
        let processes = self.processes.len().min(self.attached as usize + 1);
        let few = |cpus: &CpuSet| processes > cpus.len();
        self.cpus.as_ref().is_some_and(few)
    }

    /// Gives up a peer whose bytes make no sense. That is said once: whoever writes such bytes
    /// writes many.
    #[cold]
    pub(crate) fn violated(&mut self, peer: u32, what: impl Into<String>) {
        self.notes.count_violation();
        if self.is_gone(peer) {
            return;
        }
        let what = what.into();
        tracing::error!("peer {peer} sent {what}; the connection is given up");
        self.notes.ended(peer, PeerFailure::Corrupt(what));
    }

    /// Whether a peer has failed, or will as soon as its last records are read.
    pub(crate) fn is_gone(&self, peer: u32) -> bool {
        !self.is_alive(peer) || self.notes.has_ended(peer)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &PeerEntry)> {
        self.entries
            .iter()
            .enumerate()
            .map(|(number, entry)| (number as u32, entry))
    }

    /// The peers that share memory with this endpoint and fit a condition, for the counters.
    pub(crate) fn pairs_where(&self, fits: impl Fn(&ShmPair) -> bool) -> Vec<Peer> {
        self.iter()
            .filter(|(_, peer)| peer.pair().is_some_and(&fits))
            .map(|(number, _)| Peer(number))
            .collect()
    }
}

impl Liveness for Peers {
    #[inline(always)]
    fn is_alive(&self, peer: u32) -> bool {
        let entry = self.entries.get(peer as usize);
        entry.is_some_and(|entry| entry.failure().is_none())
    }

    fn failure(&self, peer: u32) -> Result<Option<PeerFailure>> {
        match self.entries.get(peer as usize) {
            Some(entry) => Ok(entry.failure().cloned()),
            None => Err(Error::UnknownPeer {
                peer: Peer(peer),
                known: self.len(),
            }),
        }
    }

    fn me(&self) -> Peer {
        Peer(self.me.unwrap_or(u32::MAX))
    }
}

impl core::fmt::Debug for Peers {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "{} peers, {} attached",
            self.entries.len(),
            self.attached
        )
    }
}

#[cfg(test)]
impl Peers {
    /// As if all that are known could run on these CPUs alone.
    pub(crate) fn confine(&mut self, cpus: CpuSet) {
        self.cpus = Some(cpus);
    }
}
