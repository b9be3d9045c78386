//! The receiver's end of a shared ring.

use super::{
    CLAIMED, FIRST_LAP, FREE, GeometryError, HEAD, MAX_PAYLOAD, Memory, READY, SLOT_HEADER, Shape,
    VOID, laps_ahead, phase_of, sender_of, state,
};
use crate::ring::{Corrupt, Record};
use crate::sync::{AtomicU64, Ordering};

/// What the ring shows at the consumer's position.
#[derive(Debug)]
pub enum Peek<'a, M> {
    /// Nothing.
    Empty,
    /// The oldest record, and the number of its sender. A hostile sender can use the number of
    /// another one.
    Ready(u32, Record<'a, M>),
    /// The next record is claimed and not published: its sender is at work on it,
    /// or has died. In the latter case, call [`SharedConsumer::skip_stalled`].
    Stalled {
        /// Number that the claim carries. A number that belongs to nobody means a
        /// hostile sender; it counts as dead.
        sender: u32,
    },
}

/// The receiver's end. The only one that frees slots.
#[derive(Debug)]
pub struct SharedConsumer<M> {
    mem: M,
    shape: Shape,
    /// Position of the next record.
    position: u64,
    /// What its slot holds while nobody has claimed it.
    free: u64,
    /// Whether `peek` has shown a record at `position`.
    peeked: bool,
}

/// Where the consumer stands after void records.
enum Passed {
    /// At a record with these state and third words, both checked.
    Record((u64, u64)),
    /// At a free slot, or at the end of its patience.
    Empty,
    /// At a claim of this sender.
    Stalled(u32),
}

impl<M: Memory> SharedConsumer<M> {
    /// The receiver's end of a new (zeroed) ring of `slots` slots.
    ///
    /// # Errors
    ///
    /// If `slots` is not a power of two from 2 to 2^20, or does not fit in `mem`.
    pub fn new(mem: M, slots: u32) -> Result<Self, GeometryError> {
        let shape = Shape::new(&mem, slots)?;
        let ring = Self {
            mem,
            shape,
            position: FIRST_LAP << shape.log,
            free: state(FREE, 0, FIRST_LAP),
            peeked: false,
        };
        if FIRST_LAP != 0 {
            ring.head().store(ring.position, Ordering::Relaxed);
            for slot in 0..shape.slots() {
                let state = ring.mem.word64(shape.offset(slot));
                state.store(ring.free, Ordering::Relaxed);
            }
        }
        Ok(ring)
    }

    /// How many slots were taken before the one at which the consumer stands.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Whether nobody has taken the next slot: a look before [`peek`](Self::peek).
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        // Relaxed: whoever goes on looks again, with acquire.
        self.slot().load(Ordering::Relaxed) == self.free
    }

    /// The oldest record, if there is one. It stays until [`pop`](Self::pop).
    ///
    /// On an empty ring: one load, one compare.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] if the slot holds what no honest sender writes. Which sender did
    /// it cannot be known for sure; [`skip_corrupt`](Self::skip_corrupt) frees the slot.
    #[inline(always)]
    pub fn peek(&mut self) -> Result<Peek<'_, M>, Corrupt> {
        // Acquire: pairs with the release store in `Reservation::finish` (pair
        // *slot ready*): payload, tag and meta are visible.
        let mut word = self.slot().load(Ordering::Acquire);
        if word == self.free {
            return Ok(Peek::Empty);
        }
        let mut meta = self.meta();
        if !self.is_record(word, meta) {
            match self.pass_void(word, meta)? {
                Passed::Record(next) => (word, meta) = next,
                Passed::Empty => return Ok(Peek::Empty),
                Passed::Stalled(sender) => return Ok(Peek::Stalled { sender }),
            }
        }
        self.peeked = true;
        let offset = self.shape.offset(self.position);
        // SAFETY: word 1 of a whole slot of the area.
        let tag = unsafe { self.mem.word64_unchecked(offset + 8) };
        // Relaxed: ordered by the state word (pair *slot ready*).
        let tag = tag.load(Ordering::Relaxed);
        Ok(Peek::Ready(sender_of(word), self.record(offset, meta, tag)))
    }

    /// The record of the slot at this offset, whose other words were read and checked.
    #[inline(always)]
    fn record(&self, offset: usize, meta: u64, tag: u64) -> Record<'_, M> {
        Record {
            kind: (meta >> 32) as u8,
            tag,
            mem: &self.mem,
            payload: offset + SLOT_HEADER,
            len: meta as u32,
            credit: offset,
        }
    }

    /// The third word of the slot, read once per use.
    #[inline(always)]
    fn meta(&self) -> u64 {
        // SAFETY: word 2 of a whole slot of the area.
        let meta = unsafe {
            self.mem
                .word64_unchecked(self.shape.offset(self.position) + 16)
        };
        // Relaxed: ordered by the state word (pair *slot ready*).
        meta.load(Ordering::Relaxed)
    }

    /// Whether these words, read once, are those of a record in this slot.
    #[inline(always)]
    fn is_record(&self, word: u64, meta: u64) -> bool {
        let lap = self.shape.lap(self.position);
        word == state(READY, sender_of(word), lap)
            && meta as u32 <= MAX_PAYLOAD
            && (meta >> 32) as u8 != VOID
    }

    /// What to do with a slot that is neither free nor a record; passes over void
    /// records.
    #[cold]
    #[inline(never)]
    fn pass_void(&mut self, mut word: u64, mut meta: u64) -> Result<Passed, Corrupt> {
        // Bounded, for a hostile sender may publish nothing but void records.
        for _ in 0..self.shape.slots() {
            if self.is_record(word, meta) {
                return Ok(Passed::Record((word, meta)));
            }
            let (sender, lap) = (sender_of(word), self.shape.lap(self.position));
            if word == state(CLAIMED, sender, lap) {
                return Ok(Passed::Stalled(sender));
            }
            if word != state(READY, sender, lap) {
                return Err(self.corrupt(word));
            }
            if meta as u32 > MAX_PAYLOAD {
                let what = "the record is longer than its slot";
                return Err(Corrupt {
                    position: self.position,
                    word: meta,
                    what,
                });
            }
            self.free();
            // Acquire: as in `peek` (pair *slot ready*).
            word = self.slot().load(Ordering::Acquire);
            if word == self.free {
                break;
            }
            meta = self.meta();
        }
        Ok(Passed::Empty)
    }

    #[inline(always)]
    fn slot(&self) -> &AtomicU64 {
        // SAFETY: `Shape::offset` is the offset of a whole slot of the area.
        unsafe { self.mem.word64_unchecked(self.shape.offset(self.position)) }
    }

    /// Says what is wrong with a state word.
    #[cold]
    #[inline(never)]
    fn corrupt(&self, word: u64) -> Corrupt {
        let what = if laps_ahead(word, self.shape.lap(self.position)) != 0 {
            "the slot is in another lap than the consumer"
        } else if phase_of(word) == FREE {
            "a free slot that names a sender"
        } else {
            "no such phase"
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
        if self.peeked {
            self.free();
        }
    }

    /// Passes over a slot that was claimed and not published. Says
    /// whether there was one: if not, the sender has published it after all (or
    /// there is nothing), so peek again.
    ///
    /// The sender must be dead, or have said that it has not claimed it: else it
    /// would write on into the slot while that belongs to another.
    pub fn skip_stalled(&mut self) -> bool {
        // Acquire: as in `peek`; nothing of the slot is used if it is ready.
        let word = self.slot().load(Ordering::Acquire);
        let stalled = word == state(CLAIMED, sender_of(word), self.shape.lap(self.position));
        if stalled {
            self.help_head();
            self.free();
        }
        stalled
    }

    /// Takes off what a dead sender has published behind claims of others: its records, oldest
    /// first, each given to `take`. They would be reached only when all those have been published,
    /// and nobody's order changes but that between two senders.
    ///
    /// The sender must be dead, as for [`skip_stalled`](Self::skip_stalled). Reads the state of
    /// each slot, up to the first that is free.
    pub fn take_from(&mut self, sender: u32, mut take: impl FnMut(&Record<'_, M>)) {
        for ahead in 0..self.shape.slots() {
            let position = self.position.wrapping_add(ahead);
            let offset = self.shape.offset(position);
            // SAFETY: words 0 to 2 of a whole slot of the area.
            let [state_word, tag, meta] =
                unsafe { [0, 8, 16].map(|at| self.mem.word64_unchecked(offset + at)) };
            let lap = self.shape.lap(position);
            // Acquire: as in `peek` (pair *slot ready*).
            let word = state_word.load(Ordering::Acquire);
            if word == state(FREE, 0, lap) {
                return;
            }
            // Relaxed: ordered by the state word.
            let words = meta.load(Ordering::Relaxed);
            if word != state(READY, sender, lap)
                || words as u32 > MAX_PAYLOAD
                || (words >> 32) as u8 == VOID
            {
                continue;
            }
            take(&self.record(offset, words, tag.load(Ordering::Relaxed)));
            // Relaxed: for this end alone, which passes over the slot in its turn and then frees
            // it.
            meta.store(super::meta(0, VOID), Ordering::Relaxed);
        }
    }

    /// Frees the slot that [`peek`](Self::peek) reported as [`Corrupt`]. Says whether there was
    /// one.
    pub fn skip_corrupt(&mut self) -> bool {
        let corrupt = self.peek().is_err();
        if corrupt {
            self.help_head();
            self.free();
        }
        corrupt
    }

    /// Sets a head hint right that a hostile sender has moved: beyond unclaimed
    /// slots, so that others would leave a gap that holds this end up, or behind.
    /// Says whether it did; never true among honest senders. For idle moments, such
    /// as before a sleep: it may move the head's line.
    pub fn repair_head(&mut self) -> bool {
        // Acquire: pairs with `SharedProducer::advance` (pair *head hint*): if an
        // honest hint is beyond our slot, the slot shows as claimed below. It is
        // never behind: senders move it before they publish, and skips help.
        let head = self.head().load(Ordering::Acquire);
        if head == self.position || self.slot().load(Ordering::Acquire) != self.free {
            return false;
        }
        // Release: pair *head hint*. Failure: the next idle moment will do.
        self.head()
            .compare_exchange(head, self.position, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    #[inline(always)]
    fn head(&self) -> &AtomicU64 {
        // SAFETY: in line 0 of an area that `Shape::new` checked.
        unsafe { self.mem.word64_unchecked(HEAD) }
    }

    /// Moves the head hint past this slot, in case its sender died before it did.
    fn help_head(&self) {
        let next = self.position.wrapping_add(1);
        // Release: as in `SharedProducer::advance` (pair *head hint*). Failure:
        // somebody has moved it already.
        let _ =
            self.head()
                .compare_exchange(self.position, next, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Frees the slot for the next lap, and goes on to the next one.
    #[inline]
    fn free(&mut self) {
        let next_lap = state(FREE, 0, self.shape.lap(self.position) + 1);
        // Release: pairs with the acquire half of the exchange in
        // `SharedProducer::claim` (pair *slot free*): our reads of the slot come
        // before the next sender's writes.
        self.slot().store(next_lap, Ordering::Release);
        self.position = self.position.wrapping_add(1);
        self.free = state(FREE, 0, self.shape.lap(self.position));
        self.peeked = false;
    }
}
