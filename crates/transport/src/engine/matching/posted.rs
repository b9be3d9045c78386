//! Receives that are posted, and the messages that find them.
//!
//! A receive waits in the fifo, in the entry of its operation, as long as messages come in the
//! order of the receives. The first message that finds its receive behind others ends that: all
//! receives move to the posted queue of the matching crate, which finds any of them at once. So do
//! receives that are posted until that queue is empty again, so that no receive moves twice.

use limic_matching::{Full, PostedId, Selector as Query, Source as From};
use limic_shm::bytes::{ReceiveBuffer, SingleSlice};

use super::Matching;
use crate::engine::peer::table::Peers;
use crate::engine::request::{Requests, Slot};
use crate::raw::{Owner, RequestId};
use crate::{Error, Result, Selector};

/// Receives at the head of the fifo that a message is compared with. To look at a few cache lines
/// costs less than to move all receives to a queue.
const FIFO_SCAN: usize = 4;

/// The selector in the words of the matching crate.
#[inline]
pub(crate) fn query(selector: &Selector) -> Query {
    let source = match selector.source {
        Some(peer) => From::Is(peer.0),
        None => From::Any,
    };
    Query {
        source,
        tag: selector.tag.0,
        mask: selector.mask,
    }
}

impl Matching {
    /// Posts a receive into one slice, if it can wait in the fifo and no message waits.
    #[inline(always)]
    pub(crate) fn post_to_fifo(
        &self,
        requests: &mut Requests,
        peers: &Peers,
        selector: &Selector,
        room: SingleSlice,
        owner: Owner,
    ) -> Option<RequestId> {
        if !self.matcher.is_empty() || !self.can_arrive(peers, selector) {
            return None;
        }
        Some(requests.enqueue_posted(&query(selector), room, owner))
    }

    /// Posts a receive for which no message waits.
    pub(crate) fn post(
        &mut self,
        requests: &mut Requests,
        query: &Query,
        into: ReceiveBuffer,
        owner: Owner,
    ) -> Result<RequestId> {
        if let Some(room) = into.single_slice() {
            if self.matcher.posted_len() == 0 {
                return Ok(requests.enqueue_posted(query, room, owner));
            }
        }
        self.move_fifo_to_matcher(requests)
            .map_err(|full| no_memory(&full))?;
        let slot = requests.take_slot();
        let posted = self.matcher.post(query, slot).or_else(|_| {
            let more = self.matcher.posted_len().max(256);
            self.matcher.reserve(more, 0)?;
            self.matcher.post(query, slot)
        });
        match posted {
            Ok(id) => Ok(requests.post(slot, id, into, owner)),
            Err(full) => {
                requests.release(slot);
                Err(no_memory(&full))
            }
        }
    }

    /// Moves all receives of the fifo to the posted queue. On an error nothing has changed.
    #[cold]
    pub(super) fn move_fifo_to_matcher(&mut self, requests: &mut Requests) -> Result<(), Full> {
        if !requests.has_fifo() {
            return Ok(());
        }
        self.matcher.reserve(requests.fifo_len(), 0)?;
        while let Some((slot, selector)) = requests.pop_fifo() {
            match self.matcher.post(&selector, slot) {
                Ok(id) => requests.moved_to_matcher(slot, id),
                // There is room: it was just reserved.
                Err(full) => requests.complete(slot, Err(no_memory(&full))),
            }
        }
        Ok(())
    }

    /// Takes the oldest posted receive that the message matches, or a part of it for the `len`
    /// bytes.
    #[inline(always)]
    pub(crate) fn take_posted(
        &mut self,
        requests: &mut Requests,
        from: u32,
        tag: u64,
        len: u64,
    ) -> Option<Slot> {
        if self.nothing_posted(requests) {
            return None;
        }
        self.find_posted(requests, from, tag, len)
    }

    #[inline(never)]
    fn find_posted(
        &mut self,
        requests: &mut Requests,
        from: u32,
        tag: u64,
        len: u64,
    ) -> Option<Slot> {
        // It would only move the fifo.
        if self.is_reserved(tag) {
            return None;
        }
        if requests.has_fifo() {
            if let Some(slot) = requests.take_from_fifo(from, tag, FIFO_SCAN) {
                return Some(slot);
            }
            if self.move_fifo_to_matcher(requests).is_err() {
                // Without memory for the queue, one by one.
                return requests.take_from_fifo(from, tag, usize::MAX);
            }
        }
        let envelope = limic_matching::Envelope { source: from, tag };
        let slot = self.matcher.take_posted(&envelope)?;
        if self.many.is_empty() {
            return Some(slot);
        }
        Some(self.take_part(requests, slot, from, len))
    }

    /// Whether a message would find a posted receive. Linear.
    pub(crate) fn finds_posted(&mut self, requests: &Requests, from: u32, tag: u64) -> bool {
        let envelope = limic_matching::Envelope { source: from, tag };
        let mut found = requests
            .fifo()
            .any(|(_, selector)| selector.fits(&envelope));
        // Takes none out.
        let look = |selector: &Query| {
            found |= selector.fits(&envelope);
            false
        };
        self.matcher.drain_posted_if(look, |_, _| {});
        found
    }

    /// What a receive in the posted queue asks for.
    pub(crate) fn selector_of(&mut self, posted: PostedId) -> Option<Query> {
        self.matcher.posted_selector(posted)
    }

    /// Takes a posted receive back: true if no message had it yet.
    pub(crate) fn unpost(&mut self, requests: &mut Requests, slot: Slot) -> bool {
        if self.move_fifo_to_matcher(requests).is_err() {
            let taken = requests.drain_fifo(|waits, _| waits == slot);
            return !taken.is_empty();
        }
        self.many.forget(slot);
        let posted = requests.posted_as(slot);
        posted.is_some_and(|id| self.matcher.cancel_posted(id).is_some())
    }

    /// Takes back all posted receives from exactly this source, in the order of posting.
    pub(crate) fn unpost_all(&mut self, requests: &mut Requests, source: From) -> Vec<Slot> {
        let mut slots = requests.drain_fifo(|_, selector: &Query| selector.source == source);
        self.matcher
            .drain_posted(source, |_, slot| slots.push(slot));
        for slot in &slots {
            self.many.forget(*slot);
        }
        slots
    }

    /// The sources that posted receives name. Linear.
    pub(crate) fn named_sources(&mut self, requests: &Requests) -> Vec<u32> {
        let mut named = Vec::new();
        // Takes none out.
        let mut note = |source: From| {
            if let From::Is(peer) = source {
                named.push(peer);
            }
            false
        };
        for (_, selector) in requests.fifo() {
            note(selector.source);
        }
        self.matcher
            .drain_posted_if(|selector| note(selector.source), |_, _| {});
        named
    }

    /// Whether no receive is posted.
    #[inline(always)]
    pub(crate) fn nothing_posted(&self, requests: &Requests) -> bool {
        !requests.has_fifo() & (self.matcher.posted_len() == 0)
    }

    /// Whether no receive is posted, and no message waits for one.
    #[inline(always)]
    pub(crate) fn is_idle(&self, requests: &Requests) -> bool {
        !requests.has_fifo() & self.matcher.is_empty()
    }
}

pub(super) fn no_memory(full: &Full) -> Error {
    Error::NoMemory(format!("the queue of posted receives cannot grow: {full}"))
}
