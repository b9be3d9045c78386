//! Where bytes for a peer go: a recycled buffer, one that the peer may keep, or one of the pool.

use limic_shm::bytes::Window;

use super::descriptor::{BufferDescriptor, Lease};
use super::pair::{Peer, StagingPair};
use super::pool::{StagingBuffer, StagingPool, buffer_window, pages_for};
use super::recycled_buffers::{PageRun, PoolOwner, RecycledBuffer};
use super::recycled_pool::LONGEST_RECYCLED;

/// Recycled buffers that go back when none of them is long enough, and there is no room for a
/// longer one.
const TRIM: u32 = 4;

/// Where bytes for a peer go. Words, as in [`RecycledBuffer`].
#[derive(Clone, Copy, Debug)]
pub struct Target {
    run: PageRun,
    /// Has 32 bits, in a word for the same reason.
    generation: u64,
    lease: Lease,
}

impl Target {
    /// A buffer of the pool, for `len` bytes.
    #[inline(always)]
    fn new(buffer: StagingBuffer, len: u64, lease: Lease) -> Self {
        Self {
            run: PageRun::new(buffer.page, pages_for(len)),
            generation: buffer.generation.into(),
            lease,
        }
    }

    /// A recycled buffer, which goes to the peer.
    #[inline(always)]
    fn of(pool: &mut StagingPool, buffer: RecycledBuffer) -> Self {
        let (generation, lease) = if buffer.is_local() {
            (pool.recycled.transfer(buffer.page()), Lease::Transferred)
        } else {
            (buffer.generation(), Lease::Returned)
        };
        Self {
            run: buffer.run,
            generation: generation.into(),
            lease,
        }
    }

    /// What a record says of its first `len` bytes.
    #[inline(always)]
    #[must_use]
    pub fn descriptor(&self, len: u64) -> BufferDescriptor {
        let (page, pages) = (self.run.page(), self.run.pages());
        BufferDescriptor::new(page, self.generation as u32, pages, len, self.lease)
    }
}

impl StagingPair {
    /// A recycled buffer for `len` bytes, or one that the peer may keep.
    #[inline(always)]
    pub fn recycled_target(
        &mut self,
        pool: &mut StagingPool,
        out: &mut impl Peer,
        to: u32,
        len: u64,
    ) -> Option<Target> {
        match self.recycled.take(pages_for(len)) {
            Some(buffer) => Some(Target::of(pool, buffer)),
            None => self.recycled_target_slow(pool, out, to, len),
        }
    }

    /// The same, if no recycled buffer has just so many pages: a buffer that goes to and fro from
    /// now on, or a longer one.
    #[cold]
    fn recycled_target_slow(
        &mut self,
        pool: &mut StagingPool,
        out: &mut impl Peer,
        to: u32,
        len: u64,
    ) -> Option<Target> {
        let pages = pages_for(len);
        let earned = self.has_earned(out, len);
        if earned {
            if let Some(buffer) = pool.recycled.take(to, len) {
                self.recycled.credit -= len;
                return Some(Target::new(buffer, len, Lease::Transferred));
            }
        }
        if let Some(longer) = self.recycled.take_longer(pages) {
            // With longer buffers in the place of its own a message keeps more memory on its way
            // than the caches next to its core hold. So the one of this pool that was not used for
            // longest makes room for one of this length, if not for this message, then for one of
            // the next.
            if earned {
                if let Some(unused) = self.recycled.take_oldest_local(pages) {
                    self.give_back(pool, out, unused);
                }
            }
            return Some(Target::of(pool, longer));
        }
        if earned {
            // There are as many as may be; the next ones have to be earned anew.
            self.recycled.credit = 0;
            // Perhaps recycled buffers are too short for what goes now.
            for _ in 0..TRIM {
                let Some(buffer) = self.recycled.pop() else {
                    break;
                };
                self.give_back(pool, out, buffer);
            }
        }
        None
    }

    /// Whether the peer may keep so many bytes more.
    fn has_earned(&mut self, peer: &impl Peer, len: u64) -> bool {
        // Otherwise nobody knows how much came from this peer.
        if !peer.is_counted() {
            return false;
        }
        self.recycled.credit_for(peer.received_bytes());
        self.recycled.credit >= len
    }

    /// A buffer for the first of `len` bytes, and for how many, of a message of `whole` bytes; the
    /// peer holds at most `most` bytes that it has not returned.
    // What a function returns in memory is copied in its caller, two words at a time: see
    // `RecycledBuffer`.
    #[inline(always)]
    pub fn target_for(
        &mut self,
        pool: &mut StagingPool,
        out: &mut impl Peer,
        to: u32,
        (len, whole, most): (u64, u64, u64),
    ) -> Option<(Target, u64)> {
        if whole <= LONGEST_RECYCLED {
            if let Some(target) = self.recycled_target(pool, out, to, len) {
                return Some((target, len));
            }
        }
        let (buffer, len) = pool.take_some(to, len, most)?;
        Some((Target::new(buffer, len, Lease::Borrowed), len))
    }

    /// The first `len` bytes of a target. `far`: the peer reads them from far away.
    #[inline(always)]
    #[must_use]
    pub fn window_of<'a>(
        &'a self,
        pool: &'a StagingPool,
        target: &Target,
        len: u64,
        far: bool,
    ) -> Option<Window<'a>> {
        let memory = match target.lease {
            Lease::Returned => &self.memory,
            Lease::Borrowed | Lease::Transferred => pool.memory(),
        };
        let window = buffer_window(memory, target.run.page(), len).ok()?;
        // Of AMD's cores without a common cache, one reads a buffer that is used in turn several
        // times faster out of memory than out of the other's cache; a recycled one it does not.
        Some(window.to_far(far && target.lease == Lease::Borrowed))
    }

    /// Takes back a target that was not named to the peer after all.
    #[cold]
    pub fn put_back(&mut self, pool: &mut StagingPool, target: Target) {
        let (page, generation) = (target.run.page(), target.generation as u32);
        let owner = match target.lease {
            Lease::Borrowed => return pool.put_back(StagingBuffer { page, generation }),
            Lease::Transferred => {
                pool.recycled.keep_here(page);
                PoolOwner::Local
            }
            Lease::Returned => PoolOwner::Peer,
        };
        let pages = target.run.pages();
        self.recycled
            .push(RecycledBuffer::new(owner, page, pages, generation));
    }
}
