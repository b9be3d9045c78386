//! What arrived before its receive: the contents behind the unexpected queue.

use limic_matching::UnexpectedId;

use super::requests::Slot;
use crate::policy::Path;
use crate::raw::{ClaimId, RequestId};
use crate::{Peer, Status, Tag};

/// The offer of a long message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) from: u32,
    pub(crate) tag: u64,
    pub(crate) immediate: Option<u64>,
    pub(crate) len: u64,
    /// The sender's request.
    pub(crate) remote: u64,
    pub(crate) address: u64,
    pub(crate) key: u64,
    /// The bytes lie in several pieces: no single copy.
    pub(crate) in_pieces: bool,
    /// The sender waits until they are here.
    pub(crate) confirm: bool,
}

/// A message that lies in an arena of its sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoanedAt {
    pub(crate) from: u32,
    pub(crate) arena: u32,
    pub(crate) offset: u64,
    pub(crate) flag: u32,
    pub(crate) generation: u32,
    /// For a message that went ahead: how many before it were not taken yet, by its sender's word.
    pub(crate) ahead: Option<u32>,
}

impl LoanedAt {
    /// The path that its sender counted it for.
    pub(crate) fn path(&self) -> Path {
        if self.ahead.is_some() {
            Path::Eager
        } else {
            Path::Loan
        }
    }
}

/// What is there of a message.
pub(crate) enum Waiting {
    /// All of it.
    Bytes(Vec<u8>),
    /// What has come of it in pieces (`in_pieces`): all, or the others are on their way.
    Coming(Vec<u8>),
    /// An offer only; the bytes are with the sender.
    Offered(Offer),
    /// All of it, in the sender's arena.
    Loaned(LoanedAt),
    /// A send of this endpoint to itself.
    Local(RequestId),
}

impl Waiting {
    /// Whether it can be taken where it lies.
    pub(crate) fn is_in_place(&self) -> bool {
        matches!(self, Self::Bytes(_) | Self::Loaned(_))
    }

    /// Whether its sender was held up by it, or would be if it did not go ahead (H4): how many of the sender's
    /// messages were waiting before it, by the sender's count.
    #[inline]
    pub(crate) fn holds_up(&self) -> Option<u32> {
        match self {
            Self::Offered(_) | Self::Coming(_) => Some(0),
            Self::Loaned(loan) => loan.ahead,
            Self::Bytes(_) | Self::Local(_) => None,
        }
    }
}

/// One message.
pub(crate) struct Arrived {
    pub(crate) from: u32,
    pub(crate) tag: u64,
    pub(crate) immediate: Option<u64>,
    pub(crate) len: u64,
    pub(crate) waiting: Waiting,
}

struct Entry {
    generation: u32,
    /// Its place in the unexpected queue.
    queued: Option<UnexpectedId>,
    claimed: bool,
    arrived: Option<Arrived>,
}

impl Arrived {
    /// What its receiver will be told of it.
    pub(crate) fn status(&self) -> Status {
        Status {
            peer: Peer(self.from),
            tag: Tag(self.tag),
            len: self.len,
            immediate: self.immediate,
        }
    }

    /// Whether it can be received whatever becomes of its sender.
    pub(crate) fn is_here(&self) -> bool {
        match &self.waiting {
            Waiting::Bytes(_) | Waiting::Local(_) => true,
            Waiting::Coming(bytes) => bytes.len() as u64 == self.len,
            Waiting::Offered(_) | Waiting::Loaned(_) => false,
        }
    }
}

/// The messages, by token.
pub(crate) struct Stash {
    entries: Vec<Entry>,
    free: Vec<Slot>,
    /// Buffers of delivered messages, to be used again; so a steady state does not allocate.
    spare: Vec<Vec<u8>>,
}

/// Buffers longer than this are freed at once.
const SPARE_BYTES: usize = 64 * 1024;
/// Most buffers that are kept.
const SPARE_COUNT: usize = 64;

impl Stash {
    pub(crate) fn new() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// An empty buffer.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    pub(crate) fn recycle(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= SPARE_BYTES && self.spare.len() < SPARE_COUNT {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    pub(crate) fn insert(&mut self, arrived: Arrived) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.entries[slot as usize].arrived = Some(arrived);
            return slot;
        }
        self.entries.push(Entry {
            generation: 1,
            queued: None,
            claimed: false,
            arrived: Some(arrived),
        });
        (self.entries.len() - 1) as u32
    }

    pub(crate) fn get(&self, token: u32) -> Option<&Arrived> {
        self.entries.get(token as usize)?.arrived.as_ref()
    }

    pub(crate) fn take(&mut self, token: u32) -> Option<Arrived> {
        let entry = self.entries.get_mut(token as usize)?;
        let arrived = entry.arrived.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        entry.claimed = false;
        self.free.push(token);
        Some(arrived)
    }

    /// Names a message that a matched probe took out of the queue.
    pub(crate) fn claim(&mut self, token: u32) -> Option<ClaimId> {
        let entry = self.entries.get_mut(token as usize)?;
        entry.claimed = true;
        Some(ClaimId(
            u64::from(entry.generation) << 32 | u64::from(token),
        ))
    }

    /// The token of a claimed message.
    pub(crate) fn claimed(&self, id: ClaimId) -> Option<u32> {
        let token = id.0 as u32;
        let entry = self.entries.get(token as usize)?;
        (entry.claimed && entry.arrived.is_some() && entry.generation == (id.0 >> 32) as u32)
            .then_some(token)
    }

    /// Remembers where a message stands in the unexpected queue.
    pub(crate) fn set_queued(&mut self, token: u32, id: UnexpectedId) {
        if let Some(entry) = self.entries.get_mut(token as usize) {
            entry.queued = Some(id);
        }
    }

    /// Where a message stands in the unexpected queue.
    pub(crate) fn queued(&self, token: u32) -> Option<UnexpectedId> {
        self.entries.get(token as usize)?.queued
    }

    /// Loans of a peer, claimed or not.
    pub(crate) fn loaned_by(&self, peer: u32) -> Vec<u32> {
        let lent = |entry: &Entry| {
            let arrived = entry.arrived.as_ref();
            arrived.is_some_and(
                |arrived| matches!(arrived.waiting, Waiting::Loaned(loan) if loan.from == peer),
            )
        };
        (0..self.entries.len() as u32)
            .filter(|token| lent(&self.entries[*token as usize]))
            .collect()
    }

    /// Puts another content behind a message.
    pub(crate) fn replace(&mut self, token: u32, waiting: Waiting) {
        if let Some(arrived) = self
            .entries
            .get_mut(token as usize)
            .and_then(|entry| entry.arrived.as_mut())
        {
            arrived.waiting = waiting;
        }
    }

    /// The bytes of a message that comes in pieces.
    pub(crate) fn coming(&mut self, token: u32) -> Option<&mut Vec<u8>> {
        match &mut self.entries.get_mut(token as usize)?.arrived {
            Some(Arrived {
                waiting: Waiting::Coming(bytes),
                ..
            }) => Some(bytes),
            _ => None,
        }
    }

    /// Messages that nobody has claimed and that fit a condition. Linear: failures and cancellation only.
    pub(crate) fn find(&self, fits: impl Fn(&Arrived) -> bool) -> Vec<u32> {
        let fits = |entry: &Entry| !entry.claimed && entry.arrived.as_ref().is_some_and(&fits);
        self.entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| fits(entry))
            .map(|(token, _)| token as u32)
            .collect()
    }
}
