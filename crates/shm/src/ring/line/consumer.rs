//! The receiver's end of a line ring.

mod cursor;

use super::{
    ENDS_LINE, GeometryError, INLINE_PAYLOAD, LINE, LINE_WORDS, Memory, PAD, READ, RECEIPT,
    RECORD_HEADER, SAME_TAG, Shape, WORD, rest_of_line, words_for,
};
use crate::ring::{Corrupt, Record};
use crate::sync::{AtomicU64, Ordering};
use cursor::Cursor;

/// Most pads on the way from one record to the next: to the other lap, and over its end.
const PADS: u32 = 2;

/// The receiver's end. Private state, except what it returns of read words.
#[derive(Debug)]
pub struct LineConsumer<M> {
    mem: M,
    shape: Shape,
    /// The lap of the next record.
    cursor: Cursor,
    other: Cursor,
    /// Words of the record that `peek` showed last, and of the rest of its line if it ends that; 0
    /// for none.
    peeked: u64,
    max_payload: u32,
    /// Words of the last record, and of the rest of its line if it ended that.
    last: u64,
    /// Words were returned since the last `pop`.
    credited: bool,
    /// Tag of the last record that had one.
    tag: u64,
}

impl<M: Memory> LineConsumer<M> {
    /// The receiver's end of a new (zeroed) ring of `lines` lines.
    ///
    /// # Errors
    ///
    /// If `lines` is not a power of two from 4 to 2^24, or does not fit in `mem`.
    pub fn new(mem: M, lines: u32) -> Result<Self, GeometryError> {
        let shape = Shape::new(&mem, lines)?;
        Ok(Self::of(mem, shape))
    }

    pub(super) fn of(mem: M, shape: Shape) -> Self {
        Self {
            mem,
            shape,
            cursor: Cursor::new(shape.hot),
            other: Cursor::new(shape.cold),
            peeked: 0,
            max_payload: shape.max_payload(),
            last: 0,
            credited: false,
            tag: 0,
        }
    }

    /// The oldest record, if there is one. It stays until [`pop`](Self::pop).
    ///
    /// On an empty ring: one load, two compares; and up to three prefetches if the last record had
    /// several lines.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] if the header is none that an honest producer writes. The ring
    /// stays there; give the producer up and [`reset`](Self::reset).
    #[inline(always)]
    pub fn peek(&mut self) -> Result<Option<Record<'_, M>>, Corrupt> {
        // Acquire: pairs with the release store in `Reservation::publish` (pair
        // *record header*): payload, tag and the next terminator are visible.
        let word = self.head().load(Ordering::Acquire);
        if word == 0 {
            self.ask_for_lines_behind();
            return Ok(None);
        }
        let (word, words) = match self.record_words(word) {
            Some(words) => (word, words),
            None => match self.follow_pad(word)? {
                Some(there) => there,
                None => return Ok(None),
            },
        };
        self.peeked = words + self.rest_behind(word, words);
        Ok(Some(self.record(word)))
    }

    /// Shows the oldest record to `take`, if there is one at hand, and takes it off if that says
    /// so: [`peek`](Self::peek) and [`pop`](Self::pop) in one. False if nothing was taken; then
    /// `peek` says why.
    #[inline(always)]
    pub fn take_if(&mut self, take: impl FnOnce(&Record<'_, M>) -> bool) -> bool {
        // Acquire: as in `peek` (pair *record header*).
        let word = self.head().load(Ordering::Acquire);
        let Some(words) = self.record_words(word) else {
            return false;
        };
        let words = words + self.rest_behind(word, words);
        // Before `take` writes to memory of which the compiler does not know that it is none of
        // this.
        let behind = self.cursor.behind(words);
        let taken = take(&self.record(word));
        if taken {
            // What `peek` showed before is this record.
            self.peeked = 0;
            self.go_on(behind);
        }
        taken
    }

    /// Asks for as many lines of the next record as the last one had beyond its first. A caller
    /// that looks again and again has them as soon as they are written, not one after the other.
    #[inline(always)]
    fn ask_for_lines_behind(&self) {
        if self.last > LINE_WORDS {
            self.ask_for_line(1);
            if self.last > 2 * LINE_WORDS {
                self.ask_for_third_and_fourth();
            }
        }
    }

    #[inline(never)]
    fn ask_for_third_and_fourth(&self) {
        self.ask_for_line(2);
        if self.last > 3 * LINE_WORDS {
            self.ask_for_line(3);
        }
    }

    /// Asks for the line so many behind that of the next record, unless the lap ends before it.
    #[inline(always)]
    fn ask_for_line(&self, behind: u64) {
        let index = (self.cursor.index / LINE_WORDS + behind) * LINE_WORDS;
        if index < self.cursor.lap.words {
            self.mem
                .prefetch_read(self.cursor.lap.first + index as usize * WORD);
        }
    }

    /// The record with this header, which was checked, at the position.
    #[inline(always)]
    fn record(&mut self, word: u64) -> Record<'_, M> {
        let offset = self.cursor.offset();
        let payload = if word & SAME_TAG != 0 {
            offset + WORD
        } else {
            // SAFETY: `record_words` saw that the record, which has two words at least, ends before
            // the ring does.
            let tag = unsafe { self.mem.word64_unchecked(offset + WORD) };
            // Relaxed: ordered by the header (pair *record header*).
            self.tag = tag.load(Ordering::Relaxed);
            offset + RECORD_HEADER
        };
        Record {
            kind: (word >> 32) as u8,
            tag: self.tag,
            mem: &self.mem,
            payload,
            len: length(word),
            credit: READ[0],
        }
    }

    /// Words behind the record with this header that belong to no other.
    #[inline(always)]
    fn rest_behind(&self, word: u64, words: u64) -> u64 {
        if word & ENDS_LINE == 0 {
            return 0;
        }
        rest_of_line(self.cursor.position + words)
    }

    /// The header word at the position.
    #[inline(always)]
    fn head(&self) -> &AtomicU64 {
        // SAFETY: the index is that of a word of a lap, which `Shape::new` checked against the
        // area.
        unsafe { self.mem.word64_unchecked(self.cursor.offset()) }
    }

    /// Words of the record whose header `word`, read once, is, if that lies within the ring from
    /// the position on.
    #[inline(always)]
    fn record_words(&self, word: u64) -> Option<u64> {
        let (len, kind) = (length(word), (word >> 32) as u8);
        let words = words_for(len) - u64::from(word & SAME_TAG != 0);
        let fits = len <= self.max_payload && words <= self.cursor.left_in_lap();
        let is_record =
            fits && word >> 48 == self.cursor.position & 0xffff && kind != 0 && kind != PAD;
        is_record.then_some(words)
    }

    /// Goes from the pad with this header to where it leads. Gives the header there, and the words
    /// of its record. `None`: nothing is there yet.
    #[cold]
    #[inline(never)]
    fn follow_pad(&mut self, mut word: u64) -> Result<Option<(u64, u64)>, Corrupt> {
        // What was shown before lies at another place, if a producer makes a pad of it.
        self.peeked = 0;
        for _ in 0..PADS {
            let to_end = self.cursor.left_in_lap();
            let checked = (word >> 32) as u8 == PAD && word >> 48 == self.cursor.position & 0xffff;
            match u64::from(word as u32) {
                0 if checked && self.other.lap.words > 0 => {
                    let left = self.cursor.position + 1;
                    self.cursor.advance(1 + rest_of_line(left));
                    // The producer comes back here once all of this lap was read.
                    self.return_credit();
                    core::mem::swap(&mut self.cursor, &mut self.other);
                }
                // A pad at the start of a lap would lead back to itself.
                words if checked && words == to_end && words != self.cursor.lap.words => {
                    self.cursor.advance(to_end);
                }
                _ => return Err(self.corrupt(word)),
            }
            // Acquire: the pad already published this record; acquire again for a
            // producer that wrote its pad first (pair *record header*).
            word = self.head().load(Ordering::Acquire);
            if word == 0 {
                return Ok(None);
            }
            if let Some(words) = self.record_words(word) {
                return Ok(Some((word, words)));
            }
        }
        Err(self.corrupt(word))
    }

    /// Says what is wrong with a header.
    #[cold]
    #[inline(never)]
    fn corrupt(&self, word: u64) -> Corrupt {
        let kind = (word >> 32) as u8;
        let what = if word >> 48 != self.cursor.position & 0xffff {
            "the check field is not that of this word"
        } else if kind == 0 {
            "a record of kind 0"
        } else if kind == PAD {
            "a pad that does not cover the end of the lap"
        } else {
            "the record is longer than the lap allows here"
        };
        Corrupt {
            position: self.cursor.position,
            word,
            what,
        }
    }

    /// Takes the record off that [`peek`](Self::peek) showed; without one, does
    /// nothing.
    ///
    /// True if words went back to the producer meanwhile: one that sleeps since the ring was full
    /// has room then, and only then.
    #[inline(always)]
    pub fn pop(&mut self) -> bool {
        let words = core::mem::take(&mut self.peeked);
        self.go_on(self.cursor.behind(words));
        core::mem::take(&mut self.credited)
    }

    /// Whether words went back to the producer since this was asked, or [`pop`](Self::pop) told: it
    /// may sleep.
    #[inline(always)]
    pub fn was_credited(&mut self) -> bool {
        core::mem::take(&mut self.credited)
    }

    /// Goes to that position and index.
    #[inline(always)]
    fn go_on(&mut self, behind: (u64, u64)) {
        self.last = behind.0 - self.cursor.position;
        (self.cursor.position, self.cursor.index) = behind;
        if self.cursor.index % LINE_WORDS == 0 {
            // The line behind the next one, while the caller is busy with what it has just taken.
            self.ask_for_line(1);
            if self.cursor.position - self.cursor.returned >= self.cursor.credit_batch {
                self.return_credit();
            }
        }
    }

    /// Returns all read words to the producer now. [`pop`](Self::pop) does it often enough for
    /// progress.
    pub fn return_credit(&mut self) {
        let cursor = &mut self.cursor;
        if cursor.returned != cursor.position {
            cursor.returned = cursor.position;
            self.credited = true;
            // SAFETY: in line 0 of an area that `Shape::new` checked.
            let read = unsafe { self.mem.word64_unchecked(READ[cursor.lap.number & 1]) };
            // Release: pairs with the acquire load in
            // `LineProducer::look_for_credit` (pair *word credit*): our reads of
            // these words come before the producer's next writes.
            read.store(cursor.position, Ordering::Release);
        }
    }

    /// Gives the producer a receipt, in place of the one before.
    #[inline(always)]
    pub fn give_receipt(&self, receipt: u64) {
        // SAFETY: in line 1 of an area that `Shape::new` checked.
        let word = unsafe { self.mem.word64_unchecked(RECEIPT) };
        // Release: pairs with the acquire load in `LineProducer::receipt` (pair *receipt*): what
        // was done before has happened for whoever sees it.
        word.store(receipt, Ordering::Release);
    }

    /// Empties the ring and starts anew at its first position, for the next producer. To be called
    /// once the producer before is known to be dead, or to have left the ring for good. One that
    /// has not would write on in the old count, which this end would report as [`Corrupt`], and it
    /// would find no receipt any more.
    pub fn reset(&mut self) {
        self.cursor = Cursor::new(self.shape.hot);
        self.other = Cursor::new(self.shape.cold);
        self.peeked = 0;
        self.tag = 0;
        self.give_receipt(0);
        // SAFETY: the first word of the hot lap, and words of line 0, of an area that `Shape::new`
        // checked.
        unsafe {
            // The header that the consumer polls first, then the credit; the next producer comes to
            // know of the ring by a message, which orders all. The cold lap is entered by way of a
            // record that is complete.
            self.mem
                .word64_unchecked(self.shape.hot.first)
                .store(0, Ordering::Relaxed);
            for read in READ {
                self.mem.word64_unchecked(read).store(0, Ordering::Release);
            }
        }
    }
}

/// Payload length in a header, in bytes.
#[inline(always)]
fn length(word: u64) -> u32 {
    word as u32 & !((ENDS_LINE | SAME_TAG) as u32)
}

const _: () = assert!(INLINE_PAYLOAD as usize == LINE - RECORD_HEADER);

#[cfg(all(test, not(loom)))]
impl<M: Memory> LineConsumer<M> {
    pub(super) fn memory(&self) -> &M {
        &self.mem
    }

    /// Position of the next record in its lap, and that lap's number.
    pub(super) fn position(&self) -> (u64, usize) {
        (self.cursor.position, self.cursor.lap.number)
    }

    /// Offset of the next header.
    pub(super) fn next_offset(&self) -> usize {
        self.cursor.offset()
    }
}
