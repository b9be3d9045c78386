//! The pool of memory for the pieces of pipelined messages (H1) and of longer eager ones. It lies in this endpoint's segment and
//! does not grow with the number of peers.
//!
//! Only the owner hands pieces out; the peer that was named gives a piece back by the release flag of its first
//! page, or may keep it and answer there (`hand`, `kept`). So a peer that dies takes nothing along: the owner knows what it had lent to whom.
//!
//! # Why it goes round
//!
//! Of what nobody keeps, the page that was used longest ago is used next, and the pool is larger than a core's own caches. Memory that
//! this endpoint wrote and a peer read a moment ago would be the worst: its lines are in the caches of both cores, so each store first
//! takes one from the other's, and each load then fetches it back from there. What left them since lies in the
//! cache that both share, and the processor fetches it ahead of both. Measured one way between two cores below one cache
//! (hand-over of a line 30 ns), pieces of 16 KiB, messages of 64 KiB: 2.4 us through 2 MiB, 4.8 us through 512 KiB, 9 us
//! through 64 KiB.

use core::ops::RangeInclusive;
use std::collections::VecDeque;

use limic_shm::ring::{Mapped, Memory, ReleaseFlags};
use limic_shm::segment::POOL_PAGE;

use super::kept::KeptPieces;
use super::pages::Pages;
use super::streams::CHUNKS_IN_PIECE;
use crate::buffer::Window;

/// Of so many pages, how many are for what peers may keep: two fifths.
const fn for_keeping(pages: u32) -> u32 {
    // At most 2^18 pages are less than 1 GiB.
    pages * 2 / 5
}

/// What is lent, the oldest first.
#[derive(Clone, Copy)]
struct Lent {
    page: u32,
    pages: u32,
    peer: u32,
    generation: u32,
}

pub(crate) struct Pool {
    memory: Mapped,
    flags: ReleaseFlags<Mapped>,
    /// Those that go round; what is taken is lent.
    pages: Pages,
    lent: VecDeque<Lent>,
    /// Pages that each peer holds, by its number.
    held: Vec<u32>,
    /// What goes to and fro, behind what goes round.
    pub(crate) kept: KeptPieces,
    /// The page behind the last that was lent.
    next: u32,
    /// A chunk: the longest piece of all but long messages.
    pub(crate) chunk_bytes: u64,
}

/// Pages to be filled and named to a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// The first one.
    pub(crate) page: u32,
    pub(crate) generation: u32,
}

/// The bytes of a piece, if it lies within the pool. The numbers may come from a peer.
#[inline(always)]
pub(crate) fn piece_of(pool: &Mapped, page: u32, len: u64) -> Option<Window<'_>> {
    Window::new(pool, bytes_of(page), len)
}

/// Bytes of so many pages.
#[inline(always)]
pub(crate) const fn bytes_of(pages: u32) -> u64 {
    pages as u64 * POOL_PAGE as u64
}

/// Pages that so many bytes take.
#[inline(always)]
pub(crate) fn pages_of(len: u64) -> u32 {
    u32::try_from(len.div_ceil(u64::from(POOL_PAGE)).max(1)).unwrap_or(u32::MAX)
}

impl Pool {
    pub(crate) fn new(memory: Mapped, flags: ReleaseFlags<Mapped>, chunk_bytes: u32) -> Self {
        let pages = (memory.len() / POOL_PAGE as usize) as u32;
        let round = pages - for_keeping(pages);
        Self {
            pages: Pages::new(round),
            lent: VecDeque::with_capacity(64),
            held: Vec::new(),
            kept: KeptPieces::new(flags.clone(), round, pages - round),
            next: 0,
            memory,
            flags,
            chunk_bytes: u64::from(chunk_bytes),
        }
    }

    /// Takes pages for `len` bytes for a peer, unless it would then hold more than `most` bytes, and holds some already. If so many
    /// free pages do not lie side by side, for the first of the bytes: says for how many.
    ///
    /// Reads a flag line or two for half of all that the peer may hold.
    pub(crate) fn take_some(&mut self, peer: u32, len: u64, most: u64) -> Option<(Piece, u64)> {
        let (piece, pages) = self.take_pages(peer, 1..=pages_of(len), most)?;
        Some((piece, len.min(bytes_of(pages))))
    }

    /// Whether a peer has nothing to return, beside what it may keep: what it is waiting for then, others hold.
    pub(crate) fn holds_nothing(&self, peer: u32) -> bool {
        self.held_by(peer) == 0
    }

    fn take_pages(
        &mut self,
        peer: u32,
        wanted: RangeInclusive<u32>,
        most: u64,
    ) -> Option<(Piece, u32)> {
        let pages = *wanted.end();
        if pages > pages_of(CHUNKS_IN_PIECE * self.chunk_bytes) {
            return None;
        }
        let most = u32::try_from(most / u64::from(POOL_PAGE)).unwrap_or(u32::MAX);
        if self.held.len() <= peer as usize {
            self.held.resize(peer as usize + 1, 0);
        }
        if !self.may_have(peer, pages, most) {
            self.reclaim_from(peer);
            if !self.may_have(peer, pages, most) {
                // What the others have is part of what bounds it.
                self.reclaim_from_others(peer);
                if !self.may_have(peer, pages, most) {
                    return None;
                }
            }
        }
        let (page, pages) = match self.find(pages) {
            Some(page) => (page, pages),
            None => {
                self.reclaim();
                self.find_some(wanted)?
            }
        };
        self.next = page + pages;
        let generation = self.pages.take(page, pages);
        self.held[peer as usize] += pages;
        self.lent.push_back(Lent {
            page,
            pages,
            peer,
            generation,
        });
        Some((Piece { page, generation }, pages))
    }

    /// Whether a peer may have so many pages more. What it then holds is at most three times what is still free: three quarters
    /// of the pool if no other peer holds any, three sevenths each for two that take what they get. So peers that return nothing
    /// leave some to others, of which each gets a first piece as long as there is one.
    fn may_have(&self, peer: u32, pages: u32, most: u32) -> bool {
        let held = self.held_by(peer);
        let share = 3 * self.pages.free().saturating_sub(pages);
        held == 0 || held + pages <= share.max(pages_of(self.chunk_bytes)).min(most)
    }

    #[inline(always)]
    pub(crate) fn memory(&self) -> &Mapped {
        &self.memory
    }

    /// Takes back a piece that was not named to the peer after all.
    pub(crate) fn put_back(&mut self, piece: Piece) {
        self.take_back(|lent| lent.page == piece.page);
        // It was the last one: the next piece takes its place.
        self.next = piece.page;
    }

    /// Takes back everything that a failed peer held.
    pub(crate) fn forget_peer(&mut self, peer: u32) {
        self.take_back(|lent| lent.peer == peer);
        self.kept.forget_peer(peer);
    }

    pub(super) fn held_by(&self, peer: u32) -> u32 {
        self.held.get(peer as usize).copied().unwrap_or(0)
    }

    /// Free pages side by side: the first ones behind those that were lent last.
    fn find(&self, pages: u32) -> Option<u32> {
        let total = self.pages.count();
        if pages > self.pages.free() {
            return None;
        }
        let mut start = self.next;
        let mut looked = 0;
        while looked < 2 * total {
            if start + pages > total {
                looked += total.saturating_sub(start);
                start = 0;
            }
            let Some(taken) = self.pages.last_taken(start, pages) else {
                return Some(start);
            };
            looked += taken + 1 - start;
            start = taken + 1;
        }
        None
    }

    /// The longest of so many free pages side by side, by halves.
    fn find_some(&self, wanted: RangeInclusive<u32>) -> Option<(u32, u32)> {
        let (least, mut pages) = wanted.into_inner();
        loop {
            if let Some(page) = self.find(pages) {
                return Some((page, pages));
            }
            if pages == least {
                return None;
            }
            pages = (pages / 2).max(least);
        }
    }

    /// Takes back what the peer has returned. It copies pieces in the order in which they were named to it, and returns
    /// each as soon as it is copied; so all before one that came back are back too, and a few flags tell: that of the
    /// middle one first.
    fn reclaim_from(&mut self, peer: u32) {
        let of_peer = |lent: &&Lent| lent.peer == peer;
        let mut probe = self.lent.iter().filter(of_peer).count() / 2;
        loop {
            let Some(lent) = self.lent.iter().filter(of_peer).nth(probe).copied() else {
                return;
            };
            if self.flags.is_released(lent.page, lent.generation) {
                let mut left = probe + 1;
                return self.take_back(|lent| {
                    let back = lent.peer == peer && left > 0;
                    left -= usize::from(back);
                    back
                });
            }
            if probe == 0 {
                return;
            }
            probe /= 2;
        }
    }

    /// Takes back what other peers have returned.
    fn reclaim_from_others(&mut self, peer: u32) {
        if self.pages.free() + self.held_by(peer) == self.pages.count() {
            return;
        }
        let flags = self.flags.clone();
        self.take_back(|lent| lent.peer != peer && flags.is_released(lent.page, lent.generation));
    }

    /// Takes back whatever was returned.
    fn reclaim(&mut self) {
        let flags = self.flags.clone();
        self.take_back(|lent| flags.is_released(lent.page, lent.generation));
    }

    fn take_back(&mut self, mut is_back: impl FnMut(&Lent) -> bool) {
        let mut lent = core::mem::take(&mut self.lent);
        lent.retain(|entry| {
            let back = is_back(entry);
            if back {
                self.end(*entry);
            }
            !back
        });
        self.lent = lent;
    }

    fn end(&mut self, lent: Lent) {
        self.pages.give_back(lent.page, lent.pages);
        if let Some(held) = self.held.get_mut(lent.peer as usize) {
            *held -= lent.pages;
        }
    }
}

#[cfg(test)]
impl Pool {
    /// As `take_some`, for all of the bytes.
    pub(crate) fn take(&mut self, peer: u32, len: u64, most: u64) -> Option<Piece> {
        let pages = pages_of(len);
        let (piece, _) = self.take_pages(peer, pages..=pages, most)?;
        Some(piece)
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
