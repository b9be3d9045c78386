//! A message arrives, and meets its receive or waits for it; a receive meets its message.

use super::Core;
use super::inbound;
use super::posted;
use super::requests::{Operation, ReceiveStage, Receiving, Slot, receive_outcome};
use super::stash::{Arrived, LoanedAt, Offer, Waiting};
use super::told::Told;
use super::wire;
use crate::buffer::{Behind, ReceiveBuffer, Source, words};
use crate::policy::Path;
use crate::policy::lag::LONG;
use crate::raw::{ClaimId, Posted, RawSliceMut};
use crate::{Error, Peer, Result, Selector, Status, Tag};

impl Core {
    /// [`receive_arrived`](Self::receive_arrived) of a message that was looked at before.
    #[inline(never)]
    pub(crate) fn receive_known(&mut self, token: u32, into: ReceiveBuffer) -> Posted {
        self.receive_arrived(token, into, 0)
    }

    /// Receives a message that waits in the stash, for a scope if `owner` is not 0.
    #[inline(always)]
    pub(crate) fn receive_arrived(
        &mut self,
        token: u32,
        into: ReceiveBuffer,
        owner: u32,
    ) -> Posted {
        let Some(arrived) = self.stash.take(token) else {
            return Posted::Done(Err(Error::UnknownRequest));
        };
        match arrived {
            Arrived {
                from,
                tag,
                immediate,
                waiting: Waiting::Bytes(bytes),
                ..
            } => self.receive_kept(from, tag, immediate, bytes, &into),
            other => self.receive_offered(other, into, owner),
        }
    }

    #[inline(always)]
    fn receive_kept(
        &mut self,
        from: u32,
        tag: u64,
        immediate: Option<u64>,
        bytes: Vec<u8>,
        into: &ReceiveBuffer,
    ) -> Posted {
        let len = bytes.len() as u64;
        into.copy_from(0, len, &bytes[..]);
        self.count_unexpected(-(len as i64));
        self.stash.recycle(bytes);
        self.note_kept(from, len);
        Posted::Done(receive_outcome(from, tag, immediate, len, into.len()))
    }

    /// Receives a message of which the stash has less than all bytes, or has them in pieces.
    #[inline(never)]
    fn receive_offered(&mut self, arrived: Arrived, into: ReceiveBuffer, owner: u32) -> Posted {
        let here = arrived.is_here();
        let Arrived {
            from,
            tag,
            immediate,
            len,
            waiting,
        } = arrived;
        if let Some(behind) = waiting.holds_up() {
            self.sender_waited(from, behind);
        }
        if !here && let Some(why) = self.peers.get(from).and_then(|peer| peer.failure.clone()) {
            // Claimed before its sender went, and the bytes went with it.
            if let Waiting::Coming(bytes) = waiting {
                self.count_unexpected(-(bytes.len() as i64));
            }
            let peer = Peer(from);
            return Posted::Done(Err(Error::PeerFailed { peer, why }));
        }
        match waiting {
            Waiting::Bytes(bytes) => self.receive_kept(from, tag, immediate, bytes, &into),
            Waiting::Coming(bytes) => {
                let incoming = inbound::incoming(from, tag, immediate, len, into.len());
                self.receive_coming(incoming, bytes, into, owner)
            }
            Waiting::Loaned(loan) => {
                let copied = self.copy_loan(loan, len, &into);
                if loan.ahead.is_some() {
                    self.was_at_work(from);
                }
                let outcome = receive_outcome(from, tag, immediate, len, into.len());
                Posted::Done(copied.and(outcome))
            }
            Waiting::Offered(offer) => {
                let stage =
                    ReceiveStage::Assembling(super::rendezvous::incoming(&offer, into.len()));
                let slot = self
                    .requests
                    .insert(Operation::Receive(Receiving { into, stage }));
                self.accept(slot, &offer);
                match self.requests.take_done(slot) {
                    Some(outcome) => Posted::Done(outcome),
                    None => {
                        self.requests.set_owner(slot, owner);
                        Posted::Pending(self.requests.id(slot))
                    }
                }
            }
            Waiting::Local(id) => {
                let room = into.len();
                if let Some(slot) = self.requests.find(id)
                    && let Some(sending) = self.requests.sending(slot)
                {
                    into.copy_from_send(&sending.data, room);
                    self.requests
                        .complete(slot, super::send::sent(from, tag, len));
                    // Nobody rings for it, and another thread may poll for its send.
                    self.poller.disturb();
                }
                self.note_received_by(from, Path::SelfCopy, len);
                Posted::Done(receive_outcome(from, tag, immediate, len, room))
            }
        }
    }

    /// Receives a claimed message.
    ///
    /// # Safety
    /// As [`RawEndpoint::post_recv`](crate::RawEndpoint::post_recv).
    pub(crate) unsafe fn post_claimed(
        &mut self,
        claim: ClaimId,
        into: &[RawSliceMut],
    ) -> Result<Posted> {
        let token = self.stash.claimed(claim).ok_or(Error::UnknownRequest)?;
        // SAFETY: the caller's promise is the buffer's invariant.
        Ok(self.receive_known(token, unsafe { ReceiveBuffer::new(into) }))
    }

    /// The oldest message that fits, left where it is.
    pub(crate) fn probe(&mut self, selector: &Selector) -> Result<Option<Status>> {
        match self.matcher.probe(&posted::query(selector)) {
            Some((_, token)) => Ok(self.stash.get(token).map(Arrived::status)),
            None => self.check_selector(selector).map(|()| None),
        }
    }

    /// The oldest message that fits, taken out of the queue.
    pub(crate) fn claim(&mut self, selector: &Selector) -> Result<Option<(Status, ClaimId)>> {
        match self.matcher.take_unexpected(&posted::query(selector)) {
            Some((_, token)) => {
                let status = self.stash.get(token).map(Arrived::status);
                Ok(status.zip(self.stash.claim(token)))
            }
            None => self.check_selector(selector).map(|()| None),
        }
    }

    /// A whole message came through a ring.
    #[inline(always)]
    pub(crate) fn on_eager(
        &mut self,
        from: u32,
        tag: u64,
        immediate: Option<u64>,
        source: &impl Source,
    ) {
        let delivered = self.requests.deliver_to_first(from, tag, immediate, source)
            || self.deliver_eager(from, tag, immediate, source);
        if delivered {
            self.note_received(from, 1, source.len());
        }
    }

    /// As [`on_eager`](Self::on_eager), for a message that is not for the first receive in line. True if it was delivered and
    /// the caller has to count it.
    #[inline(always)]
    pub(crate) fn deliver_eager(
        &mut self,
        from: u32,
        tag: u64,
        immediate: Option<u64>,
        source: &impl Source,
    ) -> bool {
        let len = source.len();
        let Some(slot) = self.take_posted(from, tag) else {
            self.keep_bytes(from, tag, immediate, source);
            return false;
        };
        let status = Status {
            peer: Peer(from),
            tag: Tag(tag),
            len,
            immediate,
        };
        if !self.requests.deliver_posted(slot, status, source) {
            self.deliver_elsewhere(slot, from, tag, immediate, source);
        }
        true
    }

    /// Delivers to a posted receive that has too little room, or room in pieces, or that somebody had a look at meanwhile.
    #[cold]
    fn deliver_elsewhere(
        &mut self,
        slot: Slot,
        from: u32,
        tag: u64,
        immediate: Option<u64>,
        source: &impl Source,
    ) {
        let len = source.len();
        if let Some(receiving) = self.requests.receiving(slot) {
            let room = receiving.into.len();
            receiving.into.copy_from(0, len, source);
            let outcome = receive_outcome(from, tag, immediate, len, room);
            self.requests.complete(slot, outcome);
        }
    }

    /// A whole message came through a ring, behind its immediate word.
    #[inline]
    pub(crate) fn on_eager_immediate(&mut self, from: u32, tag: u64, source: &impl Source) {
        if source.len() < wire::IMMEDIATE_BYTES {
            return self.corrupt(
                from,
                "a message without the immediate word that it should have",
            );
        }
        let [immediate] = words::<1>(source);
        let payload = Behind {
            inner: source,
            skip: wire::IMMEDIATE_BYTES,
        };
        self.on_eager(from, tag, Some(immediate), &payload);
    }

    /// A whole message came in a piece of a pool.
    #[inline]
    pub(crate) fn on_eager_chunk(&mut self, from: u32, tag: u64, source: &impl Source) {
        let (told, immediate) = Told::whole(source);
        self.read_told(from, told, |core, window| {
            core.on_eager(from, tag, immediate, window);
        });
    }

    /// A long message is offered.
    pub(crate) fn on_offer(&mut self, from: u32, tag: u64, source: &impl Source) {
        let [remote, len, address, key, flags, word] = words::<6>(source);
        let immediate = wire::immediate_of(flags, word);
        let in_pieces = flags & wire::IN_PIECES != 0;
        let confirm = flags & wire::CONFIRM != 0;
        let offer = Offer {
            from,
            tag,
            immediate,
            len,
            remote,
            address,
            key,
            in_pieces,
            confirm,
        };
        match self.take_posted(from, tag) {
            Some(slot) => {
                self.receive_was_posted(from);
                self.accept(slot, &offer);
            }
            None => {
                self.store(Arrived {
                    from,
                    tag,
                    immediate,
                    len,
                    waiting: Waiting::Offered(offer),
                });
            }
        }
    }

    /// A message lies in an arena of the sender.
    pub(crate) fn on_loan(&mut self, from: u32, tag: u64, source: &impl Source) {
        let (loan, len) = LoanedAt::told(from, source);
        self.on_loaned(loan, tag, None, len);
    }

    /// A message that went ahead lies in an arena of the sender.
    pub(crate) fn on_ahead(&mut self, from: u32, tag: u64, source: &impl Source) {
        let [place, offset, len, order, flags, immediate] = words::<6>(source);
        let loan = LoanedAt {
            from,
            arena: place as u32,
            offset,
            flag: (place >> 32) as u32,
            generation: order as u32,
            ahead: Some((order >> 32) as u32),
        };
        self.on_loaned(loan, tag, wire::immediate_of(flags, immediate), len);
    }

    fn on_loaned(&mut self, loan: LoanedAt, tag: u64, immediate: Option<u64>, len: u64) {
        let from = loan.from;
        match self.take_posted(from, tag) {
            Some(slot) => {
                let released = core::mem::replace(self.requests.get(slot), Operation::Over);
                let Operation::Receive(receiving) = released else {
                    return;
                };
                match loan.ahead {
                    // It may have lain in the ring for long when its receive was posted.
                    Some(before) if before >= LONG => {
                        self.sender_waits(from);
                        self.sender_waited(from, before);
                    }
                    Some(_) => self.receive_was_posted(from),
                    None => {}
                }
                let copied = self.copy_loan(loan, len, &receiving.into);
                if loan.ahead.is_some() {
                    self.was_at_work(from);
                }
                let outcome = receive_outcome(from, tag, immediate, len, receiving.into.len());
                self.requests.complete(slot, copied.and(outcome));
            }
            None => {
                self.store(Arrived {
                    from,
                    tag,
                    immediate,
                    len,
                    waiting: Waiting::Loaned(loan),
                });
            }
        }
    }

    /// Messages came whole through a ring.
    #[inline(always)]
    pub(crate) fn note_received(&mut self, from: u32, messages: u64, bytes: u64) {
        if let Some(peer) = self.peers.get(from) {
            peer.counts.received(messages, bytes);
        }
    }

    /// A message was received that was kept here until then.
    pub(crate) fn note_kept(&mut self, from: u32, len: u64) {
        if self.peers.me == Some(from) {
            self.note_received_by(from, Path::SelfCopy, len);
        } else {
            self.note_received(from, 1, len);
        }
    }

    /// A message was received by a path that its receiver takes part in.
    pub(crate) fn note_received_by(&mut self, from: u32, path: Path, len: u64) {
        self.note_received(from, 1, len);
        self.tally.received(path, len);
    }
}
