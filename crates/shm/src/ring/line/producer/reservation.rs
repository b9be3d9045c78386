//! Room for one record, filled in and published.

use super::LineProducer;
use super::cursor::{Slot, Step};
use crate::ring::Memory;
use crate::ring::line::{ENDS_LINE, PAD, RECORD_HEADER, SAME_TAG, WORD, header};
use crate::sync::Ordering;

/// Room for one record. Dropped without [`publish`](Self::publish), it leaves the
/// ring as it was.
#[derive(Debug)]
#[must_use = "a reservation that is not published sends nothing"]
pub struct Reservation<'a, M> {
    pub(super) ring: &'a mut LineProducer<M>,
    pub(super) slot: Slot,
    pub(super) len: u32,
    /// Without a tag of its own.
    pub(super) same: bool,
}

impl<M: Memory> Reservation<'_, M> {
    /// Offset of the payload; `len` bytes follow in one piece.
    #[inline(always)]
    fn payload(&self) -> usize {
        self.slot.offset + if self.same { WORD } else { RECORD_HEADER }
    }

    /// Copies `len` bytes to byte `at` of the payload.
    ///
    /// # Safety
    ///
    /// `at + len` is at most the length that was reserved, and `from` is valid for `len` bytes
    /// outside of the ring.
    #[inline(always)]
    pub unsafe fn write(&mut self, at: u32, from: *const u8, len: u32) {
        debug_assert!(u64::from(at) + u64::from(len) <= u64::from(self.len));
        // SAFETY: the payload lies within the ring, since `reserve` put the record
        // before the end of its lap, and `at + len` within the payload. `reserve` saw these
        // words free (pair *word credit*), and the consumer looks at none of them
        // before `publish`, except at the header word.
        unsafe {
            let offset = self.payload() + at as usize;
            self.ring
                .write_payload(&self.slot, offset, from, len as usize);
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

    /// Stores words at the begin of the payload, one by one: what was just computed need not go
    /// through memory first, which it would have to leave in other pieces than it came.
    ///
    /// # Panics
    ///
    /// If they do not fit in the payload.
    #[inline(always)]
    pub fn write_words<const N: usize>(&mut self, words: [u64; N]) {
        assert!(
            N * WORD <= self.len as usize,
            "{N} words do not fit in a payload of {}",
            self.len
        );
        let payload = self.payload();
        for (at, word) in words.into_iter().enumerate() {
            // SAFETY: within the payload by the check above, which lies within the ring as in
            // `write`, and begins at a multiple of 8 as every record does.
            let place = unsafe { self.ring.mem.word64_unchecked(payload + at * WORD) };
            // `publish` orders it.
            place.store(word, Ordering::Relaxed);
        }
    }

    /// Publishes the record. `kind` is neither 0 nor [`PAD`].
    ///
    /// # Panics
    ///
    /// If `kind` is one of these, or the room was reserved for another tag.
    #[inline(always)]
    pub fn publish(self, kind: u8, tag: u64) {
        assert!(
            kind != 0 && kind != PAD,
            "kinds 0 and 255 are the ring's own"
        );
        let Self {
            ring,
            slot,
            len,
            same,
        } = self;
        let mem = &ring.mem;
        // SAFETY: `reserve` and `Cursor::slot` put all of the record, of one word at least, before
        // the end of a lap of the area.
        let head = unsafe { mem.word64_unchecked(slot.offset) };
        ring.clear_behind(&slot);
        let mut word = header(len, kind, slot.start);
        if same {
            assert!(tag == ring.tag, "the room was reserved for another tag");
            word |= SAME_TAG;
        } else {
            // SAFETY: as above; a record with a tag has two words at least.
            let tag_word = unsafe { mem.word64_unchecked(slot.offset + WORD) };
            tag_word.store(tag, Ordering::Relaxed);
            ring.tag = tag;
        }
        if slot.ends_line {
            word |= ENDS_LINE;
        }
        // Release: pairs with the acquire load in `LineConsumer::peek` (pair
        // *record header*): payload, tag and terminator are there before it.
        head.store(word, Ordering::Release);
        if slot.step == Step::On && slot.end < ring.bound {
            ring.published(slot.start, slot.end, slot.ends_line);
        } else {
            ring.publish_way(&slot);
        }
    }
}
