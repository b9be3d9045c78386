//! How much of everything is in a segment, and where it lies. Only arithmetic.
//!
//! The shared part, which peers write:
//!
//! ```text
//! 128   sleep (a line)
//! 4096  probe words, pool flags, loan flags             (each on an even line)
//!       shared ring: control lines, slots                (from here on: pages)
//!       private rings, one after the other
//!       pool
//! ```
//!
//! The owner's part, which only its owner writes:
//!
//! ```text
//! 0     header (one line, read once), then one line each for status and access
//! 384   split copies into this endpoint, split copies out of it, regions
//! ```
//!
//! A private ring has two control lines before its payload lines, so the rings
//! follow each other at a distance of `ring_bytes` + 128: their control lines
//! and their first payload lines fall into different cache sets, and a receiver
//! that polls all of them does not throw its own lines out of L1. The pool needs no
//! such shift: whoever copies a piece of it walks through all of its sets anyway.

use super::GeometryError;
use crate::owner::{region::REGION_BYTES, split::SPLIT_BYTES};
use crate::ring::{LINE, Mapped, PackedFlags, ReleaseFlags, line, shared, wakeup};

/// Release flags for loans in arenas: how many loans can be with receivers at one time.
pub const LOAN_FLAGS: u32 = 256;
/// Bytes of a page of the pool, the unit in which pieces of it are lent: what the shortest chunk
/// has.
pub const STAGING_PAGE: u32 = 4096;
/// A segment, with both of its parts, is smaller than this (1 GiB).
pub const MAX_SEGMENT_BYTES: u64 = 1 << 30;

const PAGE: u64 = 4096;
/// Areas start on even lines, since processors fetch lines in pairs.
const PAIR: u64 = 2 * LINE as u64;

/// In the shared part.
pub(super) const SLEEP_OFFSET: usize = 2 * LINE;
/// In the owner's part, as those that follow.
pub(super) const STATUS_OFFSET: usize = 2 * LINE;
pub(super) const ACCESS_OFFSET: usize = 4 * LINE;
const SPLIT_OFFSET: u64 = 6 * LINE as u64;

/// How much of everything a segment has. Plain numbers; [`Geometry::new`] checks
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Slots of the shared ring, each [`SLOT`](shared::SLOT) bytes: a power of two, 8 to 65536.
    pub shared_slots: u32,
    /// Private rings: 0 to 1024.
    pub private_rings: u32,
    /// Payload bytes of each private ring: a power of two, 4 KiB to 16 MiB.
    pub ring_bytes: u32,
    /// Chunks of the pool: 0 to 4096.
    pub staging_buffers: u32,
    /// Bytes of each chunk: a power of two, 4 KiB to 16 MiB.
    pub staging_buffer_bytes: u32,
    /// Entries of the region table, each [`REGION_BYTES`] long: 0 to 65536.
    pub regions: u32,
    /// Split copies in each direction at one time, each [`SPLIT_BYTES`] long: 0 to 4096.
    pub split_copies: u32,
    /// Words through which the latency of a line is probed, each on a line of its own: 0 to 4096.
    pub probe_words: u32,
}

impl Shape {
    /// About 4.7 MiB: for jobs with up to some tens of ranks on a node.
    pub const DEFAULT: Self = Self {
        shared_slots: 1024,
        private_rings: 16,
        ring_bytes: 64 << 10,
        // Two MiB that go round: twice the second-level cache of many cores, which what comes round
        // again has left by then. And two thirds of that for what goes to and fro.
        staging_buffers: 108,
        staging_buffer_bytes: 32 << 10,
        regions: 64,
        split_copies: 16,
        probe_words: 16,
    };

    /// Pages of the pool, each of [`STAGING_PAGE`] bytes and with a release flag.
    #[must_use]
    pub const fn staging_pages(&self) -> u32 {
        // Of a checked shape: less than 1 GiB in all.
        self.staging_buffers
            .saturating_mul(self.staging_buffer_bytes / STAGING_PAGE)
    }

    /// The fields in the order of the header.
    pub(super) const fn to_array(self) -> [u32; 8] {
        [
            self.shared_slots,
            self.private_rings,
            self.ring_bytes,
            self.staging_buffers,
            self.staging_buffer_bytes,
            self.regions,
            self.split_copies,
            self.probe_words,
        ]
    }

    pub(super) const fn from_array(fields: [u32; 8]) -> Self {
        let [
            shared_slots,
            private_rings,
            ring_bytes,
            staging_buffers,
            staging_buffer_bytes,
            regions,
            split_copies,
            probe_words,
        ] = fields;
        Self {
            shared_slots,
            private_rings,
            ring_bytes,
            staging_buffers,
            staging_buffer_bytes,
            regions,
            split_copies,
            probe_words,
        }
    }
}

impl Default for Shape {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A range of bytes in one part of the segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Area {
    pub(super) offset: usize,
    pub(super) len: usize,
}

/// A checked [`Shape`] and the place of each area. All areas lie within their part, start on even
/// cache lines, and do not overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Geometry {
    shape: Shape,
    probe_word: Area,
    staging_flags: Area,
    loan_flags: Area,
    shared_ring: Area,
    private_rings: Area,
    staging: Area,
    shared_bytes: usize,
    split_in: Area,
    split_out: Area,
    regions: Area,
    owner_bytes: usize,
}

impl Geometry {
    /// [`Shape::DEFAULT`], checked at compile time.
    pub const DEFAULT: Self = match Self::new(Shape::DEFAULT) {
        Ok(geometry) => geometry,
        Err(_) => panic!("the default shape is valid"),
    };

    /// Checks `shape` and places its areas.
    ///
    /// # Errors
    ///
    /// [`GeometryError`] with the first number that is out of bounds, or with
    /// the total if that reaches [`MAX_SEGMENT_BYTES`].
    pub const fn new(shape: Shape) -> Result<Self, GeometryError> {
        if let Some(error) = out_of_bounds(&shape) {
            return Err(error);
        }
        // Each number is bounded now: no product reaches 2^40, and the sums are
        // far from overflow.
        let mut end = PAGE;
        let probe_word = place(&mut end, PAIR, shape.probe_words as u64 * LINE as u64);
        let flags = ReleaseFlags::<Mapped>::area_len(shape.staging_pages()) as u64;
        let staging_flags = place(&mut end, PAIR, flags);
        let loans = PackedFlags::<Mapped>::area_len(LOAN_FLAGS) as u64;
        let loan_flags = place(&mut end, PAIR, loans);
        let shared = shared::area_len(shape.shared_slots) as u64;
        let shared_ring = place(&mut end, PAGE, shared);
        let stride = line::area_len(shape.ring_bytes / LINE as u32) as u64;
        let private_rings = place(&mut end, PAGE, shape.private_rings as u64 * stride);
        let staging = place(
            &mut end,
            PAGE,
            shape.staging_buffers as u64 * shape.staging_buffer_bytes as u64,
        );
        let shared_bytes = align_up(end, PAGE);
        let mut end = SPLIT_OFFSET;
        let split = shape.split_copies as u64 * SPLIT_BYTES as u64;
        let split_in = place(&mut end, PAIR, split);
        let split_out = place(&mut end, PAIR, split);
        let regions = place(&mut end, PAIR, shape.regions as u64 * REGION_BYTES as u64);
        let owner_bytes = align_up(end, PAGE);
        let total = shared_bytes + owner_bytes;
        if total >= MAX_SEGMENT_BYTES {
            return Err(GeometryError {
                field: "the sum of all areas",
                given: total,
                rule: "less than 1 GiB (fewer or smaller private rings and chunks)",
            });
        }
        Ok(Self {
            shape,
            probe_word,
            staging_flags,
            loan_flags,
            shared_ring,
            private_rings,
            staging,
            // Below 1 GiB: fits into usize on every platform.
            shared_bytes: shared_bytes as usize,
            split_in,
            split_out,
            regions,
            owner_bytes: owner_bytes as usize,
        })
    }

    /// The numbers.
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Bytes of the whole segment, a multiple of 4096 below [`MAX_SEGMENT_BYTES`].
    pub const fn bytes(&self) -> usize {
        self.shared_bytes + self.owner_bytes
    }

    /// Bytes of the part that peers write, a multiple of 4096.
    pub const fn shared_bytes(&self) -> usize {
        self.shared_bytes
    }

    /// Bytes of the part that only its owner writes, a multiple of 4096.
    pub const fn owner_bytes(&self) -> usize {
        self.owner_bytes
    }

    pub(super) const fn probe_word(&self, index: u32) -> Option<Area> {
        part(self.probe_word, index, self.shape.probe_words, LINE)
    }

    pub(super) const fn staging_flags(&self) -> Area {
        self.staging_flags
    }

    pub(super) const fn loan_flags(&self) -> Area {
        self.loan_flags
    }

    pub(super) const fn regions(&self) -> Area {
        self.regions
    }

    pub(super) const fn split_in(&self) -> Area {
        self.split_in
    }

    pub(super) const fn split_out(&self) -> Area {
        self.split_out
    }

    pub(super) const fn shared_ring(&self) -> Area {
        self.shared_ring
    }

    pub(super) const fn private_ring(&self, index: u32) -> Option<Area> {
        let stride = line::area_len(self.shape.ring_bytes / LINE as u32);
        part(self.private_rings, index, self.shape.private_rings, stride)
    }

    pub(super) const fn staging(&self) -> Area {
        self.staging
    }
}

impl Default for Geometry {
    fn default() -> Self {
        Self::DEFAULT
    }
}

const fn align_up(value: u64, to: u64) -> u64 {
    value.div_ceil(to) * to
}

/// Puts an area of `len` bytes behind `end`, which it moves.
const fn place(end: &mut u64, align: u64, len: u64) -> Area {
    let offset = align_up(*end, align);
    *end = offset + len;
    // If these do not fit, the total is refused before anybody uses them.
    Area {
        offset: offset as usize,
        len: len as usize,
    }
}

const fn part(whole: Area, index: u32, count: u32, stride: usize) -> Option<Area> {
    if index >= count {
        return None;
    }
    Some(Area {
        offset: whole.offset + index as usize * stride,
        len: stride,
    })
}

const fn out_of_bounds(shape: &Shape) -> Option<GeometryError> {
    const fn check(
        field: &'static str,
        given: u32,
        ok: bool,
        rule: &'static str,
    ) -> Option<GeometryError> {
        if ok {
            None
        } else {
            Some(GeometryError {
                field,
                given: given as u64,
                rule,
            })
        }
    }
    const fn power(value: u32, least: u32, most: u32) -> bool {
        value.is_power_of_two() && value >= least && value <= most
    }
    const BLOCK: &str = "a power of two from 4096 to 16777216";
    let s = shape;
    let checks = [
        check(
            "shared_slots",
            s.shared_slots,
            power(s.shared_slots, 8, 1 << 16),
            "a power of two from 8 to 65536",
        ),
        check(
            "private_rings",
            s.private_rings,
            s.private_rings <= 1024,
            "at most 1024",
        ),
        check(
            "ring_bytes",
            s.ring_bytes,
            power(s.ring_bytes, 4096, 1 << 24),
            BLOCK,
        ),
        check(
            "staging_buffers",
            s.staging_buffers,
            s.staging_buffers <= 4096,
            "at most 4096",
        ),
        check(
            "staging_buffer_bytes",
            s.staging_buffer_bytes,
            power(s.staging_buffer_bytes, 4096, 1 << 24),
            BLOCK,
        ),
        check("regions", s.regions, s.regions <= 65536, "at most 65536"),
        check(
            "split_copies",
            s.split_copies,
            s.split_copies <= 4096,
            "at most 4096",
        ),
        check(
            "probe_words",
            s.probe_words,
            s.probe_words <= 4096,
            "at most 4096",
        ),
    ];
    let mut index = 0;
    while index < checks.len() {
        if checks[index].is_some() {
            return checks[index];
        }
        index += 1;
    }
    None
}

const _: () = {
    assert!(shared::SLOT % LINE == 0 && REGION_BYTES % LINE == 0);
    // The least and the most that `out_of_bounds` lets through suit the rings.
    assert!(8 >= shared::MIN_SLOTS && 1 << 16 <= shared::MAX_SLOTS);
    assert!(4096 / LINE as u32 >= line::MIN_LINES && (1 << 24) / LINE as u32 <= line::MAX_LINES);
    assert!(SPLIT_BYTES % LINE == 0);
    assert!(wakeup::AREA_LEN <= LINE && SLEEP_OFFSET + LINE <= PAGE as usize);
    assert!(super::header::HEADER_BYTES <= STATUS_OFFSET && STATUS_OFFSET + LINE <= ACCESS_OFFSET);
    assert!(ACCESS_OFFSET + LINE <= SPLIT_OFFSET as usize);
    assert!(Geometry::DEFAULT.bytes() < 5 << 20);
};

#[cfg(test)]
#[cfg(not(miri))]
mod tests;
