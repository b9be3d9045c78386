//! The part of the pool that peers may keep: buffers that go to and fro between this endpoint and a
//! peer (`recycled_buffers`).
//!
//! It is apart from what goes round (`pool`), so that neither scatters the other.

use limic_shm::ring::{Mapped, ReleaseFlags};

use super::pages::Pages;
use super::pool::{StagingBuffer, bytes_of_pages, pages_for};

/// Pages that one peer may keep at most: 1 MiB.
pub const MOST_BY_PEER: u32 = 256;
/// Their bytes.
pub const LONGEST_RECYCLED: u64 = bytes_of_pages(MOST_BY_PEER);
/// One part of so many is left to others, even if a peer gives nothing back.
const RESERVED_SHARE: u32 = 8;
/// After so many times that there was no room, one looks at the flags.
const RECLAIM_AFTER: u32 = 16;

/// A buffer that a peer may keep.
#[derive(Clone, Copy, Debug)]
struct Placed {
    pages: u32,
    peer: u32,
    generation: u32,
    /// It is the peer's turn to write it.
    with_peer: bool,
}

/// Buffers that peers may keep.
#[derive(Debug)]
pub struct RecycledPool {
    flags: ReleaseFlags<Mapped>,
    /// The first page of this part.
    first: u32,
    pages: Pages,
    /// By page, from the first on: the buffer that begins there.
    buffers: Vec<Option<Placed>>,
    /// Pages by the peer's number.
    by_peer: Vec<u32>,
    /// Times that there was no room.
    misses: u32,
}

impl RecycledPool {
    /// None yet, out of `pages` pages from `first` on.
    pub(crate) fn new(flags: ReleaseFlags<Mapped>, first: u32, pages: u32) -> Self {
        Self {
            flags,
            first,
            pages: Pages::new(pages),
            buffers: vec![None; pages as usize],
            by_peer: Vec::new(),
            misses: 0,
        }
    }

    /// Takes pages for `len` bytes that a peer may keep. If there are none, what came back by flags
    /// may help the next one.
    pub fn take(&mut self, peer: u32, len: u64) -> Option<StagingBuffer> {
        let buffer = self.take_free(peer, pages_for(len));
        if buffer.is_none() {
            self.misses = self.misses.wrapping_add(1);
            if self.misses % RECLAIM_AFTER == 0 {
                self.reclaim();
            }
        }
        buffer
    }

    fn take_free(&mut self, peer: u32, pages: u32) -> Option<StagingBuffer> {
        if self.by_peer.len() <= peer as usize {
            self.by_peer.resize(peer as usize + 1, 0);
        }
        if pages > self.room_for(peer) {
            return None;
        }
        let at = self.find(pages)?;
        let generation = self.pages.take(at, pages);
        self.by_peer[peer as usize] += pages;
        let page = self.first + at;
        // No buffer has this generation, however often it goes to and fro.
        self.flags.forget(page);
        self.buffers[at as usize] = Some(Placed {
            pages,
            peer,
            generation,
            with_peer: true,
        });
        Some(StagingBuffer { page, generation })
    }

    /// Pages that a peer may keep beside those that it keeps.
    #[must_use]
    pub fn room_for(&self, peer: u32) -> u32 {
        let all = self.pages.count();
        let by_peer = self.by_peer.get(peer as usize).copied().unwrap_or(0);
        let most = (all - all / RESERVED_SHARE).min(MOST_BY_PEER);
        most.saturating_sub(by_peer).min(self.pages.free())
    }

    /// Free pages side by side.
    fn find(&self, pages: u32) -> Option<u32> {
        let mut start = 0;
        while start + pages <= self.pages.count() {
            match self.pages.last_taken(start, pages) {
                None => return Some(start),
                Some(taken) => start = taken + 1,
            }
        }
        None
    }

    /// A buffer goes to its peer again: under which generation.
    #[inline]
    pub(crate) fn transfer(&mut self, page: u32) -> u32 {
        let at = page - self.first;
        let generation = self.pages.next_generation(at);
        if let Some(kept) = &mut self.buffers[at as usize] {
            kept.generation = generation;
            kept.with_peer = true;
        }
        generation
    }

    /// A buffer did not go to its peer after all.
    pub(crate) fn keep_here(&mut self, page: u32) {
        if let Some(kept) = &mut self.buffers[(page - self.first) as usize] {
            kept.with_peer = false;
        }
    }

    /// A peer has written a buffer that it kept: how many pages it has. `None` if it does not keep
    /// such a one. The numbers come from the peer.
    #[inline]
    pub(crate) fn returned(&mut self, from: u32, page: u32, generation: u32) -> Option<u32> {
        let at = page.checked_sub(self.first)?;
        let kept = self.buffers.get_mut(at as usize)?.as_mut()?;
        let its = kept.with_peer && kept.peer == from && kept.generation == generation;
        if !its {
            return None;
        }
        kept.with_peer = false;
        Some(kept.pages)
    }

    /// A buffer is free again.
    pub(crate) fn end(&mut self, page: u32) {
        self.end_at((page - self.first) as usize);
    }

    fn end_at(&mut self, at: usize) {
        if let Some(kept) = self.buffers[at].take() {
            self.by_peer[kept.peer as usize] -= kept.pages;
            self.pages.give_back(at as u32, kept.pages);
        }
    }

    /// Takes back what peers returned by flags.
    pub fn reclaim(&mut self) {
        if self.pages.free() < self.pages.count() {
            let (flags, first) = (self.flags.clone(), self.first);
            self.end_where(|at, kept| {
                kept.with_peer && flags.is_released(first + at as u32, kept.generation)
            });
        }
    }

    /// Pages of each buffer that a peer keeps.
    pub fn kept(&self) -> impl Iterator<Item = u32> + '_ {
        self.buffers.iter().flatten().map(|kept| kept.pages)
    }

    /// Takes back everything that a failed peer kept.
    pub(crate) fn forget_peer(&mut self, peer: u32) {
        self.end_where(|_, kept| kept.peer == peer);
    }

    fn end_where(&mut self, ends: impl Fn(usize, &Placed) -> bool) {
        for at in 0..self.buffers.len() {
            if self.buffers[at].is_some_and(|kept| ends(at, &kept)) {
                self.end_at(at);
            }
        }
    }
}

#[cfg(test)]
#[path = "recycled_pool_tests.rs"]
mod tests;
