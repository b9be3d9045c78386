//! What an engine does for the raw interface, call by call.

use std::any::Any;
use std::os::fd::OwnedFd;

use super::Engine;
use super::bypass::loans as loan_bypass;
use super::bypass::receive::{self as receive_bypass, Bypass, Round};
use super::contact::{connections, fabric};
use super::control::spins;
use super::envelope::Envelope;
use super::patience::Awaited;
use super::peer::table::{Channel, PeerState};
use super::progress::work;
use super::protocol::fast_send::FastSend;
use super::protocol::{assembly, cancel, fast_send, loans, receive, regions, rma, send};
use super::request::{Incoming, Operation};
use crate::buffer::ReceiveBuffer;
use crate::counters::Counters;
use crate::engine_cell::{Freed, Frees};
use crate::error::Outcome;
use crate::raw::{
    Access, ClaimId, Posted, RawLoan, RawLoaned, RawSlice, RawSliceMut, RegionId, RequestId,
    SendOptions,
};
use crate::{Address, Error, Peer, Result, Selector, Status};

/// Peers.
impl Engine {
    pub(crate) fn wake_fd(&self) -> Result<OwnedFd> {
        self.cx
            .wakeup
            .poller
            .descriptor()
            .try_clone_to_owned()
            .map(limic_shm::world::opened)
            .map_err(|e| Error::system("dup of the epoll descriptor", e))
    }

    pub(crate) fn address(&self) -> Address {
        self.cx.identity.address
    }

    pub(crate) fn myself(&mut self) -> Peer {
        let address = self.cx.identity.address;
        // The own address always agrees with itself.
        let number = self.cx.peers.enter(&address, &address);
        Peer(number.unwrap_or(u32::MAX))
    }

    pub(crate) fn connect(&mut self, address: &[u8]) -> Result<Peer> {
        self.ensure_own();
        let address = Address::from_bytes(address)?;
        if !self.cx.peers.knows(&address) {
            self.cx.fabric.check(&address)?;
        }
        let known = self.cx.peers.enter(&address, &self.cx.identity.address);
        if let Some(number) = known {
            fabric::try_anew(&mut self.cx, number);
        }
        spins::update_spins(&mut self.cx);
        known.map(Peer).ok_or_else(|| {
            let text =
                "it has the id of a known endpoint, but another node, secret or fabric address";
            Error::BadAddress(text.to_owned())
        })
    }

    pub(crate) fn peer_address(&mut self, peer: Peer) -> Result<Address> {
        self.cx.peers.known(peer.0).map(|entry| entry.address)
    }

    /// Begins to attach a peer, and says whether it is attached.
    pub(crate) fn attach(&mut self, number: u32) -> Result<bool> {
        self.ensure_own();
        match &self.cx.peers.alive(number)?.state {
            PeerState::Up(Channel::Fabric(connection)) => {
                Ok(self.cx.fabric.is_connected(*connection))
            }
            PeerState::Up(Channel::Shm(_) | Channel::Loopback) => Ok(true),
            PeerState::Unmet { .. } | PeerState::Failed(_) => {
                connections::start(&mut self.cx, number);
                Ok(false)
            }
        }
    }

    /// Attaches a peer whose segment is needed now: one-sided access looks into it, a loan lies in
    /// this endpoint's. Waits for the peer to answer, once for each pair.
    fn attach_blocking(&mut self, number: u32) -> Result<()> {
        self.wait_until(Awaited::Contact(number), |engine| {
            match engine.attach(number) {
                Ok(false) => None,
                Ok(true) => Some(Ok(())),
                Err(error) => Some(Err(error)),
            }
        })
    }

    /// Whether the settings ask that this peer is met when the job starts.
    pub(crate) fn connects_at_start(&mut self, number: u32) -> Result<bool> {
        let address = self.cx.peers.known(number)?.address;
        Ok(self.cx.fabric.connects_at_start() && self.cx.fabric.takes(&address))
    }

    pub(crate) fn counters(&self) -> Counters {
        work::counters(&self.cx)
    }
}

/// Sends.
impl Engine {
    /// # Safety
    /// As [`fast_send::send_fast`].
    #[inline(always)]
    pub(crate) unsafe fn send_fast(&mut self, to: u32, tag: u64, data: RawSlice) -> FastSend {
        // SAFETY: the caller's promise.
        unsafe { fast_send::send_fast(&mut self.cx, to, tag, data) }
    }

    /// Rings the receiver of what was sent just now.
    /// False: this process is a forked child, and nobody received it.
    #[cold]
    pub(crate) fn ring(&mut self, to: u32) -> bool {
        fast_send::ring(&mut self.cx, to)
    }

    /// # Safety
    /// As [`send::send_now`].
    #[inline(always)]
    pub(crate) unsafe fn send_now(
        &mut self,
        to: u32,
        tag: u64,
        immediate: Option<u64>,
        data: &[RawSlice],
    ) -> Result<bool> {
        // SAFETY: the caller's promise.
        unsafe { send::send_now(&mut self.cx, to, tag, immediate, data) }
    }

    /// # Safety
    /// As [`send::try_send`].
    #[inline(always)]
    pub(crate) unsafe fn try_send(
        &mut self,
        to: u32,
        tag: u64,
        immediate: Option<u64>,
        data: &[RawSlice],
    ) -> Result<bool> {
        // SAFETY: the caller's promise.
        unsafe { send::try_send(&mut self.cx, to, tag, immediate, data) }
    }

    /// Makes the first contact with a peer that the message just posted waits for.
    #[inline(always)]
    fn contact_if_needed(&mut self) {
        if !self.cx.peers.to_contact.is_empty() {
            connections::contact_peers(&mut self.cx);
        }
    }

    /// # Safety
    /// As [`send::post_send_slow`].
    pub(crate) unsafe fn post_send_slow(
        &mut self,
        to: u32,
        tag: u64,
        options: SendOptions,
        data: &[RawSlice],
    ) -> Result<Posted> {
        self.ensure_own();
        // SAFETY: the caller's promise.
        let posted = unsafe { send::post_send_slow(&mut self.cx, to, tag, options, data) };
        self.contact_if_needed();
        posted
    }
}

impl Frees for Engine {
    #[inline(always)]
    fn has_freed(&self) -> bool {
        self.cx.requests.has_freed()
    }
    fn take_freed(&mut self) -> Freed {
        self.cx.requests.take_freed()
    }
}

/// Receives.
impl Engine {
    /// # Safety
    /// As [`receive::post_recv`].
    #[inline(always)]
    pub(crate) unsafe fn post_recv(
        &mut self,
        selector: &Selector,
        into: &[RawSliceMut],
        owner: u32,
    ) -> Result<Posted> {
        // SAFETY: the caller's promise.
        unsafe { receive::post_recv(&mut self.cx, selector, into, owner) }
    }

    /// # Safety
    /// As [`receive::post_to_fifo`].
    #[inline(always)]
    pub(crate) unsafe fn post_to_fifo(
        &mut self,
        selector: &Selector,
        into: RawSliceMut,
        owner: u32,
    ) -> Option<RequestId> {
        // SAFETY: the caller's promise.
        unsafe { receive::post_to_fifo(&mut self.cx, selector, into, owner) }
    }

    /// # Safety
    /// As [`receive::post_claimed`].
    pub(crate) unsafe fn post_claimed(
        &mut self,
        claim: ClaimId,
        into: &[RawSliceMut],
    ) -> Result<Posted> {
        // SAFETY: the caller's promise.
        unsafe { receive::post_claimed(&mut self.cx, claim, into) }
    }

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
                Bypass::No => {}
            }
        }
        // SAFETY: the caller's promise.
        match unsafe { self.post_recv(selector, into, 0) }? {
            Posted::Done(outcome) => outcome,
            Posted::Pending(id) => self.wait(id),
        }
    }

    #[inline]
    pub(super) fn receive_bypass(
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
            self.poll_except(Some(source));
        }
        for _ in 0..receive_bypass::rounds(self.cx.wakeup.spins()) {
            match receive_bypass::round(&mut self.rings, &mut self.cx, source, selector, into) {
                Round::Done(found, messages) => {
                    self.bypassed += messages;
                    return found;
                }
                // The message may come meanwhile, and would have no receive.
                Round::Empty => {
                    self.progress_except(Some(source));
                }
                Round::Other => {}
            }
        }
        Bypass::No
    }

    /// The first `at` bytes of a message are in the buffer; the others come as for any receive.
    #[cold]
    pub(super) fn post_remaining(
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

    #[inline]
    pub(crate) fn take_reserved(&mut self) -> Option<(Status, ClaimId)> {
        self.cx.matching.take_reserved()
    }

    pub(crate) fn keep_any_source_receives(&mut self) {
        self.cx.matching.keep_any_source_receives();
    }
}

/// Requests.
impl Engine {
    /// Waits for one request.
    #[inline(always)]
    pub(crate) fn wait(&mut self, id: RequestId) -> Outcome {
        if !self.cx.fabric.is_active() {
            if let Some(status) = self.cx.requests.take_status(id) {
                return Ok(status);
            }
        }
        self.wait_longer(id)
    }

    #[inline(never)]
    fn wait_longer(&mut self, id: RequestId) -> Outcome {
        let outcome = self.wait_until(Awaited::Operation(id), |engine| {
            engine.cx.requests.take_outcome(id)
        });
        self.flush_pending();
        outcome
    }

    /// Waits for one of several requests.
    pub(crate) fn wait_any(&mut self, ids: &[RequestId]) -> Option<(usize, Outcome)> {
        if ids.is_empty() {
            return None;
        }
        let found = self.wait_until(Awaited::OneOf(ids), |engine| {
            engine.cx.requests.take_any(ids)
        });
        self.flush_pending();
        Some(found)
    }

    /// Tests one request.
    #[inline]
    pub(crate) fn test(&mut self, id: RequestId) -> Option<Outcome> {
        if !self.cx.requests.is_over(id) {
            self.poll();
        }
        self.cx.requests.take_outcome(id)
    }

    /// Who has waited may not call again for long: what waits for an entry of a queue pair, which
    /// only calls push on, goes now. It may be the record that a peer waits for.
    #[inline(always)]
    pub(crate) fn flush_pending(&mut self) {
        if self.cx.fabric.holds_messages() {
            self.flush_pending_slow();
        }
    }

    #[cold]
    fn flush_pending_slow(&mut self) {
        self.wait_until(Awaited::Own, |engine| {
            (!engine.cx.fabric.holds_messages()).then_some(())
        });
    }

    pub(crate) fn sender_of(&self, id: RequestId) -> Option<Peer> {
        let slot = self.cx.requests.find(id)?;
        match self.cx.requests.under_way(slot)? {
            Operation::Receive(receiving) => receiving.stage.sender().map(Peer),
            _ => None,
        }
    }

    pub(crate) fn cancel(&mut self, id: RequestId) -> Result<()> {
        cancel::cancel(&mut self.cx, id)
    }

    pub(crate) fn abandon(&mut self, id: RequestId, buffer: Box<dyn Any + Send>) {
        let Some(slot) = self.cx.requests.find(id) else {
            return;
        };
        if self.cx.identity.is_closed() && !self.cx.requests.is_done(slot) {
            // A peer that is stopped in the middle of a copy may still write there, and nobody
            // looks for its end any more.
            core::mem::forget(buffer);
            return;
        }
        self.cx.requests.abandon(slot, buffer);
    }
}

/// Loans.
impl Engine {
    #[inline(always)]
    pub(crate) fn borrow_loan(&mut self, len: usize) -> Result<RawLoan> {
        if let Some(loan) = self.cx.arenas.borrow_again(len) {
            return Ok(loan);
        }
        self.borrow_loan_slow(len)
    }

    #[inline(never)]
    fn borrow_loan_slow(&mut self, len: usize) -> Result<RawLoan> {
        if work::has_slow_work(&self.cx) {
            self.progress();
        }
        match self.cx.arenas.borrow(len) {
            Err(_) if self.progress() => self.cx.arenas.borrow(len),
            borrowed => borrowed,
        }
    }

    pub(crate) fn return_loan(&mut self, loan: RawLoan) {
        self.cx.arenas.give_back(loan.id);
    }

    #[inline(always)]
    pub(crate) fn try_send_loan(&mut self, to: u32, tag: u64, id: u64, len: usize) -> bool {
        loans::try_send_loan(&mut self.cx, to, tag, id, len)
    }

    /// Sends a loan.
    pub(crate) fn post_loan(
        &mut self,
        to: u32,
        tag: u64,
        loan: RawLoan,
        len: usize,
    ) -> Result<Posted> {
        self.ensure_own();
        // As an ordinary message it might wait for its receive, for ever if both sides begin with a
        // loan.
        if self.cx.peers.pair(to).is_none() {
            if let Err(error) = self.attach_blocking(to) {
                self.cx.arenas.give_back(loan.id);
                return Err(error);
            }
        }
        loans::post_loan(&mut self.cx, to, tag, loan, len)
    }

    /// Takes a message that has arrived where it lies.
    pub(crate) fn take_loan(&mut self, selector: &Selector) -> Result<Option<RawLoaned>> {
        if let Some(loaned) = self.take_loan_bypass(selector, loan_bypass::FEW_PEEKS) {
            return Ok(Some(loaned));
        }
        self.poll();
        match loans::take_or_fetch(&mut self.cx, selector)? {
            None => Ok(None),
            Some(loans::Taken::InPlace(loaned)) => Ok(Some(loaned)),
            Some(loans::Taken::Fetched(posted, buffer)) => {
                let status = match posted {
                    Posted::Done(outcome) => outcome?,
                    Posted::Pending(id) => self.wait(id)?,
                };
                Ok(Some(loans::fetched(status, buffer)))
            }
        }
    }

    /// Waits for a loan as long as that takes a few microseconds at most. `None`: it takes longer,
    /// or something is in the way.
    #[inline(always)]
    pub(crate) fn take_loan_spinning(&mut self, selector: &Selector) -> Option<RawLoaned> {
        for _ in 0..receive_bypass::rounds(self.cx.wakeup.spins()) {
            if let Some(loaned) = self.take_loan_bypass(selector, receive_bypass::PEEKS) {
                return Some(loaned);
            }
            self.progress();
            if !self.cx.matching.is_idle(&self.cx.requests) {
                return None;
            }
        }
        None
    }

    #[inline(always)]
    fn take_loan_bypass(&mut self, selector: &Selector, peeks: u32) -> Option<RawLoaned> {
        self.bypassed = self.bypassed.wrapping_add(1);
        if work::has_slow_work(&self.cx) || self.bypassed % receive_bypass::OTHERS_EVERY == 0 {
            return None;
        }
        loan_bypass::take(&mut self.rings, &mut self.cx, selector, peeks).map(Into::into)
    }
}

/// One-sided access.
impl Engine {
    pub(crate) fn expose(&mut self, memory: Vec<u8>) -> Result<(RegionId, u64)> {
        self.ensure_own();
        regions::expose(&mut self.cx, memory)
    }

    /// # Safety
    /// As [`regions::expose_raw`].
    pub(crate) unsafe fn expose_raw(
        &mut self,
        memory: RawSliceMut,
        key: Option<u64>,
        access: Access,
        origin: u64,
    ) -> Result<(RegionId, u64)> {
        self.ensure_own();
        // SAFETY: the caller's promise.
        unsafe { regions::expose_raw(&mut self.cx, memory, key, access, origin) }
    }

    pub(crate) fn region_read(&mut self, id: RegionId, offset: u64, into: &mut [u8]) -> Result<()> {
        regions::region_read(&mut self.cx, id, offset, into)
    }

    pub(crate) fn region_write(&mut self, id: RegionId, offset: u64, from: &[u8]) -> Result<()> {
        regions::region_write(&mut self.cx, id, offset, from)
    }

    /// Ends an exposure, after the accesses under way.
    pub(crate) fn revoke(&mut self, id: RegionId) -> Result<Vec<u8>> {
        self.ensure_own();
        let segment = &self.cx.memory.segment;
        self.cx.regions.start_revoke(segment, id)?;
        self.wait_until(Awaited::Region, |engine| {
            regions::revoked(&mut engine.cx, id).transpose()
        })
    }

    /// # Safety
    /// As [`OneSided::post_read`](crate::raw::OneSided::post_read).
    pub(crate) unsafe fn read(
        &mut self,
        peer: u32,
        key: u64,
        offset: u64,
        into: &[RawSliceMut],
    ) -> Result<Posted> {
        self.ensure_own();
        self.attach_blocking(peer)?;
        // SAFETY: the caller's promise.
        unsafe { rma::post_read(&mut self.cx, peer, key, offset, into) }
    }

    /// # Safety
    /// As [`OneSided::post_write`](crate::raw::OneSided::post_write).
    pub(crate) unsafe fn write(
        &mut self,
        peer: u32,
        key: u64,
        offset: u64,
        from: &[RawSlice],
    ) -> Result<Posted> {
        self.ensure_own();
        self.attach_blocking(peer)?;
        // SAFETY: the caller's promise.
        unsafe { rma::post_write(&mut self.cx, peer, key, offset, from) }
    }
}
