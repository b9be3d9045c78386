//! The receiver's end of a line ring.

use super::{
    GeometryError, HINT, INLINE_PAYLOAD, LINE, Memory, PAD, READ, RECORD_HEADER, Shape, lines_for,
};
use crate::ring::Corrupt;
use crate::sync::{AtomicU64, Ordering};

/// The receiver's end. Private state, except what it returns of read lines.
#[derive(Debug)]
pub struct LineConsumer<M> {
    mem: M,
    shape: Shape,
    /// Position of the next record.
    position: u64,
    /// Last value of `read` that the producer was told.
    returned: u64,
    /// Lines of the record that `peek` showed last; 0 for none.
    peeked: u64,
    max_payload: u32,
}

impl<M: Memory> LineConsumer<M> {
    /// The receiver's end of a new (zeroed) ring of `lines` lines.
    ///
    /// # Errors
    ///
    /// If `lines` is not a power of two from 4 to 2^24, or does not fit in `mem`.
    pub fn new(mem: M, lines: u32) -> Result<Self, GeometryError> {
        let shape = Shape::new(&mem, lines)?;
        let max_payload = shape.max_payload();
        Ok(Self {
            mem,
            shape,
            position: 0,
            returned: 0,
            peeked: 0,
            max_payload,
        })
    }

    /// The oldest record, if there is one. It stays until [`pop`](Self::pop).
    ///
    /// On an empty ring: one load, one compare.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] if the header is none that an honest producer writes. The ring
    /// stays where it is; give the producer up and [`reset`](Self::reset).
    #[inline(always)]
    pub fn peek(&mut self) -> Result<Option<Record<'_, M>>, Corrupt> {
        // Acquire: pairs with the release store in `Reservation::publish` (pair
        // *line header*): payload, tag and the next terminator are visible.
        let mut word = self.head().load(Ordering::Acquire);
        if word == 0 {
            return Ok(None);
        }
        if !self.is_record(word) {
            word = self.follow_pad(word)?;
            if word == 0 {
                return Ok(None);
            }
        }
        let len = word as u32;
        self.peeked = lines_for(len);
        let offset = self.shape.offset(self.position);
        // SAFETY: the second word of a whole line of the area.
        let tag = unsafe { self.mem.word64_unchecked(offset + 8) };
        // Relaxed: ordered by the header (pair *line header*).
        let tag = tag.load(Ordering::Relaxed);
        Ok(Some(Record {
            kind: (word >> 32) as u8,
            flags: (word >> 40) as u8,
            tag,
            len,
            mem: &self.mem,
            payload: offset + RECORD_HEADER,
            checked: len,
        }))
    }

    /// The header word at the position.
    #[inline(always)]
    fn head(&self) -> &AtomicU64 {
        // SAFETY: `Shape::offset` is the offset of a whole line of the area.
        unsafe { self.mem.word64_unchecked(self.shape.offset(self.position)) }
    }

    /// Whether `word`, read once, is the header of a record that lies within the
    /// ring from the position on.
    #[inline(always)]
    fn is_record(&self, word: u64) -> bool {
        let (len, kind) = (word as u32, (word >> 32) as u8);
        let to_end = self.shape.lines - self.shape.index(self.position);
        let fits = len <= INLINE_PAYLOAD || (len <= self.max_payload && lines_for(len) <= to_end);
        fits && word >> 48 == self.position & 0xffff && kind != 0 && kind != PAD
    }

    /// Goes from a pad to line 0. Returns the header there, which is that of a
    /// record, or 0.
    #[cold]
    #[inline(never)]
    fn follow_pad(&mut self, word: u64) -> Result<u64, Corrupt> {
        let index = self.shape.index(self.position);
        // A pad at line 0 would lead back to line 0.
        if index == 0
            || (word >> 32) as u8 != PAD
            || word as u32 != self.shape.pad_payload(index)
            || word >> 48 != self.position & 0xffff
        {
            return Err(self.corrupt(word));
        }
        self.position += self.shape.lines - index;
        // Acquire: the pad already published this record; acquire again for a
        // producer that wrote its pad first (pair *line header*).
        let word = self.head().load(Ordering::Acquire);
        if word != 0 && !self.is_record(word) {
            return Err(self.corrupt(word));
        }
        Ok(word)
    }

    /// Says what is wrong with a header.
    #[cold]
    #[inline(never)]
    fn corrupt(&self, word: u64) -> Corrupt {
        let kind = (word >> 32) as u8;
        let what = if word >> 48 != self.position & 0xffff {
            "the check field is not that of this line"
        } else if kind == 0 {
            "a record of kind 0"
        } else if kind == PAD {
            "a pad that does not cover the end of the ring"
        } else {
            "the record is longer than the ring allows here"
        };
        Corrupt {
            position: self.position,
            word,
            what,
        }
    }

    /// Takes the record off that [`peek`](Self::peek) showed; without one, does
    /// nothing.
    #[inline]
    pub fn pop(&mut self) {
        self.position += self.peeked;
        self.peeked = 0;
        if self.position - self.returned >= self.shape.credit_batch() {
            self.return_credit();
        }
    }

    /// Returns all read lines to the producer now. [`pop`](Self::pop) does it each
    /// quarter of the ring, which is enough for progress.
    #[inline]
    pub fn return_credit(&mut self) {
        if self.returned != self.position {
            self.returned = self.position;
            // SAFETY: in line 0 of an area that `Shape::new` checked.
            let read = unsafe { self.mem.word64_unchecked(READ) };
            // Release: pairs with the acquire load in
            // `LineProducer::look_for_credit` (pair *line credit*): our reads of
            // these lines come before the producer's next writes.
            read.store(self.position, Ordering::Release);
        }
    }

    /// Sets the pressure hint. The producer sees it when it next looks for credit;
    /// the value means what the two ends agree on.
    #[inline]
    pub fn set_hint(&mut self, hint: u32) {
        // SAFETY: in line 0 of an area that `Shape::new` checked.
        let word = unsafe { self.mem.word32_unchecked(HINT) };
        // Relaxed: a hint orders nothing.
        word.store(hint, Ordering::Relaxed);
    }

    /// Empties the ring and starts anew at position 0, for the next producer. To be
    /// called once the producer is known to be dead: a living one would write on
    /// in the old count, which this end would report as [`Corrupt`].
    pub fn reset(&mut self) {
        (self.position, self.returned, self.peeked) = (0, 0, 0);
        self.set_hint(0);
        // SAFETY: in lines 0 and 2 of an area that `Shape::new` checked.
        unsafe {
            // The header that the consumer polls first, then the credit; the next
            // producer comes to know of the ring by a message, which orders both.
            self.mem
                .word64_unchecked(self.shape.offset(0))
                .store(0, Ordering::Relaxed);
            self.mem.word64_unchecked(READ).store(0, Ordering::Release);
        }
    }
}

/// The oldest record of a ring. Header fields were read once, and are private;
/// the payload is still in shared memory.
#[derive(Debug)]
pub struct Record<'a, M> {
    /// Kind that the producer gave; neither 0 nor [`PAD`].
    pub kind: u8,
    /// Flags that the producer gave.
    pub flags: u8,
    /// Tag that the producer gave.
    pub tag: u64,
    /// Bytes of payload.
    pub len: u32,
    mem: &'a M,
    /// Offset of the payload.
    payload: usize,
    /// `len` as it was checked, out of the caller's reach: so many bytes of
    /// payload follow in one piece.
    checked: u32,
}

impl<M: Memory> Record<'_, M> {
    /// Copies `len` bytes from byte `at` of the payload.
    ///
    /// # Safety
    ///
    /// `at + len` is at most the length that `peek` gave this record, and `to` is valid for `len` bytes outside of the
    /// ring.
    #[inline(always)]
    pub unsafe fn read(&self, at: u32, to: *mut u8, len: u32) {
        debug_assert!(u64::from(at) + u64::from(len) <= u64::from(self.checked));
        // SAFETY: `is_record` checked that the payload ends within the ring; an
        // honest producer does not touch it before `pop` returns these lines
        // (pair *line credit*).
        unsafe { self.mem.read(self.payload + at as usize, to, len as usize) }
    }

    /// Copies from byte `at` of the payload, as many bytes as `to` has; says
    /// whether the payload has them, and copies nothing if not.
    #[inline]
    #[must_use]
    pub fn read_bytes(&self, at: u32, to: &mut [u8]) -> bool {
        if at > self.checked || to.len() > (self.checked - at) as usize {
            return false;
        }
        // SAFETY: just checked; a slice of private memory is outside of the ring.
        unsafe { self.read(at, to.as_mut_ptr(), to.len() as u32) }
        true
    }

    /// Address of the payload, for copies that stream out of it (under the
    /// conditions of [`read`](Self::read)); valid until [`pop`](LineConsumer::pop).
    #[cfg(not(loom))]
    #[inline]
    #[must_use]
    pub fn payload_pointer(&self) -> *const u8 {
        self.mem.pointer(self.payload)
    }
}

const _: () = assert!(INLINE_PAYLOAD as usize == LINE - RECORD_HEADER);

#[cfg(all(test, not(loom)))]
impl<M: Memory> LineConsumer<M> {
    pub(super) fn memory(&self) -> &M {
        &self.mem
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }
}
