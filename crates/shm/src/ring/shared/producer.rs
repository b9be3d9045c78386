//! A sender's end of a shared ring.

use super::{
    CLAIMED, FREE, GeometryError, HEAD, MAX_PAYLOAD, MAX_SENDERS, Memory, READY, SLOT_HEADER,
    Shape, VOID, laps_ahead, meta, phase_of, sender_of, state,
};
use crate::sync::{AtomicU64, Ordering};

/// A sender's end.
#[derive(Debug)]
pub struct SharedProducer<M> {
    mem: M,
    shape: Shape,
    sender: u32,
    /// The last attempt found the ring full: look before the next one takes the
    /// slot's line away from the consumer.
    was_full: bool,
}

impl<M: Memory> SharedProducer<M> {
    /// The end of sender number `sender_id` of a ring of `slots` slots. Two living
    /// senders never have the same number; that of a dead one may be given
    /// again once the consumer has passed all its slots.
    ///
    /// # Errors
    ///
    /// If `slots` is not a power of two from 2 to 2^20, or does not fit in `mem`, or
    /// `sender_id` is not below [`MAX_SENDERS`].
    pub fn new(mem: M, slots: u32, sender_id: u32) -> Result<Self, GeometryError> {
        let shape = Shape::new(&mem, slots)?;
        if sender_id >= MAX_SENDERS {
            return Err(GeometryError::Sender {
                given: sender_id,
                limit: MAX_SENDERS,
            });
        }
        Ok(Self {
            mem,
            shape,
            sender: sender_id,
            was_full: false,
        })
    }

    /// Whether [`reserve`](Self::reserve) would find a free slot now, as far as one look tells;
    /// nothing is claimed. For callers that prepare something before they send: a reservation that
    /// is dropped is a record that all others see.
    #[must_use]
    pub fn has_room(&self) -> bool {
        // Relaxed: nothing of the slot is read or written.
        let position = self.head().load(Ordering::Relaxed);
        let word = self.slot(position).load(Ordering::Relaxed);
        // Taken a lap ago: full. Taken in this one: the hint is stale, and `reserve` looks further.
        phase_of(word) == FREE || laps_ahead(word, self.shape.lap(position)) >= 0
    }

    /// Claims a slot for a record with `len` bytes of payload. `None` if the ring
    /// is full now, or so contended that the bounded number of attempts did not do; a `len` above
    /// [`MAX_PAYLOAD`] never fits.
    ///
    /// From here until it is published or dropped, the reservation holds up the
    /// records of all other senders behind it: copy, and publish.
    #[inline]
    pub fn reserve(&mut self, len: u32) -> Option<Reservation<'_, M>> {
        if len > MAX_PAYLOAD {
            return None;
        }
        // Acquire: pairs with the release half of the exchange in `advance` (pair
        // *head hint*): all slots before the hint show as claimed.
        let position = self.head().load(Ordering::Acquire);
        let claimed = if !self.was_full && self.claim(position).is_ok() {
            Some(position)
        } else {
            self.search(position)
        };
        self.was_full = claimed.is_none();
        let position = claimed?;
        self.advance(position, position.wrapping_add(1));
        Some(Reservation {
            offset: self.shape.offset(position),
            ready: state(READY, self.sender, self.shape.lap(position)),
            len,
            ring: self,
        })
    }

    #[inline(always)]
    fn head(&self) -> &AtomicU64 {
        // SAFETY: in line 0 of an area that `Shape::new` checked.
        unsafe { self.mem.word64_unchecked(HEAD) }
    }

    #[inline(always)]
    fn slot(&self, position: u64) -> &AtomicU64 {
        // SAFETY: `Shape::offset` is the offset of a whole slot of the area.
        unsafe { self.mem.word64_unchecked(self.shape.offset(position)) }
    }

    /// Claims `position`, or says what its slot holds instead.
    #[inline(always)]
    fn claim(&self, position: u64) -> Result<u64, u64> {
        let lap = self.shape.lap(position);
        // Acquire: pairs with the release store in `SharedConsumer::free` (pair
        // *slot free*): the consumer has read the slot before we write over it.
        self.slot(position).compare_exchange(
            state(FREE, 0, lap),
            state(CLAIMED, self.sender, lap),
            Ordering::Acquire,
            Ordering::Acquire,
        )
    }

    /// Moves the head hint from `from` to `to`; says where it is now.
    #[inline(always)]
    fn advance(&self, from: u64, to: u64) -> u64 {
        // Release: what we saw claimed shows to whoever loads the hint (pair *head
        // hint*, with `reserve`). Failure: another sender did it, or went on.
        match self
            .head()
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => to,
            Err(now) => now,
        }
    }

    /// Finds the slot to claim when the hint was stale, or the ring is full.
    #[cold]
    #[inline(never)]
    fn search(&self, hint: u64) -> Option<u64> {
        let slots = self.shape.slots();
        let mut position = hint;
        // Honest senders get here by at most a few steps; the bound is for a ring
        // that a hostile one keeps changing, and covers one way round to heal.
        for _ in 0..2 * slots + 8 {
            // Relaxed: only to decide whether to try, or which way to go.
            let mut word = self.slot(position).load(Ordering::Relaxed);
            let lap = self.shape.lap(position);
            if word == state(FREE, 0, lap) {
                match self.claim(position) {
                    Ok(_) => return Some(position),
                    Err(now) => word = now,
                }
            }
            let ahead = laps_ahead(word, lap);
            let phase = phase_of(word);
            let taken = phase == CLAIMED || phase == READY;
            if !taken && (phase != FREE || sender_of(word) != 0) {
                // Corrupt; the consumer frees it when it gets there.
                return None;
            }
            if taken && ahead == -1 {
                return None; // Full.
            }
            // `word` proves that this position and all before it were claimed, if
            // it is taken; if it is free, that the one a lap earlier was.
            let proven = position.wrapping_add_signed(ahead << self.shape.log);
            let next = if taken {
                proven.wrapping_add(1)
            } else {
                proven.wrapping_sub(slots).wrapping_add(1)
            };
            position = self.advance(position, next);
        }
        None
    }
}

/// A claimed slot. Dropped without [`publish`](Self::publish), it becomes a record
/// that the consumer passes over.
///
/// It must not be leaked: the slot would stay claimed for as long as this process
/// lives, and the ring with it.
#[derive(Debug)]
#[must_use = "a reservation that is not published sends nothing"]
pub struct Reservation<'a, M: Memory> {
    ring: &'a SharedProducer<M>,
    /// Offset of the slot.
    offset: usize,
    /// State word to publish.
    ready: u64,
    len: u32,
}

impl<M: Memory> Reservation<'_, M> {
    /// Copies `len` bytes to byte `at` of the payload.
    ///
    /// # Safety
    ///
    /// `at + len` is at most the length that was reserved, and `from` is valid for `len` bytes
    /// outside of the ring.
    #[inline(always)]
    pub unsafe fn write(&mut self, at: u32, from: *const u8, len: u32) {
        debug_assert!(u64::from(at) + u64::from(len) <= u64::from(self.len));
        // SAFETY: `reserve` saw that `self.len` bytes fit in the slot; the slot is
        // ours from the claim on (pair *slot free*) until it is published.
        unsafe {
            self.ring
                .mem
                .write(self.offset + SLOT_HEADER + at as usize, from, len as usize);
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

    /// Publishes the record. `kind` is not 0.
    ///
    /// # Panics
    ///
    /// If it is.
    #[inline]
    pub fn publish(self, kind: u8, tag: u64) {
        assert!(kind != VOID, "kind 0 is the ring's own");
        self.finish(meta(self.len, kind), tag);
        core::mem::forget(self);
    }

    #[inline(always)]
    fn finish(&self, meta: u64, tag: u64) {
        let mem = &self.ring.mem;
        // SAFETY: `offset` is that of a whole slot of the area.
        let (state, tag_word, meta_word) = unsafe {
            (
                mem.word64_unchecked(self.offset),
                mem.word64_unchecked(self.offset + 8),
                mem.word64_unchecked(self.offset + 16),
            )
        };
        tag_word.store(tag, Ordering::Relaxed);
        meta_word.store(meta, Ordering::Relaxed);
        // Release: pairs with the acquire load in `SharedConsumer::peek` (pair
        // *slot ready*): payload, tag and meta are there before it.
        state.store(self.ready, Ordering::Release);
    }
}

impl<M: Memory> Drop for Reservation<'_, M> {
    fn drop(&mut self) {
        self.finish(meta(0, VOID), 0);
    }
}

#[cfg(all(test, loom))]
impl<M: Memory> SharedProducer<M> {
    /// Claims the slot at the head hint, and does nothing more, as one that dies at
    /// once. Says whether the claim succeeded.
    pub(super) fn claim_only(&mut self) -> bool {
        self.claim(self.head().load(Ordering::Acquire)).is_ok()
    }
}
