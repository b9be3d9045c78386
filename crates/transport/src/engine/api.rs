//! What an engine does for the raw interface, call by call.

mod messages;
mod requests;

use std::os::fd::OwnedFd;

use limic_pools::arena::{Loan, NoRoom};

use super::Engine;
use super::bypass::{loans as loan_bypass, receive as receive_bypass};
use super::contact::{connections, fabric};
use super::control::spins;
use super::patience::Awaited;
use super::peer::table::{Channel, PeerState};
use super::progress::work;
use super::protocol::{loans, regions, rma};
use crate::counters::Counters;
use crate::raw::{Access, Posted, RawLoan, RawLoaned, RawSlice, RawSliceMut, RegionId};
use crate::{Address, Error, Peer, Result, Selector};

/// Turns in which the last news of a region is looked for: rings that are full take fewer, and
/// peers that go on sending hold nobody up for ever.
const LAST_TURNS: u32 = 1000;

/// Peers.
impl Engine {
    pub(crate) fn wake_fd(&self) -> Result<OwnedFd> {
        self.cx
            .wakeup
            .poller
            .descriptor()
            .try_clone_to_owned()
            .map(limic_shm::system::opened)
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

/// Loans.
impl Engine {
    #[inline(always)]
    pub(crate) fn borrow_loan(&mut self, len: usize) -> Result<RawLoan> {
        if let Some(Loan { start, id }) = self.cx.arenas.borrow_again(len) {
            return Ok(RawLoan { start, len, id });
        }
        self.borrow_loan_slow(len)
    }

    #[inline(never)]
    fn borrow_loan_slow(&mut self, len: usize) -> Result<RawLoan> {
        if work::has_slow_work(&self.cx) {
            self.progress();
        }
        let borrowed = match self.cx.arenas.borrow(len) {
            Err(_) if self.progress() => self.cx.arenas.borrow(len),
            borrowed => borrowed,
        };
        match borrowed {
            Ok(Loan { start, id }) => Ok(RawLoan { start, len, id }),
            Err(full @ NoRoom::Full { .. }) => Err(Error::NoMemory(format!(
                "{full}, or raise LIMIC_LOAN_BYTES"
            ))),
            Err(NoRoom::Segment(error)) => Err(Error::NoMemory(error.to_string())),
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
        let met = self.cx.peers.find(to).and_then(|peer| peer.pair());
        if met.is_none() {
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
            Some(loans::TakenLoan::InPlace(loaned)) => Ok(Some(loaned)),
            Some(loans::TakenLoan::Fetched(posted, buffer)) => {
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
        self.bypassed += 1;
        if work::has_slow_work(&self.cx) || self.bypassed >= receive_bypass::OTHERS_EVERY {
            self.bypassed = 0;
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

    pub(crate) fn report_accesses(&mut self, key: u64, kinds: Access) {
        self.ensure_own();
        regions::report_accesses(&mut self.cx, key, kinds);
    }

    pub(crate) fn is_helping(&self, owner: u32) -> bool {
        self.cx.peers.accesses.has_any(owner)
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
        self.wait_until(Awaited::Region(id), |engine| {
            regions::unused(&mut engine.cx, id).transpose()
        })?;
        self.take_last_news(id);
        self.wait_until(Awaited::Region(id), |engine| {
            regions::revoked(&mut engine.cx, id).transpose()
        })
    }

    /// Nobody uses a region any more that is being taken back: what peers have told of their
    /// accesses is in the rings, and means nothing once the region is gone.
    fn take_last_news(&mut self, id: RegionId) {
        if !self.cx.regions.is_reported(id) {
            return;
        }
        for _ in 0..LAST_TURNS {
            // Also in those rings that are not read while help rests.
            self.end_rest();
            if !self.progress() {
                return;
            }
        }
    }

    /// Ends an exposure if no access is under way any more.
    pub(crate) fn try_revoke(&mut self, id: RegionId) -> Result<Option<Vec<u8>>> {
        self.ensure_own();
        let segment = &self.cx.memory.segment;
        self.cx.regions.start_revoke(segment, id)?;
        self.progress();
        if regions::unused(&mut self.cx, id)?.is_some() {
            self.take_last_news(id);
        }
        regions::revoked(&mut self.cx, id)
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
