//! The endpoint that users open.

use core::cell::RefCell;
use core::fmt;
use core::time::Duration;
use std::any::Any;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::KernelEngine;
use crate::counters::Counters;
use crate::error::Outcome;
use crate::raw::{
    Access, ClaimId, Posted, RawEndpoint, RawLoan, RawLoaned, RawSlice, RawSliceMut, RegionId,
    RequestId, SendOptions,
};
use crate::settings::Settings;
use crate::{Address, Error, Peer, Result, Selector, Status, Tag};

/// The kernel module only: every message is matched in the kernel (K2-K4), and copied once by whoever comes second.
///
/// It needs `/dev/limic`, and all endpoints of a job have to be of this kind and in one group of the module
/// (`LIMIC_KERNEL_GROUP`, or the launcher's job). Short messages (up to 4 KiB) are kept by the kernel if their receive is not posted
/// yet, so that a send of one is over at once; a longer one is over when it was received. The module keeps 16384
/// messages that nobody asked for; senders of more wait.
///
/// Loans are memory of the process, and copied like other messages. Regions stay pinned as long as they are
/// exposed, so that all of their memory has to be there, and RLIMIT_MEMLOCK bounds them.
pub struct KernelEndpoint {
    engine: RefCell<KernelEngine>,
    /// A descriptor of its own, so that it can be lent while the engine works.
    wake: OwnedFd,
}

impl KernelEndpoint {
    /// Opens an endpoint with the settings of the environment (`LIMIC_*`).
    ///
    /// # Errors
    /// [`Error::Settings`] says why `/dev/limic` cannot be used and what to do, or which variable makes no sense;
    /// [`Error::NoMemory`] that nothing can be pinned.
    pub fn open() -> Result<Self> {
        Self::with(Settings::from_environment().map_err(|e| Error::Settings(e.to_string()))?)
    }

    /// Opens an endpoint with given settings.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn with(settings: Settings) -> Result<Self> {
        let engine = KernelEngine::open(settings)?;
        let wake = engine.wake.try_clone();
        let wake = wake.map_err(|error| Error::system("duplicating a descriptor", error))?;
        Ok(Self {
            engine: RefCell::new(engine),
            wake,
        })
    }
}

impl fmt::Debug for KernelEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_tuple("KernelEndpoint");
        match self.engine.try_borrow() {
            Ok(engine) => out.field(&engine.address).finish(),
            Err(_) => out.finish_non_exhaustive(),
        }
    }
}

// SAFETY: buffers of posted operations are given to the module, and to it alone, as `SendBuffer` and `ReceiveBuffer`. An
// operation is marked done when the module has said that it is over, and it keeps within the slices that it was given.
unsafe impl RawEndpoint for KernelEndpoint {
    fn address(&self) -> Address {
        self.engine.borrow().address
    }
    fn myself(&self) -> Peer {
        self.engine.borrow_mut().myself()
    }
    fn connect(&self, address: &[u8]) -> Result<Peer> {
        self.engine.borrow_mut().connect(address)
    }
    fn peer_address(&self, peer: Peer) -> Result<Address> {
        self.engine.borrow_mut().peer_address(peer)
    }
    unsafe fn post_send_with(
        &self,
        to: Peer,
        tag: Tag,
        options: SendOptions,
        data: &[RawSlice],
    ) -> Result<Posted> {
        // A message that the module has taken reaches its receiver whatever becomes of this process.
        let mut engine = self.engine.borrow_mut();
        // SAFETY: the caller's promise.
        unsafe { engine.post_send(to.0, tag.0, options.immediate, data) }
    }
    unsafe fn try_send(
        &self,
        to: Peer,
        tag: Tag,
        immediate: Option<u64>,
        data: &[RawSlice],
    ) -> Result<Option<Status>> {
        let mut engine = self.engine.borrow_mut();
        // SAFETY: the caller's promise.
        unsafe { engine.try_send(to.0, tag.0, immediate, data) }
    }
    unsafe fn post_recv(&self, selector: &Selector, into: &[RawSliceMut]) -> Result<Posted> {
        // SAFETY: the caller's promise.
        unsafe { self.engine.borrow_mut().post_recv(selector, into) }
    }
    fn insert_done(&self, outcome: Outcome, owner: u32) -> RequestId {
        let mut engine = self.engine.borrow_mut();
        engine.requests.insert_done(outcome, owner)
    }
    unsafe fn post_claimed(&self, claim: ClaimId, into: &[RawSliceMut]) -> Result<Posted> {
        // SAFETY: the caller's promise.
        unsafe { self.engine.borrow_mut().post_claimed(claim, into) }
    }
    fn probe(&self, selector: &Selector) -> Result<Option<Status>> {
        self.engine.borrow_mut().probe(selector)
    }
    fn claim(&self, selector: &Selector) -> Result<Option<(Status, ClaimId)>> {
        self.engine.borrow_mut().claim(selector)
    }
    fn test(&self, request: RequestId) -> Option<Outcome> {
        self.engine.borrow_mut().test(request)
    }
    fn is_done(&self, request: RequestId) -> bool {
        let engine = self.engine.borrow();
        let slot = engine.requests.find(request);
        slot.is_none_or(|slot| engine.requests.is_done(slot))
    }
    fn sender_of(&self, _: RequestId) -> Option<Peer> {
        None
    }
    fn watch(&self, request: RequestId, name: u64) -> Result<()> {
        self.engine.borrow_mut().watch(request, name)
    }
    fn next_completed(&self) -> Option<(u64, Outcome)> {
        self.engine.borrow_mut().requests.next_completed()
    }
    fn watched(&self, name: u64) -> Option<RequestId> {
        self.engine.borrow().requests.watched(name)
    }
    fn keep_any_source_receives(&self) {
        let mut engine = self.engine.borrow_mut();
        engine.any_outlives = true;
        engine.unreported.clear();
    }
    fn reserve_tags(&self, tag: Tag, mask: u64) {
        self.engine.borrow_mut().reserve_tags(tag.0, mask);
    }
    fn take_reserved(&self) -> Option<(Status, ClaimId)> {
        self.engine.borrow_mut().take_reserved()
    }
    fn connects_at_start(&self, _: Peer) -> Result<bool> {
        // Nobody meets anybody: the kernel has all.
        Ok(false)
    }

    fn attach(&self, peer: Peer) -> Result<bool> {
        self.engine.borrow_mut().attach(peer.0)
    }
    fn wait(&self, request: RequestId) -> Outcome {
        self.engine.borrow_mut().wait(request)
    }
    fn wait_any(&self, requests: &[RequestId]) -> Option<(usize, Outcome)> {
        self.engine.borrow_mut().wait_any(requests)
    }
    fn cancel(&self, request: RequestId) -> Result<()> {
        self.engine.borrow_mut().cancel(request)
    }
    fn progress(&self) -> bool {
        self.engine.borrow_mut().progress()
    }
    fn sleep(&self, timeout: Option<Duration>) {
        self.engine.borrow_mut().sleep(timeout);
    }
    fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
    fn arm(&self) -> bool {
        self.engine.borrow_mut().arm()
    }
    unsafe fn set_owner(&self, request: RequestId, owner: u32) {
        let mut engine = self.engine.borrow_mut();
        if let Some(slot) = engine.requests.find(request) {
            engine.requests.set_owner(slot, owner);
        }
    }
    fn new_owner(&self) -> u32 {
        self.engine.borrow_mut().new_owner()
    }
    fn owned_by(&self, owner: u32) -> Option<RequestId> {
        self.engine.borrow_mut().requests.owned_by(owner)
    }
    fn abandon(&self, request: RequestId, buffer: Box<dyn Any + Send>) {
        self.engine.borrow_mut().abandon(request, buffer);
    }
    fn expose(&self, memory: Vec<u8>) -> Result<(RegionId, u64)> {
        self.engine.borrow_mut().expose(memory)
    }
    unsafe fn expose_raw(
        &self,
        memory: RawSliceMut,
        key: Option<u64>,
        access: Access,
        origin: u64,
    ) -> Result<(RegionId, u64)> {
        let mut engine = self.engine.borrow_mut();
        // SAFETY: the caller's promise.
        unsafe { engine.expose_raw(memory, key, access, origin) }
    }
    fn region_read(&self, region: RegionId, offset: u64, into: &mut [u8]) -> Result<()> {
        self.engine.borrow_mut().region_read(region, offset, into)
    }
    fn region_write(&self, region: RegionId, offset: u64, from: &[u8]) -> Result<()> {
        self.engine.borrow_mut().region_write(region, offset, from)
    }
    fn revoke(&self, region: RegionId) -> Result<Vec<u8>> {
        self.engine.borrow_mut().revoke(region)
    }
    unsafe fn post_read(
        &self,
        peer: Peer,
        key: u64,
        offset: u64,
        into: &[RawSliceMut],
    ) -> Result<Posted> {
        // SAFETY: the caller's promise.
        unsafe { self.engine.borrow_mut().read(peer.0, key, offset, into) }
    }
    unsafe fn post_write(
        &self,
        peer: Peer,
        key: u64,
        offset: u64,
        from: &[RawSlice],
    ) -> Result<Posted> {
        // SAFETY: the caller's promise.
        unsafe { self.engine.borrow_mut().write(peer.0, key, offset, from) }
    }
    fn borrow_loan(&self, len: usize) -> Result<RawLoan> {
        self.engine.borrow_mut().borrow_loan(len)
    }
    unsafe fn post_loan(&self, to: Peer, tag: Tag, loan: RawLoan, len: usize) -> Result<Posted> {
        self.engine.borrow_mut().post_loan(to, tag, loan, len)
    }
    unsafe fn return_loan(&self, loan: RawLoan) {
        self.engine.borrow_mut().return_loan(&loan);
    }
    fn take_loan(&self, selector: &Selector) -> Result<Option<RawLoaned>> {
        self.engine.borrow_mut().take_loan(selector)
    }
    fn counters(&self) -> Counters {
        self.engine.borrow().counters()
    }
    fn is_busy(&self) -> bool {
        self.engine.try_borrow_mut().is_err()
    }
    fn close(&self) {
        self.engine.borrow_mut().close();
    }
}
