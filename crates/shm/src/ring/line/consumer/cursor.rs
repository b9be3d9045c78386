//! The receiver's way round a lap.

use crate::ring::line::{LINE_WORDS, Lap, WORD};

/// The receiver's view of one lap.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor {
    pub(super) lap: Lap,
    /// Position of the next record.
    pub(super) position: u64,
    /// Index of that position in the lap: less than its words.
    pub(super) index: u64,
    /// Last value of `read` that the producer was told.
    pub(super) returned: u64,
    /// So many words are returned, once a line ends.
    pub(super) credit_batch: u64,
}

impl Cursor {
    pub(super) fn new(lap: Lap) -> Self {
        Self {
            lap,
            position: lap.first_position(),
            index: 0,
            returned: lap.first_position(),
            // Up to the end of a line, fewer words than a line has come on top.
            credit_batch: lap.credit_batch() - if lap.packed() { LINE_WORDS - 1 } else { 0 },
        }
    }

    /// Offset of the header at the position; a whole word of the area.
    #[inline(always)]
    pub(super) fn offset(&self) -> usize {
        self.lap.first + self.index as usize * WORD
    }

    /// Words from the position to the end of the lap; at least one.
    #[inline(always)]
    pub(super) fn left_in_lap(&self) -> u64 {
        self.lap.words - self.index
    }

    /// Position and index behind so many words, at most those to the end of the lap.
    #[inline(always)]
    pub(super) fn behind(&self, words: u64) -> (u64, u64) {
        let index = self.index + words;
        let round = index == self.lap.words;
        (self.position + words, if round { 0 } else { index })
    }

    /// Goes on by so many words, at most to the end of the lap.
    #[inline(always)]
    pub(super) fn advance(&mut self, words: u64) {
        (self.position, self.index) = self.behind(words);
    }
}
