//! The sender's end of a line ring.

use super::{
    AHEAD_LINES, ENDS_LINE, GeometryError, HINT, LINE_WORDS, Lap, MOST_SAME_TAG, Memory,
    NEAR_LINES, PAD, READ, RECORD_HEADER, SAME_TAG, Shape, WORD, header, rest_of_line, words_for,
};
use crate::sync::Ordering;

/// The sender's view of one lap.
#[derive(Debug, Clone, Copy)]
struct Course {
    lap: Lap,
    /// Position of the next record.
    write: u64,
    /// Index of that position in the lap: less than its words.
    index: u64,
    /// Position up to which words are known to be free: at most one lap ahead of what is known to be read.
    limit: u64,
    /// Lines are shared if this is 0, and never if it is [`LINE_WORDS`].
    apart: u64,
    max_payload: u32,
}

/// How the next record is reached from the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It follows.
    On,
    /// Over the end of the lap.
    Round,
    /// In the other lap.
    Across,
    /// There, over its end.
    AcrossAndRound,
}

/// Where a record goes.
#[derive(Debug, Clone, Copy)]
struct Spot {
    way: Way,
    /// Positions of the record and of the one behind it.
    start: u64,
    end: u64,
    /// Offset of the record; all of it is in one piece.
    offset: usize,
    /// Offset of the record behind it.
    behind: usize,
    /// That one begins on a line.
    ends_line: bool,
}

impl Course {
    fn new(lap: Lap) -> Self {
        Self {
            lap,
            write: 0,
            index: 0,
            limit: lap.words,
            apart: if lap.packed() { 0 } else { LINE_WORDS },
            max_payload: if lap.words == 0 { 0 } else { lap.max_payload() },
        }
    }

    /// End of a record of so many words at `start`, and whether the next one begins on a line.
    #[inline(always)]
    fn end(&self, start: u64, words: u64) -> (u64, bool) {
        let filled = start + words;
        let rest = rest_of_line(filled);
        // Another one of this length does not fit.
        let ends_line = rest < words | self.apart;
        (if ends_line { filled + rest } else { filled }, ends_line)
    }

    /// Position of the end of the lap.
    fn lap_end(&self) -> u64 {
        self.write + (self.lap.words - self.index)
    }

    /// Offset of the word with this index, or of the first one if it is one too many.
    fn offset(&self, index: u64) -> usize {
        let index = if index == self.lap.words { 0 } else { index };
        self.lap.first + index as usize * WORD
    }

    /// Where a record of so many words goes in this lap, and the position up to which words must be free.
    fn spot(&self, words: u64) -> (Spot, u64) {
        let round = self.write + words > self.lap_end();
        let (start, index) = if round {
            (self.lap_end(), 0)
        } else {
            (self.write, self.index)
        };
        let (end, ends_line) = self.end(start, words);
        let spot = Spot {
            way: if round { Way::Round } else { Way::On },
            start,
            end,
            offset: self.offset(index),
            behind: self.offset(index + (end - start)),
            ends_line,
        };
        // One more than the record: the word of the terminator.
        (spot, end + 1)
    }

    /// Offset of the line to ask for.
    #[inline(always)]
    fn ahead(&self) -> usize {
        let index = self.index + AHEAD_LINES * LINE_WORDS;
        let index = if index >= self.lap.words {
            index - self.lap.words
        } else {
            index
        };
        self.lap.first + index as usize * WORD
    }

    /// Goes to a position that is at most one lap ahead.
    fn go_to(&mut self, position: u64) {
        self.index += position - self.write;
        if self.index >= self.lap.words {
            self.index -= self.lap.words;
        }
        self.write = position;
    }
}

/// The sender's end. Private state; the ring sees only what it publishes.
#[derive(Debug)]
pub struct LineProducer<M> {
    mem: M,
    /// The lap in use.
    course: Course,
    other: Course,
    /// A record that ends before this position, in the lap in use, needs no further look. Invariant: at most `limit`,
    /// and at most the end of the lap.
    bound: u64,
    /// In the far lap: where to look whether the near one is read.
    look_back: u64,
    max_payload: u32,
    hint: u32,
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
        let course = Course::new(shape.near);
        Self {
            mem,
            course,
            other: Course::new(shape.far),
            bound: course.limit,
            look_back: 0,
            max_payload: shape.max_payload(),
            hint: 0,
            tag: 0,
        }
    }

    /// Greatest payload of one record, in bytes: what an idle consumer is sure to
    /// make room for.
    #[must_use]
    pub fn max_record_payload(&self) -> u32 {
        self.max_payload
    }

    /// The consumer's pressure hint, as of the last look at its line, which this
    /// end takes when it runs out of words that it knows to be free.
    #[inline]
    #[must_use]
    pub fn hint(&self) -> u32 {
        self.hint
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

    /// As [`reserve`](Self::reserve), for a record that will have this tag: it takes less room if the last one had it.
    #[inline(always)]
    pub fn reserve_tagged(&mut self, len: u32, tag: u64) -> Option<Reservation<'_, M>> {
        let same = tag == self.tag && len <= MOST_SAME_TAG;
        self.reserve_words(len, words_for(len) - u64::from(same), same)
    }

    #[inline(always)]
    fn reserve_words(&mut self, len: u32, words: u64, same: bool) -> Option<Reservation<'_, M>> {
        let course = &self.course;
        let start = course.write;
        let (end, ends_line) = course.end(start, words);
        let spot = if end < self.bound && len <= self.max_payload {
            let offset = course.lap.first + course.index as usize * WORD;
            Spot {
                way: Way::On,
                start,
                end,
                offset,
                behind: offset + (end - start) as usize * WORD,
                ends_line,
            }
        } else {
            self.seek(len, words)?
        };
        Some(Reservation {
            spot,
            len,
            same,
            ring: self,
        })
    }

    /// Greatest payload of [`reserve_near`](Self::reserve_near), in bytes.
    #[must_use]
    pub fn max_near_payload(&self) -> u32 {
        if self.course.lap.number == 0 {
            self.course.max_payload
        } else {
            self.other.max_payload
        }
    }

    /// Room in the near lap for a record with `most` bytes of payload, or fewer, but not under half of it, if it
    /// then ends with the lap. For messages in many records, which gain by staying in the first-level caches.
    ///
    /// `None` if there is no room now, or `most` exceeds [`max_near_payload`](Self::max_near_payload).
    pub fn reserve_near(&mut self, most: u32) -> Option<Reservation<'_, M>> {
        if most > self.max_near_payload() {
            return None;
        }
        let (spot, len) = if self.course.lap.number == 0 {
            let left = (self.course.lap_end() - self.course.write) * WORD as u64;
            let left = left.saturating_sub(RECORD_HEADER as u64);
            let len = if left >= u64::from(most / 2) {
                left.min(most.into()) as u32
            } else {
                most
            };
            let (spot, needed) = self.course.spot(words_for(len));
            if needed > self.course.limit && !self.look_for_credit(needed) {
                return None;
            }
            self.set_bound();
            (spot, len)
        } else {
            (self.across(most, words_for(most))?, most)
        };
        Some(Reservation {
            spot,
            len,
            same: false,
            ring: self,
        })
    }

    /// Room behind the known free words, over the end of the lap, or in the other one.
    #[cold]
    #[inline(never)]
    fn seek(&mut self, len: u32, words: u64) -> Option<Spot> {
        if len > self.max_payload {
            return None;
        }
        let far = self.course.lap.number == 1;
        if far && self.course.write >= self.look_back {
            if let Some(spot) = self.across(len, words) {
                return Some(spot);
            }
            self.look_back = self.course.write + NEAR_LINES * LINE_WORDS;
        }
        if len <= self.course.max_payload {
            let (spot, needed) = self.course.spot(words);
            if needed <= self.course.limit || self.look_for_credit(needed) {
                self.set_bound();
                return Some(spot);
            }
        }
        self.across(len, words)
    }

    /// Room in the other lap; in the near one only if all of it was read.
    fn across(&mut self, len: u32, words: u64) -> Option<Spot> {
        let to_near = self.course.lap.number == 1;
        if len > self.other.max_payload || self.other.lap.words == 0 {
            return None;
        }
        let (spot, needed) = self.other.spot(words);
        core::mem::swap(&mut self.course, &mut self.other);
        let fits = if to_near {
            let whole = self.course.write + self.course.lap.words;
            self.course.limit == whole || self.look_for_credit(whole)
        } else {
            needed <= self.course.limit || self.look_for_credit(needed)
        };
        core::mem::swap(&mut self.course, &mut self.other);
        let way = if spot.way == Way::On {
            Way::Across
        } else {
            Way::AcrossAndRound
        };
        fits.then_some(Spot { way, ..spot })
    }

    /// After any change of the lap in use, its limit, or `look_back`.
    fn set_bound(&mut self) {
        self.bound = self.course.limit.min(self.course.lap_end());
        if self.course.lap.number == 1 {
            self.bound = self.bound.min(self.look_back);
        }
    }

    /// Looks at the consumer's line; says whether the words of the lap in use before `needed` are free.
    fn look_for_credit(&mut self, needed: u64) -> bool {
        let course = &mut self.course;
        // SAFETY: both words are in line 0 of an area that `Shape::new` checked.
        let (read, hint) = unsafe {
            (
                self.mem.word64_unchecked(READ[course.lap.number & 1]),
                self.mem.word32_unchecked(HINT),
            )
        };
        // Acquire: pairs with the release store in `LineConsumer::return_credit`
        // (pair *word credit*): what the consumer read, it has read before we
        // write over it.
        let read = read.load(Ordering::Acquire);
        self.hint = hint.load(Ordering::Relaxed);
        // An honest consumer is between its last word and our position. Any other
        // value is ignored: the ring stays full, which harms its owner only.
        let last = course.limit - course.lap.words;
        if last < read && read <= course.write {
            course.limit = read + course.lap.words;
        }
        needed <= course.limit
    }

    /// Stores the header that the consumer is led by; everything that it leads to is in place.
    fn publish_pad(&self, course: &Course, len: u64) {
        // SAFETY: the word of the next record of a lap within the area that `Shape::new` checked.
        let head = unsafe { self.mem.word64_unchecked(course.offset(course.index)) };
        // Release: pairs with the acquire load in `LineConsumer::peek` (pair *record
        // header*), for the pad and for all of the record behind it.
        head.store(header(len as u32, PAD, 0, course.write), Ordering::Release);
    }

    /// Publishes a record whose own header is stored already, but where the consumer does not look yet, by
    /// what leads there.
    #[cold]
    #[inline(never)]
    fn publish_way(&mut self, spot: &Spot) {
        match spot.way {
            Way::On => {}
            Way::Round => self.publish_pad(&self.course, self.course.lap_end() - self.course.write),
            Way::Across | Way::AcrossAndRound => {
                if spot.way == Way::AcrossAndRound {
                    self.publish_pad(&self.other, self.other.lap_end() - self.other.write);
                }
                self.publish_pad(&self.course, 0);
                let left = self.course.write + 1;
                self.course.go_to(left + rest_of_line(left));
                core::mem::swap(&mut self.course, &mut self.other);
                self.look_back = self.course.write + NEAR_LINES * LINE_WORDS;
            }
        }
        self.course.go_to(spot.end);
        self.set_bound();
    }
}

/// Room for one record. Dropped without [`publish`](Self::publish), it leaves the
/// ring as it was.
#[derive(Debug)]
#[must_use = "a reservation that is not published sends nothing"]
pub struct Reservation<'a, M> {
    ring: &'a mut LineProducer<M>,
    spot: Spot,
    len: u32,
    /// Without a tag of its own.
    same: bool,
}

impl<M: Memory> Reservation<'_, M> {
    /// Bytes of payload.
    #[inline]
    #[must_use]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether the payload has no bytes.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Offset of the payload; `len` bytes follow in one piece.
    #[inline(always)]
    fn payload(&self) -> usize {
        self.spot.offset + if self.same { WORD } else { RECORD_HEADER }
    }

    /// Copies `len` bytes to byte `at` of the payload.
    ///
    /// # Safety
    ///
    /// `at + len <= self.len()`, and `from` is valid for `len` bytes outside of
    /// the ring.
    #[inline(always)]
    pub unsafe fn write(&mut self, at: u32, from: *const u8, len: u32) {
        debug_assert!(u64::from(at) + u64::from(len) <= u64::from(self.len));
        // SAFETY: the payload lies within the ring, since `reserve` put the record
        // before the end of its lap, and `at + len` within the payload. `reserve` saw these
        // words free (pair *word credit*), and the consumer looks at none of them
        // before `publish`, except at the header word.
        unsafe {
            self.ring
                .mem
                .write(self.payload() + at as usize, from, len as usize)
        }
    }

    /// Copies `bytes` to byte `at` of the payload.
    ///
    /// # Panics
    ///
    /// If they do not fit in the payload.
    #[inline]
    pub fn write_bytes(&mut self, at: u32, bytes: &[u8]) {
        assert!(
            at <= self.len && bytes.len() <= (self.len - at) as usize,
            "{} bytes do not fit at byte {at} of a payload of {}",
            bytes.len(),
            self.len
        );
        // SAFETY: just checked; a slice of private memory is outside of the ring.
        unsafe { self.write(at, bytes.as_ptr(), bytes.len() as u32) }
    }

    /// Address of the payload, for producers that write it in place (under the
    /// conditions of [`write`](Self::write)).
    #[cfg(not(loom))]
    #[inline]
    #[must_use]
    pub fn payload_pointer(&mut self) -> *mut u8 {
        self.ring.mem.pointer(self.payload())
    }

    /// Publishes the record. `kind` is neither 0 nor [`PAD`].
    ///
    /// # Panics
    ///
    /// If `kind` is one of these, or the room was reserved for another tag.
    #[inline(always)]
    pub fn publish(self, kind: u8, flags: u8, tag: u64) {
        assert!(
            kind != 0 && kind != PAD,
            "kinds 0 and 255 are the ring's own"
        );
        let Self {
            ring,
            spot,
            len,
            same,
        } = self;
        let mem = &ring.mem;
        // SAFETY: `reserve` and `Course::spot` put all of the record, of one word at least, before the end of a
        // lap of the area, and the word behind it into the same lap.
        let (behind, head) = unsafe {
            (
                mem.word64_unchecked(spot.behind),
                mem.word64_unchecked(spot.offset),
            )
        };
        // The terminator, before the header: see the module's docs.
        behind.store(0, Ordering::Relaxed);
        let mut word = header(len, kind, flags, spot.start);
        if same {
            assert!(tag == ring.tag, "the room was reserved for another tag");
            word |= SAME_TAG;
        } else {
            // SAFETY: as above; a record with a tag has two words at least.
            let tag_word = unsafe { mem.word64_unchecked(spot.offset + WORD) };
            tag_word.store(tag, Ordering::Relaxed);
            ring.tag = tag;
        }
        if spot.ends_line {
            word |= ENDS_LINE;
        }
        // Release: pairs with the acquire load in `LineConsumer::peek` (pair
        // *record header*): payload, tag and terminator are there before it.
        head.store(word, Ordering::Release);
        if spot.way == Way::On && spot.end < ring.bound {
            ring.course.index += spot.end - ring.course.write;
            ring.course.write = spot.end;
            // Off the way of this message: ownership of a line of the next ones, unless the consumer still
            // has to read it.
            if spot.ends_line && spot.end + AHEAD_LINES * LINE_WORDS < ring.course.limit {
                ring.mem.prefetch_write(ring.course.ahead());
            }
        } else {
            ring.publish_way(&spot);
        }
    }
}
