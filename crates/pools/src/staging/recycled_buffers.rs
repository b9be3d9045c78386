//! The recycled staging buffers of one peer.

use super::recycled_pool::{LONGEST_RECYCLED, MOST_BY_PEER};

/// Recycled buffers of one peer: as many as a peer may keep.
const MOST: usize = MOST_BY_PEER as usize;
/// Pages of the shortest buffers of long messages.
pub(crate) const LONG_BUFFER: u32 = 4;

/// Whose pool a recycled buffer is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolOwner {
    Local,
    Peer,
}

/// Pages side by side, in one word: the first one, and above the number of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageRun(u64);

impl PageRun {
    #[inline(always)]
    pub(crate) fn new(page: u32, pages: u32) -> Self {
        Self(u64::from(pages) << 32 | u64::from(page))
    }

    #[inline(always)]
    pub(crate) fn page(self) -> u32 {
        self.0 as u32
    }

    #[inline(always)]
    pub(crate) fn pages(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// A buffer that was read, and that this endpoint may write.
///
/// Two words, each stored and loaded whole: it is taken soon after it was put, and a load of what
/// was stored in smaller parts waits for all stores before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecycledBuffer {
    pub(crate) run: PageRun,
    /// The generation, and above whose it is.
    origin: u64,
}

impl RecycledBuffer {
    #[inline(always)]
    pub(crate) fn new(owner: PoolOwner, page: u32, pages: u32, generation: u32) -> Self {
        Self {
            run: PageRun::new(page, pages),
            origin: (owner as u64) << 32 | u64::from(generation),
        }
    }

    #[inline(always)]
    pub(crate) fn page(&self) -> u32 {
        self.run.page()
    }

    #[inline(always)]
    fn pages(&self) -> u32 {
        self.run.pages()
    }

    #[inline(always)]
    pub(crate) fn generation(&self) -> u32 {
        self.origin as u32
    }

    #[inline(always)]
    pub(crate) fn is_local(&self) -> bool {
        self.origin >> 32 == PoolOwner::Local as u64
    }

    #[inline(always)]
    fn long_pages(&self) -> u32 {
        if self.pages() < LONG_BUFFER {
            0
        } else {
            self.pages()
        }
    }
}

/// What is in hand of one peer, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct RecycledBuffers {
    pub(crate) buffers: Vec<RecycledBuffer>,
    /// Pages of those that have [`LONG_BUFFER`] or more.
    pub(crate) long_pages: u32,
    /// One was taken since somebody looked.
    pub(crate) used: bool,
    /// At which look that was so last.
    pub(crate) used_at: u32,
    /// Bytes of further buffers that the peer may keep, since as many have come from it.
    pub(crate) credit: u64,
    /// Bytes that have to come from the peer before either side keeps buffers of the other again.
    pub(crate) penalty: u64,
    /// All bytes that had come from the peer when credit and penalty were reckoned last.
    pub(crate) received: u64,
}

impl RecycledBuffers {
    /// A buffer of so many pages: the one that came last, whose lines are still in this core's
    /// first-level cache.
    #[inline(always)]
    pub(crate) fn take(&mut self, pages: u32) -> Option<RecycledBuffer> {
        if self.buffers.last()?.pages() != pages {
            return self.take_other(pages);
        }
        self.used = true;
        self.pop()
    }

    /// One that came before: so messages of several lengths keep each to its own.
    #[cold]
    fn take_other(&mut self, pages: u32) -> Option<RecycledBuffer> {
        self.take_last(|buffer| buffer.pages() == pages)
    }

    /// One of more pages.
    pub(crate) fn take_longer(&mut self, pages: u32) -> Option<RecycledBuffer> {
        self.take_last(|buffer| buffer.pages() > pages)
    }

    fn take_last(&mut self, fits: impl Fn(&RecycledBuffer) -> bool) -> Option<RecycledBuffer> {
        let at = self.buffers.iter().rposition(fits)?;
        self.used = true;
        Some(self.remove(at))
    }

    /// Of those of this endpoint's pool that have so many pages, or more, the one that was not used
    /// for longest.
    pub(crate) fn take_oldest_local(&mut self, pages: u32) -> Option<RecycledBuffer> {
        let fits = |buffer: &RecycledBuffer| buffer.is_local() && buffer.pages() >= pages;
        let at = self.buffers.iter().position(fits)?;
        Some(self.remove(at))
    }

    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<RecycledBuffer> {
        let buffer = self.buffers.pop()?;
        self.long_pages -= buffer.long_pages();
        Some(buffer)
    }

    fn remove(&mut self, at: usize) -> RecycledBuffer {
        let buffer = self.buffers.remove(at);
        self.long_pages -= buffer.long_pages();
        buffer
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, buffer: RecycledBuffer) {
        self.long_pages += buffer.long_pages();
        self.buffers.push(buffer);
    }

    /// If there are enough, the oldest one, which is not used as it seems, goes.
    #[inline]
    pub(crate) fn put(&mut self, buffer: RecycledBuffer) -> Option<RecycledBuffer> {
        // The first one has the whole time to be used.
        self.used |= self.buffers.is_empty();
        let gone = (self.buffers.len() == MOST).then(|| self.remove(0));
        self.push(buffer);
        gone
    }

    /// Bytes that the peer may keep if so many have come from it.
    pub(crate) fn credit_with(&self, came: u64) -> u64 {
        let more = came.wrapping_sub(self.received);
        self.credit
            .saturating_add(more.saturating_sub(self.penalty))
    }

    /// Reckons with bytes that have come from the peer, of which there were so many in all.
    pub(crate) fn credit_for(&mut self, came: u64) {
        self.credit = self.credit_with(came).min(LONGEST_RECYCLED);
        let more = came.wrapping_sub(self.received);
        self.penalty = self.penalty.saturating_sub(more);
        self.received = came;
    }
}
