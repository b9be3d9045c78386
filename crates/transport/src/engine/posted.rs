//! Receives that are posted, and the messages that find them.
//!
//! A receive waits in line, in the entry of its request, as long as messages come in the order of the receives. The first
//! message that finds its receive behind others ends that: all of them move to the posted queue of the matching crate, which
//! finds any at once, and so do those that are posted until that queue is empty again. So no receive moves twice.
//!
//! # Invariants
//! While any waits in line, the posted queue is empty.

use limic_matching::{Full, Selector as Query, Source as From};

use super::Core;
use super::requests::Slot;
use crate::buffer::{ReceiveBuffer, Room};
use crate::error::PeerFailure;
use crate::raw::{Posted, RawSliceMut, RequestId};
use crate::{Error, Peer, Result, Selector};

/// Receives at the head of the line that a message is compared with. To look at a few lines that are in the cache costs less
/// than to move all to a queue.
const LOOK_AT: usize = 4;

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

impl Core {
    /// Starts a receive, of a scope if `owner` is not 0.
    ///
    /// # Safety
    /// As [`RawEndpoint::post_recv`](crate::RawEndpoint::post_recv).
    #[inline]
    pub(crate) unsafe fn post_recv(
        &mut self,
        selector: &Selector,
        into: &[RawSliceMut],
        owner: u32,
    ) -> Result<Posted> {
        if let [one] = into
            // SAFETY: the caller's promise.
            && let Some(id) = unsafe { self.post_in_line(selector, *one, owner) }
        {
            return Ok(Posted::Pending(id));
        }
        // SAFETY: the caller's promise.
        unsafe { self.post_otherwise(selector, into, owner) }
    }

    /// The same into one piece, if it can wait in line and nothing is there that it could receive.
    ///
    /// # Safety
    /// As [`post_recv`](Self::post_recv).
    #[inline(always)]
    pub(crate) unsafe fn post_in_line(
        &mut self,
        selector: &Selector,
        into: RawSliceMut,
        owner: u32,
    ) -> Option<RequestId> {
        if !self.matcher.is_empty() || !self.may_come(selector) {
            return None;
        }
        // SAFETY: the caller's promise is the room's invariant.
        let room = unsafe { Room::new(into) };
        Some(self.requests.stand_in_line(&query(selector), room, owner))
    }

    /// The same where a message may be there, or the receive waits in the posted queue, or nothing can ever come.
    ///
    /// # Safety
    /// As [`post_recv`](Self::post_recv).
    #[inline(never)]
    unsafe fn post_otherwise(
        &mut self,
        selector: &Selector,
        into: &[RawSliceMut],
        owner: u32,
    ) -> Result<Posted> {
        let query = query(selector);
        // SAFETY: the caller's promise is the buffer's invariant.
        let into = unsafe { ReceiveBuffer::new(into) };
        if let Some((_, token)) = self.matcher.take_unexpected(&query) {
            return Ok(self.receive_arrived(token, into, owner));
        }
        self.check_selector(selector)?;
        if let Some(room) = into.room()
            && self.matcher.posted_len() == 0
        {
            let id = self.requests.stand_in_line(&query, room, owner);
            return Ok(Posted::Pending(id));
        }
        self.queue_the_line().map_err(|full| no_memory(&full))?;
        let slot = self.requests.take_slot();
        let posted = self.matcher.post(&query, slot).or_else(|_| {
            self.matcher
                .reserve(self.matcher.posted_len().max(256), 0)?;
            self.matcher.post(&query, slot)
        });
        match posted {
            Ok(id) => Ok(Posted::Pending(self.requests.post(slot, id, into, owner))),
            Err(full) => {
                self.requests.release(slot);
                Err(no_memory(&full))
            }
        }
    }

    /// Moves all that wait in line to the posted queue. On an error nothing has changed.
    #[cold]
    fn queue_the_line(&mut self) -> Result<(), Full> {
        if !self.requests.has_line() {
            return Ok(());
        }
        self.matcher.reserve(self.requests.line_len(), 0)?;
        while let Some((slot, selector)) = self.requests.next_in_line() {
            match self.matcher.post(&selector, slot) {
                Ok(id) => self.requests.queued(slot, id),
                // There is room: it was just reserved.
                Err(full) => self.requests.complete(slot, Err(no_memory(&full))),
            }
        }
        Ok(())
    }

    /// Takes the oldest posted receive that the message fits.
    #[inline(always)]
    pub(crate) fn take_posted(&mut self, from: u32, tag: u64) -> Option<Slot> {
        if self.nothing_posted() {
            return None;
        }
        self.find_posted(from, tag)
    }

    #[inline(never)]
    fn find_posted(&mut self, from: u32, tag: u64) -> Option<Slot> {
        if self.requests.has_line() {
            if let Some(slot) = self.requests.take_out_of_line(from, tag, LOOK_AT) {
                return Some(slot);
            }
            if self.queue_the_line().is_err() {
                // Without memory for the queue, one by one.
                return self.requests.take_out_of_line(from, tag, usize::MAX);
            }
        }
        let envelope = limic_matching::Envelope { source: from, tag };
        self.matcher.take_posted(&envelope)
    }

    /// Takes a posted receive back: true if no message had it yet.
    pub(crate) fn take_back(&mut self, slot: Slot) -> bool {
        if self.queue_the_line().is_err() {
            let taken = self.requests.drain_line(|waits, _| waits == slot);
            return !taken.is_empty();
        }
        let posted = self.requests.posted_as(slot);
        posted.is_some_and(|id| self.matcher.cancel_posted(id).is_some())
    }

    /// Takes back all posted receives from exactly this source, in the order of their posting.
    pub(crate) fn take_back_all(&mut self, source: From) -> Vec<Slot> {
        let picked = |_, selector: &Query| selector.source == source;
        let mut slots = self.requests.drain_line(picked);
        self.matcher
            .drain_posted(source, |_, slot| slots.push(slot));
        slots
    }

    /// Whether no receive is posted.
    #[inline(always)]
    pub(crate) fn nothing_posted(&self) -> bool {
        !self.requests.has_line() && self.matcher.posted_len() == 0
    }

    /// Whether no receive is posted, and no message waits for one.
    #[inline(always)]
    pub(crate) fn nothing_to_match(&self) -> bool {
        !self.requests.has_line() & self.matcher.is_empty()
    }

    /// Whether something may come that the selector accepts.
    #[inline(always)]
    fn may_come(&self, selector: &Selector) -> bool {
        let alive = match selector.source {
            Some(peer) => self.peers.is_alive(peer.0),
            None => self.unreported.is_empty(),
        };
        alive & !self.closed
    }

    /// Refuses a selector that nothing can ever fulfil.
    #[inline(always)]
    pub(crate) fn check_selector(&mut self, selector: &Selector) -> Result<()> {
        if self.may_come(selector) {
            return Ok(());
        }
        self.refuse_selector(selector)
    }

    #[cold]
    fn refuse_selector(&mut self, selector: &Selector) -> Result<()> {
        let (peer, why) = match selector.source {
            Some(peer) => {
                let failure = self.peers.known(peer.0)?.failure.clone();
                (peer, failure.unwrap_or(PeerFailure::Closed))
            }
            // Nobody can send to a closed endpoint: it names itself as the one that is gone.
            None if self.closed => (Peer(self.peers.me.unwrap_or(u32::MAX)), PeerFailure::Closed),
            None => match self.unreported.pop() {
                None => return Ok(()),
                Some((peer, why)) => (Peer(peer), why),
            },
        };
        Err(Error::PeerFailed { peer, why })
    }
}

fn no_memory(full: &Full) -> Error {
    Error::NoMemory(format!("the queue of posted receives cannot grow: {full}"))
}
