//! The endpoint that users open.

use core::fmt;
use core::time::Duration;
use std::any::Any;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::KernelEngine;
use crate::counters::Counters;
use crate::engine_cell::{EngineCell, Freed, Frees};
use crate::error::Outcome;
use crate::raw::sealed::Sealed;
use crate::raw::{
    Access, ClaimId, Loans, Messages, OneSided, Posted, RawEndpoint, RawLoan, RawLoaned, RawSlice,
    RawSliceMut, RegionId, RequestId, Requests, Runtime, SendOptions,
};
use crate::settings::Settings;
use crate::{Address, Endpoint, Error, Peer, Result, Selector, Status, Tag};

/// The kernel module only: every message is matched in the kernel, and copied once by
/// whoever comes second.
///
/// It needs `/dev/limic`, and all endpoints of a job have to be of this kind and in one group of
/// the module (`LIMIC_KERNEL_GROUP`, or the launcher's job). Short messages (up to 4 KiB) are kept
/// by the kernel if their receive is not posted yet, so that a send of one is over at once; a
/// longer one is over when it was received. The module keeps 16384 messages that nobody asked for;
/// senders of more wait.
///
/// Loans are memory of the process, and copied like other messages. Regions stay pinned as long as
/// they are exposed, so that all of their memory has to be there, and RLIMIT_MEMLOCK bounds them.
pub struct KernelEndpoint {
    engine: EngineCell<KernelEngine>,
    /// A descriptor of its own, so that it can be lent while the engine works.
    wake: OwnedFd,
}

impl KernelEndpoint {
    /// Opens an endpoint with the settings of the environment (`LIMIC_*`).
    ///
    /// # Errors
    /// [`Error::Settings`] says why `/dev/limic` cannot be used and what to do, or which variable
    /// makes no sense; [`Error::NoMemory`] that nothing can be pinned.
    pub fn open() -> Result<Self> {
        Self::with(Settings::from_environment()?)
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
            engine: EngineCell::new(engine),
            wake,
        })
    }
}

impl Frees for KernelEngine {
    fn has_freed(&self) -> bool {
        self.requests.has_freed()
    }
    fn take_freed(&mut self) -> Freed {
        self.requests.take_freed()
    }
}

impl fmt::Debug for KernelEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_tuple("KernelEndpoint");
        match self.engine.try_read() {
            Ok(engine) => out.field(&engine.address).finish(),
            Err(_) => out.finish_non_exhaustive(),
        }
    }
}

// SAFETY: buffers of posted operations are given to the module, and to it alone, as `SendBuffer`
// and `ReceiveBuffer`. An operation is marked done when the module has said that it is over, and it
// keeps within the slices that it was given.
unsafe impl RawEndpoint for KernelEndpoint {}

impl Sealed for KernelEndpoint {}

impl Messages for KernelEndpoint {
    unsafe fn post_send_with(
        &self,
        to: Peer,
        tag: Tag,
        options: SendOptions,
        data: &[RawSlice],
    ) -> Result<Posted> {
        // A message that the module has taken reaches its receiver whatever becomes of this
        // process.
        self.engine.enter(move |engine| {
            // SAFETY: the caller's promise.
            unsafe { engine.post_send(to.0, tag.0, options.immediate, data) }
        })
    }
    unsafe fn try_send(
        &self,
        to: Peer,
        tag: Tag,
        immediate: Option<u64>,
        data: &[RawSlice],
    ) -> Result<Option<Status>> {
        self.engine.enter(move |engine| {
            // SAFETY: the caller's promise.
            unsafe { engine.try_send(to.0, tag.0, immediate, data) }
        })
    }
    unsafe fn post_recv(&self, selector: &Selector, into: &[RawSliceMut]) -> Result<Posted> {
        self.engine.enter(move |engine| {
            // SAFETY: the caller's promise.
            unsafe { engine.post_recv(selector, into) }
        })
    }
    unsafe fn post_claimed(&self, claim: ClaimId, into: &[RawSliceMut]) -> Result<Posted> {
        self.engine.enter(move |engine| {
            // SAFETY: the caller's promise.
            unsafe { engine.post_claimed(claim, into) }
        })
    }
    fn peek(&self, selector: &Selector) -> Result<Option<Status>> {
        self.engine.enter(move |engine| engine.probe(selector))
    }
    fn claim(&self, selector: &Selector) -> Result<Option<(Status, ClaimId)>> {
        self.engine.enter(move |engine| engine.claim(selector))
    }
}

impl Requests for KernelEndpoint {
    fn test(&self, request: RequestId) -> Option<Outcome> {
        self.engine.enter(move |engine| engine.test(request))
    }
    fn is_done(&self, request: RequestId) -> bool {
        self.engine.read(|engine| engine.requests.is_over(request))
    }
    fn wait(&self, request: RequestId) -> Outcome {
        self.engine.enter(move |engine| engine.wait(request))
    }
    fn wait_any(&self, requests: &[RequestId]) -> Option<(usize, Outcome)> {
        self.engine.enter(move |engine| engine.wait_any(requests))
    }
    fn cancel(&self, request: RequestId) -> Result<()> {
        self.engine
            .enter_and_free(move |engine| engine.cancel(request))
    }
    fn sender_of(&self, _: RequestId) -> Option<Peer> {
        None
    }
    fn watch(&self, request: RequestId, name: u64) -> Result<()> {
        self.engine
            .enter(move |engine| engine.requests.watch(request, name))
    }
    fn next_completed(&self) -> Option<(u64, Outcome)> {
        self.engine
            .enter(move |engine| engine.requests.next_completed())
    }
    fn watched(&self, name: u64) -> Option<RequestId> {
        self.engine.read(|engine| engine.requests.watched(name))
    }
    fn insert_done(&self, outcome: Outcome, owner: u32) -> RequestId {
        self.engine
            .enter(move |engine| engine.requests.insert_done(outcome, owner))
    }
    fn new_owner(&self) -> u32 {
        self.engine.enter(move |engine| engine.requests.new_owner())
    }
    unsafe fn set_owner(&self, request: RequestId, owner: u32) {
        self.engine.enter(move |engine| {
            if let Some(slot) = engine.requests.find(request) {
                engine.requests.set_owner(slot, owner);
            }
        });
    }
    fn owned_by(&self, owner: u32) -> Option<RequestId> {
        self.engine
            .enter(move |engine| engine.requests.owned_by(owner))
    }
    fn abandon(&self, request: RequestId, buffer: Box<dyn Any + Send>) {
        self.engine
            .enter_and_free(move |engine| engine.abandon(request, buffer));
    }
}

impl OneSided for KernelEndpoint {
    fn expose(&self, memory: Vec<u8>) -> Result<(RegionId, u64)> {
        self.engine.enter(move |engine| engine.expose(memory))
    }
    unsafe fn expose_raw(
        &self,
        memory: RawSliceMut,
        key: Option<u64>,
        access: Access,
        origin: u64,
    ) -> Result<(RegionId, u64)> {
        self.engine.enter(move |engine| {
            // SAFETY: the caller's promise.
            unsafe { engine.expose_raw(memory, key, access, origin) }
        })
    }
    fn region_read(&self, region: RegionId, offset: u64, into: &mut [u8]) -> Result<()> {
        self.engine
            .enter(move |engine| engine.region_read(region, offset, into))
    }
    fn region_write(&self, region: RegionId, offset: u64, from: &[u8]) -> Result<()> {
        self.engine
            .enter(move |engine| engine.region_write(region, offset, from))
    }
    fn revoke(&self, region: RegionId) -> Result<Vec<u8>> {
        self.engine.enter(move |engine| engine.revoke(region))
    }
    unsafe fn post_read(
        &self,
        peer: Peer,
        key: u64,
        offset: u64,
        into: &[RawSliceMut],
    ) -> Result<Posted> {
        self.engine.enter(move |engine| {
            // SAFETY: the caller's promise.
            unsafe { engine.read(peer.0, key, offset, into) }
        })
    }
    unsafe fn post_write(
        &self,
        peer: Peer,
        key: u64,
        offset: u64,
        from: &[RawSlice],
    ) -> Result<Posted> {
        self.engine.enter(move |engine| {
            // SAFETY: the caller's promise.
            unsafe { engine.write(peer.0, key, offset, from) }
        })
    }
}

impl Loans for KernelEndpoint {
    fn borrow_loan(&self, len: usize) -> Result<RawLoan> {
        self.engine.enter(move |engine| engine.borrow_loan(len))
    }
    unsafe fn post_loan(&self, to: Peer, tag: Tag, loan: RawLoan, len: usize) -> Result<Posted> {
        self.engine
            .enter(move |engine| engine.post_loan(to, tag, loan, len))
    }
    unsafe fn return_loan(&self, loan: RawLoan) {
        self.engine.enter(move |engine| engine.return_loan(&loan));
    }
    fn take_loan(&self, selector: &Selector) -> Result<Option<RawLoaned>> {
        self.engine.enter(move |engine| engine.take_loan(selector))
    }
    fn take_loan_blocking(&self, selector: &Selector) -> Result<RawLoaned> {
        crate::polling::poll_until(self, || self.take_loan(selector))
    }
}

impl Runtime for KernelEndpoint {
    fn keep_any_source_receives(&self) {
        self.engine.enter(move |engine| {
            engine.any_outlives = true;
            engine.unreported.clear();
        });
    }
    fn reserve_tags(&self, tag: Tag, mask: u64) {
        self.engine
            .enter(move |engine| engine.reserve_tags(tag.0, mask));
    }
    fn take_reserved(&self) -> Option<(Status, ClaimId)> {
        self.engine.enter(move |engine| engine.take_reserved())
    }
    fn connects_at_start(&self, _: Peer) -> Result<bool> {
        // Nobody meets anybody: the kernel has all.
        Ok(false)
    }
    fn is_busy(&self) -> bool {
        self.engine.is_busy()
    }
}

impl Endpoint for KernelEndpoint {
    fn address(&self) -> Address {
        self.engine.read(|engine| engine.address)
    }
    fn myself(&self) -> Peer {
        self.engine.enter(move |engine| engine.myself())
    }
    fn connect(&self, address: &[u8]) -> Result<Peer> {
        self.engine.enter(move |engine| engine.connect(address))
    }
    fn peer_address(&self, peer: Peer) -> Result<Address> {
        self.engine.enter(move |engine| engine.peer_address(peer))
    }
    fn attach(&self, peer: Peer) -> Result<bool> {
        self.engine.enter(move |engine| engine.attach(peer.0))
    }
    fn progress(&self) -> bool {
        self.engine.progress(KernelEngine::progress)
    }
    fn sleep(&self, timeout: Option<Duration>) {
        self.engine
            .enter_and_free(move |engine| engine.sleep(timeout));
    }
    fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
    fn arm(&self) -> bool {
        self.engine.enter(move |engine| engine.arm())
    }
    fn counters(&self) -> Counters {
        self.engine.read(|engine| engine.counters())
    }
    fn close(&self) {
        self.engine.enter_and_free(move |engine| engine.close());
    }
}
