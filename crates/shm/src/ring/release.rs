//! Release flags: how a borrower gives a chunk of the owner's pool back.
//!
//! The owner of a segment lends chunk `i` to one peer under a generation that it
//! has not used for this chunk before, and says so in a message. The peer copies
//! the data out, and sets the chunk's flag to that generation. The owner looks at
//! the flags when it needs chunks.
//!
//! A flag takes a cache line where borrowers should not disturb each other: a chunk's return moves
//! one line to the borrower and one back, and neither side waits. Where an owner looks only now and
//! then, and takes back many at once, flags share lines ([`PackedFlags`]): a borrower that returns
//! several meanwhile moves a line once.

use super::{GeometryError, LINE, Memory, check_area};
use crate::sync::{AtomicU32, Ordering};

/// Bytes of a flag that shares its line.
const PACKED: usize = 4;

/// Flags, each in a line of its own.
pub type ReleaseFlags<M> = FlagsEvery<M, LINE>;

/// Flags of which sixteen share a line.
pub type PackedFlags<M> = FlagsEvery<M, PACKED>;

/// One flag per chunk of a pool, every `STRIDE` bytes, a multiple of 4; both sides use this type.
#[derive(Debug, Clone)]
pub struct FlagsEvery<M, const STRIDE: usize> {
    mem: M,
    /// Invariant: `mem` has `STRIDE` bytes for each.
    count: u32,
}

impl<M: Memory, const STRIDE: usize> FlagsEvery<M, STRIDE> {
    /// Bytes of memory that `count` flags take.
    #[must_use]
    pub const fn area_len(count: u32) -> usize {
        const { assert!(STRIDE % 4 == 0 && STRIDE > 0) };
        count as usize * STRIDE
    }

    /// Flags for `count` chunks. Zeroed memory says generation 0 everywhere, so
    /// that the owner's first generation is 1.
    ///
    /// # Errors
    ///
    /// If they do not fit in `mem`.
    pub fn new(mem: M, count: u32) -> Result<Self, GeometryError> {
        check_area(mem.len(), Self::area_len(count))?;
        Ok(Self { mem, count })
    }

    /// Number of flags.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Borrower: gives chunk `index` back, that was lent under `generation`. All
    /// reads of the chunk come before. Says whether there is such a chunk, and does
    /// nothing if not; whoever named it broke the protocol.
    #[inline]
    pub fn release(&self, index: u32, generation: u32) -> bool {
        let Some(flag) = self.flag(index) else {
            return false;
        };
        // Release: pairs with the acquire load in `is_released` (pair *chunk
        // return*): our reads of the chunk come before the owner's next writes.
        flag.store(generation, Ordering::Release);
        true
    }

    /// Borrower: asks for the line of a flag that it will soon write, so that what it publishes
    /// behind that does not wait for it.
    #[inline]
    pub fn expect_release(&self, index: u32) {
        if index < self.count {
            self.mem.prefetch_write(index as usize * STRIDE);
        }
    }

    /// Owner: asks for the line of a flag that it will soon look at.
    #[inline]
    pub fn expect_return(&self, index: u32) {
        if index < self.count {
            self.mem.prefetch_read(index as usize * STRIDE);
        }
    }

    /// Owner: no return of chunk `index`, which nobody has now, is known any more. For generations
    /// that begin anew, of which the last return could be one again.
    pub fn forget(&self, index: u32) {
        if let Some(flag) = self.flag(index) {
            // Relaxed: who is lent the chunk next hears of it by a message.
            flag.store(0, Ordering::Relaxed);
        }
    }

    /// Owner: whether chunk `index`, lent under `generation`, has come back. If so,
    /// the chunk may be written again. A chunk that does not exist never comes back.
    ///
    /// A hostile borrower can say so too early, and then reads bytes that were not
    /// meant for it; lend chunks only to peers that may see what the pool carries.
    #[inline]
    #[must_use]
    pub fn is_released(&self, index: u32, generation: u32) -> bool {
        // Acquire: pairs with the release store in `release` (pair *chunk return*).
        self.flag(index)
            .is_some_and(|flag| flag.load(Ordering::Acquire) == generation)
    }

    #[inline]
    fn flag(&self, index: u32) -> Option<&AtomicU32> {
        if index >= self.count {
            return None;
        }
        // SAFETY: index < count, and `new` saw `STRIDE` bytes for each, a multiple of 4.
        Some(unsafe { self.mem.word32_unchecked(index as usize * STRIDE) })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{FlagsEvery, LINE, PACKED, ReleaseFlags};
    use crate::ring::{GeometryError, Mapped, heap};

    #[test]
    fn ring_release_flags_know_generations_and_neighbours() {
        know_generations_and_neighbours::<LINE>();
        know_generations_and_neighbours::<PACKED>();
    }

    fn know_generations_and_neighbours<const STRIDE: usize>() {
        let mem = heap(FlagsEvery::<Mapped, STRIDE>::area_len(3));
        let owner = FlagsEvery::<_, STRIDE>::new(mem.clone(), 3).expect("geometry");
        let borrower = FlagsEvery::<_, STRIDE>::new(mem, 3).expect("geometry");
        for generation in 1..4 {
            assert!(!owner.is_released(1, generation));
            assert!(borrower.release(1, generation));
            assert!(owner.is_released(1, generation));
            assert!(!owner.is_released(0, generation));
            assert!(!owner.is_released(2, generation));
        }
        assert!(!owner.is_released(1, 1), "an old generation");
    }

    #[test]
    fn ring_release_flags_check_indices_and_memory() {
        let flags = ReleaseFlags::new(heap(128), 2).expect("geometry");
        assert_eq!(flags.count(), 2);
        for index in [2, u32::MAX] {
            assert!(!flags.release(index, 1));
            assert!(!flags.is_released(index, 1));
            assert!(!flags.is_released(index, 0));
        }
        assert_eq!(
            ReleaseFlags::new(heap(128), 3).map(|flags| flags.count()),
            Err(GeometryError::TooSmall {
                given: 128,
                needed: 192
            })
        );
    }
}

#[cfg(all(test, loom))]
mod interleavings {
    use loom::thread;

    use super::ReleaseFlags;
    use crate::ring::memory::{Memory, modelled::Modelled};

    #[test]
    fn release_flags_order_the_reads_of_a_chunk_before_its_reuse() {
        loom::model(|| {
            let flags = ReleaseFlags::new(Modelled::new(64), 1).expect("geometry");
            let chunk = Modelled::new(64);
            let (lent, back) = (chunk.clone(), flags.clone());
            let borrower = thread::spawn(move || {
                let mut copy = [1; 64];
                // SAFETY: 64 bytes on both sides; loom checks the order.
                unsafe { lent.read(0, copy.as_mut_ptr(), 64) };
                assert_eq!(copy, [0; 64]);
                assert!(back.release(0, 1));
            });
            while !flags.is_released(0, 1) {
                thread::yield_now();
            }
            // SAFETY: as above.
            unsafe { chunk.write(0, [7; 64].as_ptr(), 64) };
            borrower.join().expect("borrower");
        });
    }
}
