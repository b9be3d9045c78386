//! A piece in hand, and those of one peer (see [`hand`](super::hand)).

use super::kept::KEPT_BY_PEER;
use super::pool::bytes_of;

/// The longest that go in pieces in hand, in bytes: all that a peer may keep. Of a longer one they would take a part, and then
/// what goes round would go round in less. Also the most that a peer may keep for what it has sent before.
pub(crate) const LONGEST: u64 = bytes_of(KEPT_BY_PEER);
/// Pieces in hand of one peer: as many as a peer may keep.
const MOST: usize = KEPT_BY_PEER as usize;
/// Pages of the shortest pieces of long messages.
const LONG_PIECE: u32 = 4;

/// Whose pool a piece in hand is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Mine,
    Theirs,
}

/// Pages side by side, in one word: the first one, and above the number of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span(u64);

impl Span {
    #[inline(always)]
    pub(super) fn new(page: u32, pages: u32) -> Self {
        Self(u64::from(pages) << 32 | u64::from(page))
    }

    #[inline(always)]
    pub(super) fn page(self) -> u32 {
        self.0 as u32
    }

    #[inline(always)]
    pub(super) fn pages(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// A piece that was read, and that this endpoint may write.
///
/// Two words, each stored and loaded whole: it is taken soon after it was put, and a load of what was stored in smaller parts waits
/// for all stores before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InHand {
    pub(super) span: Span,
    /// The generation, and above whose it is.
    origin: u64,
}

impl InHand {
    #[inline(always)]
    pub(crate) fn new(whose: Whose, page: u32, pages: u32, generation: u32) -> Self {
        Self {
            span: Span::new(page, pages),
            origin: (whose as u64) << 32 | u64::from(generation),
        }
    }

    #[inline(always)]
    pub(crate) fn page(&self) -> u32 {
        self.span.page()
    }

    #[inline(always)]
    fn pages(&self) -> u32 {
        self.span.pages()
    }

    #[inline(always)]
    pub(crate) fn generation(&self) -> u32 {
        self.origin as u32
    }

    #[inline(always)]
    pub(super) fn is_mine(&self) -> bool {
        self.origin >> 32 == Whose::Mine as u64
    }

    #[inline(always)]
    fn long_pages(&self) -> u32 {
        if self.pages() < LONG_PIECE {
            0
        } else {
            self.pages()
        }
    }
}

/// What is in hand of one peer, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Hand {
    pub(super) pieces: Vec<InHand>,
    /// Pages of those that have [`LONG_PIECE`] or more.
    pub(super) long_pages: u32,
    /// One was taken since somebody looked.
    pub(super) used: bool,
    /// At which look that was so last.
    pub(super) used_at: u32,
    /// Bytes that the peer may keep.
    pub(super) credit: u64,
    /// Bytes that have to come from it before it may keep any, and before anything is kept of it.
    pub(super) rest: u64,
    /// Bytes that had come from it when that was reckoned.
    pub(super) came: u64,
}

impl Hand {
    /// A piece of so many pages: the one that came last, whose lines are still in this core's first-level cache.
    #[inline(always)]
    pub(super) fn take(&mut self, pages: u32) -> Option<InHand> {
        if self.pieces.last()?.pages() != pages {
            return self.take_another(pages);
        }
        self.used = true;
        self.pop()
    }

    /// One that came before: so messages of several lengths keep each to its own.
    #[cold]
    fn take_another(&mut self, pages: u32) -> Option<InHand> {
        self.take_last(|piece| piece.pages() == pages)
    }

    /// One of more pages.
    pub(super) fn take_longer(&mut self, pages: u32) -> Option<InHand> {
        self.take_last(|piece| piece.pages() > pages)
    }

    fn take_last(&mut self, fits: impl Fn(&InHand) -> bool) -> Option<InHand> {
        let at = self.pieces.iter().rposition(fits)?;
        self.used = true;
        Some(self.remove(at))
    }

    /// Of those of this endpoint's pool that have so many pages, or more, the one that was not used for longest.
    pub(super) fn take_oldest_of_mine(&mut self, pages: u32) -> Option<InHand> {
        let fits = |piece: &InHand| piece.is_mine() && piece.pages() >= pages;
        let at = self.pieces.iter().position(fits)?;
        Some(self.remove(at))
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<InHand> {
        let piece = self.pieces.pop()?;
        self.long_pages -= piece.long_pages();
        Some(piece)
    }

    fn remove(&mut self, at: usize) -> InHand {
        let piece = self.pieces.remove(at);
        self.long_pages -= piece.long_pages();
        piece
    }

    #[inline(always)]
    pub(super) fn push(&mut self, piece: InHand) {
        self.long_pages += piece.long_pages();
        self.pieces.push(piece);
    }

    /// If there are enough, the oldest one, which is not used as it seems, goes.
    #[inline]
    pub(super) fn put(&mut self, piece: InHand) -> Option<InHand> {
        // The first one has the whole time to be used.
        self.used |= self.pieces.is_empty();
        let gone = (self.pieces.len() == MOST).then(|| self.remove(0));
        self.push(piece);
        gone
    }

    /// Bytes that the peer may keep if so many have come from it.
    pub(super) fn credit_with(&self, came: u64) -> u64 {
        let more = came.wrapping_sub(self.came);
        self.credit.saturating_add(more.saturating_sub(self.rest))
    }

    /// Reckons with bytes that have come from the peer, of which there were so many in all.
    pub(super) fn credit_for(&mut self, came: u64) {
        let more = came.wrapping_sub(self.came);
        self.came = came;
        let rest = self.rest.saturating_sub(more);
        let more = more - (self.rest - rest);
        self.rest = rest;
        self.credit = self.credit.saturating_add(more).min(LONGEST);
    }
}
