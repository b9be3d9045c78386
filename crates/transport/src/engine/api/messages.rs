//! Sends, receives and probes.

use limic_shm::bytes::ReceiveBuffer;

use crate::engine::Engine;
use crate::engine::bypass::receive::{self as receive_bypass, Bypass, Round};
use crate::engine::contact::connections;
use crate::engine::envelope::{Envelope, Told};
use crate::engine::progress::work;
use crate::engine::protocol::{assembly, receive, send};
use crate::engine::request::Incoming;
use crate::error::Outcome;
use crate::raw::{
    ClaimId, Inbox, Owner, Posted, RawSlice, RawSliceMut, RequestId, Reserved, SendOptions,
};
use crate::{Result, Selector, Status};

/// Sends.
impl Engine {
    /// # Safety
    /// As [`send::post`].
    pub(crate) unsafe fn post_send(
        &mut self,
        to: u32,
        tag: u64,
        options: SendOptions,
        data: &[RawSlice],
    ) -> Result<Posted> {
        self.ensure_own();
        // SAFETY: the caller's promise.
        let posted = unsafe { send::post(&mut self.cx, to, tag, options, data) };
        // It may wait for a first contact.
        if self.cx.peers.has_to_contact() {
            connections::contact_peers(&mut self.cx);
        }
        posted
    }
}

/// Receives.
impl Engine {
    /// Receives and waits.
    ///
    /// # Safety
    /// As [`Messages::recv_blocking`](crate::raw::Messages::recv_blocking).
    #[inline]
    pub(crate) unsafe fn recv_blocking(
        &mut self,
        selector: &Selector,
        into: &[RawSliceMut],
    ) -> Outcome {
        if let Some(source) = selector.source {
            // SAFETY: the caller's promise, for the time of the call.
            let buffer = unsafe { ReceiveBuffer::new(into) };
            let room = buffer.len();
            match self.receive_bypass(source.0, selector, &buffer) {
                Bypass::Received(tag, len) => {
                    return Envelope::new(source.0, tag).outcome(len, room);
                }
                Bypass::Started(tag, len, at) => {
                    let id = self.post_remaining(source.0, tag, len, at, buffer);
                    return self.wait(id);
                }
                Bypass::NotTaken => {}
            }
        }
        // SAFETY: the caller's promise.
        match unsafe { receive::post_recv(&mut self.cx, selector, into, Owner::Caller) }? {
            Posted::Done(outcome) => outcome,
            Posted::Pending(id) => self.wait(id),
        }
    }

    #[inline]
    pub(in crate::engine) fn receive_bypass(
        &mut self,
        source: u32,
        selector: &Selector,
        into: &ReceiveBuffer,
    ) -> Bypass {
        self.bypassed += 1;
        if work::has_slow_work(&self.cx) || self.bypassed >= receive_bypass::OTHERS_EVERY {
            // Who receives one message after the other must not keep the other peers from theirs.
            // What comes from this source would be unexpected if it were taken now.
            self.bypassed = 0;
            self.cx.regions.help.others_moved();
            self.polled.in_call();
            self.poll_except(Some(source));
        }
        for _ in 0..receive_bypass::rounds(self.cx.wakeup.spins()) {
            match receive_bypass::round(&mut self.rings, &mut self.cx, source, selector, into) {
                Round::Over(outcome, weight) => {
                    self.bypassed += weight;
                    return outcome;
                }
                // The message may come meanwhile, and would have no receive.
                Round::Empty => {
                    self.progress_except(Some(source));
                }
                Round::Other => {}
            }
        }
        Bypass::NotTaken
    }

    /// The first `at` bytes of a message are in the buffer; the others come as for any receive.
    #[cold]
    pub(in crate::engine) fn post_remaining(
        &mut self,
        source: u32,
        tag: u64,
        len: u64,
        at: u64,
        into: ReceiveBuffer,
    ) -> RequestId {
        let incoming = Incoming::new(Envelope::new(source, tag), len, into.len());
        let slot = assembly::receive_remaining(&mut self.cx, incoming, at, into);
        self.cx.requests.id(slot)
    }

    pub(crate) fn probe(&mut self, selector: &Selector) -> Result<Option<Status>> {
        self.poll();
        receive::probe(&mut self.cx, selector)
    }

    pub(crate) fn claim(&mut self, selector: &Selector) -> Result<Option<(Status, ClaimId)>> {
        self.poll();
        receive::claim(&mut self.cx, selector)
    }

    pub(crate) fn reserve_tags(&mut self, tag: u64, mask: u64) {
        self.cx.matching.reserve_tags(tag, mask);
    }

    #[inline(always)]
    pub(crate) fn has_reserved(&self) -> bool {
        self.cx.matching.has_reserved()
    }

    pub(crate) fn use_inbox(&mut self, used: bool) {
        self.cx.matching.use_inbox(used);
    }

    #[inline(always)]
    pub(crate) fn take_inbox(&mut self, inbox: &mut Inbox) {
        self.cx.matching.take_inbox(inbox);
    }

    #[inline(always)]
    pub(crate) fn takes_receipts(&self, peer: u32) -> bool {
        self.rings.input_of(peer).is_some()
    }

    #[inline(always)]
    pub(crate) fn give_receipt(&mut self, peer: u32, receipt: u64) {
        let Some(ring) = self.rings.input_of(peer) else {
            return;
        };
        ring.give_receipt(receipt);
        // It may sleep until it has the receipt.
        if let Some(pair) = self.cx.peers.pair(peer) {
            pair.out.wake();
        }
    }

    #[inline(always)]
    pub(crate) fn receipt_of(&mut self, peer: u32) -> u64 {
        let pair = self.cx.peers.find(peer).and_then(|peer| peer.pair());
        pair.map_or(0, |pair| pair.out.receipt())
    }

    pub(crate) fn take_reserved(&mut self) -> Option<Reserved> {
        self.cx.matching.take_reserved()
    }

    pub(crate) fn keep_any_source_receives(&mut self) {
        self.cx.matching.deaths.keep_any_source_receives();
    }
}
