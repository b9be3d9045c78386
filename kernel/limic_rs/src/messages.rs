// SPDX-License-Identifier: GPL-2.0

//! Sends, receives, probes, cancels: whoever comes first is pinned and queued, whoever
//! comes second copies.
//!
//! The life of a message: `send` looks in the receiver's mailbox. If a receive waits there, it
//! copies into the memory that the receiver pinned, and completes both. If not, it pins its own
//! memory (no lock is held meanwhile), looks again, and queues the message; the receive that finds
//! it copies and completes both.

use crate::abi;
use crate::copy::{self, Direction, Stopped};
use crate::costs::{Call, Step, Trip};
use crate::counters::{Event, count};
use crate::events::Outcome;
use crate::ffi;
use crate::group::Membership;
use crate::mailbox::{Arrival, Body, Message, MessageName, Met, Receipt};
use crate::matching::{Envelope, Selector, Source};
use crate::pieces::Pieces;
use crate::request::{Claim, Place, Whereabouts};
use crate::session::Session;
use kernel::prelude::*;
use kernel::sync::Arc;

/// What the side that copies is told if the copy stops, and what the other side is told.
fn errors_of(stopped: Option<Stopped>) -> (i32, i32) {
    match stopped {
        None => (0, 0),
        Some(Stopped::Fault) => (EFAULT.to_errno(), EPIPE.to_errno()),
        Some(Stopped::Killed) => (EINTR.to_errno(), EPIPE.to_errno()),
        Some(Stopped::Shut) => (EPIPE.to_errno(), EPIPE.to_errno()),
    }
}

/// The receiver's error if all bytes that it wanted got through.
fn truncation(len: u64, full_len: u64) -> i32 {
    if len < full_len {
        count(Event::Truncated, 1);
        EMSGSIZE.to_errno()
    } else {
        0
    }
}

fn report(trip: &mut Trip, event: Event, bytes: u64, stopped: Option<Stopped>) {
    count(event, 1);
    count(Event::Bytes, bytes);
    if stopped.is_some() {
        count(Event::Stopped, 1);
    }
    trip.step(Step::Complete);
}

/// The selector of a receive or probe.
fn selector(member: &Membership, rank: u32, tag: u64, mask: u64) -> Result<Selector> {
    let source = if rank == abi::ANY_RANK {
        Source::Any
    } else {
        // A rank of the group, there or not yet.
        member.group.mailbox(rank)?;
        Source::Is(rank)
    };
    Ok(Selector { source, tag, mask })
}

/// Whether a rank, if it is one, has left.
fn has_left(member: &Membership, rank: u32) -> bool {
    let mailbox = member.group.mailbox(rank).ok().flatten();
    mailbox.is_some_and(|mailbox| mailbox.has_left())
}

impl Session {
    /// `LIMIC_IOC_SEND`
    #[inline(never)]
    pub(crate) fn send(&self, arg: &mut abi::Send) -> Result {
        let mut trip = Trip::begin();
        let known = abi::SEND_BUFFERED | abi::SEND_IMMEDIATE | abi::SEND_KEEP;
        abi::check(arg.flags, known, &[arg.reserved])?;
        let immediate = (arg.flags & abi::SEND_IMMEDIATE != 0).then_some(arg.immediate);
        if arg.reserved0 != 0 || (immediate.is_none() && arg.immediate != 0) {
            return Err(EINVAL);
        }
        let (requests, member) = self.member()?;
        let receiver = member.group.mailbox(arg.rank)?.ok_or(ESRCH)?;
        let pieces = Pieces::read(arg.iov, arg.nr_iov)?;
        let buffered = arg.flags & abi::SEND_BUFFERED != 0;
        if buffered && pieces.len() > abi::MAX_BUFFERED {
            return Err(EINVAL);
        }
        let claim = requests.claim(arg.slot, arg.cookie)?;
        trip.step(Step::List);

        let envelope = Envelope {
            source: member.rank,
            tag: arg.tag,
        };
        let mut prepared = None;
        loop {
            match receiver.arrive(&envelope, &mut prepared)? {
                Arrival::Met(met) => {
                    trip.step(Step::Queue);
                    // What was prepared is not needed: the bytes go from where they are.
                    drop(prepared);
                    self.deliver(met, &envelope, immediate, &pieces, claim, trip);
                    arg.state = abi::DONE;
                    return Ok(());
                }
                Arrival::Wanted => {
                    trip.step(Step::Queue);
                    let mut message = self.prepare(&envelope, &pieces, arg.flags, &claim)?;
                    message.immediate = immediate;
                    prepared = Some(message);
                    trip.step(Step::Pin);
                }
                Arrival::Queued(events) => {
                    trip.step(Step::Queue);
                    events.arrived();
                    arg.state = abi::PENDING;
                    if buffered {
                        count(Event::SendBuffered, 1);
                        claim.finish(&Outcome {
                            error: 0,
                            len: pieces.len(),
                            full_len: pieces.len(),
                            tag: envelope.tag,
                            source: envelope.source,
                            immediate,
                        });
                        arg.state = abi::DONE;
                    } else {
                        count(Event::SendQueued, 1);
                    }
                    trip.step(Step::Complete);
                    trip.end(Call::Post, pieces.len());
                    return Ok(());
                }
            }
        }
    }

    /// Makes the bytes of a message outlast the call.
    fn prepare(
        &self,
        envelope: &Envelope,
        pieces: &Pieces,
        flags: u32,
        claim: &Claim<'_>,
    ) -> Result<Message> {
        let buffered = flags & abi::SEND_BUFFERED != 0;
        let len = pieces.len();
        let body = if buffered {
            Body::Bytes(copy::gather(pieces.as_slice(), len)?)
        } else {
            let held = self.hold(pieces, false, flags & abi::SEND_KEEP != 0)?;
            Body::Held(Arc::new(held, GFP_KERNEL_ACCOUNT)?)
        };
        Ok(Message {
            source: envelope.source,
            tag: envelope.tag,
            len,
            immediate: None,
            body,
            sender: (!buffered).then(|| claim.party()),
        })
    }

    /// The sender came second: copies into the receive's memory and completes both.
    fn deliver(
        &self,
        met: Met,
        envelope: &Envelope,
        immediate: Option<u64>,
        pieces: &Pieces,
        claim: Claim<'_>,
        mut trip: Trip,
    ) {
        let full_len = pieces.len();
        let wanted = full_len.min(met.held.len());
        let list = pieces.as_slice();
        let (len, stopped) = copy::copy(&met.held, 0, list, wanted, Direction::In, &mut trip);
        let (mine, others) = errors_of(stopped);
        let outcome = |error| Outcome {
            error,
            len,
            full_len,
            tag: envelope.tag,
            source: envelope.source,
            immediate,
        };
        let others = match stopped {
            None => truncation(len, full_len),
            Some(_) => others,
        };
        drop(met.held);
        met.receiver.complete(&outcome(others), true);
        claim.finish(&outcome(mine));
        report(&mut trip, Event::SendMatched, len, stopped);
        trip.end(Call::Transfer, full_len);
    }

    /// `LIMIC_IOC_RECV`
    #[inline(never)]
    pub(crate) fn recv(&self, arg: &mut abi::Recv) -> Result {
        let mut trip = Trip::begin();
        abi::check(arg.flags, abi::RECV_MESSAGE | abi::RECV_KEEP, &[])?;
        let taken = arg.flags & abi::RECV_MESSAGE != 0;
        let label = arg.tag != 0 || arg.mask != 0 || arg.rank != 0;
        if arg.reserved0 != 0 || (taken && label) || (!taken && arg.message != 0) {
            return Err(EINVAL);
        }
        let (requests, member) = self.member()?;
        let selector = selector(member, arg.rank, arg.tag, arg.mask)?;
        let pieces = Pieces::read(arg.iov, arg.nr_iov)?;
        let claim = requests.claim(arg.slot, arg.cookie)?;
        trip.step(Step::List);

        if taken {
            let name = MessageName::from_number(arg.message);
            let message = member.mailbox.receive_taken(name)?;
            trip.step(Step::Queue);
            self.fetch(message, &pieces, claim, trip);
            arg.state = abi::DONE;
            return Ok(());
        }
        let left = || has_left(member, arg.rank);
        let mut held = None;
        loop {
            let request = claim.request();
            let mailbox = &member.mailbox;
            match mailbox.receive(&selector, left, request, arg.slot, &mut held)? {
                Receipt::Found(message) => {
                    trip.step(Step::Queue);
                    drop(held);
                    self.fetch(message, &pieces, claim, trip);
                    arg.state = abi::DONE;
                    return Ok(());
                }
                Receipt::Wanted => {
                    trip.step(Step::Queue);
                    let memory = self.hold(&pieces, true, arg.flags & abi::RECV_KEEP != 0)?;
                    held = Some(Arc::new(memory, GFP_KERNEL_ACCOUNT)?);
                    trip.step(Step::Pin);
                }
                Receipt::Posted => {
                    arg.state = abi::PENDING;
                    count(Event::RecvQueued, 1);
                    trip.step(Step::Queue);
                    trip.end(Call::Post, pieces.len());
                    return Ok(());
                }
            }
        }
    }

    /// The receiver came second: copies from where the message is and completes both.
    fn fetch(&self, message: Message, pieces: &Pieces, claim: Claim<'_>, mut trip: Trip) {
        let full_len = message.len;
        let wanted = full_len.min(pieces.len());
        let list = pieces.as_slice();
        let (len, stopped) = match &message.body {
            Body::Held(held) => copy::copy(held, 0, list, wanted, Direction::Out, &mut trip),
            Body::Bytes(bytes) => {
                let bytes = bytes.get(..wanted as usize).unwrap_or(bytes);
                let result = copy::copy_bytes(bytes, list);
                trip.step(Step::Copy);
                result
            }
            Body::Gone => (0, Some(Stopped::Shut)),
        };
        let (mine, others) = errors_of(stopped);
        let outcome = |error| Outcome {
            error,
            len,
            full_len,
            tag: message.tag,
            source: message.source,
            immediate: message.immediate,
        };
        let mine = match stopped {
            None => truncation(len, full_len),
            Some(_) => mine,
        };
        drop(message.body);
        if let Some(sender) = message.sender {
            sender.complete(&outcome(others), true);
        }
        claim.finish(&outcome(mine));
        report(&mut trip, Event::RecvMatched, len, stopped);
        trip.end(Call::Transfer, full_len);
    }

    /// `LIMIC_IOC_PROBE`
    #[inline(never)]
    pub(crate) fn probe(&self, arg: &mut abi::Probe) -> Result {
        let [first, second] = arg.reserved;
        abi::check(arg.flags, abi::PROBE_TAKE, &[arg.immediate, first, second])?;
        let (_, member) = self.member()?;
        let selector = selector(member, arg.rank, arg.tag, arg.mask)?;
        let take = arg.flags & abi::PROBE_TAKE != 0;
        let left = || has_left(member, arg.rank);
        let seen = member.mailbox.probe(&selector, left, take)?;
        arg.rank = seen.source;
        arg.tag = seen.tag;
        arg.len = seen.len;
        arg.flags = seen.immediate.map_or(0, |_| abi::PROBE_IMMEDIATE);
        arg.immediate = seen.immediate.unwrap_or(0);
        arg.message = seen.name.map_or(0, MessageName::number);
        Ok(())
    }

    /// `LIMIC_IOC_CANCEL`
    #[inline(never)]
    pub(crate) fn cancel(&self, arg: &abi::Cancel) -> Result {
        abi::check(arg.flags, abi::CANCEL_FORCE, &[arg.reserved])?;
        let (requests, member) = self.member()?;
        let request = requests.get(arg.slot).ok_or(EINVAL)?;
        let withdrawn = match request.place() {
            Whereabouts::Nowhere => return Err(EINVAL),
            Whereabouts::Past => None,
            Whereabouts::Queued(Place::Posted(id)) => member.mailbox.withdraw_receive(id),
            Whereabouts::Queued(Place::Message(mailbox, name)) => {
                let message = mailbox.withdraw_message(name, false);
                // What else it held goes here, outside of the lock.
                message.and_then(|message| message.sender)
            }
        };
        let outcome = Outcome {
            error: ffi::ECANCELED().to_errno(),
            len: 0,
            full_len: 0,
            tag: 0,
            source: member.rank,
            immediate: None,
        };
        match withdrawn {
            Some(party) => party.complete(&outcome, false),
            None if arg.flags & abi::CANCEL_FORCE != 0 && request.take_back(&outcome) => {}
            None => return Err(ffi::EALREADY()),
        }
        count(Event::Cancelled, 1);
        Ok(())
    }
}
