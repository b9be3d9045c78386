//! What each of the endpoints does for [`RawEndpoint`]: it hands the call on to its engine.

use core::fmt;
use core::time::Duration;
use std::any::Any;
use std::os::fd::{AsFd, BorrowedFd};

#[cfg(feature = "ibverbs")]
use super::VerbsEndpoint;
use super::{HybridEndpoint, Opened, ShmEndpoint};
use crate::buffer::total;
use crate::counters::Counters;
use crate::engine::protocol::fast_send::{FastSend, is_inline_length};
use crate::error::Outcome;
use crate::raw::{
    Access, ClaimId, Posted, RawEndpoint, RawLoan, RawLoaned, RawSlice, RawSliceMut, RegionId,
    RequestId, SendOptions,
};
use crate::{Address, Peer, Result, Selector, Status, Tag};

/// A send that could not be done at once. The engine is not borrowed while it is waited for.
///
/// # Safety
/// As [`RawEndpoint::send_blocking`].
#[inline(never)]
unsafe fn send_and_wait<E: RawEndpoint>(
    endpoint: &E,
    opened: &Opened,
    to: Peer,
    tag: Tag,
    data: &[RawSlice],
) -> Result<()> {
    // SAFETY: the caller's promise.
    let posted = unsafe { endpoint.post_send_slow(to, tag, data) }?;
    let outcome = crate::endpoint::finish(endpoint, posted);
    opened.engine.borrow_mut().flush_pending();
    outcome.map(|_| ())
}

impl Opened {
    /// A message of one slice that is not [short](crate::engine::Core::send_fast). True if it was sent.
    ///
    /// # Safety
    /// As [`RawEndpoint::try_send_slice`].
    #[inline(never)]
    unsafe fn send_one(&self, to: Peer, tag: Tag, data: RawSlice) -> bool {
        let mut engine = self.engine.borrow_mut();
        // SAFETY: the caller's promise.
        let sent = unsafe { engine.send_now(to.0, tag.0, None, &[data]) };
        matches!(sent, Ok(true))
    }

    /// Rings the receiver of what was sent just now.
    #[cold]
    fn ring(&self, to: Peer) {
        self.engine.borrow_mut().ring(to.0);
    }
}

macro_rules! endpoint {
    ($name:ident) => {
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut out = f.debug_tuple(stringify!($name));
                match self.0.engine.try_borrow() {
                    Ok(engine) => out.field(&engine.cx.identity.address).finish(),
                    Err(_) => out.finish_non_exhaustive(),
                }
            }
        }

        // SAFETY: the engine touches a posted buffer only through `SendBuffer` and `ReceiveBuffer`, which it
        // drops when it marks the operation done, and both stay within the slices they were made of.
        unsafe impl RawEndpoint for $name {
            fn address(&self) -> Address {
                self.0.engine.borrow().cx.identity.address
            }
            fn myself(&self) -> Peer {
                self.0.engine.borrow_mut().myself()
            }
            fn connect(&self, address: &[u8]) -> Result<Peer> {
                self.0.engine.borrow_mut().connect(address)
            }
            fn peer_address(&self, peer: Peer) -> Result<Address> {
                self.0.engine.borrow_mut().peer_address(peer)
            }
            #[inline]
            unsafe fn post_send_with(
                &self,
                to: Peer,
                tag: Tag,
                options: SendOptions,
                data: &[RawSlice],
            ) -> Result<Posted> {
                let mut engine = self.0.engine.borrow_mut();
                // SAFETY: the caller's promise.
                unsafe { engine.post_send(to.0, tag.0, options, data) }
            }
            #[inline]
            unsafe fn try_send(
                &self,
                to: Peer,
                tag: Tag,
                immediate: Option<u64>,
                data: &[RawSlice],
            ) -> Result<Option<Status>> {
                let mut engine = self.0.engine.borrow_mut();
                // SAFETY: the caller's promise.
                let sent = unsafe { engine.try_send(to.0, tag.0, immediate, data) }?;
                Ok(sent.then(|| Status {
                    peer: to,
                    tag,
                    len: total(data),
                    immediate: None,
                }))
            }
            #[inline]
            unsafe fn try_send_slice(&self, to: Peer, tag: Tag, data: RawSlice) -> bool {
                if !is_inline_length(data.len) {
                    // SAFETY: the caller's promise.
                    return unsafe { self.0.send_one(to, tag, data) };
                }
                // SAFETY: the caller's promise.
                let sent = unsafe {
                    let mut engine = self.0.engine.borrow_mut();
                    engine.send_fast(to.0, tag.0, data)
                };
                // The rest is called last, so that the short way has no registers to save.
                match sent {
                    FastSend::Sent => true,
                    FastSend::SentToSleeper => {
                        self.0.ring(to);
                        true
                    }
                    // SAFETY: the caller's promise.
                    FastSend::No => unsafe { self.0.send_one(to, tag, data) },
                }
            }
            unsafe fn post_send_slow(
                &self,
                to: Peer,
                tag: Tag,
                data: &[RawSlice],
            ) -> Result<Posted> {
                let mut engine = self.0.engine.borrow_mut();
                // SAFETY: the caller's promise.
                unsafe { engine.post_send_slow(to.0, tag.0, SendOptions::default(), data) }
            }
            #[inline]
            unsafe fn send_blocking(&self, to: Peer, tag: Tag, data: &[RawSlice]) -> Result<()> {
                // SAFETY: the caller's promise, twice.
                let sent = unsafe {
                    match data {
                        [one] if is_inline_length(one.len) => self.try_send_slice(to, tag, *one),
                        _ => {
                            let mut engine = self.0.engine.borrow_mut();
                            engine.send_now(to.0, tag.0, None, data)?
                        }
                    }
                };
                if sent {
                    return Ok(());
                }
                // SAFETY: the caller's promise.
                unsafe { send_and_wait(self, &self.0, to, tag, data) }
            }
            #[inline]
            unsafe fn post_recv(
                &self,
                selector: &Selector,
                into: &[RawSliceMut],
            ) -> Result<Posted> {
                // SAFETY: the caller's promise.
                unsafe { self.0.engine.borrow_mut().post_recv(selector, into, 0) }
            }
            #[inline]
            unsafe fn post_recv_owned(
                &self,
                selector: &Selector,
                into: &[RawSliceMut],
                owner: u32,
            ) -> Result<Posted> {
                let mut engine = self.0.engine.borrow_mut();
                // SAFETY: the caller's promise.
                unsafe { engine.post_recv(selector, into, owner) }
            }
            fn insert_done(&self, outcome: Outcome, owner: u32) -> RequestId {
                self.0.engine.borrow_mut().insert_done(outcome, owner)
            }
            #[inline(always)]
            unsafe fn post_recv_to_fifo(
                &self,
                selector: &Selector,
                into: RawSliceMut,
                owner: u32,
            ) -> Option<RequestId> {
                let mut engine = self.0.engine.borrow_mut();
                // SAFETY: the caller's promise.
                unsafe { engine.post_to_fifo(selector, into, owner) }
            }
            #[inline]
            unsafe fn recv_blocking(&self, selector: &Selector, into: &[RawSliceMut]) -> Outcome {
                // SAFETY: the caller's promise.
                unsafe { self.0.engine.borrow_mut().recv_blocking(selector, into) }
            }
            unsafe fn post_claimed(&self, claim: ClaimId, into: &[RawSliceMut]) -> Result<Posted> {
                // SAFETY: the caller's promise.
                unsafe { self.0.engine.borrow_mut().post_claimed(claim, into) }
            }
            fn probe(&self, selector: &Selector) -> Result<Option<Status>> {
                self.0.engine.borrow_mut().probe(selector)
            }
            fn claim(&self, selector: &Selector) -> Result<Option<(Status, ClaimId)>> {
                self.0.engine.borrow_mut().claim(selector)
            }
            #[inline]
            fn test(&self, request: RequestId) -> Option<Outcome> {
                self.0.engine.borrow_mut().test(request)
            }
            fn is_done(&self, request: RequestId) -> bool {
                self.0.engine.borrow().is_done(request)
            }
            fn sender_of(&self, request: RequestId) -> Option<Peer> {
                self.0.engine.borrow().sender_of(request)
            }
            fn watch(&self, request: RequestId, name: u64) -> Result<()> {
                self.0.engine.borrow_mut().watch(request, name)
            }
            #[inline]
            fn next_completed(&self) -> Option<(u64, Outcome)> {
                self.0.engine.borrow_mut().next_completed()
            }
            fn watched(&self, name: u64) -> Option<RequestId> {
                self.0.engine.borrow().watched(name)
            }
            fn keep_any_source_receives(&self) {
                self.0.engine.borrow_mut().keep_any_source_receives();
            }
            fn reserve_tags(&self, tag: Tag, mask: u64) {
                self.0.engine.borrow_mut().reserve_tags(tag.0, mask);
            }
            #[inline]
            fn take_reserved(&self) -> Option<(Status, ClaimId)> {
                self.0.engine.borrow_mut().take_reserved()
            }
            fn connects_at_start(&self, peer: Peer) -> Result<bool> {
                self.0.engine.borrow_mut().connects_at_start(peer.0)
            }
            fn attach(&self, peer: Peer) -> Result<bool> {
                self.0.engine.borrow_mut().attach(peer.0)
            }
            #[inline(always)]
            fn wait(&self, request: RequestId) -> Outcome {
                self.0.engine.borrow_mut().wait(request)
            }
            fn wait_any(&self, requests: &[RequestId]) -> Option<(usize, Outcome)> {
                self.0.engine.borrow_mut().wait_any(requests)
            }
            fn cancel(&self, request: RequestId) -> Result<()> {
                self.0.engine.borrow_mut().cancel(request)
            }
            #[inline]
            fn progress(&self) -> bool {
                self.0.engine.borrow_mut().poll()
            }
            fn sleep(&self, timeout: Option<Duration>) {
                self.0.engine.borrow_mut().sleep(timeout);
            }
            fn wake_fd(&self) -> BorrowedFd<'_> {
                self.0.wake.as_fd()
            }
            fn arm(&self) -> bool {
                self.0.engine.borrow_mut().arm_for_poll()
            }
            #[inline]
            unsafe fn set_owner(&self, request: RequestId, owner: u32) {
                self.0.engine.borrow_mut().set_owner(request, owner);
            }
            fn new_owner(&self) -> u32 {
                self.0.engine.borrow_mut().new_owner()
            }
            fn owned_by(&self, owner: u32) -> Option<RequestId> {
                self.0.engine.borrow_mut().owned_by(owner)
            }
            fn abandon(&self, request: RequestId, buffer: Box<dyn Any + Send>) {
                self.0.engine.borrow_mut().abandon(request, buffer);
            }
            fn expose(&self, memory: Vec<u8>) -> Result<(RegionId, u64)> {
                self.0.engine.borrow_mut().expose(memory)
            }
            unsafe fn expose_raw(
                &self,
                memory: RawSliceMut,
                key: Option<u64>,
                access: Access,
                origin: u64,
            ) -> Result<(RegionId, u64)> {
                let mut engine = self.0.engine.borrow_mut();
                // SAFETY: the caller's promise.
                unsafe { engine.expose_raw(memory, key, access, origin) }
            }
            fn region_read(&self, region: RegionId, offset: u64, into: &mut [u8]) -> Result<()> {
                self.0.engine.borrow_mut().region_read(region, offset, into)
            }
            fn region_write(&self, region: RegionId, offset: u64, from: &[u8]) -> Result<()> {
                self.0
                    .engine
                    .borrow_mut()
                    .region_write(region, offset, from)
            }
            fn revoke(&self, region: RegionId) -> Result<Vec<u8>> {
                self.0.engine.borrow_mut().revoke(region)
            }
            unsafe fn post_read(
                &self,
                peer: Peer,
                key: u64,
                offset: u64,
                into: &[RawSliceMut],
            ) -> Result<Posted> {
                // SAFETY: the caller's promise.
                unsafe { self.0.engine.borrow_mut().read(peer.0, key, offset, into) }
            }
            unsafe fn post_write(
                &self,
                peer: Peer,
                key: u64,
                offset: u64,
                from: &[RawSlice],
            ) -> Result<Posted> {
                // SAFETY: the caller's promise.
                unsafe { self.0.engine.borrow_mut().write(peer.0, key, offset, from) }
            }
            #[inline(always)]
            fn borrow_loan(&self, len: usize) -> Result<RawLoan> {
                self.0.engine.borrow_mut().borrow_loan(len)
            }
            unsafe fn post_loan(
                &self,
                to: Peer,
                tag: Tag,
                loan: RawLoan,
                len: usize,
            ) -> Result<Posted> {
                self.0.engine.borrow_mut().post_loan(to.0, tag.0, loan, len)
            }
            #[inline(always)]
            unsafe fn send_loan(
                &self,
                to: Peer,
                tag: Tag,
                loan: RawLoan,
                len: usize,
            ) -> Result<()> {
                let mut engine = self.0.engine.borrow_mut();
                if engine.try_send_loan(to.0, tag.0, loan.id, len) {
                    return Ok(());
                }
                let posted = engine.post_loan(to.0, tag.0, loan, len)?;
                // It is not borrowed while that is waited for.
                drop(engine);
                crate::endpoint::finish(self, posted).map(|_| ())
            }
            unsafe fn return_loan(&self, loan: RawLoan) {
                self.0.engine.borrow_mut().return_loan(loan);
            }
            fn take_loan(&self, selector: &Selector) -> Result<Option<RawLoaned>> {
                self.0.engine.borrow_mut().take_loan(selector)
            }
            #[inline(always)]
            fn take_loan_blocking(&self, selector: &Selector) -> Result<RawLoaned> {
                // The engine is not borrowed any more where it takes longer.
                let soon = self.0.engine.borrow_mut().take_loan_spinning(selector);
                match soon {
                    Some(taken) => Ok(taken),
                    None => crate::endpoint::poll_until(self, || self.take_loan(selector)),
                }
            }
            fn counters(&self) -> Counters {
                self.0.engine.borrow().counters()
            }
            fn is_busy(&self) -> bool {
                self.0.engine.try_borrow_mut().is_err()
            }
            fn close(&self) {
                self.0.engine.borrow_mut().close();
            }
        }
    };
}

endpoint!(HybridEndpoint);
endpoint!(ShmEndpoint);
#[cfg(feature = "ibverbs")]
endpoint!(VerbsEndpoint);
