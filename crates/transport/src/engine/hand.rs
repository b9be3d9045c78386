//! Pieces in hand: memory of a pool that was just read, and that its reader writes next.
//!
//! Two peers that answer each other pass the same few pages to and fro: what came in a piece is answered in that piece, if its
//! owner lets the reader keep it; and the owner, when it has read the answer there, writes its next message into it. No flag and no
//! look at a flag is needed for that: the record that names a piece hands it over.
//!
//! # Why
//!
//! How long a store to shared memory takes depends on who used its line last. The core that *read* the line from the other one
//! gets it for writing several times faster than the core that wrote it does, which has to take it back from the reader. One way
//! in us between two cores below one cache (hand-over of a line 30 ns), a loop of two copies in pieces: through pages that go to
//! and fro, through 2 MiB that go round ([`pool`](super::pool)), and through as many bytes as the message has, each direction its
//! own:
//!
//! | bytes | to and fro | round | its own |
//! |---|---|---|---|
//! | 4 KiB | 0.19 | 0.54 | |
//! | 32 KiB | 1.2 | 1.6 | 4.6 |
//! | 128 KiB | 3.5 | 4.6 | 18 |
//! | 1 MiB | 34 | 36 | |
//!
//! # Who may keep what
//!
//! The owner says for each piece whether its reader may keep it, for as many bytes as that one has sent to it: so a stream in one
//! direction keeps to pages that go round. What peers may keep is bounded, for each ([`KEPT_BY_PEER`](super::kept::KEPT_BY_PEER)) and for all
//! ([`kept`](super::kept)), so that those who never answer take no more than that part of the pool. What is in hand and not used
//! for a while goes back to its owner by its release flag.
//!
//! # Long answers
//!
//! A message that fits what is in hand of a peer is likely to be an answer, for which that peer waits: up to [`LONGEST`] bytes it
//! goes at once, where a longer one than [`in_pieces::LONGEST`](super::in_pieces::LONGEST) would be offered. One for which nobody
//! waits after all has to be copied aside; its receiver then keeps nothing for a while, and leaves its sender nothing.
//!
//! The pipeline puts the first pieces in hand. Between cores without a common cache long messages go by single copy, which names none;
//! so there as many bytes as came from a peer go to it at once, in pieces that it may keep. 96 KiB in turn took 7.1 us in place of 9.3
//! (hand-over of a line 150 ns), 128 KiB 9.1 in place of 10.6, 512 KiB 25.3 in place of 26.6, and 1 MiB as long; both ways in windows
//! 128 KiB went at 11 us in place of 19.

use limic_shm::ring::line::INLINE_PAYLOAD;
use limic_shm::ring::{LINE, Memory};
use limic_shm::sync::Ordering;

use super::Core;
use super::in_hand::{InHand, LONGEST, Span, Whose};
use super::peers::Link;
use super::pool::{Piece, Pool, bytes_of, pages_of, piece_of};
use super::told::Told;
use crate::buffer::Window;
use crate::topology::Locality;

/// Messages of fewer bytes than this go in a record of the ring: those of up to four lines with its header. A receiver that waits for them
/// has two lines on their way at once, while of a piece it knows nothing before it has read the record.
pub(crate) const LEAST: u64 = 3 * LINE as u64 + INLINE_PAYLOAD as u64 + 1;
/// The longest that go whole in a piece in hand, in bytes: longer ones gain more by the overlap of two copies than the records of
/// pieces cost, of which the receiver waits for each. Between cores without a common cache these cost more: 16 KiB took 1.7 us whole, and
/// 2.0 in pieces.
pub(super) const fn longest_whole(locality: Locality) -> u64 {
    match locality {
        Locality::SamePackage | Locality::OtherPackage => 32 << 10,
        _ => 12 << 10,
    }
}
/// Messages that have to come before another one may come unasked for, if one did at the wrong time.
const REST: u64 = 32;
/// Pieces that go back when none of those in hand is long enough, and there is no room for a longer one.
const TOO_SHORT: u32 = 4;
/// Looks after which what is in hand counts as not used any more: with two endpoints some 30 ms of polling.
const UNUSED: u32 = 256;

/// How a piece is handed over, as the records that name one say it ([`Told`]). A whole word in memory, as in [`InHand`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Lease {
    /// Of the sender's pool, and goes back by its flag.
    Lent = 0,
    /// Of the sender's pool; its reader may keep all of its pages.
    Keep = 1,
    /// Of the reader's pool.
    Back = 2,
}

/// Where bytes for a peer go. Words, as in [`InHand`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    span: Span,
    /// Has 32 bits, in a word for the same reason.
    generation: u64,
    lease: Lease,
}

impl Target {
    #[inline(always)]
    fn new(page: u32, pages: u32, generation: u32, lease: Lease) -> Self {
        Self {
            span: Span::new(page, pages),
            generation: generation.into(),
            lease,
        }
    }

    /// A piece in hand, which goes to the peer.
    #[inline(always)]
    fn of(pool: &mut Pool, piece: InHand) -> Self {
        let (generation, lease) = if piece.is_mine() {
            (pool.kept.pass_on(piece.page()), Lease::Keep)
        } else {
            (piece.generation(), Lease::Back)
        };
        Self {
            span: piece.span,
            generation: generation.into(),
            lease,
        }
    }

    /// What a record says of its first `len` bytes.
    #[inline(always)]
    pub(crate) fn told(&self, len: u64) -> Told {
        let (page, pages) = (self.span.page(), self.span.pages());
        Told::new(page, self.generation as u32, pages, len, self.lease)
    }
}

impl Link {
    /// Whether a message that is longer than a record may go whole: if a piece is in hand.
    #[inline]
    pub(crate) fn may_go_in_hand(&self, len: u64) -> bool {
        (LEAST..=self.longest_whole).contains(&len)
            && !self.hand.pieces.is_empty()
            && self.may_go_in_pieces(len)
    }

    /// Whether a message goes at once though others of its length are offered: if there are pieces in hand for it. Its receiver has
    /// sent as many bytes, so it is likely to wait for these.
    pub(super) fn answers(&self, len: u64) -> bool {
        len < self.answers_below && len <= bytes_of(self.hand.long_pages)
    }

    /// Whether a message goes at once as an answer though nothing is in hand yet, in pieces that the peer may keep: where long ones go by
    /// another path than the pipeline, which names such pieces itself.
    pub(super) fn begins_to_answer(&self, pool: &Pool, to: u32, len: u64) -> bool {
        (self.thresholds.pipeline_below..self.answers_below).contains(&len)
            && self.counts.is_own()
            && len <= self.hand.credit_with(self.counts.received_bytes())
            && pages_of(len) <= pool.kept.room_for(to)
            && self.status.word32(0).load(Ordering::Relaxed) == 0
    }

    /// Whether there is any use in asking for a piece in hand. In a stream in one direction there is none: two loads say so.
    #[inline(always)]
    pub(crate) fn may_pass_on(&self, len: u64) -> bool {
        !self.hand.pieces.is_empty()
            || self.hand.credit >= len
            || self.counts.received_bytes() != self.hand.came
    }

    /// A piece in hand for `len` bytes, or one that the peer may keep.
    #[inline(always)]
    pub(crate) fn target_in_hand(&mut self, pool: &mut Pool, to: u32, len: u64) -> Option<Target> {
        match self.hand.take(pages_of(len)) {
            Some(piece) => Some(Target::of(pool, piece)),
            None => self.target_of_no_piece(pool, to, len),
        }
    }

    /// The same, if no piece in hand has just so many pages: a piece that goes to and fro from now on, or a longer one in hand.
    #[cold]
    fn target_of_no_piece(&mut self, pool: &mut Pool, to: u32, len: u64) -> Option<Target> {
        let pages = pages_of(len);
        let earned = self.has_earned(len);
        if earned && let Some(piece) = pool.kept.take(to, len) {
            self.hand.credit -= len;
            let (page, generation) = (piece.page, piece.generation);
            return Some(Target::new(page, pages, generation, Lease::Keep));
        }
        if let Some(longer) = self.hand.take_longer(pages) {
            // With longer ones in the place of its own a message keeps more memory on its way than the caches next to its core hold:
            // 128 KiB both ways took 8.6 us after messages of 1 MiB, and 6.2 without. So the one of this pool that was not used for
            // longest makes room for one of this length, if not for this message, then for one of the next.
            if earned && let Some(unused) = self.hand.take_oldest_of_mine(pages) {
                self.let_go(pool, unused);
            }
            return Some(Target::of(pool, longer));
        }
        if earned {
            // There are as many as may be; the next ones have to be earned anew.
            self.hand.credit = 0;
            // Perhaps pieces are in hand that are too short for what goes now.
            for _ in 0..TOO_SHORT {
                let Some(piece) = self.hand.pop() else { break };
                self.let_go(pool, piece);
            }
        }
        None
    }

    /// Whether the peer may keep so many bytes more.
    fn has_earned(&mut self, len: u64) -> bool {
        // Otherwise nobody knows how much came from this peer.
        if !self.counts.is_own() {
            return false;
        }
        self.hand.credit_for(self.counts.received_bytes());
        self.hand.credit >= len
    }

    /// A piece for the first of `len` bytes, and for how many, of a message of `whole` bytes; the peer holds at most `most` bytes that
    /// it has not returned.
    // What a function returns in memory is copied in its caller, two words at a time: see `InHand`.
    #[inline(always)]
    pub(crate) fn target_for(
        &mut self,
        pool: &mut Pool,
        to: u32,
        len: u64,
        whole: u64,
        most: u64,
    ) -> Option<(Target, u64)> {
        if whole <= LONGEST
            && let Some(target) = self.target_in_hand(pool, to, len)
        {
            return Some((target, len));
        }
        let (piece, len) = pool.take_some(to, len, most)?;
        let target = Target::new(piece.page, pages_of(len), piece.generation, Lease::Lent);
        Some((target, len))
    }

    /// The first `len` bytes of a target.
    #[inline(always)]
    pub(crate) fn window_of<'a>(
        &'a self,
        pool: &'a Pool,
        target: &Target,
        len: u64,
    ) -> Option<Window<'a>> {
        let memory = match target.lease {
            Lease::Back => &self.pool,
            Lease::Lent | Lease::Keep => pool.memory(),
        };
        let window = piece_of(memory, target.span.page(), len)?;
        // Between cores without a common cache, what goes round is read several times faster out of memory than out of the cache of
        // the core that wrote it; what goes to and fro is not.
        let far = self.locality >= Locality::SamePackage && target.lease == Lease::Lent;
        Some(window.past_caches(far))
    }

    /// Takes back a target that was not named to the peer after all.
    #[cold]
    pub(crate) fn put_back(&mut self, pool: &mut Pool, target: Target) {
        let (page, generation) = (target.span.page(), target.generation as u32);
        let whose = match target.lease {
            Lease::Lent => return pool.put_back(Piece { page, generation }),
            Lease::Keep => {
                pool.kept.stays_here(page);
                Whose::Mine
            }
            Lease::Back => Whose::Theirs,
        };
        let pages = target.span.pages();
        self.hand.push(InHand::new(whose, page, pages, generation));
    }

    /// A piece was read, and is this endpoint's to write.
    #[inline(always)]
    pub(super) fn take_in_hand(&mut self, pool: &mut Pool, piece: InHand) {
        let gone = if self.hand.rest > 0 {
            Some(piece)
        } else {
            self.hand.put(piece)
        };
        if let Some(gone) = gone {
            self.let_go(pool, gone);
        }
    }

    /// Gives all that is in hand back to whose it is, if it was not used for [`UNUSED`] looks.
    fn look_at_hand(&mut self, pool: &mut Pool, look: u32) {
        if core::mem::take(&mut self.hand.used) {
            self.hand.used_at = look;
        } else if look.wrapping_sub(self.hand.used_at) > UNUSED {
            self.let_all_go(pool);
        }
    }

    /// The peer has sent a message of `len` bytes without asking, as an answer, and nobody waited for it: it has to be copied
    /// aside. With nothing in hand it asks before it sends such ones, until as many bytes as [`REST`] of them have come.
    #[cold]
    pub(super) fn answered_unasked(&mut self, pool: &mut Pool, len: u64) {
        self.let_all_go(pool);
        self.hand.credit = 0;
        if self.counts.is_own() {
            self.hand.rest = len.saturating_mul(REST);
        }
    }

    fn let_all_go(&mut self, pool: &mut Pool) {
        while let Some(piece) = self.hand.pop() {
            self.let_go(pool, piece);
        }
    }

    fn let_go(&mut self, pool: &mut Pool, piece: InHand) {
        if piece.is_mine() {
            pool.kept.end(piece.page());
        } else {
            self.release(piece.page(), piece.generation());
        }
    }

    /// Gives a piece back to its owner, who may sleep because its pool was used up.
    pub(super) fn release(&mut self, page: u32, generation: u32) {
        self.released.release(page, generation);
        self.wake();
    }
}

impl Core {
    /// Now and then: gives back what one of the peers left in hand for long, and takes back what others gave back so. `look`
    /// counts the times.
    pub(crate) fn look_at_a_hand(&mut self, look: u32) {
        let peer = look % self.peers.len().max(1);
        if let Some(link) = self.peers.link(peer) {
            link.look_at_hand(&mut self.pool, look);
        }
        if look.is_multiple_of(UNUSED) {
            self.pool.kept.reclaim();
        }
    }
}

#[cfg(test)]
#[path = "hand_tests.rs"]
mod tests;
