//! Sends, receives and loans of the endpoints over the engine: they hand the calls on to it,
//! or right to its protocols.

#[cfg(feature = "ibverbs")]
use super::VerbsEndpoint;
use super::{HybridEndpoint, Opened, ShmEndpoint};
use crate::buffer::total;
use crate::engine::Engine;
use crate::engine::protocol::fast_send::{self, FastSend, is_inline_length};
use crate::engine::protocol::{receive, send};
use crate::engine::request::sent;
use crate::error::Outcome;
use crate::polling::poll_until;
use crate::raw::{
    ClaimId, Loans, Messages, Posted, RawEndpoint, RawLoan, RawLoaned, RawSlice, RawSliceMut,
    RequestId, SendOptions, Taken,
};
use crate::{Endpoint, Peer, Result, Selector, Status, Tag};

/// A send that could not be done at once. The engine is not borrowed while it is waited for.
///
/// # Safety
/// As [`Messages::send_blocking`].
#[inline(never)]
unsafe fn send_and_wait<E: Endpoint>(
    endpoint: &E,
    opened: &Opened<Engine>,
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

impl Opened<Engine> {
    /// A message of one slice that is not [short](fast_send::send_fast). True if it was sent.
    ///
    /// # Safety
    /// As [`Messages::try_send_slice`].
    #[inline(never)]
    unsafe fn send_one(&self, to: Peer, tag: Tag, data: RawSlice) -> bool {
        let send = move |engine: &mut Engine| {
            // SAFETY: the caller's promise.
            unsafe { send::send_now(&mut engine.cx, to.0, tag.0, None, &[data]) }
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
        self.engine
            .enter(move |engine| fast_send::ring_doorbell(&mut engine.cx, to.0))
    }
}

macro_rules! endpoint {
    ($name:ident) => {
        // SAFETY: the engine touches a posted buffer only through `SendBuffer` and `ReceiveBuffer`,
        // which it drops when it marks the operation done, and both stay within the slices they
        // were made of.
        unsafe impl RawEndpoint for $name {}

        impl Messages for $name {
            #[inline]
            unsafe fn post_send_with(
                &self,
                to: Peer,
                tag: Tag,
                options: SendOptions,
                data: &[RawSlice],
            ) -> Result<Posted> {
                if !options.matched {
                    let mut engine = self.0.engine.borrow_unguarded();
                    // What is in a ring is delivered, since that is shared memory.
                    // SAFETY: the caller's promise.
                    let at_once = unsafe {
                        send::try_send(&mut engine.cx, to.0, tag.0, options.immediate, data)
                    }?;
                    drop(engine);
                    if at_once {
                        return Ok(Posted::Done(sent(to.0, tag.0, total(data))));
                    }
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
                let mut engine = self.0.engine.borrow_unguarded();
                // SAFETY: the caller's promise.
                let sent = unsafe { send::try_send(&mut engine.cx, to.0, tag.0, immediate, data) }?;
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
                let mut engine = self.0.engine.borrow_unguarded();
                // SAFETY: the caller's promise.
                let sent = unsafe { fast_send::send_fast(&mut engine.cx, to.0, tag.0, data) };
                drop(engine);
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
                        _ => {
                            let cx = &mut self.0.engine.borrow_unguarded().cx;
                            send::send_now(cx, to.0, tag.0, None, data)?
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
                self.0.engine.enter(move |engine| {
                    // SAFETY: the caller's promise.
                    unsafe { receive::post_recv(&mut engine.cx, selector, into, 0) }
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
                    unsafe { receive::post_recv(&mut engine.cx, selector, into, owner) }
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
                    unsafe { receive::post_to_fifo(&mut engine.cx, selector, into, owner) }
                })
            }
            unsafe fn post_recv_many(
                &self,
                selector: &Selector,
                room: RawSliceMut,
                least: usize,
                name: u64,
            ) -> Result<Option<RequestId>> {
                self.0.engine.enter(move |engine| {
                    // SAFETY: the caller's promise.
                    unsafe { receive::post_many(&mut engine.cx, selector, room, least, name) }
                })
            }
            #[inline]
            fn next_taken(&self) -> Option<Taken> {
                self.0
                    .engine
                    .enter(|engine| engine.cx.matching.many().next_taken())
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
                    unsafe { receive::post_claimed(&mut engine.cx, claim, into) }
                })
            }
            fn peek(&self, selector: &Selector) -> Result<Option<Status>> {
                self.0.engine.enter(move |engine| engine.probe(selector))
            }
            fn claim(&self, selector: &Selector) -> Result<Option<(Status, ClaimId)>> {
                self.0.engine.enter(move |engine| engine.claim(selector))
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
                    None => poll_until(self, "recv_loaned", selector, || self.take_loan(selector)),
                }
            }
        }
    };
}

endpoint!(HybridEndpoint);
endpoint!(ShmEndpoint);
#[cfg(feature = "ibverbs")]
endpoint!(VerbsEndpoint);
