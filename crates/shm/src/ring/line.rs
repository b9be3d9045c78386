//! Private ring of one sender and one receiver: records of words, shared out by cache lines.
//!
//! # Memory
//!
//! ```text
//! line 0      the consumer's: byte 0 `read` (u64, words consumed of the hot lap), byte 16 `read`
//!             of the cold lap
//! line 1      the consumer's: byte 0 of it is the receipt
//! line 2..    the hot lap: 128 lines, of eight words each
//! line 130..  the cold lap: all other lines. A ring of at most 256 lines has the hot lap only.
//! ```
//!
//! All zero is the empty ring. A record begins on a word:
//!
//! ```text
//! bytes 0..8    header: payload length 0..30, [`SAME_TAG`] 30, [`ENDS_LINE`] 31, kind 32..40,
//!               check 48..64 (low bits of the word's position)
//! bytes 8..16   tag; absent if it is that of the record before
//! bytes ..      payload
//! ```
//!
//! Streams mostly repeat their tag. A record that repeats it goes without, if it is short:
//! [`SAME_TAG`].
//!
//! The next record begins on the word behind it, or, if the header says [`ENDS_LINE`], on the next
//! line. The producer says so unless another record of the same length fits in the rest of the
//! line. So records of up to 16 bytes of payload share lines (two of them, four of empty ones; with
//! the tag of the one before: four of up to 8 bytes, eight of empty ones, two of up to 24 bytes),
//! and all others begin on a line unless one of those stands before them; up to 48 bytes of payload
//! (56 with the tag of the one before) then travel in the header's own line.
//!
//! A record lies in one piece. One that does not fit before the end of its lap is preceded by a
//! record of kind [`PAD`], which covers the rest. A pad of length 0 is a *jump*: the next record is
//! in the other lap, where the last one there ended.
//!
//! # Two laps
//!
//! A line that has left both cores' first-level caches takes about twice as long to move. So while
//! the consumer keeps up, all records go round the hot lap, which stays in these caches. If it has
//! no room, or the record is too long for it, the producer jumps to the cold lap; and back, once
//! the consumer has read all of the hot lap. A burst so has all of the ring, whatever came before.
//!
//! # Protocol
//!
//! Positions count the words of one lap since the ring began, and never wrap (64 bits).
//!
//! The producer fills in the record, and publishes it by a release store of its header; the
//! consumer polls the header at its position with acquire, and zero means 'nothing yet' (pair
//! *record header*). For this to work, whatever an earlier lap left at the place of the next header
//! must be gone before the consumer can look there: ahead of the header, the producer zeroes the
//! word *behind* the record. That word has to be free, so one word always stays unused. A pad needs
//! no such terminator: its header is published last, after the record that it leads to is complete,
//! so that a consumer that sees the pad also sees the record. A jump stands in the place of a
//! terminator, so there is always room for it.
//!
//! The word behind a record that ends its line lies on another line, and a store there would hold
//! up that of the header. So once such a record of at most [`FEW_LINES`] is published, the producer
//! zeroes the word behind the next one of as many, if that is free and in the lap. The record that
//! ends there needs no terminator any more.
//!
//! The consumer returns words by a release store to `read`, which the producer loads with acquire
//! before it writes over them (pair *word credit*). It does so only once [`CREDIT_LINES`] lines
//! have gathered, or a quarter of a small lap, and when it leaves a lap; the producer looks only
//! when the words that it knows of are used up, or to see whether it can leave the cold lap. A
//! record takes less than half of a lap ([`LineProducer::max_record_payload`]): with so much
//! unreturned, it and the longest pad before it always fit, and an idle consumer owes the producer
//! nothing.
//!
//! # Receipt
//!
//! A word by which the consumer says what it has done with the records, in numbers that both ends
//! agree on above. It takes the place of records the other way. The producer looks at it when it
//! likes, and what the consumer did before it gave the receipt has happened then (pair *receipt*).
//! A later receipt replaces one that was not seen.
//!
//! # Many small records in one line
//!
//! Each record is published at once, so that none waits for a later call of its sender. That
//! several share a line pays where several are outstanding: what is appended to a line before the
//! consumer comes to it travels with the line, and while a line is with the consumer, the stores of
//! further records wait for it together and leave together. A consumer that reads each record as it
//! comes sees the line move once per record, as it would if each had a line of its own.
//!
//! # Cache lines moved, per record of at most 48 bytes
//!
//! One line from producer to consumer, or a part of one, and that is all on the way of the message:
//! header, tag and payload share it. If the consumer polls meanwhile, the same line has first gone
//! over empty, and the producer's store revokes it (no data moves). Behind the message's back the
//! producer fetches the ownership of the line that is [`AHEAD_LINES`] further on, one move, hidden
//! by a prefetch, and stores the terminator of the next record. A consumer asks for the line behind
//! the next one whenever it comes to a line's end, but not over the end of the lap. The consumer's
//! line moves twice per hot lap or less while the consumer keeps up, and at most twice per
//! [`CREDIT_LINES`] lines when it does not. Poll of an empty ring: one load and two compares, and
//! no move if the last record had one line.
//!
//! # And of longer ones
//!
//! `ceil((16 + n) / 64)` lines of `n` bytes, all on their way at once. The header's line must not
//! go over twice: the consumer polls it, and takes it back as soon as the producer's first store to
//! it is done. So the producer fills in all other lines, and the terminator, before it. It asks for
//! all of them, and for that of the header, right before it stores a payload, unless the processor
//! fetches them together by itself. Once a record of at most [`FEW_LINES`] is published, it asks
//! for those of a later one too, and hands its lines over to the cache that both share, if the
//! processor can do that. A consumer that finds nothing asks for as many lines as the last record
//! had, at most four, so that all come at once. If it asked for more, it would take them from the
//! producer of a shorter record. A consumer asks for its own line before it copies the payload, so
//! that the store that returns the words does not hold up its answer.
//! docs/decisions/0014 has the figures.
//!
//! The shape is that of FastForward (Giacomoni, Moseley and Vachharajani,
//! PPoPP 2008), where the slot itself says whether it is full, with records
//! of variable length and lazily returned credit.

use super::{GeometryError, LINE, Memory, check_geometry};

mod consumer;
#[cfg(all(test, not(loom)))]
mod hostile;
#[cfg(all(test, loom))]
mod interleavings;
mod producer;
#[cfg(all(test, not(loom)))]
mod tests;

pub use consumer::LineConsumer;
pub use producer::{LineProducer, Reservation};

/// Kind of the record that covers the end of a lap, or leads to the other one; not for users.
pub const PAD: u8 = 255;

/// Bit of a header: the next record begins on the next line.
pub const ENDS_LINE: u64 = 1 << 31;

/// Bit of a header: the record has no tag of its own, but that of the record before it. Before the
/// first one, that is 0.
pub const SAME_TAG: u64 = 1 << 30;

/// Greatest payload of a record without a tag of its own, in bytes, and of one that is published in
/// one step: that of two lines with a tag, which even the smallest ring takes. Longer ones would
/// gain nothing.
pub const MOST_SAME_TAG: u32 = (2 * LINE - RECORD_HEADER) as u32;

/// Most lines of a record after which the producer gets ready what the next one like it needs. For
/// longer ones that takes longer than it saves (decision 0014).
const FEW_LINES: u64 = 4;

/// Lines ahead of the current one whose ownership the producer asks for before it needs them, or
/// twice those of a record, if that is more. Between two caches that do not share the next level, a
/// line takes as long as several short messages.
const AHEAD_LINES: u64 = 4;

/// Payload that travels in the line of the header, in bytes.
pub const INLINE_PAYLOAD: u32 = (LINE - RECORD_HEADER) as u32;

/// Fewest lines of a ring.
pub const MIN_LINES: u32 = 4;

/// Most lines of a ring (1 GiB).
pub const MAX_LINES: u32 = 1 << 24;

/// Lines of the hot lap: 8 KiB, a quarter of the smallest first-level data cache that is common.
pub const HOT_LINES: u64 = 128;

/// Most lines that a consumer gathers before it returns them.
pub const CREDIT_LINES: u64 = 32;

/// Fewest lines of a lap in which records share lines: in a smaller one, a record that does not
/// begin on a line could not be long enough.
const PACKED_FROM: u64 = 8;

/// Bytes of a word, the unit of positions.
const WORD: usize = 8;
/// Words of a line.
const LINE_WORDS: u64 = (LINE / WORD) as u64;
/// Bytes of header and tag.
const RECORD_HEADER: usize = 16;
/// Places of the words that count the words consumed of the hot and the cold lap.
const READ: [usize; 2] = [0, 16];
/// Place of the receipt.
const RECEIPT: usize = LINE;
/// Place of the first line of the ring proper.
const FIRST: usize = 2 * LINE;

/// Bytes of memory that a ring of `lines` lines takes.
#[must_use]
pub const fn area_len(lines: u32) -> usize {
    FIRST + lines as usize * LINE
}

/// Position in whose lap a ring begins. In the simulator the last one of 32 bits, so that what is
/// short of 64 bits wraps.
const FIRST_POSITION: u64 = if cfg!(all(limic_sim, not(test))) {
    u32::MAX as u64
} else {
    0
};

/// One of the laps: a ring of its own.
#[derive(Debug, Clone, Copy)]
struct Lap {
    /// 0: hot, 1: cold.
    number: usize,
    /// Offset of its first word.
    first: usize,
    /// Words; a multiple of those of a line.
    words: u64,
}

impl Lap {
    /// Position of its first word when the ring is new.
    fn first_position(self) -> u64 {
        FIRST_POSITION / self.words.max(1) * self.words
    }

    /// Words that the consumer gathers before it returns them.
    fn credit_batch(self) -> u64 {
        (self.words / 4).min(CREDIT_LINES * LINE_WORDS)
    }

    /// Whether short records share lines.
    fn packed(self) -> bool {
        self.words >= PACKED_FROM * LINE_WORDS
    }

    /// Greatest payload of one record, in bytes.
    ///
    /// With all but one of `credit_batch()` words unreturned, a pad of one word less than the
    /// record, the record and its terminator still fit. In a packed lap the record may begin on any
    /// word of a line, and then takes up to seven words more.
    fn max_payload(self) -> u32 {
        let most = (self.words - self.credit_batch()).div_ceil(2);
        let lines = if self.packed() {
            (most + 1) / LINE_WORDS - 1
        } else {
            most.div_ceil(LINE_WORDS)
        };
        // Less than 2^23 lines of 64 bytes: fits.
        (lines as usize * LINE - RECORD_HEADER) as u32
    }
}

/// Shape of one ring, checked against its memory.
///
/// Invariant: each lap lies within the memory, and its number of words is a multiple of
/// [`LINE_WORDS`], above 0.
#[derive(Debug, Clone, Copy)]
struct Shape {
    hot: Lap,
    /// Of no words if there is none.
    cold: Lap,
}

impl Shape {
    fn new<M: Memory>(mem: &M, lines: u32) -> Result<Self, GeometryError> {
        let all = u64::from(lines);
        let hot = if all > 2 * HOT_LINES { HOT_LINES } else { all };
        Self::with_hot(mem, lines, hot)
    }

    /// With a hot lap of so many lines, at most all.
    fn with_hot<M: Memory>(mem: &M, lines: u32, hot: u64) -> Result<Self, GeometryError> {
        check_geometry(
            "number of lines",
            lines,
            MIN_LINES..=MAX_LINES,
            mem.len(),
            area_len(lines),
        )?;
        Ok(Self {
            hot: Lap {
                number: 0,
                first: FIRST,
                words: hot * LINE_WORDS,
            },
            cold: Lap {
                number: 1,
                first: FIRST + hot as usize * LINE,
                words: (u64::from(lines) - hot) * LINE_WORDS,
            },
        })
    }

    /// Greatest payload of one record in either lap, in bytes.
    fn max_payload(self) -> u32 {
        match self.cold.words {
            0 => self.hot.max_payload(),
            _ => self.cold.max_payload().max(self.hot.max_payload()),
        }
    }
}

/// Words that a record with `len` bytes of payload fills.
#[inline(always)]
fn words_for(len: u32) -> u64 {
    (u64::from(len) + (RECORD_HEADER + WORD - 1) as u64) / WORD as u64
}

/// Words from `position` to the end of its line; none if a line begins there.
#[inline(always)]
fn rest_of_line(position: u64) -> u64 {
    position.wrapping_neg() & (LINE_WORDS - 1)
}

/// Header word of a record at `position`. `len` may carry [`ENDS_LINE`].
#[inline(always)]
fn header(len: u32, kind: u8, position: u64) -> u64 {
    u64::from(len) | u64::from(kind) << 32 | position << 48
}
