//! The staging buffers that pass between this endpoint and one peer.
//!
//! Two peers that answer each other pass the same few pages to and fro: a message that came in a
//! buffer is answered in that buffer, if its owner lets the reader keep it; and the owner, when it
//! has read the answer there, writes its next message into it. That needs no release flag and no
//! look at one: the record that names a buffer hands it over.
//!
//! # Why
//!
//! How long a store to shared memory takes depends on the core that used its line last. The core
//! that *read* the line from the other one gets it for writing several times faster than the core
//! that wrote it, which has to take it back from the reader (docs/decisions/0002).
//!
//! # Which buffers a peer may keep
//!
//! The owner says for each buffer whether its reader may keep it, for as many bytes as that peer
//! has sent to it: so a stream in one direction keeps to pages that are used in turn (`pool`). What
//! peers may keep is bounded, for each and for all (`recycled_pool`), so that peers that never
//! answer take no more than that part of the pool. A recycled buffer that is not used for a while
//! goes back to its owner by its release flag.
//!
//! # Invariants
//! - A buffer of this endpoint's pool that the peer may keep is either with the peer or in
//!   `recycled`.
//! - A buffer of the peer's pool is in `recycled` until it is named to the peer again, or released.

use limic_shm::bytes::Window;
use limic_shm::ring::{Mapped, ReleaseFlags};

use super::descriptor::{BufferDescriptor, Lease};
use super::pool::{OUTSIDE, StagingPool, buffer_window, bytes_of_pages};
use super::recycled_buffers::{LONG_BUFFER, PoolOwner, RecycledBuffer, RecycledBuffers};
use crate::Violation;

/// Messages that have to come before another long reply may come unasked for, if one did at the
/// wrong time.
const REPLY_PENALTY: u64 = 32;
/// Looks after which recycled buffers count as not used any more: some ten milliseconds of polling.
pub const IDLE_LOOKS: u32 = 256;

/// What the buffers of a pair ask of the rest of it.
pub trait Peer {
    /// The peer is to look at what was given back, if it sleeps.
    fn wake(&mut self);

    /// Bytes that have come from it.
    fn received_bytes(&self) -> u64;

    /// Whether these are counted for this peer alone.
    fn is_counted(&self) -> bool;
}

/// What becomes of a buffer when it is read.
#[derive(Clone, Copy, Debug)]
pub struct AfterRead(Then);

#[derive(Clone, Copy, Debug)]
enum Then {
    /// Its release flag is set.
    Return,
    /// It is recycled.
    Recycle(RecycledBuffer),
}

/// The staging memory of a pair.
#[derive(Debug)]
pub struct StagingPair {
    /// The peer's pool.
    pub(super) memory: Mapped,
    released: ReleaseFlags<Mapped>,
    pub(super) recycled: RecycledBuffers,
}

impl StagingPair {
    /// The peer's pool, and the flags by which its buffers go back.
    #[must_use]
    pub fn new(memory: Mapped, released: ReleaseFlags<Mapped>) -> Self {
        Self {
            memory,
            released,
            recycled: RecycledBuffers::default(),
        }
    }

    /// Whether any buffer waits to be written.
    #[inline(always)]
    pub(crate) fn has_recycled(&self) -> bool {
        !self.recycled.buffers.is_empty()
    }

    /// The longest message that the recycled buffers hold in fragments, in bytes. Its last fragment
    /// may be too short to count: that one may lie in any buffer.
    #[inline(always)]
    #[must_use]
    pub fn reply_bytes(&self) -> u64 {
        match self.recycled.long_pages {
            0 => 0,
            pages => bytes_of_pages(pages + LONG_BUFFER - 1),
        }
    }

    /// Bytes that the peer may keep now, for what it has sent. None if nobody knows what that was.
    #[must_use]
    pub fn credit(&self, peer: &impl Peer) -> u64 {
        if peer.is_counted() {
            self.recycled.credit_with(peer.received_bytes())
        } else {
            0
        }
    }

    /// Whether a long message came from the peer without asking, and too early, not long ago; or
    /// nobody would know how long ago.
    #[must_use]
    pub fn is_penalized(&self, peer: &impl Peer) -> bool {
        let came = peer.received_bytes().wrapping_sub(self.recycled.received);
        !peer.is_counted() || self.recycled.penalty > came
    }

    /// Whether there is any use in asking for a recycled buffer. In a stream in one direction there
    /// is none: two loads say so.
    #[inline(always)]
    #[must_use]
    pub fn may_recycle(&self, peer: &impl Peer, len: u64) -> bool {
        self.has_recycled()
            || self.recycled.credit >= len
            || peer.received_bytes() != self.recycled.received
    }

    /// The pool that the peer speaks of: this endpoint's, if the buffer comes back.
    #[inline(always)]
    #[must_use]
    pub fn memory_of<'a>(
        &'a self,
        pool: &'a StagingPool,
        descriptor: &BufferDescriptor,
    ) -> &'a Mapped {
        if descriptor.lease() == Some(Lease::Returned) {
            pool.memory()
        } else {
            &self.memory
        }
    }

    /// Checks what the peer said of a buffer, and says what becomes of it.
    ///
    /// # Errors
    /// What is wrong with it.
    #[inline(always)]
    pub fn begin_read(
        &self,
        pool: &mut StagingPool,
        from: u32,
        descriptor: &BufferDescriptor,
    ) -> Result<AfterRead, Violation> {
        let (page, generation) = (descriptor.page(), descriptor.generation());
        let recycled = |owner, pages| RecycledBuffer::new(owner, page, pages, generation);
        let (then, room) = match descriptor.lease() {
            Some(Lease::Borrowed) => {
                // The copy takes as long as that line, and its stores would wait behind the one
                // that gives the buffer back.
                self.released.expect_release(page);
                (Then::Return, descriptor.len())
            }
            Some(Lease::Transferred) => {
                let pages = descriptor.pages();
                if pages == 0 {
                    return Err("a staging buffer of no pages");
                }
                let buffer = recycled(PoolOwner::Peer, pages);
                (Then::Recycle(buffer), bytes_of_pages(pages))
            }
            Some(Lease::Returned) => {
                let pages = pool.recycled.returned(from, page, generation);
                let pages = pages.ok_or("a staging buffer that it does not have")?;
                let buffer = recycled(PoolOwner::Local, pages);
                (Then::Recycle(buffer), bytes_of_pages(pages))
            }
            None => return Err("a staging buffer handed over in no known way"),
        };
        let memory = self.memory_of(pool, descriptor);
        if descriptor.len() > room {
            return Err(OUTSIDE);
        }
        buffer_window(memory, page, room)?;
        Ok(AfterRead(then))
    }

    /// The buffer was read.
    #[inline(always)]
    pub fn end_read(
        &mut self,
        pool: &mut StagingPool,
        out: &mut impl Peer,
        descriptor: &BufferDescriptor,
        then: AfterRead,
    ) {
        match then.0 {
            Then::Recycle(buffer) => self.recycle(pool, out, buffer),
            Then::Return => self.release(out, descriptor.page(), descriptor.generation()),
        }
    }

    /// Shows the bytes that the peer named to `read`, and hands the buffer on.
    ///
    /// # Errors
    /// What is wrong with what the peer said, or what `read` says.
    #[inline]
    pub fn read_in_place<T>(
        &mut self,
        pool: &mut StagingPool,
        out: &mut impl Peer,
        from: u32,
        descriptor: &BufferDescriptor,
        read: impl FnOnce(&Window<'_>) -> Result<T, Violation>,
    ) -> Result<T, Violation> {
        let then = self.begin_read(pool, from, descriptor)?;
        let memory = self.memory_of(pool, descriptor);
        let window = buffer_window(memory, descriptor.page(), descriptor.len())?;
        let value = read(&window);
        self.end_read(pool, out, descriptor, then);
        value
    }

    /// A buffer was read, and is this endpoint's to write.
    #[inline(always)]
    fn recycle(&mut self, pool: &mut StagingPool, out: &mut impl Peer, buffer: RecycledBuffer) {
        let gone = if self.recycled.penalty > 0 {
            Some(buffer)
        } else {
            self.recycled.put(buffer)
        };
        if let Some(gone) = gone {
            self.give_back(pool, out, gone);
        }
    }

    /// Gives all recycled buffers back to their owners, if none was used for [`IDLE_LOOKS`] looks.
    pub fn give_back_idle(&mut self, pool: &mut StagingPool, out: &mut impl Peer, look: u32) {
        if core::mem::take(&mut self.recycled.used) {
            self.recycled.used_at = look;
        } else if look.wrapping_sub(self.recycled.used_at) > IDLE_LOOKS {
            self.give_back_all(pool, out);
        }
    }

    /// The peer has sent a message of `len` bytes without asking, as a reply or in a stream, and
    /// nobody waited for it: it has to be copied aside. Without recycled buffers the peer asks
    /// before it sends replies, until as many bytes as [`REPLY_PENALTY`] of them have come.
    #[cold]
    pub fn unsolicited_reply(&mut self, pool: &mut StagingPool, out: &mut impl Peer, len: u64) {
        self.give_back_all(pool, out);
        if out.is_counted() {
            // What had come before counts for nothing.
            self.recycled.credit_for(out.received_bytes());
            self.recycled.penalty = len.saturating_mul(REPLY_PENALTY);
        }
        self.recycled.credit = 0;
    }

    fn give_back_all(&mut self, pool: &mut StagingPool, out: &mut impl Peer) {
        while let Some(buffer) = self.recycled.pop() {
            self.give_back(pool, out, buffer);
        }
    }

    pub(super) fn give_back(
        &mut self,
        pool: &mut StagingPool,
        out: &mut impl Peer,
        buffer: RecycledBuffer,
    ) {
        if buffer.is_local() {
            pool.recycled.end(buffer.page());
        } else {
            self.release(out, buffer.page(), buffer.generation());
        }
    }

    /// Gives a buffer back to its owner, who may sleep because its pool was used up.
    fn release(&mut self, out: &mut impl Peer, page: u32, generation: u32) {
        self.released.release(page, generation);
        out.wake();
    }
}
