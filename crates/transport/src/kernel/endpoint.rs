//! The endpoint that users open.

use super::KernelEngine;
use crate::endpoints::{Inner, calls};
use crate::engine_cell::{Freed, Frees};
use crate::polling::poll_until;
use crate::raw::{
    ClaimId, Loans, Messages, Posted, RawEndpoint, RawLoan, RawLoaned, RawSlice, RawSliceMut,
    SendOptions,
};
use crate::settings::Settings;
use crate::{Error, Peer, Result, Selector, Status, Tag};

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
pub struct KernelEndpoint(Inner<KernelEngine>);

calls!(KernelEndpoint, requests);

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
        Ok(Self(Inner::new(engine, wake)))
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

// SAFETY: buffers of posted operations are given to the module, and to it alone, as `SendBuffer`
// and `ReceiveBuffer`. An operation is marked done when the module has said that it is over, and it
// keeps within the slices that it was given.
unsafe impl RawEndpoint for KernelEndpoint {}

impl Messages for KernelEndpoint {
    unsafe fn post_send_with(
        &self,
        to: Peer,
        tag: Tag,
        options: SendOptions,
        data: &[RawSlice],
    ) -> Result<Posted> {
        if options.matched {
            return Err(Error::system(
                "a send that waits for its match, by the kernel module",
                std::io::Error::from(rustix::io::Errno::OPNOTSUPP),
            ));
        }
        // A message that the module has taken reaches its receiver whatever becomes of this
        // process.
        self.0.engine.enter(move |engine| {
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
    ) -> bool {
        self.0.engine.enter(move |engine| {
            // SAFETY: the caller's promise.
            unsafe { engine.try_send(to.0, tag.0, immediate, data) }
        })
    }
    unsafe fn post_recv(&self, selector: &Selector, into: &[RawSliceMut]) -> Result<Posted> {
        self.0.engine.enter(move |engine| {
            // SAFETY: the caller's promise.
            unsafe { engine.post_recv(selector, into) }
        })
    }
    unsafe fn post_claimed(&self, claim: ClaimId, into: &[RawSliceMut]) -> Result<Posted> {
        self.0.engine.enter(move |engine| {
            // SAFETY: the caller's promise.
            unsafe { engine.post_claimed(claim, into) }
        })
    }
    fn peek(&self, selector: &Selector) -> Result<Option<Status>> {
        self.0.engine.enter(move |engine| engine.probe(selector))
    }
    fn claim(&self, selector: &Selector) -> Result<Option<(Status, ClaimId)>> {
        self.0.engine.enter(move |engine| engine.claim(selector))
    }
}

impl Loans for KernelEndpoint {
    fn borrow_loan(&self, len: usize) -> Result<RawLoan> {
        self.0.engine.enter(move |engine| engine.borrow_loan(len))
    }
    unsafe fn post_loan(&self, to: Peer, tag: Tag, loan: RawLoan, len: usize) -> Result<Posted> {
        self.0
            .engine
            .enter(move |engine| engine.post_loan(to, tag, loan, len))
    }
    unsafe fn return_loan(&self, loan: RawLoan) {
        self.0.engine.enter(move |engine| engine.return_loan(&loan));
    }
    fn take_loan(&self, selector: &Selector) -> Result<Option<RawLoaned>> {
        self.0
            .engine
            .enter(move |engine| engine.take_loan(selector))
    }
    fn take_loan_blocking(&self, selector: &Selector) -> Result<RawLoaned> {
        poll_until(self, "recv_loaned", selector, || self.take_loan(selector))
    }
}
