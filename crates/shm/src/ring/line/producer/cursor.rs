//! The sender's way round a lap, and where a record goes in it.

use crate::ring::Memory;
use crate::ring::line::{LINE_WORDS, Lap, WORD, rest_of_line};

/// The sender's view of one lap.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor {
    pub(super) lap: Lap,
    /// Position of the next record.
    pub(super) write: u64,
    /// Index of that position in the lap: less than its words.
    pub(super) index: u64,
    /// Position up to which words are known to be free: at most one lap ahead of what is known to
    /// be read.
    pub(super) limit: u64,
    /// Where a record may end whose terminator is stored already. It means nothing unless it is
    /// above `write`; then, by invariant, the word there is 0.
    pub(super) cleared: u64,
    /// Lines are shared if this is 0, and never if it is [`LINE_WORDS`].
    pub(super) apart: u64,
    pub(super) max_payload: u32,
}

/// How the next record is reached from the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It follows.
    On,
    /// Over the end of the lap.
    Wrap,
    /// In the other lap.
    Switch,
    /// There, over its end.
    SwitchAndWrap,
}

/// Where a record goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) step: Step,
    /// Positions of the record and of the one behind it.
    pub(super) start: u64,
    pub(super) end: u64,
    /// Offset of the record; all of it is in one piece.
    pub(super) offset: usize,
    /// Offset of the record behind it.
    pub(super) behind: usize,
    /// That one begins on a line.
    pub(super) ends_line: bool,
}

impl Slot {
    /// Asks for the line of the header and that of the word behind the record, right before the
    /// first store: the consumer has asked for them too, and stores would wait for one after the
    /// other. Earlier, the consumer takes the header's line back meanwhile (decision 0014).
    #[inline(always)]
    pub(super) fn ask_for_lines<M: Memory>(&self, mem: &M) {
        mem.prefetch_write(self.behind);
        mem.prefetch_write(self.offset);
    }
}

impl Cursor {
    pub(super) fn new(lap: Lap) -> Self {
        Self {
            lap,
            write: lap.first_position(),
            index: 0,
            limit: lap.first_position() + lap.words,
            cleared: 0,
            apart: if lap.packed() { 0 } else { LINE_WORDS },
            max_payload: if lap.words == 0 { 0 } else { lap.max_payload() },
        }
    }

    /// End of a record of so many words at `start`, and whether the next one begins on a line.
    #[inline(always)]
    pub(super) fn end(&self, start: u64, words: u64) -> (u64, bool) {
        let filled = start + words;
        let rest = rest_of_line(filled);
        // Another one of this length does not fit.
        let ends_line = rest < words | self.apart;
        (if ends_line { filled + rest } else { filled }, ends_line)
    }

    /// Position of the end of the lap.
    pub(super) fn lap_end(&self) -> u64 {
        self.write + (self.lap.words - self.index)
    }

    /// Offset of the word with this index, or of the first one if it is one too many.
    pub(super) fn offset(&self, index: u64) -> usize {
        let index = if index == self.lap.words { 0 } else { index };
        self.lap.first + index as usize * WORD
    }

    /// Where a record of so many words goes in this lap, and the position up to which words must be
    /// free.
    pub(super) fn slot(&self, words: u64) -> (Slot, u64) {
        let round = self.write + words > self.lap_end();
        let (start, index) = if round {
            (self.lap_end(), 0)
        } else {
            (self.write, self.index)
        };
        let (end, ends_line) = self.end(start, words);
        let slot = Slot {
            step: if round { Step::Wrap } else { Step::On },
            start,
            end,
            offset: self.offset(index),
            behind: self.offset(index + (end - start)),
            ends_line,
        };
        // One more than the record: the word of the terminator.
        (slot, end + 1)
    }

    /// Offset of the word so many ahead, less than a lap.
    #[inline(always)]
    pub(super) fn ahead(&self, words: u64) -> usize {
        let index = self.index + words;
        let index = if index >= self.lap.words {
            index - self.lap.words
        } else {
            index
        };
        self.lap.first + index as usize * WORD
    }

    /// Goes to a position that is at most one lap ahead.
    pub(super) fn go_to(&mut self, position: u64) {
        self.index += position - self.write;
        if self.index >= self.lap.words {
            self.index -= self.lap.words;
        }
        self.write = position;
    }
}
