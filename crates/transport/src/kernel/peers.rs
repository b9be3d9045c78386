//! Who can be talked to, and what became of them.

use std::collections::HashMap;

use limic_copy::{CallError, Member};

use super::region_directory::DirectoryEntry;
use super::{KernelEngine, Operation};
use crate::counters::{Event, Row, Traffic};
use crate::error::PeerFailure;
use crate::settings::is_oversubscribed;
use crate::{Address, Error, Peer, Result};

/// The beginning of the part of an address that is for paths of one's own.
const MARK: [u8; 4] = *b"kmod";

/// Puts rank and group into an address; its id is the handle of the endpoint's list of regions.
pub(super) fn describe(address: &mut Address, rank: u32, group: u64) {
    address.fabric.0[..4].copy_from_slice(&MARK);
    address.fabric.0[4..8].copy_from_slice(&rank.to_le_bytes());
    address.fabric.0[8..16].copy_from_slice(&group.to_le_bytes());
}

/// Rank and group of an address of a kernel endpoint.
fn read(address: &Address) -> Option<(u32, u64)> {
    let (mark, rest) = address.fabric.0.split_first_chunk::<4>()?;
    let (rank, rest) = rest.split_first_chunk::<4>()?;
    let group = rest.first_chunk::<8>()?;
    (*mark == MARK).then(|| (u32::from_le_bytes(*rank), u64::from_le_bytes(*group)))
}

/// A peer.
pub(super) struct Entry {
    address: Address,
    /// Its rank in the group, or why it cannot be reached.
    rank: Result<u32, Error>,
    failure: Option<PeerFailure>,
    /// Its sends in the backlog: later ones go behind them.
    pub(super) backlogged: u32,
    /// Regions of it that this side knows, by key.
    pub(super) known: HashMap<u64, DirectoryEntry>,
    pub(super) row: Row,
}

/// All peers.
pub(super) struct Peers {
    entries: Vec<Entry>,
    by_rank: HashMap<u32, u32>,
    elsewhere: HashMap<Address, u32>,
    me: u32,
    shared_row: Row,
}

impl Peers {
    pub(super) fn new(me: u32, shared_row: Row) -> Self {
        Self {
            entries: Vec::new(),
            by_rank: HashMap::new(),
            elsewhere: HashMap::new(),
            me,
            shared_row,
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    pub(super) fn get(&mut self, peer: u32) -> Option<&mut Entry> {
        self.entries.get_mut(peer as usize)
    }

    /// What went to and came from each.
    pub(super) fn traffic(&self) -> impl Iterator<Item = (Peer, (Traffic, Traffic))> {
        let rows = (0..).zip(&self.entries);
        rows.map(|(number, entry)| (Peer(number), entry.row.traffic()))
    }

    /// The row in which a peer is counted.
    pub(super) fn row(&self, peer: u32) -> &Row {
        let entry = self.entries.get(peer as usize);
        entry.map_or(&self.shared_row, |entry| &entry.row)
    }
}

impl KernelEngine {
    /// Decodes an address. Nothing is contacted.
    pub(super) fn connect(&mut self, bytes: &[u8]) -> Result<Peer> {
        let address = Address::from_bytes(bytes)?;
        let number = self.peers.len();
        let rank = match read(&address) {
            _ if !address.is_local() => Err(PeerFailure::OtherNode.of(Peer(number))),
            None => Err(no_path(
                number,
                "it is no endpoint of the kernel module: open it as KernelEndpoint too",
            )),
            Some((_, group)) if group != self.group => Err(no_path(
                number,
                "it is in another group of the kernel module: give both the same LIMIC_KERNEL_GROUP",
            )),
            Some((rank, _)) => Ok(rank),
        };
        let known = match rank {
            Ok(rank) => self.peers.by_rank.get(&rank),
            Err(_) => self.peers.elsewhere.get(&address),
        };
        if let Some(&number) = known {
            let entry = self.peers.get(number).filter(|_| address.id != 0);
            if let Some(entry) = entry {
                entry.address = address;
            }
            return Ok(Peer(number));
        }
        Ok(self.add(address, rank))
    }

    fn add(&mut self, address: Address, rank: Result<u32, Error>) -> Peer {
        let number = self.peers.len();
        match rank {
            Ok(rank) => self.peers.by_rank.insert(rank, number),
            Err(_) => self.peers.elsewhere.insert(address, number),
        };
        self.peers.entries.push(Entry {
            address,
            rank,
            failure: None,
            backlogged: 0,
            known: HashMap::new(),
            row: self.counters.row(number, address.id),
        });
        let oversubscribed = is_oversubscribed(self.peers.len());
        self.spins = self.settings.spin_polls(oversubscribed);
        Peer(number)
    }

    /// The peer with a rank, also one that was never connected.
    pub(super) fn peer_of(&mut self, rank: u32) -> Peer {
        if let Some(number) = self.peers.by_rank.get(&rank) {
            return Peer(*number);
        }
        let mut address = self.address;
        if rank != self.peers.me {
            // Who makes the first contact names its list of regions when it hands its address out.
            address.id = 0;
        }
        describe(&mut address, rank, self.group);
        self.add(address, Ok(rank))
    }

    pub(super) fn address(&self) -> Address {
        self.address
    }

    pub(super) fn myself(&mut self) -> Peer {
        self.peer_of(self.peers.me)
    }

    pub(super) fn peer_address(&mut self, peer: Peer) -> Result<Address> {
        Ok(self.entry(peer.0)?.address)
    }

    pub(super) fn entry(&mut self, peer: u32) -> Result<&mut Entry> {
        let known = self.peers.len();
        self.peers.get(peer).ok_or(Error::UnknownPeer {
            peer: Peer(peer),
            known,
        })
    }

    /// The rank of a peer that can be reached, as far as that is known here.
    pub(super) fn rank(&mut self, peer: u32) -> Result<u32> {
        let closed = self.module.is_none();
        let entry = self.entry(peer)?;
        if closed {
            return Err(PeerFailure::Closed.of(Peer(peer)));
        }
        entry.rank.clone()
    }

    /// Why a call about a peer failed, in the words of errors.
    #[cold]
    pub(super) fn error(&mut self, peer: u32, why: CallError) -> Error {
        match why {
            CallError::Gone => self.failed(peer),
            CallError::Absent => PeerFailure::Unreachable.of(Peer(peer)),
            CallError::LockedMemory => Error::NoMemory(why.to_string()),
            CallError::BadAddress => Error::System {
                what: "memory of a message (mapped, and no shared mapping of a file?)",
                source: crate::Errno(libc::EFAULT),
            },
            CallError::Forked => Error::System {
                what: "/dev/limic, which another process opened: open the endpoint in the process that uses it",
                source: crate::Errno(libc::ESTALE),
            },
            CallError::Other(errno) => Error::System {
                what: "/dev/limic",
                source: crate::Errno(errno),
            },
            other => no_path(peer, &other.to_string()),
        }
    }

    /// The module says that a peer is gone, or that its memory could not be read or written.
    #[cold]
    pub(super) fn failed(&mut self, peer: u32) -> Error {
        match self.what_became_of(peer) {
            Some(why) => {
                let entry = self.peers.get(peer);
                let is_news = entry.is_some_and(|entry| entry.failure.is_none());
                if let Some(module) = self.module.as_mut().filter(|_| is_news) {
                    // The next poll notes it as a departure, after what the peer had sent before.
                    // It may have left before it was known here.
                    module.seen.departures = module.seen.departures.wrapping_sub(1);
                }
                why.of(Peer(peer))
            }
            None => no_path(
                peer,
                "kernel module: its memory could not be read or written (EPIPE); was it unmapped meanwhile?",
            ),
        }
    }

    /// How a peer went; `None` while it is there.
    pub(super) fn what_became_of(&mut self, peer: u32) -> Option<PeerFailure> {
        let module = self.module.as_ref()?;
        let entry = self.peers.entries.get(peer as usize)?;
        if entry.failure.is_some() {
            return entry.failure.clone();
        }
        match module.messages.member(*entry.rank.as_ref().ok()?) {
            Ok(Member::Closed) => Some(PeerFailure::Closed),
            Ok(Member::Left) => Some(PeerFailure::Died),
            _ => None,
        }
    }

    /// Somebody left the group: perhaps a peer.
    pub(super) fn look_who_left(&mut self) -> bool {
        let mut moved = false;
        for peer in 0..self.peers.len() {
            let entry = self.peers.get(peer);
            if !entry.is_some_and(|entry| entry.failure.is_none() && entry.rank.is_ok()) {
                continue;
            }
            if let Some(why) = self.what_became_of(peer) {
                // What it had sent before is received first.
                self.serve();
                self.fail(peer, why);
                moved = true;
            }
        }
        moved
    }

    /// Notes that a peer is gone. The module has ended what it knows of; here it is the receives
    /// from any source.
    fn fail(&mut self, number: u32, why: PeerFailure) {
        let Some(entry) = self.peers.get(number) else {
            return;
        };
        if entry.failure.is_some() {
            return;
        }
        entry.failure = Some(why.clone());
        entry.known.clear();
        self.queue.look = true;
        self.claims
            .ended(Peer(number), why.clone().of(Peer(number)));
        if why == PeerFailure::Closed {
            return;
        }
        tracing::warn!("peer {number}: {why}");
        self.counters.event(Event::PeersFailed);
        self.counters.reason(None, number, &why.to_string());
        if self.deaths.any_source_survives() {
            return;
        }
        // Who waits for anybody may have waited for this one.
        let requests = &mut self.requests;
        let mut ended = Vec::new();
        self.queue.waiting.retain(|slot| {
            let any = matches!(requests.get(*slot), Operation::Receive(it) if it.selector.source.is_none());
            if any {
                ended.push(*slot);
            }
            !any
        });
        if ended.is_empty() {
            self.deaths.report_later(number, why.clone());
        }
        for slot in ended {
            let error = why.clone().of(Peer(number));
            self.requests.complete(slot, Err(error));
        }
    }

    /// Whether a peer is there: what `attach` asks.
    pub(super) fn attach(&mut self, peer: u32) -> Result<bool> {
        self.rank(peer)?;
        match self.what_became_of(peer) {
            Some(why) => Err(why.of(Peer(peer))),
            None => Ok(true),
        }
    }

    /// No peer: nobody meets anybody, the kernel has all.
    pub(super) fn connects_at_start(&self, _: u32) -> Result<bool> {
        Ok(false)
    }

    /// The handle of a peer's list of regions; 0 if only its rank is known.
    pub(super) fn list_of(&mut self, peer: u32) -> u64 {
        self.peers.get(peer).map_or(0, |entry| entry.address.id)
    }

    /// Whether a peer is this endpoint.
    pub(super) fn is_me(&mut self, peer: u32) -> bool {
        let me = self.peers.me;
        let entry = self.peers.get(peer);
        entry.is_some_and(|entry| entry.rank == Ok(me))
    }
}

pub(super) fn no_path(peer: u32, reasons: &str) -> Error {
    Error::NoPath {
        peer: Peer(peer),
        reasons: reasons.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_and_group_come_back_from_an_address() {
        let mut address = Address::generate().expect("random bytes");
        assert_eq!(read(&address), None);
        describe(&mut address, 77, u64::MAX - 5);
        let bytes = address.to_bytes();
        let found = Address::from_bytes(&bytes).expect("an address");
        assert_eq!(read(&found), Some((77, u64::MAX - 5)));
    }
}
