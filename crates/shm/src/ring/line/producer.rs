//! The sender's end of a line ring.

use super::{
    GeometryError, HINT, LINE, Memory, PAD, READ, RECORD_HEADER, Shape, header, lines_for,
};
use crate::sync::Ordering;

/// How far ahead of the terminator ownership of a line is asked for.
const PREFETCH_AHEAD: u64 = 1;

/// The sender's end. Private state; the ring sees only what it publishes.
#[derive(Debug)]
pub struct LineProducer<M> {
    mem: M,
    shape: Shape,
    /// Position of the next record.
    write: u64,
    /// Position up to which lines are known to be free. Invariant:
    /// `write < limit <= write + lines`.
    limit: u64,
    max_payload: u32,
    hint: u32,
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
        let max_payload = shape.max_payload();
        Ok(Self {
            mem,
            shape,
            write: 0,
            limit: shape.lines,
            max_payload,
            hint: 0,
        })
    }

    /// Greatest payload of one record, in bytes: what an idle consumer is sure to
    /// make room for.
    #[must_use]
    pub fn max_record_payload(&self) -> u32 {
        self.max_payload
    }

    /// The consumer's pressure hint, as of the last look at its line, which this
    /// end takes when it runs out of lines that it knows to be free.
    #[inline]
    #[must_use]
    pub fn hint(&self) -> u32 {
        self.hint
    }

    /// Room for a record with `len` bytes of payload, or `None` if the ring is full
    /// now. A `len` above [`max_record_payload`](Self::max_record_payload) never
    /// fits.
    ///
    /// Moves no cache line, unless the known free lines are used up.
    #[inline]
    pub fn reserve(&mut self, len: u32) -> Option<Reservation<'_, M>> {
        if len > self.max_payload {
            return None;
        }
        let lines = lines_for(len);
        let to_end = self.shape.lines - self.shape.index(self.write);
        let pad = if lines > to_end { to_end } else { 0 };
        let start = self.write + pad;
        // One more than the record: the line of the terminator.
        let needed = start + lines + 1;
        if needed > self.limit && !self.look_for_credit(needed) {
            return None;
        }
        Some(Reservation {
            payload: self.payload_offset(start),
            start,
            lines,
            len,
            ring: self,
        })
    }

    #[inline(always)]
    fn payload_offset(&self, start: u64) -> usize {
        self.shape.offset(start) + RECORD_HEADER
    }

    /// Looks at the consumer's line; says whether the lines before `needed` are free.
    #[cold]
    #[inline(never)]
    fn look_for_credit(&mut self, needed: u64) -> bool {
        // SAFETY: both words are in line 0 of an area that `Shape::new` checked.
        let (read, hint) = unsafe {
            (
                self.mem.word64_unchecked(READ),
                self.mem.word32_unchecked(HINT),
            )
        };
        // Acquire: pairs with the release store in `LineConsumer::return_credit`
        // (pair *line credit*): what the consumer read, it has read before we
        // write over it.
        let read = read.load(Ordering::Acquire);
        self.hint = hint.load(Ordering::Relaxed);
        // An honest consumer is between its last word and our position. Any other
        // value is ignored: the ring stays full, which harms its owner only.
        let last = self.limit - self.shape.lines;
        if last < read && read <= self.write {
            self.limit = read + self.shape.lines;
        }
        needed <= self.limit
    }
}

/// Room for one record. Dropped without [`publish`](Self::publish), it leaves the
/// ring as it was.
#[derive(Debug)]
#[must_use = "a reservation that is not published sends nothing"]
pub struct Reservation<'a, M> {
    ring: &'a mut LineProducer<M>,
    /// Position of the record, behind the pad if there is one.
    start: u64,
    lines: u64,
    /// Offset of the payload; `len` bytes follow in one piece.
    payload: usize,
    len: u32,
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
        // before its end, and `at + len` within the payload. `reserve` saw these
        // lines free (pair *line credit*), and the consumer looks at none of them
        // before `publish`, except at the header word.
        unsafe {
            self.ring
                .mem
                .write(self.payload + at as usize, from, len as usize)
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
        self.ring.mem.pointer(self.payload)
    }

    /// Publishes the record. `kind` is neither 0 nor [`PAD`].
    ///
    /// # Panics
    ///
    /// If `kind` is one of these.
    #[inline]
    pub fn publish(self, kind: u8, flags: u8, tag: u64) {
        assert!(
            kind != 0 && kind != PAD,
            "kinds 0 and 255 are the ring's own"
        );
        let Self {
            ring,
            start,
            lines,
            len,
            ..
        } = self;
        let (shape, mem) = (ring.shape, &ring.mem);
        let next = start + lines;
        // SAFETY: `Shape::offset` is the offset of a whole line of the area.
        let (behind, tag_word, head) = unsafe {
            (
                mem.word64_unchecked(shape.offset(next)),
                mem.word64_unchecked(shape.offset(start) + 8),
                mem.word64_unchecked(shape.offset(start)),
            )
        };
        // The terminator, before the header: see the module's docs.
        behind.store(0, Ordering::Relaxed);
        tag_word.store(tag, Ordering::Relaxed);
        let word = header(len, kind, flags, start);
        if start == ring.write {
            // Release: pairs with the acquire load in `LineConsumer::peek` (pair
            // *line header*): payload, tag and terminator are there before it.
            head.store(word, Ordering::Release);
        } else {
            // The consumer comes to `head` only through the pad.
            head.store(word, Ordering::Relaxed);
            ring.publish_pad();
        }
        ring.write = next;
        // Off the way of this message: ownership of the line that the next one
        // makes its terminator, unless the consumer still has to read it.
        let ahead = next + PREFETCH_AHEAD;
        if ahead < ring.limit {
            ring.mem.prefetch_write(shape.offset(ahead));
        }
    }
}

impl<M: Memory> LineProducer<M> {
    /// Publishes the pad from `write` to the end of the ring, and with it the
    /// record at line 0.
    #[cold]
    #[inline(never)]
    fn publish_pad(&mut self) {
        let len = self.shape.pad_payload(self.shape.index(self.write));
        // SAFETY: `Shape::offset` is the offset of a whole line of the area.
        let head = unsafe { self.mem.word64_unchecked(self.shape.offset(self.write)) };
        // Release: pairs with the acquire load in `LineConsumer::peek` (pair *line
        // header*), for the pad and for all of the record behind it.
        head.store(header(len, PAD, 0, self.write), Ordering::Release);
    }
}

const _: () = assert!(RECORD_HEADER < LINE);
