//! The short calls of the raw interface, and those that have to meet a peer first.

use super::Engine;
use super::idle::Patience;
use super::requests::Operation;
use crate::error::Outcome;
use crate::raw::{Posted, RawLoan, RawSlice, RawSliceMut, RequestId};
use crate::{Address, Error, Peer, Result};

impl Engine {
    pub(crate) fn wake_fd(&self) -> Result<std::os::fd::OwnedFd> {
        self.core
            .poller
            .descriptor()
            .try_clone_to_owned()
            .map_err(|e| Error::system("dup of the epoll descriptor", e))
    }

    pub(crate) fn myself(&mut self) -> Peer {
        let address = self.core.address;
        // The own address always agrees with itself.
        Peer(
            self.core
                .peers
                .enter(&address, &address)
                .unwrap_or(u32::MAX),
        )
    }

    pub(crate) fn connect(&mut self, address: &[u8]) -> Result<Peer> {
        let address = Address::from_bytes(address)?;
        let known = self.core.peers.enter(&address, &self.core.address);
        if let Some(number) = known {
            self.core.try_anew(number);
        }
        self.core.adapt_spins();
        known.map(Peer).ok_or_else(|| {
            let text =
                "it has the id of a known endpoint, but another node, secret or fabric address";
            Error::BadAddress(text.to_owned())
        })
    }

    pub(crate) fn peer_address(&mut self, peer: Peer) -> Result<Address> {
        self.core.peers.known(peer.0).map(|entry| entry.address)
    }

    pub(crate) fn is_done(&self, id: RequestId) -> bool {
        self.core
            .requests
            .find(id)
            .is_none_or(|slot| self.core.requests.is_done(slot))
    }

    pub(crate) fn sender_of(&self, id: RequestId) -> Option<Peer> {
        let slot = self.core.requests.find(id)?;
        match self.core.requests.under_way(slot)? {
            Operation::Receive(receiving) => receiving.stage.sender().map(Peer),
            _ => None,
        }
    }

    pub(crate) fn watch(&mut self, id: RequestId, name: u64) -> Result<()> {
        let slot = self.core.requests.find(id).ok_or(Error::UnknownRequest)?;
        self.core.requests.watch(slot, name);
        Ok(())
    }

    #[inline]
    pub(crate) fn set_owner(&mut self, id: RequestId, owner: u32) {
        if let Some(slot) = self.core.requests.find(id) {
            self.core.requests.set_owner(slot, owner);
        }
    }

    pub(crate) fn keep_done(&mut self, outcome: Outcome, owner: u32) -> RequestId {
        self.core.requests.insert_done(outcome, owner)
    }

    pub(crate) fn new_owner(&mut self) -> u32 {
        self.core.owner = self.core.owner.wrapping_add(1).max(1);
        self.core.owner
    }

    pub(crate) fn owned_by(&mut self, owner: u32) -> Option<RequestId> {
        self.core.requests.owned_by(owner)
    }

    pub(crate) fn abandon(&mut self, id: RequestId, buffer: Box<dyn std::any::Any + Send>) {
        if let Some(slot) = self.core.requests.find(id) {
            self.core.requests.abandon(slot, buffer);
        }
    }

    #[inline(always)]
    pub(crate) fn borrow_loan(&mut self, len: usize) -> Result<RawLoan> {
        if let Some(loan) = self.core.arenas.borrow_again(len) {
            return Ok(loan);
        }
        self.borrow_other_loan(len)
    }

    #[inline(never)]
    fn borrow_other_loan(&mut self, len: usize) -> Result<RawLoan> {
        if self.core.has_chores() {
            self.progress();
        }
        match self.core.arenas.borrow(len) {
            Err(_) if self.progress() => self.core.arenas.borrow(len),
            borrowed => borrowed,
        }
    }

    pub(crate) fn return_loan(&mut self, loan: RawLoan) {
        self.core.arenas.give_back(loan.id);
    }

    /// # Safety
    /// As [`RawEndpoint::post_read`](crate::RawEndpoint::post_read).
    pub(crate) unsafe fn read(
        &mut self,
        peer: u32,
        key: u64,
        offset: u64,
        into: &[RawSliceMut],
    ) -> Result<Posted> {
        self.meet(peer)?;
        // SAFETY: the caller's promise.
        unsafe { self.core.post_read(peer, key, offset, into) }
    }

    /// # Safety
    /// As [`RawEndpoint::post_write`](crate::RawEndpoint::post_write).
    pub(crate) unsafe fn write(
        &mut self,
        peer: u32,
        key: u64,
        offset: u64,
        from: &[RawSlice],
    ) -> Result<Posted> {
        self.meet(peer)?;
        // SAFETY: the caller's promise.
        unsafe { self.core.post_write(peer, key, offset, from) }
    }

    /// Begins to attach a peer, and says whether it is attached.
    pub(crate) fn attach(&mut self, number: u32) -> Result<bool> {
        let me = self.core.peers.me == Some(number);
        let peer = self.core.peers.known(number)?;
        if let Some(why) = &peer.failure {
            return Err(Error::PeerFailed {
                peer: Peer(number),
                why: why.clone(),
            });
        }
        if me || peer.link.is_some() {
            return Ok(true);
        }
        if let Some(wire) = peer.wire {
            return Ok(self.core.remote.is_connected(wire));
        }
        if !peer.connecting {
            self.core.start_connection(number);
        }
        Ok(false)
    }

    /// Whether the settings ask that this peer is met when the job starts.
    pub(crate) fn meets_at_start(&mut self, number: u32) -> Result<bool> {
        let address = self.core.peers.known(number)?.address;
        Ok(self.core.remote.meets_at_start() && self.core.remote.takes(&address))
    }

    /// Attaches a peer whose segment is needed now: one-sided access looks into it, a loan lies in this endpoint's. Waits for the
    /// peer to answer, once per pair.
    pub(crate) fn meet(&mut self, number: u32) -> Result<()> {
        let mut patience = Patience::default();
        while !self.attach(number)? {
            if self.progress() {
                patience.reset();
            } else {
                self.be_patient(&mut patience);
            }
        }
        Ok(())
    }
}
