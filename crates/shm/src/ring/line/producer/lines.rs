//! The lines of a record: how they are won and written, and how the next ones are got ready.

use super::LineProducer;
use super::cursor::Slot;
use crate::ring::Memory;
use crate::ring::line::{AHEAD_LINES, FEW_LINES, LINE, LINE_WORDS, WORD};
use crate::sync::Ordering;

/// Payloads of up to so many bytes are written line by line: a store across the border of two lines
/// needs both at once, and the consumer may ask for one of them meanwhile (decision 0014).
const BY_LINES: usize = 256;

impl<M: Memory> LineProducer<M> {
    /// Copies `len` bytes of a payload to `offset`.
    ///
    /// # Safety
    ///
    /// These bytes lie in the record at the slot, which is free and not published yet. `from` is
    /// valid for as many outside of the ring.
    #[inline(always)]
    pub(super) unsafe fn write_payload(
        &self,
        slot: &Slot,
        offset: usize,
        from: *const u8,
        len: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            if len > LINE - offset % LINE {
                write_lines(&self.mem, self.ends(slot), offset, from, len);
            } else {
                self.write_line(slot, offset, from, len);
            }
        }
    }

    /// The same of bytes that all lie in one line, or are 64 at most.
    ///
    /// # Safety
    ///
    /// As [`write_payload`](Self::write_payload).
    #[inline(always)]
    pub(super) unsafe fn write_line(
        &self,
        slot: &Slot,
        offset: usize,
        from: *const u8,
        len: usize,
    ) {
        // The line of the header, and the next one if the terminator is still to be stored there.
        if slot.ends_line && !self.is_cleared(slot) {
            slot.ask_for_lines(&self.mem);
        }
        // SAFETY: the caller's promise.
        let copied = unsafe { self.mem.write_short(offset, from, len) };
        debug_assert!(copied, "a line at most");
    }

    /// The same of so many bytes up to the end of a line, and as many behind it as a line has, or
    /// fewer.
    ///
    /// # Safety
    ///
    /// As [`write_payload`](Self::write_payload).
    #[inline(always)]
    pub(super) unsafe fn write_two_lines(
        &self,
        slot: &Slot,
        offset: usize,
        from: *const u8,
        parts: (usize, usize),
    ) {
        // SAFETY: the caller's promise.
        unsafe { write_parts::<_, false>(&self.mem, self.ends(slot), offset, from, parts) }
    }

    #[inline(always)]
    fn ends(&self, slot: &Slot) -> Ends {
        Ends {
            header: slot.offset,
            behind: (!self.is_cleared(slot)).then_some(slot.behind),
            ask: self.stores_wait_in_turn,
        }
    }

    /// Whether the word behind a record in the lap in use is 0 already.
    #[inline(always)]
    fn is_cleared(&self, slot: &Slot) -> bool {
        slot.end == self.cursor.cleared
    }

    /// Stores the terminator, before the header: see the ring's docs.
    #[inline(always)]
    pub(super) fn clear_behind(&self, slot: &Slot) {
        if !self.is_cleared(slot) {
            // SAFETY: `Cursor::slot` and `slot_at_hand` put it into the lap of the record.
            let behind = unsafe { self.mem.word64_unchecked(slot.behind) };
            behind.store(0, Ordering::Relaxed);
        }
    }

    /// Once a record is published that ends its line and takes lines of so many words, off the way
    /// of its message: hands its lines over, and gets ready what the next one like it needs. That
    /// is its terminator, and ownership of lines of later ones, unless the consumer still has to
    /// read them.
    #[inline(always)]
    pub(super) fn prepare_next(&mut self, words: u64) {
        let is_short = words <= FEW_LINES * LINE_WORDS;
        let (mut bytes, mut ahead) = (LINE, AHEAD_LINES * LINE_WORDS);
        if is_short {
            self.clear_behind_next(words);
            ahead = ahead.max(2 * words);
            if self.stores_wait_in_turn && words > LINE_WORDS {
                bytes = words as usize * WORD;
                self.demote_last(bytes);
            }
        }
        if self.cursor.write + ahead + words < self.cursor.limit {
            let first = self.cursor.ahead(ahead);
            for at in (0..bytes).step_by(LINE) {
                self.mem.prefetch_write(first + at);
            }
        }
    }

    /// Stores the terminator of the next record, if it ends so many words on.
    #[inline(always)]
    fn clear_behind_next(&mut self, words: u64) {
        let end = self.cursor.write + words;
        if end < self.bound {
            let offset = self.cursor.lap.first + (self.cursor.index + words) as usize * WORD;
            // SAFETY: before `bound`, so in the lap, and free, as in `slot_at_hand`.
            let word = unsafe { self.mem.word64_unchecked(offset) };
            // The header of the next record orders it.
            word.store(0, Ordering::Relaxed);
            self.cursor.cleared = end;
        }
    }

    /// Lets the consumer find the last so many bytes in the cache that both share. Lines that it
    /// has asked for meanwhile are with it already, or on their way.
    #[inline(always)]
    fn demote_last(&self, bytes: usize) {
        let end = self.cursor.lap.first + self.cursor.index as usize * WORD;
        for at in (0..bytes).step_by(LINE) {
            self.mem.demote(end - bytes + at);
        }
    }
}

/// What is written last of a record. It is all that writing needs of the slot, which so stays in
/// registers.
#[derive(Clone, Copy)]
struct Ends {
    /// Offset of the header.
    header: usize,
    /// Offset of the word behind the record, if it is still to be cleared.
    behind: Option<usize>,
    /// Lines are asked for.
    ask: bool,
}

/// How many of `len` bytes at `offset` lie before the next end of a line, and how many behind it.
#[inline(always)]
pub(super) fn parts(offset: usize, len: usize) -> (usize, usize) {
    let head = len.min(offset.wrapping_neg() % LINE);
    (head, len - head)
}

/// Copies a payload of several lines.
///
/// # Safety
///
/// As [`LineProducer::write_payload`].
#[inline(never)]
unsafe fn write_lines<M: Memory>(mem: &M, ends: Ends, offset: usize, from: *const u8, len: usize) {
    let (head, rest) = parts(offset, len);
    if ends.ask {
        for at in (LINE..rest).step_by(LINE) {
            mem.prefetch_write(offset + head + at);
        }
    }
    // SAFETY: the caller's promise.
    unsafe { write_parts::<_, true>(mem, ends, offset, from, (head, rest)) }
}

/// Copies a payload to the end of a line and behind it, so many bytes each, and to the first line
/// last: the consumer polls that of the header, and would take it back before the header is stored
/// if the stores in between had to wait for their own lines. The word behind the record is cleared
/// in between for the same reason.
///
/// # Safety
///
/// As [`LineProducer::write_payload`].
#[inline(always)]
unsafe fn write_parts<M: Memory, const MANY: bool>(
    mem: &M,
    ends: Ends,
    offset: usize,
    from: *const u8,
    (head, rest): (usize, usize),
) {
    let next = offset + head;
    if ends.ask {
        mem.prefetch_write(next);
        if let Some(behind) = ends.behind {
            mem.prefetch_write(behind);
        }
        mem.prefetch_write(ends.header);
    }
    // SAFETY: the caller's promise, for parts of the same bytes.
    unsafe {
        if MANY && rest > BY_LINES {
            mem.write(next, from.add(head), rest);
        } else if MANY {
            for at in (0..rest).step_by(LINE) {
                let len = LINE.min(rest - at);
                let copied = mem.write_short(next + at, from.add(head + at), len);
                debug_assert!(copied, "a line at most");
            }
        } else {
            let copied = mem.write_short(next, from.add(head), rest);
            debug_assert!(copied, "a line at most");
        }
        // As in `clear_behind`, but before the bytes of the first line.
        if let Some(behind) = ends.behind {
            mem.word64_unchecked(behind).store(0, Ordering::Relaxed);
        }
        let copied = mem.write_short(offset, from, head);
        debug_assert!(copied, "a line at most");
    }
}
