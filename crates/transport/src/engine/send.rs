//! A message sets out: at once through the ring, or by way of the backlog, or as an offer.

use super::Core;
use super::hand::{self, Target};
use super::in_pieces::InPieces;
use super::peers::{Link, Outgoing};
use super::pool::Pool;
use super::requests::{Operation, SendStage, Sending, Slot};
use super::short::{Short, may_be_short};
use super::wire::{self, Control};
use crate::buffer::{gather, total};
use crate::counters::Event;
use crate::error::Outcome;
use crate::kmod::Exposed;
use crate::policy::Path;
use crate::raw::{Posted, RawSlice, RequestId, SendOptions};
use crate::single_copy::address_of;
use crate::{Error, Peer, Result, Status, Tag};

/// What became of an attempt to send without asking the receiver.
pub(crate) enum Eager {
    Sent(Path),
    NoRoom,
}

/// Tries a piece in hand (`hand`), the ring, or a piece of the pool that is named through the shared ring.
///
/// Cache lines that move to the receiver for `n` bytes through a private ring: `ceil((16 + n) / 64)`,
/// so one up to 48 bytes; and one back per quarter of the ring. In a piece in hand: `ceil(n / 64)`, and
/// one for two or three messages.
///
/// # Safety
/// The slices are readable during the call, and `len` is their length together.
#[inline(always)]
pub(crate) unsafe fn push_eager(
    link: &mut Link,
    pool: &mut Pool,
    to: u32,
    tag: u64,
    immediate: Option<u64>,
    data: &[RawSlice],
    len: u64,
) -> Eager {
    if !link.finish_switch() {
        return Eager::NoRoom;
    }
    if len >= hand::LEAST && link.may_pass_on(len) {
        // Before the bytes are copied.
        if !link.has_room() {
            return Eager::NoRoom;
        }
        let target = link.target_in_hand(pool, to, len);
        if let Some(target) = target {
            // SAFETY: the caller's promise.
            return if unsafe { push_piece(link, pool, target, tag, immediate, data, len) } {
                Eager::Sent(Path::Eager)
            } else {
                link.put_back(pool, target);
                Eager::NoRoom
            };
        }
    }
    // It could have gone whole in a piece in hand only.
    if len >= link.record_below && len >= link.thresholds.inline_below {
        return Eager::NoRoom;
    }
    if link.fits_ring(len, immediate) {
        // SAFETY: the caller's promise.
        return if unsafe { link.push(tag, immediate, data, len) } {
            Eager::Sent(if len < link.thresholds.inline_below {
                Path::Inline
            } else {
                Path::Eager
            })
        } else {
            Eager::NoRoom
        };
    }
    // SAFETY: the caller's promise.
    unsafe { push_chunk(link, pool, to, tag, immediate, data, len) }
}

/// The shared ring has small slots: what is longer lies in a chunk.
///
/// # Safety
/// As [`push_eager`].
#[cold]
unsafe fn push_chunk(
    link: &mut Link,
    pool: &mut Pool,
    to: u32,
    tag: u64,
    immediate: Option<u64>,
    data: &[RawSlice],
    len: u64,
) -> Eager {
    let Some((target, room)) = link.target_for(pool, to, len, len, u64::MAX) else {
        return Eager::NoRoom;
    };
    // SAFETY: the caller's promise.
    if room == len && unsafe { push_piece(link, pool, target, tag, immediate, data, len) } {
        Eager::Sent(Path::Eager)
    } else {
        link.put_back(pool, target);
        Eager::NoRoom
    }
}

/// Names a message in a piece. False if there is no room for that.
///
/// # Safety
/// As [`push_eager`], and the piece has room for `len` bytes.
#[inline(always)]
unsafe fn push_piece(
    link: &mut Link,
    pool: &mut Pool,
    target: Target,
    tag: u64,
    immediate: Option<u64>,
    data: &[RawSlice],
    len: u64,
) -> bool {
    let Some(mut window) = link.window_of(pool, &target, len) else {
        return false;
    };
    // SAFETY: the caller's promise; the window has `len` bytes.
    unsafe { gather(data, &mut window) };
    let told = target.told(len);
    match immediate {
        None => link.push_words(wire::EAGER_CHUNK, tag, told.words()),
        Some(word) => link.push_words(wire::EAGER_CHUNK, tag, told.words_with(word)),
    }
}

impl Core {
    /// Starts a send.
    ///
    /// # Safety
    /// As [`RawEndpoint::post_send`](crate::RawEndpoint::post_send).
    #[inline]
    pub(crate) unsafe fn post_send(
        &mut self,
        to: u32,
        tag: u64,
        options: SendOptions,
        data: &[RawSlice],
    ) -> Result<Posted> {
        // SAFETY: handed on. What is in a ring is delivered, since that is shared memory.
        if unsafe { self.send_at_once(to, tag, options.immediate, data) }? {
            return Ok(Posted::Done(sent(to, tag, total(data))));
        }
        // SAFETY: handed on.
        unsafe { self.post_send_later(to, tag, options, data) }
    }

    /// Sends through the ring if there is room and nothing waits ahead. True if it did.
    ///
    /// # Safety
    /// The slices are readable during the call.
    #[inline(always)]
    pub(crate) unsafe fn send_at_once(
        &mut self,
        to: u32,
        tag: u64,
        immediate: Option<u64>,
        data: &[RawSlice],
    ) -> Result<bool> {
        if let (None, [one]) = (immediate, data)
            && may_be_short(one.len)
        {
            // SAFETY: the caller's promise.
            match unsafe { self.send_short(to, tag, *one) } {
                Short::Sent => return Ok(true),
                Short::SentToSleeper => {
                    self.ring(to);
                    return Ok(true);
                }
                Short::No => {}
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.send_any_at_once(to, tag, immediate, data) }
    }

    /// The same for all that is not [short](Self::send_short).
    ///
    /// # Safety
    /// As [`send_at_once`](Self::send_at_once).
    #[inline(always)]
    pub(crate) unsafe fn send_any_at_once(
        &mut self,
        to: u32,
        tag: u64,
        immediate: Option<u64>,
        data: &[RawSlice],
    ) -> Result<bool> {
        let len = total(data);
        let peer = self.peers.known(to)?;
        if let Some(link) = &mut peer.link
            && (link.may_go_eager(len) || link.may_go_in_hand(len))
            && peer.backlog.is_empty()
            && let Eager::Sent(path) =
                // SAFETY: the caller's promise.
                unsafe { push_eager(link, &mut self.pool, to, tag, immediate, data, len) }
        {
            self.tally.sent(&peer.counts, path, len);
            return Ok(true);
        }
        Ok(false)
    }

    /// Starts a send that cannot go in one record now.
    ///
    /// # Safety
    /// As [`post_send`](Self::post_send).
    #[inline(never)]
    pub(crate) unsafe fn post_send_later(
        &mut self,
        to: u32,
        tag: u64,
        options: SendOptions,
        data: &[RawSlice],
    ) -> Result<Posted> {
        let SendOptions {
            immediate,
            delivered,
        } = options;
        let len = total(data);
        let closed = self.closed;
        let peer = self.peers.known(to)?;
        if closed {
            return Err(Error::PeerFailed {
                peer: Peer(to),
                why: crate::PeerFailure::Closed,
            });
        }
        let nothing_waits = peer.backlog.is_empty();
        if let Some(why) = &peer.failure {
            return Err(Error::PeerFailed {
                peer: Peer(to),
                why: why.clone(),
            });
        }
        // SAFETY: the slices are readable during the call.
        if unsafe { self.push_ahead(to, tag, immediate, data, len) } {
            return Ok(Posted::Done(sent(to, tag, len)));
        }
        let came = if nothing_waits {
            let message = InPieces {
                tag,
                immediate,
                data,
                len,
            };
            // SAFETY: as above.
            unsafe { self.send_in_pieces(to, &message) }
        } else {
            None
        };
        if came == Some(len) {
            return Ok(Posted::Done(sent(to, tag, len)));
        }
        // SAFETY: the caller's promise is the buffer's invariant.
        let data = unsafe { crate::buffer::SendBuffer::new(data) };
        let sending = Sending {
            to,
            tag,
            immediate,
            data,
            stage: came.map_or(SendStage::Queued, |at| SendStage::InPieces { at }),
            exposed: None,
            delivered,
        };
        if self.peers.me == Some(to) {
            return Ok(self.send_to_self(sending));
        }
        self.tally.event(Event::Waited);
        let slot = self.requests.insert(Operation::Send(sending));
        let id = self.requests.id(slot);
        self.queue(to, Outgoing::Message(id));
        // It may be done by now: queued behind nothing, or failed to connect.
        Ok(match self.requests.take_done(slot) {
            Some(outcome) => Posted::Done(outcome),
            None => Posted::Pending(id),
        })
    }

    /// Puts something behind what waits for a peer already, and pushes what can be pushed.
    pub(crate) fn queue(&mut self, to: u32, outgoing: Outgoing) {
        let Some(peer) = self.peers.get(to) else {
            return;
        };
        peer.backlog.push_back(outgoing);
        if !peer.listed {
            peer.listed = true;
            self.work.backlogged.push(to);
        }
        if peer.link.is_none() && !peer.connecting {
            self.start_connection(to);
        }
        self.flush(to);
    }

    /// Sends a control record, behind the backlog if there is one.
    pub(crate) fn control(&mut self, to: u32, control: Control) {
        if let Some(peer) = self.peers.get(to)
            && peer.backlog.is_empty()
            && let Some(link) = &mut peer.link
            && link.push_control(&control)
        {
            return;
        }
        if self
            .peers
            .get(to)
            .is_some_and(|peer| peer.failure.is_none())
        {
            self.queue(to, Outgoing::Control(control));
        }
    }

    /// Pushes a peer's backlog as far as there is room. True if anything went.
    pub(crate) fn flush(&mut self, to: u32) -> bool {
        let mut moved = false;
        if let Some(wire) = self.peers.get(to).and_then(|peer| peer.wire) {
            return self.flush_remote(to, wire);
        }
        while let Some(peer) = self.peers.get(to) {
            let Some(link) = &mut peer.link else { break };
            let gone = match peer.backlog.front() {
                None => break,
                Some(Outgoing::Control(control)) => link.push_control(control),
                Some(Outgoing::Message(id)) => {
                    let id = *id;
                    self.push_queued(to, id)
                }
            };
            if !gone {
                break;
            }
            moved = true;
            if let Some(peer) = self.peers.get(to) {
                peer.backlog.pop_front();
            }
        }
        moved
    }

    /// The turn of a queued send has come. True if it left the backlog.
    fn push_queued(&mut self, to: u32, id: RequestId) -> bool {
        // Cancelled meanwhile: nothing to push.
        let Some(slot) = self.requests.find(id) else {
            return true;
        };
        let Some(peer) = self.peers.get(to) else {
            return true;
        };
        let Some(link) = &mut peer.link else {
            return false;
        };
        let Some(sending) = self.requests.sending(slot) else {
            return true;
        };
        let (tag, immediate, len) = (sending.tag, sending.immediate, sending.data.len());
        match sending.stage {
            SendStage::Queued if link.may_go_eager(len) => {
                let data = sending.data.slices();
                // SAFETY: readable by the invariant of `SendBuffer`, and `len` is its length.
                match unsafe { push_eager(link, &mut self.pool, to, tag, immediate, data, len) } {
                    Eager::NoRoom => false,
                    Eager::Sent(path) => {
                        self.tally.sent(&peer.counts, path, len);
                        self.requests.complete(slot, sent(to, tag, len));
                        true
                    }
                }
            }
            SendStage::InPieces { .. } => self.push_queued_in_pieces(to, slot),
            SendStage::Queued if link.may_go_in_pieces(len) => self.push_queued_in_pieces(to, slot),
            SendStage::Queued => {
                let address = address_of(sending.data.slices());
                let flags = if address.is_some() {
                    0
                } else {
                    wire::IN_PIECES
                };
                let (with, word) = wire::immediate_words(immediate);
                let in_process = link.same_process;
                if sending.exposed.is_none() && !in_process {
                    sending.exposed = link.kmod.offer(&mut self.device, &sending.data);
                }
                let key = sending.exposed.as_ref().map_or(0, Exposed::handle);
                let words = [id.0, len, address.unwrap_or(0), key, flags | with, word];
                if !link.push_control(&Control::new(wire::READY_TO_SEND, words).with_tag(tag)) {
                    return false;
                }
                sending.stage = SendStage::Offered { retracting: false };
                if in_process {
                    // SAFETY: the same bytes; the entry goes before the operation ends (`end_send`).
                    let second = unsafe { crate::buffer::SendBuffer::new(sending.data.slices()) };
                    crate::same_process::enter(self.address.id, id.0, second);
                }
                true
            }
            SendStage::Put { key, offset } => {
                link.push_control(&Control::new(wire::PUT, [id.0, key, offset, len]))
            }
            _ => true,
        }
    }

    /// A message was sent otherwise than at once through a ring.
    pub(crate) fn note_sent(&mut self, to: u32, path: Path, len: u64) {
        if let Some(peer) = self.peers.get(to) {
            self.tally.sent(&peer.counts, path, len);
        }
    }

    /// From now on, what has to do with a peer is counted for it alone.
    pub(crate) fn give_row(&mut self, number: u32) {
        if let Some(peer) = self.peers.get(number)
            && !peer.counts.is_own()
        {
            peer.counts = self.tally.row(number, peer.address.id);
        }
    }

    /// Ends a send that the peer may have seen.
    pub(crate) fn end_send(&mut self, slot: Slot, outcome: Outcome) {
        let id = self.requests.id(slot);
        self.remote.send_is_over(id);
        if let Some(sending) = self.requests.sending(slot) {
            let to = sending.to;
            if self.peers.link(to).is_some_and(|link| link.same_process) {
                crate::same_process::leave(self.address.id, id.0);
            }
        }
        self.requests.complete(slot, outcome);
    }
}

/// The outcome of a send that went well.
#[inline(always)]
pub(crate) fn sent(to: u32, tag: u64, len: u64) -> Outcome {
    Ok(Status {
        peer: Peer(to),
        tag: Tag(tag),
        len,
        immediate: None,
    })
}
