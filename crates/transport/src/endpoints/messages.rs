//! Sends, receives and loans of the endpoints over the engine: they hand the calls on to it,
//! or right to its protocols.

use limic_shm::bytes::total;
use limic_shm::ring::line::{INLINE_PAYLOAD, MOST_SAME_TAG};

#[cfg(feature = "ibverbs")]
use super::VerbsEndpoint;
use super::{HybridEndpoint, Inner, ShmEndpoint};
use crate::engine::Engine;
use crate::engine::protocol::attempt::{self, Short};
use crate::engine::protocol::receive;
use crate::engine::request::sent;
use crate::error::Outcome;
use crate::polling::poll_until;
use crate::raw::{
    ClaimId, Loans, Messages, Owner, Posted, RawEndpoint, RawLoan, RawLoaned, RawSlice,
    RawSliceMut, RequestId, SendOptions, Taken,
};
use crate::{Endpoint, Peer, Result, Selector, Status, Tag};

impl Inner<Engine> {
    /// Sends a message if it goes whole at once. True if it did.
    ///
    /// # Safety
    /// As [`Messages::try_send`].
    #[inline(always)]
    unsafe fn try_send(
        &self,
        to: Peer,
        tag: Tag,
        immediate: Option<u64>,
        data: &[RawSlice],
    ) -> bool {
        if let [one] = data {
            // By its length alone, so that the shortest are asked for nothing else.
            if one.len <= INLINE_PAYLOAD as usize {
                // SAFETY: the caller's promise.
                return unsafe { self.try_short::<1>(to, tag, immediate, *one) };
            }
            if one.len <= MOST_SAME_TAG as usize {
                // SAFETY: the caller's promise.
                return unsafe { self.try_two_lines(to, tag, immediate, *one) };
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.try_whole(to, tag, immediate, data) }
    }

    /// The same of one that goes in a record of so many lines at most, if it goes the short way.
    ///
    /// # Safety
    /// As [`Messages::try_send`].
    #[inline(always)]
    unsafe fn try_short<const LINES: usize>(
        &self,
        to: Peer,
        tag: Tag,
        immediate: Option<u64>,
        data: RawSlice,
    ) -> bool {
        let mut engine = self.engine.borrow_unguarded();
        // SAFETY: the caller's promise.
        let sent = unsafe { attempt::short::<LINES>(&mut engine.cx, to.0, tag.0, immediate, data) };
        drop(engine);
        // The rest is called last, so that the short way has no registers to save.
        match sent {
            Short::Sent => true,
            Short::SentToSleeper => self.ring(to),
            // SAFETY: the caller's promise.
            Short::No => unsafe { self.try_refused(to, tag, immediate, data) },
        }
    }

    /// The same with up to two lines, in code of its own: that of one line has no registers to
    /// save.
    ///
    /// # Safety
    /// As [`Messages::try_send`].
    #[inline(never)]
    unsafe fn try_two_lines(
        &self,
        to: Peer,
        tag: Tag,
        immediate: Option<u64>,
        data: RawSlice,
    ) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.try_short::<2>(to, tag, immediate, data) }
    }

    /// A message that [`short`](attempt::short) has refused.
    ///
    /// # Safety
    /// As [`Messages::try_send`].
    #[inline(never)]
    unsafe fn try_refused(
        &self,
        to: Peer,
        tag: Tag,
        immediate: Option<u64>,
        data: RawSlice,
    ) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.try_whole(to, tag, immediate, &[data]) }
    }

    /// Sends a message by any way but the short one, if it goes whole at once.
    ///
    /// # Safety
    /// As [`Messages::try_send`].
    #[inline(always)]
    unsafe fn try_whole(
        &self,
        to: Peer,
        tag: Tag,
        immediate: Option<u64>,
        data: &[RawSlice],
    ) -> bool {
        let cx = &mut self.engine.borrow_unguarded().cx;
        // SAFETY: the caller's promise.
        unsafe { attempt::whole(cx, to.0, tag.0, immediate, data) }
    }

    /// A message that [`try_send`](Self::try_send) has refused.
    ///
    /// # Safety
    /// As [`Messages::post_send`].
    #[inline(always)]
    unsafe fn post_send(
        &self,
        to: Peer,
        tag: Tag,
        options: SendOptions,
        data: &[RawSlice],
    ) -> Result<Posted> {
        self.engine.enter(move |engine| {
            // SAFETY: the caller's promise.
            unsafe { engine.post_send(to.0, tag.0, options, data) }
        })
    }

    /// Posts a message and waits for it. The engine is not borrowed during the wait.
    ///
    /// # Safety
    /// As [`Messages::send_blocking`].
    #[inline(never)]
    unsafe fn send_and_wait<E: Endpoint>(
        &self,
        endpoint: &E,
        to: Peer,
        tag: Tag,
        data: &[RawSlice],
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        let posted = unsafe { self.post_send(to, tag, SendOptions::default(), data) }?;
        crate::handle::finish(endpoint, posted).map(drop)
    }

    /// Rings the receiver of what was sent just now. False: it was not sent.
    #[cold]
    fn ring(&self, to: Peer) -> bool {
        self.engine
            .enter(move |engine| attempt::ring_doorbell(&mut engine.cx, to.0))
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
                // What is in a ring is delivered, since that is shared memory.
                // SAFETY: the caller's promise, twice.
                unsafe {
                    if !options.matched && self.0.try_send(to, tag, options.immediate, data) {
                        return Ok(Posted::Done(sent(to.0, tag.0, total(data))));
                    }
                    self.0.post_send(to, tag, options, data)
                }
            }
            #[inline]
            unsafe fn try_send(
                &self,
                to: Peer,
                tag: Tag,
                immediate: Option<u64>,
                data: &[RawSlice],
            ) -> bool {
                // SAFETY: the caller's promise.
                unsafe { self.0.try_send(to, tag, immediate, data) }
            }
            unsafe fn post_send_slow(
                &self,
                to: Peer,
                tag: Tag,
                options: SendOptions,
                data: &[RawSlice],
            ) -> Result<Posted> {
                // SAFETY: the caller's promise.
                unsafe { self.0.post_send(to, tag, options, data) }
            }
            #[inline]
            fn holds_messages(&self) -> bool {
                self.0.engine.read(|engine| engine.holds_messages())
            }
            #[inline]
            fn flush(&self) {
                self.0.engine.enter(Engine::flush_pending);
            }
            #[inline]
            unsafe fn send_blocking(&self, to: Peer, tag: Tag, data: &[RawSlice]) -> Result<()> {
                // SAFETY: the caller's promise, twice.
                unsafe {
                    match self.0.try_send(to, tag, None, data) {
                        true => Ok(()),
                        false => self.0.send_and_wait(self, to, tag, data),
                    }
                }
            }
            #[inline]
            unsafe fn post_recv(
                &self,
                selector: &Selector,
                into: &[RawSliceMut],
            ) -> Result<Posted> {
                // SAFETY: the caller's promise.
                unsafe { self.post_recv_owned(selector, into, Owner::Caller) }
            }
            #[inline]
            unsafe fn post_recv_owned(
                &self,
                selector: &Selector,
                into: &[RawSliceMut],
                owner: Owner,
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
                owner: Owner,
            ) -> Option<RequestId> {
                self.0.engine.enter(
                    #[inline(always)]
                    move |engine| {
                        // SAFETY: the caller's promise.
                        unsafe { receive::post_to_fifo(&mut engine.cx, selector, into, owner) }
                    },
                )
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
                    Some(posted) => crate::handle::finish(self, posted).map(drop),
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
