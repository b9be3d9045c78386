//! What each of the endpoints does for [`RawEndpoint`]: it hands the calls on to its engine.

use core::fmt;
use std::any::Any;

#[cfg(feature = "ibverbs")]
use super::VerbsEndpoint;
use super::{HybridEndpoint, Opened, ShmEndpoint};
use crate::buffer::total;
use crate::engine::Engine;
use crate::engine::protocol::fast_send::{FastSend, is_inline_length};
use crate::engine::request::sent;
use crate::error::Outcome;
use crate::raw::sealed::Sealed;
use crate::raw::{
    Access, ClaimId, Loans, Messages, OneSided, Posted, RawEndpoint, RawLoan, RawLoaned, RawSlice,
    RawSliceMut, RegionId, RequestId, Requests, Runtime, SendOptions,
};
use crate::{Endpoint, Peer, Result, Selector, Status, Tag};

/// A send that could not be done at once. The engine is not borrowed while it is waited for.
///
/// # Safety
/// As [`Messages::send_blocking`].
#[inline(never)]
unsafe fn send_and_wait<E: Endpoint>(
    endpoint: &E,
    opened: &Opened,
    to: Peer,
    tag: Tag,
    data: &[RawSlice],
) -> Result<()> {
    // SAFETY: the caller's promise.
    let posted = unsafe { opened.post_send_slow(to, tag, SendOptions::default(), data) }?;
    let outcome = crate::endpoint::finish(endpoint, posted);
    opened.engine.enter(Engine::flush_pending);
    outcome.map(|_| ())
}

impl Opened {
    /// A message of one slice that is not [short](Engine::send_fast). True if it was
    /// sent.
    ///
    /// # Safety
    /// As [`Messages::try_send_slice`].
    #[inline(never)]
    unsafe fn send_one(&self, to: Peer, tag: Tag, data: RawSlice) -> bool {
        let send = move |engine: &mut Engine| {
            // SAFETY: the caller's promise.
            unsafe { engine.send_now(to.0, tag.0, None, &[data]) }
        };
        matches!(self.engine.enter(send), Ok(true))
    }

    /// A message that does not go at once.
    ///
    /// # Safety
    /// As [`Messages::post_send`].
    #[inline(always)]
    unsafe fn post_send_slow(
        &self,
        to: Peer,
        tag: Tag,
        options: SendOptions,
        data: &[RawSlice],
    ) -> Result<Posted> {
        self.engine.enter(move |engine| {
            // SAFETY: the caller's promise.
            unsafe { engine.post_send_slow(to.0, tag.0, options, data) }
        })
    }

    /// Rings the receiver of what was sent just now. False: it was not sent.
    #[cold]
    fn ring(&self, to: Peer) -> bool {
        self.engine.enter(move |engine| engine.ring(to.0))
    }
}

macro_rules! endpoint {
    ($name:ident) => {
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut out = f.debug_tuple(stringify!($name));
                match self.0.engine.try_read() {
                    Ok(engine) => out.field(&engine.cx.identity.address).finish(),
                    Err(_) => out.finish_non_exhaustive(),
                }
            }
        }

        // SAFETY: the engine touches a posted buffer only through `SendBuffer` and `ReceiveBuffer`,
        // which it drops when it marks the operation done, and both stay within the slices they
        // were made of.
        unsafe impl RawEndpoint for $name {}

        impl Sealed for $name {}

        impl Messages for $name {
            #[inline]
            unsafe fn post_send_with(
                &self,
                to: Peer,
                tag: Tag,
                options: SendOptions,
                data: &[RawSlice],
            ) -> Result<Posted> {
                let mut engine = self.0.engine.at_once();
                // What is in a ring is delivered, since that is shared memory.
                // SAFETY: the caller's promise.
                let at_once = unsafe { engine.try_send(to.0, tag.0, options.immediate, data) }?;
                drop(engine);
                if at_once {
                    return Ok(Posted::Done(sent(to.0, tag.0, total(data))));
                }
                // SAFETY: the caller's promise.
                unsafe { self.0.post_send_slow(to, tag, options, data) }
            }
            #[inline]
            unsafe fn try_send(
                &self,
                to: Peer,
                tag: Tag,
                immediate: Option<u64>,
                data: &[RawSlice],
            ) -> Result<Option<Status>> {
                let mut engine = self.0.engine.at_once();
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
                let sent = unsafe { self.0.engine.at_once().send_fast(to.0, tag.0, data) };
                // The rest is called last, so that the short way has no registers to save.
                match sent {
                    FastSend::Sent => true,
                    FastSend::SentToSleeper => self.0.ring(to),
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
                // SAFETY: the caller's promise.
                unsafe { self.0.post_send_slow(to, tag, SendOptions::default(), data) }
            }
            #[inline]
            unsafe fn send_blocking(&self, to: Peer, tag: Tag, data: &[RawSlice]) -> Result<()> {
                // SAFETY: the caller's promise, twice.
                let sent = unsafe {
                    match data {
                        [one] if is_inline_length(one.len) => self.try_send_slice(to, tag, *one),
                        _ => self.0.engine.at_once().send_now(to.0, tag.0, None, data)?,
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
                self.0.engine.enter(move |engine| {
                    // SAFETY: the caller's promise.
                    unsafe { engine.post_recv(selector, into, 0) }
                })
            }
            #[inline]
            unsafe fn post_recv_owned(
                &self,
                selector: &Selector,
                into: &[RawSliceMut],
                owner: u32,
            ) -> Result<Posted> {
                self.0.engine.enter(move |engine| {
                    // SAFETY: the caller's promise.
                    unsafe { engine.post_recv(selector, into, owner) }
                })
            }
            #[inline(always)]
            unsafe fn post_recv_to_fifo(
                &self,
                selector: &Selector,
                into: RawSliceMut,
                owner: u32,
            ) -> Option<RequestId> {
                self.0.engine.enter(move |engine| {
                    // SAFETY: the caller's promise.
                    unsafe { engine.post_to_fifo(selector, into, owner) }
                })
            }
            #[inline]
            unsafe fn recv_blocking(&self, selector: &Selector, into: &[RawSliceMut]) -> Outcome {
                self.0.engine.enter(move |engine| {
                    // SAFETY: the caller's promise.
                    unsafe { engine.recv_blocking(selector, into) }
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

        impl Requests for $name {
            #[inline]
            fn test(&self, request: RequestId) -> Option<Outcome> {
                self.0.engine.enter(move |engine| engine.test(request))
            }
            fn is_done(&self, request: RequestId) -> bool {
                self.0.engine.read(|engine| engine.is_done(request))
            }
            #[inline(always)]
            fn wait(&self, request: RequestId) -> Outcome {
                self.0.engine.enter(move |engine| engine.wait(request))
            }
            fn wait_any(&self, requests: &[RequestId]) -> Option<(usize, Outcome)> {
                self.0.engine.enter(move |engine| engine.wait_any(requests))
            }
            fn cancel(&self, request: RequestId) -> Result<()> {
                self.0
                    .engine
                    .enter_and_free(move |engine| engine.cancel(request))
            }
            fn sender_of(&self, request: RequestId) -> Option<Peer> {
                self.0.engine.read(|engine| engine.sender_of(request))
            }
            fn watch(&self, request: RequestId, name: u64) -> Result<()> {
                self.0
                    .engine
                    .enter(move |engine| engine.watch(request, name))
            }
            #[inline]
            fn next_completed(&self) -> Option<(u64, Outcome)> {
                self.0.engine.enter(move |engine| engine.next_completed())
            }
            fn watched(&self, name: u64) -> Option<RequestId> {
                self.0.engine.read(|engine| engine.watched(name))
            }
            fn insert_done(&self, outcome: Outcome, owner: u32) -> RequestId {
                self.0
                    .engine
                    .enter(move |engine| engine.insert_done(outcome, owner))
            }
            fn new_owner(&self) -> u32 {
                self.0.engine.enter(move |engine| engine.new_owner())
            }
            #[inline]
            unsafe fn set_owner(&self, request: RequestId, owner: u32) {
                self.0
                    .engine
                    .enter(move |engine| engine.set_owner(request, owner));
            }
            fn owned_by(&self, owner: u32) -> Option<RequestId> {
                self.0.engine.enter(move |engine| engine.owned_by(owner))
            }
            fn abandon(&self, request: RequestId, buffer: Box<dyn Any + Send>) {
                self.0
                    .engine
                    .enter_and_free(move |engine| engine.abandon(request, buffer));
            }
        }

        impl OneSided for $name {
            fn expose(&self, memory: Vec<u8>) -> Result<(RegionId, u64)> {
                self.0.engine.enter(move |engine| engine.expose(memory))
            }
            unsafe fn expose_raw(
                &self,
                memory: RawSliceMut,
                key: Option<u64>,
                access: Access,
                origin: u64,
            ) -> Result<(RegionId, u64)> {
                self.0.engine.enter(move |engine| {
                    // SAFETY: the caller's promise.
                    unsafe { engine.expose_raw(memory, key, access, origin) }
                })
            }
            fn region_read(&self, region: RegionId, offset: u64, into: &mut [u8]) -> Result<()> {
                self.0
                    .engine
                    .enter(move |engine| engine.region_read(region, offset, into))
            }
            fn region_write(&self, region: RegionId, offset: u64, from: &[u8]) -> Result<()> {
                self.0
                    .engine
                    .enter(move |engine| engine.region_write(region, offset, from))
            }
            fn revoke(&self, region: RegionId) -> Result<Vec<u8>> {
                self.0.engine.enter(move |engine| engine.revoke(region))
            }
            unsafe fn post_read(
                &self,
                peer: Peer,
                key: u64,
                offset: u64,
                into: &[RawSliceMut],
            ) -> Result<Posted> {
                self.0.engine.enter(move |engine| {
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
                self.0.engine.enter(move |engine| {
                    // SAFETY: the caller's promise.
                    unsafe { engine.write(peer.0, key, offset, from) }
                })
            }
        }

        impl Loans for $name {
            #[inline(always)]
            fn borrow_loan(&self, len: usize) -> Result<RawLoan> {
                self.0.engine.enter(move |engine| engine.borrow_loan(len))
            }
            unsafe fn post_loan(
                &self,
                to: Peer,
                tag: Tag,
                loan: RawLoan,
                len: usize,
            ) -> Result<Posted> {
                self.0
                    .engine
                    .enter(move |engine| engine.post_loan(to.0, tag.0, loan, len))
            }
            #[inline(always)]
            unsafe fn send_loan(
                &self,
                to: Peer,
                tag: Tag,
                loan: RawLoan,
                len: usize,
            ) -> Result<()> {
                let posted = self.0.engine.enter(move |engine| {
                    if engine.try_send_loan(to.0, tag.0, loan.id, len) {
                        return Ok(None);
                    }
                    engine.post_loan(to.0, tag.0, loan, len).map(Some)
                })?;
                // The engine is not borrowed while that is waited for.
                match posted {
                    None => Ok(()),
                    Some(posted) => crate::endpoint::finish(self, posted).map(drop),
                }
            }
            unsafe fn return_loan(&self, loan: RawLoan) {
                self.0.engine.enter(move |engine| engine.return_loan(loan));
            }
            fn take_loan(&self, selector: &Selector) -> Result<Option<RawLoaned>> {
                self.0
                    .engine
                    .enter(move |engine| engine.take_loan(selector))
            }
            #[inline(always)]
            fn take_loan_blocking(&self, selector: &Selector) -> Result<RawLoaned> {
                // The engine is not borrowed any more where it takes longer.
                let soon = self
                    .0
                    .engine
                    .enter(move |engine| engine.take_loan_spinning(selector));
                match soon {
                    Some(taken) => Ok(taken),
                    None => crate::polling::poll_until(self, || self.take_loan(selector)),
                }
            }
        }

        impl Runtime for $name {
            fn keep_any_source_receives(&self) {
                self.0
                    .engine
                    .enter(move |engine| engine.keep_any_source_receives());
            }
            fn reserve_tags(&self, tag: Tag, mask: u64) {
                self.0
                    .engine
                    .enter(move |engine| engine.reserve_tags(tag.0, mask));
            }
            #[inline]
            fn take_reserved(&self) -> Option<(Status, ClaimId)> {
                self.0.engine.enter(move |engine| engine.take_reserved())
            }
            fn connects_at_start(&self, peer: Peer) -> Result<bool> {
                self.0
                    .engine
                    .enter(move |engine| engine.connects_at_start(peer.0))
            }
            fn is_busy(&self) -> bool {
                self.0.engine.is_busy()
            }
        }
    };
}

endpoint!(HybridEndpoint);
endpoint!(ShmEndpoint);
#[cfg(feature = "ibverbs")]
endpoint!(VerbsEndpoint);
