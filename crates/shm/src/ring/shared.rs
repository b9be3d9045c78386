//! One ring per receiver, for all senders without a private one.
//!
//! # Memory
//!
//! ```text
//! line 0      head hint: position of the next claim, moved by senders
//! line 1      reserved
//! line 2..    slots of 256 bytes, a power of two of them:
//!             0..8 state, 8..16 tag, 16..24 length 0..32, kind 32..40,
//!             24..256 payload
//! state       lap 0..42, sender 42..62, phase 62..64 (0 free, 1 claimed, 2 ready)
//! ```
//!
//! All zero is the empty ring: every slot is free for lap 0. A position counts
//! slots since the ring began; its slot is `position mod slots`, its lap
//! `position / slots`.
//!
//! # Protocol
//!
//! A slot goes round `free(lap)` -> `claimed(lap, sender)` -> `ready(lap, sender)` ->
//! `free(lap + 1)`. The first step is one compare-and-swap, in which a sender claims
//! the position *and* leaves its name: there is no moment at which a dead sender
//! holds a slot that nobody can attribute. Then the sender moves the head hint on; if
//! it dies before, the next one that finds the slot taken does it. The second step
//! publishes (pair *slot ready*). The third is the consumer's alone, who
//! thus returns the slot (pair *slot free*), and who passes over a claimed slot only
//! when told that its sender is dead, or has not claimed it ([`SharedConsumer::skip_stalled`]). One
//! that is silent is waited for: it may write there whenever it goes on.
//!
//! A position is claimed only after its predecessor, so that a sender's records
//! arrive in the order sent, and the consumer polls one word.
//!
//! A ring that is full shows as a slot of an earlier lap at the head: no count of free
//! slots is shared, and a failed attempt changes nothing.
//!
//! The head hint and the slots can be written by every sender, so a hostile one
//! can delay the others here; private rings are out of its reach. Whatever it
//! writes, all loops are bounded, and the ring heals: a
//! hint that is behind is moved forward past taken slots, one that is too far ahead is
//! moved back (which needs a free slot of an earlier lap at the head, and does
//! not occur among honest senders), one that skips a few slots by
//! [`SharedConsumer::repair_head`], and a corrupt slot is freed by
//! [`SharedConsumer::skip_corrupt`].
//!
//! # Cache lines moved, per record of at most 40 bytes
//!
//! The head's line once if another sender had it, and the slot's line twice: consumer to
//! sender at the claim, and back when the consumer reads. Two
//! locked instructions for the sender, none for the consumer. Each further 64 bytes of
//! payload move one line twice. The consumer's poll of an empty ring is one
//! load and one compare.
//!
//! Slots with laps are those of D. Vyukov's bounded queue; the owner's name in
//! the claim, helping with the head, and skipping are what makes it survive a crash.

use super::{GeometryError, LINE, Memory, check_geometry};

mod consumer;
#[cfg(all(test, not(loom)))]
mod hostile;
#[cfg(all(test, loom))]
mod interleavings;
mod producer;
#[cfg(all(test, not(loom)))]
mod tests;

pub use consumer::{Peek, SharedConsumer};
pub use producer::{Reservation, SharedProducer};

/// Bytes of a slot.
pub const SLOT: usize = 256;

/// Greatest payload of one record, in bytes.
pub const MAX_PAYLOAD: u32 = (SLOT - SLOT_HEADER) as u32;

/// Senders are numbered below this.
pub const MAX_SENDERS: u32 = 1 << SENDER_BITS;

/// Fewest slots of a ring.
pub const MIN_SLOTS: u32 = 2;

/// Most slots of a ring (256 MiB).
pub const MAX_SLOTS: u32 = 1 << 20;

/// Lap in which a ring begins. In the simulator the last one, so that laps wrap.
const FIRST_LAP: u64 = if cfg!(all(limic_sim, not(test))) {
    LAP_MASK
} else {
    0
};

const SLOT_HEADER: usize = 24;
/// Place of the head hint.
const HEAD: usize = 0;
/// Place of the first slot.
const FIRST: usize = 2 * LINE;

const LAP_BITS: u32 = 42;
const SENDER_BITS: u32 = 20;
const LAP_MASK: u64 = (1 << LAP_BITS) - 1;
const SENDER_MASK: u64 = (1 << SENDER_BITS) - 1;

const FREE: u64 = 0;
const CLAIMED: u64 = 1;
const READY: u64 = 2;

/// Kind of a record that was reserved and dropped; the consumer passes over it.
const VOID: u8 = 0;

/// Bytes of memory that a ring of `slots` slots takes.
#[must_use]
pub const fn area_len(slots: u32) -> usize {
    FIRST + slots as usize * SLOT
}

/// State word of a slot.
#[inline(always)]
const fn state(phase: u64, sender: u32, lap: u64) -> u64 {
    (phase << (LAP_BITS + SENDER_BITS)) | ((sender as u64) << LAP_BITS) | (lap & LAP_MASK)
}

#[inline(always)]
const fn phase_of(state: u64) -> u64 {
    state >> (LAP_BITS + SENDER_BITS)
}

#[inline(always)]
const fn sender_of(state: u64) -> u32 {
    ((state >> LAP_BITS) & SENDER_MASK) as u32
}

/// Laps from `lap` to that of `state`; negative if the state is of an earlier one.
/// Laps wrap after 2^42 of them, hence the difference counts.
#[inline(always)]
const fn laps_ahead(state: u64, lap: u64) -> i64 {
    (state.wrapping_sub(lap) << (64 - LAP_BITS)) as i64 >> (64 - LAP_BITS)
}

/// Third word of a slot.
#[inline(always)]
const fn meta(len: u32, kind: u8) -> u64 {
    len as u64 | (kind as u64) << 32
}

/// Shape of one ring, checked against its memory.
///
/// Invariant: `2^log` slots, and the memory has `area_len(2^log)` bytes.
#[derive(Debug, Clone, Copy)]
struct Shape {
    log: u32,
}

impl Shape {
    fn new<M: Memory>(mem: &M, slots: u32) -> Result<Self, GeometryError> {
        check_geometry(
            "number of slots",
            slots,
            MIN_SLOTS..=MAX_SLOTS,
            mem.len(),
            area_len(slots),
        )?;
        Ok(Self {
            log: slots.trailing_zeros(),
        })
    }

    #[inline(always)]
    fn slots(self) -> u64 {
        1 << self.log
    }

    /// Offset of the slot of `position`; a whole slot fits behind it.
    #[inline(always)]
    fn offset(self, position: u64) -> usize {
        FIRST + (position & (self.slots() - 1)) as usize * SLOT
    }

    /// Lap of `position`, not reduced to its 42 bits.
    #[inline(always)]
    fn lap(self, position: u64) -> u64 {
        position >> self.log
    }
}
