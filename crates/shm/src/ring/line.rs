//! Private ring of one sender and one receiver, cut into cache lines.
//!
//! # Memory
//!
//! ```text
//! line 0      the consumer's: byte 0 `read` (u64, lines consumed), byte 8 `hint` (u32)
//! line 1      reserved
//! line 2..    the ring: a power of two of lines
//! ```
//!
//! All zero is the empty ring. A record begins on a line:
//!
//! ```text
//! bytes 0..8    header: payload length 0..32, kind 32..40, flags 40..48,
//!               check 48..64 (low bits of the line's position)
//! bytes 8..16   tag
//! bytes 16..    payload
//! ```
//!
//! so that 48 bytes of payload travel in the header's own line, and a record of
//! `len` bytes takes `ceil((16 + len) / 64)` lines in one piece. One that does not
//! fit before the end of the ring is preceded by a record of kind [`PAD`], which
//! covers the rest.
//!
//! # Protocol
//!
//! Positions count lines since the ring began, and never wrap (64 bits).
//!
//! The producer fills in the record, and publishes it by a release store of its
//! header; the consumer polls the header at its position with acquire, and zero
//! means 'nothing yet' (pair *line header*). For this to work, whatever an earlier
//! lap left at the place of the next header must be gone before the consumer can
//! look there: ahead of the header, the producer zeroes the first word of the line
//! *behind* the record. That line has to be free, so one line always stays unused.
//! A pad needs no such terminator: its header is published last, after the record
//! at line 0 is complete, so that a consumer that sees the pad also sees the record.
//!
//! The consumer returns lines by a release store to `read`, which the producer
//! loads with acquire before it writes over them (pair *line credit*). It does so
//! only once a quarter of the ring has gathered; the producer looks only when the
//! lines that it knows of are used up. Hence a record may take at most 3/8 of the
//! ring ([`LineProducer::max_record_payload`]): with up to a quarter unreturned, that and the
//! longest pad before it always fit, and an idle consumer owes the producer nothing.
//!
//! # Cache lines moved, per record of at most 48 bytes
//!
//! One line from producer to consumer, and that is all on the way of the message:
//! header, tag and payload share it. If the consumer polls meanwhile, the same line has first gone
//! over empty, and the producer's store revokes it (no data moves). Behind the message's
//! back the producer fetches the ownership of the line of the message after the
//! next, one move, hidden by a prefetch. The consumer's line moves twice per
//! lap or less: 2/N for a ring of N lines while the consumer keeps up, and at most
//! 8/N when it does not. Poll of an empty ring: one load and one compare, no move.
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

pub use consumer::{LineConsumer, Record};
pub use producer::{LineProducer, Reservation};

/// Kind of the record that covers the end of the ring; not for users.
pub const PAD: u8 = 255;

/// Payload that travels in the line of the header, in bytes.
pub const INLINE_PAYLOAD: u32 = (LINE - RECORD_HEADER) as u32;

/// Fewest lines of a ring.
pub const MIN_LINES: u32 = 4;

/// Most lines of a ring (1 GiB).
pub const MAX_LINES: u32 = 1 << 24;

/// Bytes of header and tag.
const RECORD_HEADER: usize = 16;
/// Place of the word that counts the lines consumed.
const READ: usize = 0;
/// Place of the consumer's pressure hint.
const HINT: usize = 8;
/// Place of the first line of the ring proper.
const FIRST: usize = 2 * LINE;

/// Bytes of memory that a ring of `lines` lines takes.
#[must_use]
pub const fn area_len(lines: u32) -> usize {
    FIRST + lines as usize * LINE
}

/// Shape of one ring, checked against its memory.
///
/// Invariant: `lines` is a power of two, and the memory has `area_len(lines)` bytes.
#[derive(Debug, Clone, Copy)]
struct Shape {
    lines: u64,
}

impl Shape {
    fn new<M: Memory>(mem: &M, lines: u32) -> Result<Self, GeometryError> {
        check_geometry(
            "number of lines",
            lines,
            MIN_LINES..=MAX_LINES,
            mem.len(),
            area_len(lines),
        )?;
        Ok(Self {
            lines: u64::from(lines),
        })
    }

    /// Index in the ring of the line at `position`; less than `lines`.
    #[inline(always)]
    fn index(self, position: u64) -> u64 {
        position & (self.lines - 1)
    }

    /// Offset of the line at `position`; a whole line fits behind it.
    #[inline(always)]
    fn offset(self, position: u64) -> usize {
        FIRST + self.index(position) as usize * LINE
    }

    /// Lines that the consumer gathers before it returns them.
    #[inline(always)]
    fn credit_batch(self) -> u64 {
        self.lines / 4
    }

    /// Most lines of one record. With `credit_batch() - 1` lines unreturned, a pad
    /// of one line less than this, the record and its terminator still fit.
    #[inline(always)]
    fn max_record_lines(self) -> u64 {
        (self.lines - self.credit_batch()).div_ceil(2)
    }

    /// Greatest payload of one record, in bytes.
    #[inline(always)]
    fn max_payload(self) -> u32 {
        // At most 2^23 lines of 64 bytes: fits.
        (self.max_record_lines() as usize * LINE - RECORD_HEADER) as u32
    }

    /// Payload length that the pad from `index` to the end of the ring states.
    #[inline(always)]
    fn pad_payload(self, index: u64) -> u32 {
        ((self.lines - index) as usize * LINE - RECORD_HEADER) as u32
    }
}

/// Lines that a record with `len` bytes of payload takes.
#[inline(always)]
fn lines_for(len: u32) -> u64 {
    (u64::from(len) + (RECORD_HEADER + LINE - 1) as u64) / LINE as u64
}

/// Header word of a record at `position`.
#[inline(always)]
fn header(len: u32, kind: u8, flags: u8, position: u64) -> u64 {
    u64::from(len) | u64::from(kind) << 32 | u64::from(flags) << 40 | position << 48
}
