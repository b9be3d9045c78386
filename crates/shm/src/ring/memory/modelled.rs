//! Memory as loom sees it: words with a history, bytes with race detection.

use std::sync::Arc;

use loom::cell::UnsafeCell;

use super::{Memory, check_sub};
use crate::ring::LINE;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Bytes of a word.
const WORD: usize = 8;
/// Bytes of a short word.
const HALF: usize = 4;
/// Words per line.
const WORDS: usize = LINE / WORD;

/// One cache line. Bytes and words are kept apart, so that loom checks each with its own rules; a
/// plain write that covers a word changes the word as well, for stale bytes of an earlier lap must
/// be able to look like a header. Races are found by words: a line may hold several records.
#[derive(Debug)]
struct Line {
    words: [AtomicU64; WORDS],
    /// Words of 4 bytes: a line of flags has sixteen, and one of the rings has one.
    halves: [AtomicU32; LINE / HALF],
    bytes: [UnsafeCell<[u8; WORD]>; WORDS],
}

/// A range of modelled lines.
#[derive(Debug, Clone)]
pub(crate) struct Modelled {
    lines: Arc<[Line]>,
    base: usize,
    len: usize,
}

// SAFETY: loom runs its threads one at a time, and reports unordered accesses.
unsafe impl Send for Modelled {}
// SAFETY: as above.
unsafe impl Sync for Modelled {}

impl Modelled {
    /// Zeroed lines for `len` bytes.
    pub(crate) fn new(len: usize) -> Self {
        let lines = (0..len.div_ceil(LINE))
            .map(|_| Line {
                words: std::array::from_fn(|_| AtomicU64::new(0)),
                halves: std::array::from_fn(|_| AtomicU32::new(0)),
                bytes: std::array::from_fn(|_| UnsafeCell::new([0; WORD])),
            })
            .collect();
        Self {
            lines,
            base: 0,
            len,
        }
    }

    /// Splits a range into (line, word in it, first byte in that, bytes).
    fn pieces(
        &self,
        offset: usize,
        len: usize,
    ) -> impl Iterator<Item = (&Line, usize, usize, usize)> {
        assert!(offset + len <= self.len);
        let start = self.base + offset;
        let end = start + len;
        (start / WORD..end.div_ceil(WORD)).map(move |index| {
            let first = start.max(index * WORD);
            let last = end.min((index + 1) * WORD);
            let line = &self.lines[index / WORDS];
            (line, index % WORDS, first - index * WORD, last - first)
        })
    }
}

// SAFETY: the lines live in an `Arc`, and every access is checked.
unsafe impl Memory for Modelled {
    fn len(&self) -> usize {
        self.len
    }

    unsafe fn word64_unchecked(&self, offset: usize) -> &AtomicU64 {
        let at = self.base + offset;
        &self.lines[at / LINE].words[at % LINE / 8]
    }

    unsafe fn word32_unchecked(&self, offset: usize) -> &AtomicU32 {
        let at = self.base + offset;
        &self.lines[at / LINE].halves[at % LINE / HALF]
    }

    unsafe fn write(&self, offset: usize, from: *const u8, len: usize) {
        let mut done = 0;
        for (line, word, first, count) in self.pieces(offset, len) {
            line.bytes[word].with_mut(|bytes| {
                // SAFETY: `from` is valid for `len` bytes (the caller's promise),
                // done + count <= len, first + count <= WORD.
                unsafe {
                    bytes
                        .cast::<u8>()
                        .add(first)
                        .copy_from(from.add(done), count)
                }
            });
            if count == WORD {
                let mut stale = [0; WORD];
                // SAFETY: the word is within the piece just copied.
                unsafe { stale.as_mut_ptr().copy_from(from.add(done), WORD) };
                line.words[word].store(u64::from_ne_bytes(stale), Ordering::Relaxed);
            }
            done += count;
        }
    }

    unsafe fn read(&self, offset: usize, to: *mut u8, len: usize) {
        let mut done = 0;
        for (line, word, first, count) in self.pieces(offset, len) {
            line.bytes[word].with(|bytes| {
                // SAFETY: `to` is valid for `len` bytes (the caller's promise).
                unsafe { to.add(done).copy_from(bytes.cast::<u8>().add(first), count) }
            });
            done += count;
        }
    }

    fn prefetch_read(&self, _offset: usize) {}

    fn prefetch_write(&self, _offset: usize) {}

    fn stores_wait_in_turn(&self) -> bool {
        true
    }

    fn sub(&self, offset: usize, len: usize) -> Self {
        check_sub(self.len, offset, len);
        Self {
            lines: Arc::clone(&self.lines),
            base: self.base + offset,
            len,
        }
    }
}
