//! The pool of staging buffers, for pipelined messages and for longer eager ones. It lies in this
//! endpoint's segment and does not grow with the number of peers.
//!
//! Only the owner hands buffers out. The peer that was named gives a buffer back by the release
//! flag of its first page, or may keep it and answer there (`recycled_pool`, `recycled_buffers`).
//! So a peer that dies takes nothing along: the owner knows what it had lent to whom.
//!
//! # Why it goes round
//!
//! Of what nobody keeps, the page that was used longest ago is used next, and the pool is larger
//! than a core's own caches. Memory that this endpoint wrote and a peer read a moment ago would be
//! the worst: its lines are in the caches of both cores, so each store first takes one from the
//! other's, and each load then fetches it back from there. What left them since lies in the cache
//! that both share, and the processor fetches it ahead of both (docs/decisions/0002).

use core::ops::RangeInclusive;
use std::collections::VecDeque;

use limic_shm::bytes::Window;
use limic_shm::ring::{Mapped, Memory, ReleaseFlags};
use limic_shm::segment::STAGING_PAGE;

use super::pages::Pages;
use super::recycled_pool::RecycledPool;
use crate::Violation;

/// Of so many pages, how many are for what peers may keep: two fifths.
const fn for_recycling(pages: u32) -> u32 {
    // At most 2^18 pages are less than 1 GiB.
    pages * 2 / 5
}

/// What is lent, the oldest first.
#[derive(Clone, Copy, Debug)]
struct Borrowed {
    page: u32,
    pages: u32,
    peer: u32,
    generation: u32,
}

/// The staging memory of an endpoint.
#[derive(Debug)]
pub struct StagingPool {
    memory: Mapped,
    flags: ReleaseFlags<Mapped>,
    /// Those that go round; what is taken is lent.
    pages: Pages,
    borrowed: VecDeque<Borrowed>,
    /// Pages that each peer holds, by its number.
    held: Vec<u32>,
    /// What goes to and fro, behind what goes round.
    pub recycled: RecycledPool,
    /// The page behind the last that was lent.
    next: u32,
    /// The longest buffer of all but long messages.
    pub buffer_bytes: u64,
    /// Pages of the longest buffer.
    longest: u32,
}

/// Pages to be filled and named to a peer.
#[derive(Clone, Copy, Debug)]
pub struct StagingBuffer {
    /// The first one.
    pub page: u32,
    /// Under which it comes back.
    pub generation: u32,
}

pub(super) const OUTSIDE: Violation = "a buffer outside of the staging pool";

/// The bytes of a buffer. The numbers may come from a peer.
///
/// # Errors
/// It does not lie within the pool.
#[inline(always)]
pub fn buffer_window(staging: &Mapped, page: u32, len: u64) -> Result<Window<'_>, Violation> {
    Window::new(staging, bytes_of_pages(page), len).ok_or(OUTSIDE)
}

/// Bytes of so many pages.
#[inline(always)]
#[must_use]
pub const fn bytes_of_pages(pages: u32) -> u64 {
    pages as u64 * STAGING_PAGE as u64
}

/// Pages that so many bytes take.
#[inline(always)]
pub(crate) fn pages_for(len: u64) -> u32 {
    u32::try_from(len.div_ceil(u64::from(STAGING_PAGE)).max(1)).unwrap_or(u32::MAX)
}

impl StagingPool {
    /// All of `memory`, whose buffers come back by `flags`, one for each page. `buffer_bytes`: the
    /// longest buffer of all but long messages; `longest`: that of those.
    #[must_use]
    pub fn new(
        memory: Mapped,
        flags: ReleaseFlags<Mapped>,
        buffer_bytes: u32,
        longest: u64,
    ) -> Self {
        let pages = (memory.len() / STAGING_PAGE as usize) as u32;
        let round = pages - for_recycling(pages);
        Self {
            pages: Pages::new(round),
            borrowed: VecDeque::with_capacity(64),
            held: Vec::new(),
            recycled: RecycledPool::new(flags.clone(), round, pages - round),
            next: 0,
            memory,
            flags,
            buffer_bytes: u64::from(buffer_bytes),
            longest: pages_for(longest),
        }
    }

    /// Takes pages for `len` bytes for a peer, or for the first of these bytes if so many free
    /// pages do not lie side by side; says for how many. `None` if no page is free, or if the peer
    /// holds some already and would then hold more than its share, or more than `most` bytes.
    ///
    /// It looks at flags where the peer holds all that it may, or where too few pages are free. A
    /// line or two of flags then mostly tell that half of what the peer holds is back.
    #[inline]
    pub fn take_some(&mut self, peer: u32, len: u64, most: u64) -> Option<(StagingBuffer, u64)> {
        let (buffer, pages) = self.take_pages(peer, 1..=pages_for(len), most)?;
        Some((buffer, len.min(bytes_of_pages(pages))))
    }

    /// Whether a peer has nothing to return, beside what it may keep: what it is waiting for then,
    /// others hold.
    #[must_use]
    pub fn holds_nothing(&self, peer: u32) -> bool {
        self.held_by(peer) == 0
    }

    #[inline]
    fn take_pages(
        &mut self,
        peer: u32,
        wanted: RangeInclusive<u32>,
        most: u64,
    ) -> Option<(StagingBuffer, u32)> {
        let pages = *wanted.end();
        if pages > self.longest {
            return None;
        }
        let most = u32::try_from(most / u64::from(STAGING_PAGE)).unwrap_or(u32::MAX);
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
        if generation == Pages::FIRST {
            self.flags.forget(page);
        }
        self.held[peer as usize] += pages;
        self.borrowed.push_back(Borrowed {
            page,
            pages,
            peer,
            generation,
        });
        Some((StagingBuffer { page, generation }, pages))
    }

    /// Whether a peer may have so many pages more. What it then holds is at most three times what
    /// is still free: three quarters of the pool if no other peer holds any, three sevenths each
    /// for two that take what they get. So peers that return nothing leave some to others, of which
    /// each gets a first buffer as long as there is one.
    #[inline]
    fn may_have(&self, peer: u32, pages: u32, most: u32) -> bool {
        let held = self.held_by(peer);
        let share = 3 * self.pages.free().saturating_sub(pages);
        held == 0 || held + pages <= share.max(pages_for(self.buffer_bytes)).min(most)
    }

    #[inline(always)]
    pub(crate) fn memory(&self) -> &Mapped {
        &self.memory
    }

    /// Takes back a buffer that was not named to the peer after all.
    pub(crate) fn put_back(&mut self, buffer: StagingBuffer) {
        self.take_back(|borrowed| borrowed.page == buffer.page);
        // It was the last one: the next buffer takes its place.
        self.next = buffer.page;
    }

    /// Takes back everything that a failed peer held.
    pub fn forget_peer(&mut self, peer: u32) {
        self.take_back(|borrowed| borrowed.peer == peer);
        self.recycled.forget_peer(peer);
    }

    /// Pages that a peer holds, beside those that it may keep.
    #[inline]
    #[must_use]
    pub fn held_by(&self, peer: u32) -> u32 {
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

    /// Takes back what the peer has returned. It copies buffers in the order in which they were
    /// named to it, and returns each as soon as it is copied; so all before one that came back are
    /// back too, and a few flags tell: that of the middle one first.
    fn reclaim_from(&mut self, peer: u32) {
        let of_peer = |borrowed: &&Borrowed| borrowed.peer == peer;
        let mut probe = self.borrowed.iter().filter(of_peer).count() / 2;
        loop {
            let Some(borrowed) = self.borrowed.iter().filter(of_peer).nth(probe).copied() else {
                return;
            };
            if self.flags.is_released(borrowed.page, borrowed.generation) {
                let mut left = probe + 1;
                return self.take_back(|borrowed| {
                    let back = borrowed.peer == peer && left > 0;
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
        self.take_back(|borrowed| {
            borrowed.peer != peer && flags.is_released(borrowed.page, borrowed.generation)
        });
    }

    /// Takes back whatever was returned.
    fn reclaim(&mut self) {
        let flags = self.flags.clone();
        self.take_back(|borrowed| flags.is_released(borrowed.page, borrowed.generation));
    }

    fn take_back(&mut self, mut is_back: impl FnMut(&Borrowed) -> bool) {
        let mut borrowed = core::mem::take(&mut self.borrowed);
        borrowed.retain(|entry| {
            let back = is_back(entry);
            if back {
                self.end(*entry);
            }
            !back
        });
        self.borrowed = borrowed;
    }

    fn end(&mut self, borrowed: Borrowed) {
        self.pages.give_back(borrowed.page, borrowed.pages);
        if let Some(held) = self.held.get_mut(borrowed.peer as usize) {
            *held -= borrowed.pages;
        }
    }
}

#[cfg(test)]
impl StagingPool {
    /// As `take_some`, for all of the bytes.
    pub(crate) fn take(&mut self, peer: u32, len: u64, most: u64) -> Option<StagingBuffer> {
        let pages = pages_for(len);
        let (buffer, _) = self.take_pages(peer, pages..=pages, most)?;
        Some(buffer)
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
