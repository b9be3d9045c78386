//! Receives. Those from one peer go to the module; those from any source, and those that could
//! overtake one, wait in this process (`queue`).

use limic_copy::{CallError, Found, LocalSliceMut, Messages, Wanted};
use limic_shm::bytes::ReceiveBuffer;

use super::{KernelEngine, Offered, Operation, Place, Receiving};
use crate::engine::request::Slot;
use crate::error::{Outcome, PeerFailure};
use crate::raw::{Access, ClaimId, Inbox, Posted, RawSliceMut, Reserved};
use crate::{Error, Peer, Result, Selector, Status, Tag};

impl KernelEngine {
    /// A selector in the module's words.
    pub(super) fn wanted(&mut self, selector: &Selector) -> Result<Wanted> {
        let source = match selector.source {
            Some(peer) => Some(self.rank(peer.0)?),
            None if self.module.is_none() => {
                // Nobody can send to a closed endpoint: it names itself as the one that is gone.
                return Err(PeerFailure::Closed.of(self.myself()));
            }
            None => None,
        };
        Ok(Wanted {
            source,
            tag: selector.tag.0,
            mask: selector.mask,
        })
    }

    /// Starts a receive.
    ///
    /// # Safety
    /// As [`Messages::post_recv`](crate::raw::Messages::post_recv).
    pub(super) unsafe fn post_recv(
        &mut self,
        selector: &Selector,
        into: &[RawSliceMut],
    ) -> Result<Posted> {
        let wanted = self.wanted(selector)?;
        self.keep_reserved();
        // SAFETY: the caller's promise is the buffer's invariant.
        let into = unsafe { ReceiveBuffer::new(into) };
        let behind = self.waits_before(selector, self.queue.waiting.len());
        let mut probing = false;
        if !behind {
            match selector.source {
                Some(peer) => match self.offer_receive(peer, wanted, &into)? {
                    Some(Offered::Over(outcome)) => return Ok(Posted::Done(outcome)),
                    Some(Offered::Queued(number)) => {
                        let slot = self.insert(selector, into, Place::Module(number), false);
                        if let Some(module) = &mut self.module {
                            module.posted.push((number, slot));
                        }
                        return Ok(Posted::Pending(self.requests.id(slot)));
                    }
                    Some(Offered::Busy) => {}
                    None => probing = true,
                },
                None => match self.look_for(wanted, true)? {
                    Some(found) => return Ok(Posted::Done(self.fetch(found, &into))),
                    None => self.report_a_death()?,
                },
            }
        }
        let slot = self.insert(selector, into, Place::Here, probing);
        self.queue.waiting.push_back(slot);
        // Its message may be here already, if the module was not asked for one.
        self.queue.look |= behind || selector.source.is_some();
        Ok(Posted::Pending(self.requests.id(slot)))
    }

    fn insert(
        &mut self,
        selector: &Selector,
        into: ReceiveBuffer,
        place: Place,
        probing: bool,
    ) -> Slot {
        let selector = *selector;
        self.requests.insert(Operation::Receive(Receiving {
            selector,
            into,
            place,
            probing,
        }))
    }

    /// Hands a receive to the module. One trap. `None`: the module may not pin so much, or not this
    /// memory, so that the receive has to find its message by probes, and be second.
    pub(super) fn offer_receive(
        &mut self,
        peer: Peer,
        wanted: Wanted,
        into: &ReceiveBuffer,
    ) -> Result<Option<Offered>> {
        if into.slices().len() > Messages::SLICES {
            return Ok(None);
        }
        let offered = self.offer(
            // SAFETY: the request keeps the buffer, which is writable by its invariant, until it is
            // over.
            |messages, slot| unsafe { messages.recv(slot, wanted, &room(into)) },
            |engine, ended| engine.received(into.len(), Some(peer), ended),
        );
        match offered {
            Ok(offered) => Ok(Some(offered)),
            Err(CallError::LockedMemory | CallError::BadAddress) => Ok(None),
            Err(why) => Err(self.error(peer.0, why)),
        }
    }

    /// Asks the module for a message. One trap.
    pub(super) fn look_for(&mut self, wanted: Wanted, take: bool) -> Result<Option<Found>> {
        let Some(module) = &self.module else {
            return Ok(None);
        };
        match module.messages.probe(wanted, take) {
            Ok(found) => Ok(found),
            Err(why) => {
                let peer = wanted.source.map_or(Peer(0), |rank| self.peer_of(rank));
                Err(self.error(peer.0, why))
            }
        }
    }

    /// Receives a message that a probe took: copied when this returns.
    pub(super) fn fetch(&mut self, found: Found, into: &ReceiveBuffer) -> Outcome {
        let Some(module) = &mut self.module else {
            return Err(Error::UnknownRequest);
        };
        // One is always kept for this.
        let Some(number) = module.free.pop() else {
            return Err(Error::UnknownRequest);
        };
        let mut whole = None;
        let slices = if into.slices().len() > Messages::SLICES {
            let bytes = whole.insert(vec![0_u8; into.len().min(found.len) as usize]);
            vec![LocalSliceMut::new(bytes.as_mut_ptr(), bytes.len())]
        } else {
            room(into)
        };
        // SAFETY: writable by the buffer's invariant, or a vector of this call.
        let called = unsafe { module.messages.recv_taken(number, found.name, &slices) };
        let ended = module.messages.ended(number);
        module.free.push(number);
        match called {
            Ok(_) => {}
            Err(CallError::NoMessage) => return Err(Error::UnknownRequest),
            Err(why) => {
                let peer = self.peer_of(found.source);
                return Err(self.error(peer.0, why));
            }
        }
        if let Some(bytes) = whole {
            into.copy_from(0, bytes.len() as u64, &bytes[..]);
        }
        let source = Some(self.peer_of(found.source));
        self.received(into.len(), source, ended)
    }

    fn report_a_death(&mut self) -> Result<()> {
        match self.deaths.take() {
            None => Ok(()),
            Some((peer, why)) => Err(why.of(Peer(peer))),
        }
    }

    /// The oldest message that fits and that no receive waits for; with `take`, out of matching.
    fn see(&mut self, selector: &Selector, take: bool) -> Result<Option<Found>> {
        let wanted = self.wanted(selector)?;
        self.poll();
        self.keep_reserved();
        loop {
            let Some(found) = self.look_for(wanted, false)? else {
                if selector.source.is_none() {
                    self.report_a_death()?;
                }
                return Ok(None);
            };
            if self.fits_one_before(&found, self.queue.waiting.len()) {
                // It came just now, and belongs to a receive.
                self.serve();
                continue;
            }
            return if take {
                self.look_for(wanted, true)
            } else {
                Ok(Some(found))
            };
        }
    }

    fn status(&mut self, found: &Found) -> Status {
        Status {
            peer: self.peer_of(found.source),
            tag: Tag(found.tag),
            len: found.len,
            immediate: found.immediate,
        }
    }

    /// The oldest message that fits, left where it is.
    pub(super) fn probe(&mut self, selector: &Selector) -> Result<Option<Status>> {
        let found = self.see(selector, false)?;
        Ok(found.map(|found| self.status(&found)))
    }

    /// The oldest message that fits, taken out of matching.
    pub(super) fn claim(&mut self, selector: &Selector) -> Result<Option<(Status, ClaimId)>> {
        let found = self.see(selector, true)?;
        Ok(found.map(|found| (self.status(&found), self.claims.claimed(&found))))
    }

    /// Receives a claimed message.
    ///
    /// # Safety
    /// As [`Messages::post_recv`](crate::raw::Messages::post_recv).
    pub(super) unsafe fn post_claimed(
        &mut self,
        claim: ClaimId,
        into: &[RawSliceMut],
    ) -> Result<Posted> {
        let found = self.claims.take(claim).ok_or(Error::UnknownRequest)?;
        // SAFETY: the caller's promise is the buffer's invariant.
        let into = unsafe { ReceiveBuffer::new(into) };
        Ok(Posted::Done(self.fetch(found, &into)))
    }

    /// Takes a message and gives it as bytes.
    pub(super) fn take_whole(&mut self, selector: &Selector) -> Result<Option<(Status, Vec<u8>)>> {
        let Some(found) = self.see(selector, false)? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        make_room(&mut bytes, found.len)?;
        let wanted = self.wanted(selector)?;
        let Some(found) = self.look_for(wanted, true)? else {
            return Ok(None);
        };
        // It is another one if the sender has cancelled that which was seen.
        if let Err(short) = make_room(&mut bytes, found.len) {
            // Its sender waits for somebody to receive it.
            // SAFETY: there is no memory at all.
            let nothing = unsafe { ReceiveBuffer::new(&[]) };
            let _truncated = self.fetch(found, &nothing);
            return Err(short);
        }
        // SAFETY: the vector outlives the call.
        let into = unsafe { ReceiveBuffer::new(&[RawSliceMut::from(&mut bytes[..])]) };
        let status = self.fetch(found, &into)?;
        Ok(Some((status, bytes)))
    }

    /// Receives from any source outlive a peer.
    pub(super) fn keep_any_source_receives(&mut self) {
        self.deaths.keep_any_source_receives();
    }

    /// Keeps messages with this tag out of matching.
    pub(super) fn reserve_tags(&mut self, tag: u64, mask: u64) {
        self.claims.reserve(tag, mask);
        self.queue.look = true;
    }

    /// Takes what is to be kept out of matching out of it. A trap for each, and one more.
    pub(super) fn keep_reserved(&mut self) {
        let Some((tag, mask)) = self.claims.reserved() else {
            return;
        };
        let wanted = Wanted {
            source: None,
            tag,
            mask,
        };
        while let Ok(Some(found)) = self.look_for(wanted, true) {
            let status = self.status(&found);
            let claim = self.claims.claimed(&found);
            self.claims.keep(status, claim);
        }
    }

    /// Whether something was kept out of matching.
    pub(super) fn has_reserved(&self) -> bool {
        self.claims.has_kept()
    }

    /// Bytes of messages are with the module.
    pub(super) fn use_inbox(&mut self, _: bool) {}

    pub(super) fn take_inbox(&mut self, inbox: &mut Inbox) {
        inbox.clear();
    }

    /// Regions are accessed without a record that could tell of it.
    pub(super) fn report_accesses(&mut self, _: u64, _: Access) {}

    /// Messages come through the module alone, and nothing goes past it.
    pub(super) fn takes_receipts(&self, _: u32) -> bool {
        false
    }

    pub(super) fn give_receipt(&mut self, _: u32, _: u64) {}

    pub(super) fn receipt_of(&self, _: u32) -> u64 {
        0
    }

    /// The oldest message that was kept out of matching.
    pub(super) fn take_reserved(&mut self) -> Option<Reserved> {
        self.claims.next_kept()
    }
}

/// Makes a vector as long as a message.
fn make_room(bytes: &mut Vec<u8>, len: u64) -> Result<()> {
    let long = usize::try_from(len).unwrap_or(usize::MAX);
    bytes
        .try_reserve_exact(long.saturating_sub(bytes.len()))
        .map_err(|_| Error::NoMemory(format!("a message of {len} bytes")))?;
    bytes.resize(long, 0);
    Ok(())
}

/// Room of a receive as the module takes it.
fn room(into: &ReceiveBuffer) -> Vec<LocalSliceMut> {
    let there = into.slices().iter().filter(|slice| slice.len > 0);
    there.map(|s| LocalSliceMut::new(s.start, s.len)).collect()
}
