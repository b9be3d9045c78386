//! The table of peers: who they are, how they are reached, and what waits for them.
//!
//! # Invariants
//! - A number means the same endpoint for as long as this one lives.
//! - Each peer with a backlog is in `backlogged`.
//! - A peer that has failed has no backlog, and is reached by no channel.
//! - `unmet` peers are in that state.

use std::collections::HashMap;

use super::accesses::Accesses;
use super::contacts::Contacts;
pub(crate) use super::entry::{BacklogEntry, Channel, PeerEntry, PeerState, Questions};
use super::neighbours::Neighbours;
use super::notes::Notes;
use super::pair::ShmPair;
use crate::counters::Row;
use crate::error::PeerFailure;
use crate::{Address, Error, Peer, Result};

/// All peers, by number and by address.
pub(crate) struct Peers {
    entries: Vec<PeerEntry>,
    by_id: HashMap<u64, u32>,
    /// What peers were asked over their sockets: few ever are.
    pub(super) questions: HashMap<u32, Questions>,
    /// One-sided accesses that peers help with.
    pub(crate) accesses: Accesses,
    /// The processes that have made the first contact for peers.
    pub(crate) contacts: Contacts,
    /// This endpoint's own number, if it has been named.
    me: Option<u32>,
    /// Where is counted what has to do with peers that have not been met.
    shared_row: Row,
    /// Peers that were neither met nor given up yet.
    unmet: u32,
    /// Those of this node, and how many of them share memory with this endpoint.
    pub(crate) neighbours: Neighbours,
    /// Peers that are reached by a channel, but for this endpoint itself.
    reached: u32,
    /// Peers with a backlog.
    backlogged: Vec<u32>,
    /// Peers that a message waits for, and that have not been contacted, or are to be contacted
    /// again.
    to_contact: Vec<u32>,
    /// What is to be done about peers.
    pub(crate) notes: Notes,
    /// The peer to which the line latency is measured next.
    next_probed: u32,
    /// Why this endpoint meets nobody any more, if so: nothing can arrive, and peers that are named
    /// from now on have failed.
    pub(crate) closed: Option<PeerFailure>,
}

impl Peers {
    pub(crate) fn new(shared_row: Row) -> Self {
        Self {
            shared_row,
            entries: Vec::new(),
            by_id: HashMap::new(),
            questions: HashMap::new(),
            accesses: Accesses::default(),
            contacts: Contacts::default(),
            me: None,
            unmet: 0,
            neighbours: Neighbours::new(),
            reached: 0,
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
        self.neighbours.named(address.is_local());
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
        let entry = PeerEntry::new(*address, state, self.shared_row.clone());
        self.entries.push(entry);
        Some(number)
    }

    /// Whether an endpoint with the id of this address is known.
    pub(crate) fn knows(&self, address: &Address) -> bool {
        self.by_id.contains_key(&address.id)
    }

    /// The peer of a number that came out of this table.
    #[inline]
    #[track_caller]
    pub(crate) fn get(&mut self, number: u32) -> Option<&mut PeerEntry> {
        let entry = self.find(number);
        debug_assert!(entry.is_some(), "peer {number} is known");
        entry
    }

    /// The peer of any number: callers and peers make up some.
    #[inline]
    pub(crate) fn find(&mut self, number: u32) -> Option<&mut PeerEntry> {
        self.entries.get_mut(number as usize)
    }

    /// Like [`find`](Self::find), with the error that a caller of the interface sees.
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
    #[track_caller]
    pub(crate) fn pair(&mut self, number: u32) -> Option<&mut ShmPair> {
        self.get(number)?.pair_mut()
    }

    /// Whether this endpoint is at work on accesses to its regions by a peer.
    #[track_caller]
    pub(crate) fn serves(&mut self, number: u32) -> bool {
        self.get(number).is_some_and(|peer| peer.served > 0)
    }

    /// Messages of a peer came whole through a ring.
    #[inline(always)]
    #[track_caller]
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

    /// A peer is reached by a channel from now on.
    #[track_caller]
    pub(crate) fn up(&mut self, number: u32, channel: Channel) {
        let shared = matches!(channel, Channel::Shm(_));
        if let Some(peer) = self.get(number) {
            let before = core::mem::replace(&mut peer.state, PeerState::Up(channel));
            self.unmet -= u32::from(matches!(before, PeerState::Unmet { .. }));
            // One that this endpoint has called over a network is up before it answers.
            if !matches!(before, PeerState::Up(_)) {
                self.reached += 1;
                if shared {
                    self.neighbours.attach();
                }
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
        peer.was_remote = matches!(before, PeerState::Up(Channel::Fabric(_)));
        let ring = peer.ring.take();
        peer.has_switched = false;
        peer.asks_first = false;
        self.unmet -= u32::from(matches!(before, PeerState::Unmet { .. }));
        if let PeerState::Up(Channel::Shm(_)) = before {
            self.neighbours.detach();
        }
        self.accesses.forget(number);
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
        if let Some(PeerState::Unmet { connecting: false }) = state {
            self.contact_later(peer);
        }
    }

    /// Progress looks after the first contact with a peer.
    pub(crate) fn contact_later(&mut self, peer: u32) {
        if !self.to_contact.contains(&peer) {
            self.to_contact.push(peer);
        }
    }

    /// Whether there are peers to be contacted.
    #[inline(always)]
    pub(crate) fn has_to_contact(&self) -> bool {
        !self.to_contact.is_empty()
    }

    /// The peers to be contacted; there are none afterwards.
    pub(crate) fn take_to_contact(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.to_contact)
    }

    /// Puts something behind what waits for a peer already. Progress pushes it, and contacts a peer
    /// that has not been met.
    pub(crate) fn enqueue(&mut self, to: u32, entry: BacklogEntry) {
        let Some(peer) = self.get(to) else {
            return;
        };
        let uncontacted = match peer.state {
            PeerState::Failed(_) | PeerState::Up(Channel::Loopback) => return,
            PeerState::Unmet { connecting } => !connecting,
            PeerState::Up(_) => false,
        };
        peer.backlog.push_back(entry);
        if !core::mem::replace(&mut peer.listed, true) {
            self.backlogged.push(to);
        }
        if uncontacted {
            self.contact_later(to);
        }
    }

    /// Whether something waits for a peer, or for contact with one.
    #[inline(always)]
    pub(crate) fn has_waiting(&self) -> bool {
        !(self.backlogged.is_empty() & self.to_contact.is_empty())
    }

    /// One of the peers with a backlog, by its place among them.
    pub(crate) fn backlogged(&self, at: usize) -> Option<u32> {
        self.backlogged.get(at).copied()
    }

    /// Takes a peer without a backlog out of those that have one; another one has its place then.
    /// False: it has one.
    pub(crate) fn unlist(&mut self, at: usize) -> bool {
        let peer = &mut self.entries[self.backlogged[at] as usize];
        if !peer.backlog.is_empty() {
            return false;
        }
        peer.listed = false;
        self.backlogged.swap_remove(at);
        true
    }

    /// Whose turn it is to have the line latency measured.
    pub(crate) fn next_to_probe(&mut self) -> Option<u32> {
        let number = self.next_probed.checked_rem(self.len())?;
        self.next_probed = number + 1;
        Some(number)
    }

    /// What a peer was asked over its sockets.
    pub(crate) fn questions(&self, peer: u32) -> Questions {
        self.questions.get(&peer).copied().unwrap_or_default()
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
        self.neighbours.attached() > 0
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

    #[inline(always)]
    pub(crate) fn is_alive(&self, peer: u32) -> bool {
        let entry = self.entries.get(peer as usize);
        entry.is_some_and(|entry| entry.failure().is_none())
    }

    /// Why a peer failed, if it did.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`].
    pub(crate) fn failure(&self, peer: u32) -> Result<Option<PeerFailure>> {
        match self.entries.get(peer as usize) {
            Some(entry) => Ok(entry.failure().cloned()),
            None => Err(Error::UnknownPeer {
                peer: Peer(peer),
                known: self.len(),
            }),
        }
    }
}

impl core::fmt::Debug for Peers {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let attached = self.neighbours.attached();
        write!(f, "{} peers, {attached} attached", self.len())
    }
}
