//! What is there of messages that came before their receive: the contents behind the unexpected
//! queue.

use std::collections::HashMap;

use limic_matching::UnexpectedId;
use limic_pools::arena::ArenaMessage;
use limic_records::Offer;
use limic_shm::system::FIRST_GENERATION;

use crate::engine::envelope::{Envelope, Told};
use crate::engine::request::Slot;
use crate::raw::{ClaimId, RequestId};
use crate::{Error, Status};

/// What is there of a message.
pub(crate) enum UnexpectedBody {
    /// All bytes.
    Bytes(Vec<u8>),
    /// The fragments that have come: all of them, or the others are on their way.
    Partial(Vec<u8>),
    /// An offer only; the bytes are with the sender.
    Offered(Offer),
    /// All bytes, in the sender's arena.
    InArena(ArenaMessage),
    /// A send of this endpoint to itself.
    Loopback(RequestId),
    /// Nothing any more, for a reason that its receiver is told: its sender went after somebody
    /// claimed it, or before its bytes could be had.
    Lost(Box<Error>),
}

impl UnexpectedBody {
    /// Whether the message can be taken where it lies, or its loss be told: that needs no room.
    pub(crate) fn is_in_place(&self) -> bool {
        matches!(self, Self::Bytes(_) | Self::InArena(_) | Self::Lost(_))
    }

    /// Whether the message blocks its sender, or would if it had not been sent ahead: how many of
    /// the sender's messages waited before it, by the sender's count.
    #[inline]
    pub(crate) fn blocks_sender(&self) -> Option<u32> {
        match self {
            Self::Offered(_) | Self::Partial(_) => Some(0),
            Self::InArena(message) => message.send_ahead,
            Self::Bytes(_) | Self::Loopback(_) | Self::Lost(_) => None,
        }
    }
}

/// One message.
pub(crate) struct UnexpectedMessage {
    pub(crate) envelope: Envelope,
    pub(crate) len: u64,
    pub(crate) body: UnexpectedBody,
}

impl UnexpectedMessage {
    /// What its receiver will be told of it.
    pub(crate) fn status(&self) -> Status {
        self.envelope.status(self.len)
    }

    /// Its sender, and the sender's id of it, if only an offer is here.
    fn offer(&self) -> Option<(u32, u64)> {
        match &self.body {
            UnexpectedBody::Offered(offer) => Some((self.envelope.from, offer.send)),
            _ => None,
        }
    }

    /// Whether the message can be received whatever becomes of its sender.
    pub(crate) fn is_here(&self) -> bool {
        match &self.body {
            UnexpectedBody::Bytes(_) | UnexpectedBody::Loopback(_) | UnexpectedBody::Lost(_) => {
                true
            }
            UnexpectedBody::Partial(bytes) => bytes.len() as u64 == self.len,
            UnexpectedBody::Offered(_) | UnexpectedBody::InArena(_) => false,
        }
    }
}

struct Entry {
    generation: u32,
    /// Its position in the unexpected queue.
    queued: Option<UnexpectedId>,
    claimed: bool,
    message: Option<UnexpectedMessage>,
}

/// Buffers longer than this are freed at once.
const SPARE_BYTES: usize = 64 * 1024;
/// Most buffers that are kept.
const SPARE_COUNT: usize = 64;

/// The messages, by token.
pub(crate) struct UnexpectedStore {
    entries: Vec<Entry>,
    free: Vec<Slot>,
    /// Offers, by their sender and its id of the send: one that is taken back is found among
    /// however many messages.
    offers: HashMap<(u32, u64), u32>,
    /// Buffers of delivered messages, to be used again; so a steady state does not allocate.
    spare: Vec<Vec<u8>>,
}

impl UnexpectedStore {
    pub(crate) fn new() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            offers: HashMap::new(),
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

    /// Keeps a message; gives its token. `None`: there is no memory for it.
    pub(crate) fn insert(&mut self, message: UnexpectedMessage) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            self.entries[slot as usize].message = Some(message);
            return Some(slot);
        }
        self.entries.try_reserve(1).ok()?;
        // As many as there are entries, so that there is room when each is given back.
        self.free.try_reserve(self.entries.capacity()).ok()?;
        self.entries.push(Entry {
            generation: FIRST_GENERATION,
            queued: None,
            claimed: false,
            message: Some(message),
        });
        Some((self.entries.len() - 1) as u32)
    }

    pub(crate) fn get(&self, token: u32) -> Option<&UnexpectedMessage> {
        self.entries.get(token as usize)?.message.as_ref()
    }

    pub(crate) fn take(&mut self, token: u32) -> Option<UnexpectedMessage> {
        let entry = self.entries.get_mut(token as usize)?;
        let message = entry.message.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        entry.claimed = false;
        self.free.push(token);
        Some(message)
    }

    /// The id of a message that a matched probe took out of the queue.
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
        (entry.claimed && entry.message.is_some() && entry.generation == (id.0 >> 32) as u32)
            .then_some(token)
    }

    /// Remembers the position of a message in the unexpected queue.
    pub(crate) fn set_queued(&mut self, token: u32, id: UnexpectedId) {
        if let Some(entry) = self.entries.get_mut(token as usize) {
            entry.queued = Some(id);
        }
    }

    /// The position of a message in the unexpected queue.
    pub(crate) fn queued(&self, token: u32) -> Option<UnexpectedId> {
        self.entries.get(token as usize)?.queued
    }

    /// Messages in arenas of a peer, claimed or not.
    pub(crate) fn in_arenas_of(&self, peer: u32) -> Vec<(u32, ArenaMessage)> {
        let in_arena = |(token, entry): (usize, &Entry)| {
            let message = entry.message.as_ref()?;
            match message.body {
                UnexpectedBody::InArena(place) if message.envelope.from == peer => {
                    Some((token as u32, place))
                }
                _ => None,
            }
        };
        self.entries
            .iter()
            .enumerate()
            .filter_map(in_arena)
            .collect()
    }

    /// Replaces what is there of a message.
    pub(crate) fn replace(&mut self, token: u32, body: UnexpectedBody) {
        let entry = self.entries.get_mut(token as usize);
        if let Some(message) = entry.and_then(|entry| entry.message.as_mut()) {
            if let Some(offer) = message.offer() {
                self.offers.remove(&offer);
            }
            message.body = body;
        }
    }

    /// A message is an offer. False: there is no memory to find it when it is taken back.
    pub(crate) fn note_offer(&mut self, token: u32) -> bool {
        let offer = self.get(token).and_then(UnexpectedMessage::offer);
        if self.offers.try_reserve(1).is_err() {
            return false;
        }
        self.offers.extend(offer.map(|offer| (offer, token)));
        true
    }

    /// A message is kept no longer. If a peer that breaks the rules has sent several offers under
    /// one id, it cannot take back the others.
    pub(crate) fn forget_offer(&mut self, message: &UnexpectedMessage) {
        if let Some(offer) = message.offer() {
            self.offers.remove(&offer);
        }
    }

    /// An offer that nobody has claimed, by its sender and the sender's id of it.
    pub(crate) fn offered(&self, from: u32, send: u64) -> Option<u32> {
        let token = *self.offers.get(&(from, send))?;
        let entry = self.entries.get(token as usize)?;
        let offer = entry.message.as_ref()?.offer();
        (!entry.claimed && offer == Some((from, send))).then_some(token)
    }

    /// The bytes of a message that comes in fragments.
    pub(crate) fn partial(&mut self, token: u32) -> Option<&mut Vec<u8>> {
        let message = self.entries.get_mut(token as usize)?.message.as_mut()?;
        match &mut message.body {
            UnexpectedBody::Partial(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Messages that fit a condition, of those that somebody has claimed or of the others. Linear:
    /// failures, and the cancellation of what an endpoint sends itself.
    pub(crate) fn find(
        &self,
        claimed: bool,
        fits: impl Fn(&UnexpectedMessage) -> bool,
    ) -> Vec<u32> {
        let fits =
            |entry: &Entry| entry.claimed == claimed && entry.message.as_ref().is_some_and(&fits);
        self.entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| fits(entry))
            .map(|(token, _)| token as u32)
            .collect()
    }
}
