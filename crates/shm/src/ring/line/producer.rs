//! The sender's end of a line ring.

mod cursor;
mod lines;
mod reservation;

use super::{
    ENDS_LINE, GeometryError, HOT_LINES, LINE, LINE_WORDS, MOST_SAME_TAG, Memory, PAD, READ,
    RECEIPT, SAME_TAG, Shape, WORD, header, rest_of_line, words_for,
};
use crate::sync::Ordering;
use cursor::{Cursor, Slot, Step};
pub use reservation::Reservation;

/// The sender's end. Private state; the ring sees only what it publishes.
#[derive(Debug)]
pub struct LineProducer<M> {
    mem: M,
    /// The lap in use.
    cursor: Cursor,
    other: Cursor,
    /// A record that ends before this position, in the lap in use, needs no further look.
    /// Invariant: at most `limit`, and at most the end of the lap.
    bound: u64,
    /// In the cold lap: where to look whether the hot one is read.
    look_back: u64,
    max_payload: u32,
    /// What the memory says of it, which is the same always.
    stores_wait_in_turn: bool,
    /// Tag of the last record.
    tag: u64,
}

impl<M: Memory> LineProducer<M> {
    /// The sender's end of a ring of `lines` lines that is new or was
    /// [reset](super::LineConsumer::reset).
    ///
    /// # Errors
    ///
    /// If `lines` is not a power of two from 4 to 2^24, or does not fit in `mem`.
    pub fn new(mem: M, lines: u32) -> Result<Self, GeometryError> {
        let shape = Shape::new(&mem, lines)?;
        Ok(Self::of(mem, shape))
    }

    pub(super) fn of(mem: M, shape: Shape) -> Self {
        let cursor = Cursor::new(shape.hot);
        Self {
            stores_wait_in_turn: mem.stores_wait_in_turn(),
            mem,
            cursor,
            other: Cursor::new(shape.cold),
            bound: cursor.limit,
            look_back: 0,
            max_payload: shape.max_payload(),
            tag: 0,
        }
    }

    /// Greatest payload of one record, in bytes: what an idle consumer is sure to
    /// make room for.
    #[must_use]
    pub fn max_record_payload(&self) -> u32 {
        self.max_payload
    }

    /// Room for a record with `len` bytes of payload, or `None` if the ring is full
    /// now. A `len` above [`max_record_payload`](Self::max_record_payload) never
    /// fits.
    ///
    /// Moves no cache line, unless the known free words are used up.
    #[inline]
    pub fn reserve(&mut self, len: u32) -> Option<Reservation<'_, M>> {
        self.reserve_words(len, words_for(len), false)
    }

    /// As [`reserve`](Self::reserve), for a record that will have this tag: it takes less room if
    /// the last one had it.
    #[inline(always)]
    pub fn reserve_tagged(&mut self, len: u32, tag: u64) -> Option<Reservation<'_, M>> {
        let same = tag == self.tag && len <= MOST_SAME_TAG;
        self.reserve_words(len, words_for(len) - u64::from(same), same)
    }

    /// Publishes a record of so many lines at most, one or two, that has the tag of the one before,
    /// if its place is at hand: [`reserve_tagged`] and all that follows in one, as a stream of
    /// short messages needs it. A word may stand ahead of the bytes. False: nothing was done.
    /// `kind` is neither 0 nor [`PAD`].
    ///
    /// [`reserve_tagged`]: Self::reserve_tagged
    ///
    /// # Safety
    ///
    /// `from` is valid for `len` bytes outside of the ring.
    #[inline(always)]
    pub unsafe fn push_same_tag<const LINES: usize>(
        &mut self,
        kind: u8,
        tag: u64,
        ahead: Option<u64>,
        from: *const u8,
        len: usize,
    ) -> bool {
        let skip = ahead.map_or(0, |_| WORD);
        if skip + len > LINES * LINE - WORD {
            return false;
        }
        let Some(slot) = self.slot_of_same_tag(tag, skip + len) else {
            return false;
        };
        let payload = slot.offset + WORD;
        let (head, rest) = match LINES {
            1 => (len, 0),
            _ => lines::parts(payload + skip, len),
        };
        if rest > LINE {
            return false;
        }
        // SAFETY: the slot has room for the word and `len` bytes there, and nothing is published in
        // between; the rest is the caller's promise.
        unsafe {
            if rest == 0 {
                self.write_line(&slot, payload + skip, from, len);
            } else {
                self.write_two_lines(&slot, payload + skip, from, (head, rest));
            }
            if let Some(word) = ahead {
                // The header, stored behind it, orders it.
                self.mem
                    .word64_unchecked(payload)
                    .store(word, Ordering::Relaxed);
            }
            self.publish_same_tag(&slot, kind, skip + len);
        }
        true
    }

    /// [`push_same_tag`](Self::push_same_tag) of words, which are stored one by one: see
    /// [`Reservation::write_words`].
    #[inline(always)]
    pub fn push_words_same_tag<const N: usize>(
        &mut self,
        kind: u8,
        tag: u64,
        words: [u64; N],
    ) -> bool {
        let Some(slot) = self.slot_of_same_tag(tag, N * WORD) else {
            return false;
        };
        for (at, word) in words.into_iter().enumerate() {
            // SAFETY: the slot has room for all of them there, at a multiple of 8.
            let place = unsafe { self.mem.word64_unchecked(slot.offset + WORD + at * WORD) };
            // The header, stored behind it, orders it.
            place.store(word, Ordering::Relaxed);
        }
        // SAFETY: the slot is for that length, and nothing was published since.
        unsafe { self.publish_same_tag(&slot, kind, N * WORD) };
        true
    }

    /// Asks for the lines of the next record, if it has so many words, and its place is at hand.
    /// For a caller that writes a payload elsewhere first: its lines and these are on their way
    /// together. While it writes a long payload, the consumer takes the header's line back, and
    /// only the other one is won.
    #[inline(always)]
    pub fn ask_for_next(&self, words: u64) {
        if let Some(slot) = self.slot_at_hand(words) {
            slot.ask_for_lines(&self.mem);
        }
    }

    /// Where a record of so many words goes, if its place is at hand: it and the word behind it lie
    /// in the lap, and are free.
    #[inline(always)]
    fn slot_at_hand(&self, words: u64) -> Option<Slot> {
        let cursor = &self.cursor;
        let start = cursor.write;
        let (end, ends_line) = cursor.end(start, words);
        let offset = cursor.lap.first + cursor.index as usize * WORD;
        // `bound` is at most the end of the lap, so that the record, of one word at least, and the
        // word behind it lie in the lap. It is at most `limit` too, so these words are free (pair
        // *word credit*), and the consumer looks at none of them before the header, except at the
        // header word.
        (end < self.bound).then_some(Slot {
            step: Step::On,
            start,
            end,
            offset,
            behind: offset + (end - start) as usize * WORD,
            ends_line,
        })
    }

    /// The same for a record without a tag of its own, if it may be one. Its payload is behind one
    /// word.
    #[inline(always)]
    fn slot_of_same_tag(&self, tag: u64, len: usize) -> Option<Slot> {
        if tag != self.tag || len > MOST_SAME_TAG as usize {
            return None;
        }
        // Even in the smallest ring no payload of this length is too long.
        self.slot_at_hand(words_for(len as u32) - 1)
    }

    /// Publishes the record at that slot, whose payload is there.
    ///
    /// # Safety
    ///
    /// [`slot_of_same_tag`](Self::slot_of_same_tag) gave the slot for this length, and nothing was
    /// published since.
    #[inline(always)]
    unsafe fn publish_same_tag(&mut self, slot: &Slot, kind: u8, len: usize) {
        debug_assert!(kind != 0 && kind != PAD, "the ring's own kinds");
        self.clear_behind(slot);
        // SAFETY: it lies in the lap, by `slot_at_hand`.
        let head = unsafe { self.mem.word64_unchecked(slot.offset) };
        let mut word = header(len as u32, kind, slot.start) | SAME_TAG;
        if slot.ends_line {
            word |= ENDS_LINE;
        }
        // Release: as in `Reservation::publish` (pair *record header*).
        head.store(word, Ordering::Release);
        self.published(slot.start, slot.end, slot.ends_line);
    }

    /// Goes on behind a record that ends before `bound`.
    #[inline(always)]
    fn published(&mut self, start: u64, end: u64, ends_line: bool) {
        self.cursor.index += end - start;
        self.cursor.write = end;
        if ends_line {
            self.prepare_next((end - start).next_multiple_of(LINE_WORDS));
        }
    }

    #[inline(always)]
    fn reserve_words(&mut self, len: u32, words: u64, same: bool) -> Option<Reservation<'_, M>> {
        let at_hand = self.slot_at_hand(words);
        let slot = match at_hand.filter(|_| len <= self.max_payload) {
            Some(slot) => slot,
            None => {
                (self.cursor.cleared, self.other.cleared) = (0, 0);
                self.seek(len, words)?
            }
        };
        // It may go over a word that is 0 already, and be dropped.
        if slot.end > self.cursor.cleared {
            self.cursor.cleared = 0;
        }
        Some(Reservation {
            slot,
            len,
            same,
            ring: self,
        })
    }

    /// The last receipt of the consumer; 0 before the first one. Any number may stand there, if the
    /// consumer is hostile.
    #[inline(always)]
    #[must_use]
    pub fn receipt(&self) -> u64 {
        // SAFETY: in line 1 of an area that `Shape::new` checked.
        let word = unsafe { self.mem.word64_unchecked(RECEIPT) };
        // Acquire: pairs with the release store in `LineConsumer::give_receipt` (pair *receipt*).
        word.load(Ordering::Acquire)
    }

    /// Looks at the consumer's line now if less than half of the lap is known to be free: for
    /// producers of long records, which would otherwise meet that line on the way of one of the
    /// next. Moves that line at most.
    pub fn refresh_credit(&mut self) {
        let known = self.cursor.limit - self.cursor.write;
        if known < self.cursor.lap.words / 2 && self.look_for_credit(self.cursor.limit + 1) {
            self.set_bound();
        }
    }

    /// Room behind the known free words, over the end of the lap, or in the other one.
    #[cold]
    #[inline(never)]
    fn seek(&mut self, len: u32, words: u64) -> Option<Slot> {
        if len > self.max_payload {
            return None;
        }
        let cold = self.cursor.lap.number == 1;
        if cold && self.cursor.write >= self.look_back {
            if let Some(slot) = self.across(len, words) {
                return Some(slot);
            }
            self.look_back = self.cursor.write + HOT_LINES * LINE_WORDS;
        }
        if len <= self.cursor.max_payload {
            let (slot, needed) = self.cursor.slot(words);
            if needed <= self.cursor.limit || self.look_for_credit(needed) {
                self.set_bound();
                return Some(slot);
            }
        }
        self.across(len, words)
    }

    /// Room in the other lap; in the hot one only if all of it was read.
    fn across(&mut self, len: u32, words: u64) -> Option<Slot> {
        let to_hot = self.cursor.lap.number == 1;
        if len > self.other.max_payload || self.other.lap.words == 0 {
            return None;
        }
        let (slot, needed) = self.other.slot(words);
        core::mem::swap(&mut self.cursor, &mut self.other);
        let fits = if to_hot {
            let whole = self.cursor.write + self.cursor.lap.words;
            self.cursor.limit == whole || self.look_for_credit(whole)
        } else {
            needed <= self.cursor.limit || self.look_for_credit(needed)
        };
        core::mem::swap(&mut self.cursor, &mut self.other);
        let step = if slot.step == Step::On {
            Step::Switch
        } else {
            Step::SwitchAndWrap
        };
        fits.then_some(Slot { step, ..slot })
    }

    /// After any change of the lap in use, its limit, or `look_back`.
    fn set_bound(&mut self) {
        self.bound = self.cursor.limit.min(self.cursor.lap_end());
        if self.cursor.lap.number == 1 {
            self.bound = self.bound.min(self.look_back);
        }
    }

    /// Looks at the consumer's line; says whether the words of the lap in use before `needed` are
    /// free.
    fn look_for_credit(&mut self, needed: u64) -> bool {
        let cursor = &mut self.cursor;
        // SAFETY: in line 0 of an area that `Shape::new` checked.
        let read = unsafe { self.mem.word64_unchecked(READ[cursor.lap.number & 1]) };
        // Acquire: pairs with the release store in `LineConsumer::return_credit`
        // (pair *word credit*): what the consumer read, it has read before we
        // write over it.
        let read = read.load(Ordering::Acquire);
        // An honest consumer is between its last word and our position. Any other
        // value is ignored: the ring stays full, which harms its owner only.
        let last = cursor.limit - cursor.lap.words;
        if last < read && read <= cursor.write {
            cursor.limit = read + cursor.lap.words;
        }
        needed <= cursor.limit
    }

    /// Stores the header that the consumer is led by; everything that it leads to is in place.
    fn publish_pad(&self, cursor: &Cursor, len: u64) {
        // SAFETY: the word of the next record of a lap within the area that `Shape::new` checked.
        let head = unsafe { self.mem.word64_unchecked(cursor.offset(cursor.index)) };
        // Release: pairs with the acquire load in `LineConsumer::peek` (pair *record
        // header*), for the pad and for all of the record behind it.
        head.store(header(len as u32, PAD, cursor.write), Ordering::Release);
    }

    /// Publishes a record whose own header is stored already, but where the consumer does not look
    /// yet, by what leads there.
    #[cold]
    #[inline(never)]
    fn publish_way(&mut self, slot: &Slot) {
        match slot.step {
            Step::On => {}
            Step::Wrap => self.publish_pad(&self.cursor, self.cursor.lap_end() - self.cursor.write),
            Step::Switch | Step::SwitchAndWrap => {
                if slot.step == Step::SwitchAndWrap {
                    self.publish_pad(&self.other, self.other.lap_end() - self.other.write);
                }
                self.publish_pad(&self.cursor, 0);
                let left = self.cursor.write + 1;
                self.cursor.go_to(left + rest_of_line(left));
                core::mem::swap(&mut self.cursor, &mut self.other);
                self.look_back = self.cursor.write + HOT_LINES * LINE_WORDS;
            }
        }
        self.cursor.go_to(slot.end);
        self.set_bound();
    }
}
