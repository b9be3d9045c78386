//! Eager messages that are longer than a record, in pieces.
//!
//! A record says that a message begins, and how long it is; its bytes follow at once in further records of the pair's
//! ring, each published as soon as it is filled in. So a receiver whose receive is posted copies one piece while the sender copies
//! the next, and neither waits for an answer of the other. They lie in pages that go to and fro (`hand`), in the sender's pool, whose
//! other pages go round (`pool`), or in the records if other peers hold all of that.
//!
//! Nothing of the pair's other messages comes between the pieces, since these stand first in the backlog until all are out; so a
//! piece needs no name. Records of transfers under way may come between.
//!
//! Without a receive the pieces are kept like any eager message, and count towards the same budget. If the receiver does not look at
//! its ring either, the sender has to wait once the pool is used up; so such messages tell of lag as offers do
//! (`policy::lag`); those that lie in the ring unseen by what their sender says of the one before.
//!
//! Lines that move for a message through the pool: for each piece its bytes, and, unless it is in hand, the flag by which it comes
//! back; and a line of records for the beginning and two pieces, or for eight pieces three.

use limic_shm::ring::Memory;
use limic_shm::sync::Ordering;

use super::Core;
use super::peers::{Link, Out, SHARED_INLINE};
use super::pool::Pool;
use super::requests::{Operation, SendStage, Slot};
use super::streams::piece_bytes;
use super::wire;
use crate::buffer::gather_part;
use crate::policy::Path;
use crate::raw::RawSlice;

/// Longest eager message in one record, in bytes: longer ones would leave the ring's near lap.
pub(crate) const LONGEST_RECORD: u64 = 2816;
/// Longest eager message, in bytes: what the receiver may have to keep of one that nobody expects. Answers may be longer
/// (`hand`).
pub(crate) const LONGEST: u64 = 64 << 10;
/// The most that goes in one record, in bytes, to a peer with rings of so many, from a pool with chunks of so many.
pub(crate) fn longest_record(ring_bytes: u32, chunk_bytes: u32) -> u64 {
    // A record may take a quarter of a private ring; the pool must hold what does not fit the shared one.
    LONGEST_RECORD
        .min(u64::from(ring_bytes / 4))
        .min(u64::from(chunk_bytes))
}

/// A message that goes in pieces.
pub(crate) struct InPieces<'a> {
    pub(crate) tag: u64,
    pub(crate) immediate: Option<u64>,
    pub(crate) data: &'a [RawSlice],
    /// Of all of the data.
    pub(crate) len: u64,
}

impl Link {
    /// Whether a message that is longer than a record goes in pieces without asking the receiver: see
    /// [`may_go_eager`](Self::may_go_eager).
    pub(crate) fn may_go_in_pieces(&self, len: u64) -> bool {
        len >= self.record_below
            && (len < self.thresholds.eager_below || self.answers(len))
            && self.status.word32(0).load(Ordering::Relaxed) == 0
    }

    /// Pushes pieces from byte `at` on, as far as there is room. Says how far it came.
    ///
    /// # Safety
    /// As [`Core::send_in_pieces`].
    #[inline]
    unsafe fn push_pieces(
        &mut self,
        pool: &mut Pool,
        to: u32,
        message: &InPieces<'_>,
        mut at: u64,
    ) -> u64 {
        while at < message.len {
            // SAFETY: the caller's promise, twice.
            let pushed = unsafe {
                self.push_through_pool(pool, to, message, at)
                    .or_else(|| self.push_in_record(pool, to, message, at))
            };
            match pushed {
                Some(pushed) => at += pushed,
                None => break,
            }
        }
        at
    }

    /// Says that a message begins.
    #[inline]
    fn begin(&mut self, message: &InPieces<'_>) -> bool {
        let flags = if self.held_up { wire::HELD_UP } else { 0 };
        let first = |flags| wire::flagged(flags, message.len);
        match message.immediate {
            None => self.push_words(wire::BEGINS, message.tag, [first(flags)]),
            Some(word) => {
                let first = first(flags | wire::WITH_IMMEDIATE);
                self.push_words(wire::BEGINS, message.tag, [first, word])
            }
        }
    }

    /// # Safety
    /// As [`Core::send_in_pieces`].
    #[inline]
    unsafe fn push_through_pool(
        &mut self,
        pool: &mut Pool,
        to: u32,
        message: &InPieces<'_>,
        at: u64,
    ) -> Option<u64> {
        if !self.has_room() {
            return None;
        }
        let len = piece_bytes(message.len, at, pool.chunk_bytes);
        let (target, len) = self.target_for(pool, to, len, message.len, u64::MAX)?;
        if let Some(mut window) = self.window_of(pool, &target, len) {
            // SAFETY: the caller's promise; `at + len` is at most the message's length, and the window has `len` bytes.
            unsafe { gather_part(message.data, at, len, &mut window) }
        }
        // It needs no tag, and is shorter with that of the record before.
        if self.push_words(wire::NEXT_PIECE, message.tag, target.told(len).words()) {
            return Some(len);
        }
        self.put_back(pool, target);
        None
    }

    /// The next bytes in the record itself, if other peers hold all of the pool: what they do not take must not hold up a message
    /// that has begun, and the answers to this peer that stand behind it.
    ///
    /// # Safety
    /// As [`Core::send_in_pieces`].
    #[cold]
    unsafe fn push_in_record(
        &mut self,
        pool: &Pool,
        to: u32,
        message: &InPieces<'_>,
        at: u64,
    ) -> Option<u64> {
        /// The bytes and their kind, written into a reservation of either ring.
        macro_rules! publish {
            ($ring:expr, $most:expr) => {{
                let len = (message.len - at).min($most);
                let mut room = $ring.reserve(len as u32)?;
                // SAFETY: the caller's promise; `len` bytes are left, and reserved.
                unsafe { gather_part(message.data, at, len, &mut room) }
                room.publish(wire::NEXT_BYTES, 0, 0);
                len
            }};
        }
        if !pool.holds_nothing(to) || !self.finish_switch() {
            return None;
        }
        let len = match &mut self.out {
            Out::Private(ring) => publish!(ring, self.longest_record),
            Out::Shared(ring) => publish!(ring, SHARED_INLINE),
        };
        self.wake();
        Some(len)
    }
}

impl Core {
    /// Sends a message in pieces, or begins to: how far it came. `None`: it goes in another way, or there is no room for its beginning.
    /// Nothing waits before it.
    ///
    /// # Safety
    /// The slices are readable during the call, and `len` is their length together.
    pub(crate) unsafe fn send_in_pieces(&mut self, to: u32, message: &InPieces<'_>) -> Option<u64> {
        let link = self.peers.link(to)?;
        if !link.may_go_in_pieces(message.len)
            && !link.begins_to_answer(&self.pool, to, message.len)
        {
            return None;
        }
        link.held_up = !link.begin(message);
        if link.held_up {
            return None;
        }
        // SAFETY: the caller's promise.
        unsafe { self.go_on_in_pieces(to, message, 0) }
    }

    /// Goes on with a message of which all bytes before `at` are out.
    ///
    /// # Safety
    /// As [`send_in_pieces`](Self::send_in_pieces).
    #[inline]
    unsafe fn go_on_in_pieces(&mut self, to: u32, message: &InPieces<'_>, at: u64) -> Option<u64> {
        let peer = self.peers.get(to)?;
        let link = peer.link.as_deref_mut()?;
        // SAFETY: the caller's promise.
        let at = unsafe { link.push_pieces(&mut self.pool, to, message, at) };
        if at < message.len {
            link.held_up = true;
            return Some(at);
        }
        link.look_ahead();
        self.tally.sent(&peer.counts, Path::Eager, message.len);
        Some(at)
    }

    /// The turn of a queued send has come. True if all of it is out.
    pub(crate) fn push_queued_in_pieces(&mut self, to: u32, slot: Slot) -> bool {
        let Operation::Send(mut sending) =
            core::mem::replace(self.requests.get(slot), Operation::Over)
        else {
            return true;
        };
        let message = InPieces {
            tag: sending.tag,
            immediate: sending.immediate,
            data: sending.data.slices(),
            len: sending.data.len(),
        };
        // SAFETY: readable by the invariant of `SendBuffer`, and of that length.
        let came = unsafe {
            match sending.stage {
                SendStage::InPieces { at } => self.go_on_in_pieces(to, &message, at),
                _ => self.send_in_pieces(to, &message),
            }
        };
        let (tag, len) = (message.tag, message.len);
        if let Some(at) = came {
            sending.stage = SendStage::InPieces { at };
        }
        *self.requests.get(slot) = Operation::Send(sending);
        let all = came == Some(len);
        if all {
            self.requests
                .complete(slot, super::send::sent(to, tag, len));
        }
        all
    }
}

#[cfg(test)]
#[path = "in_pieces_tests.rs"]
mod tests;
