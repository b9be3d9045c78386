//! A record as its receiver sees it, of either ring.

use super::Memory;

/// The oldest record of a ring. Header fields were read once, and are private;
/// the payload is still in shared memory.
#[derive(Debug)]
pub struct Record<'a, M> {
    /// Kind that the sender gave.
    pub kind: u8,
    /// Tag that the sender gave.
    pub tag: u64,
    pub(super) mem: &'a M,
    /// Offset of the payload, and its bytes, as they were checked: so many follow in one piece.
    pub(super) payload: usize,
    pub(crate) len: u32,
    /// Offset of the word whose store gives the record's room back.
    pub(super) credit: usize,
}

impl<M: Memory> Record<'_, M> {
    /// Bytes of payload.
    #[inline(always)]
    #[must_use]
    pub fn length(&self) -> u32 {
        self.len
    }

    /// Copies `len` bytes from byte `at` of the payload.
    ///
    /// # Safety
    ///
    /// `at + len` is at most [`length`](Self::length), and `to` is valid for `len` bytes outside of
    /// the ring.
    #[inline(always)]
    pub unsafe fn read(&self, at: u32, to: *mut u8, len: u32) {
        debug_assert!(u64::from(at) + u64::from(len) <= u64::from(self.len));
        // SAFETY: the consumer checked that the payload ends within the ring's memory; an honest
        // sender does not touch it before its room is given back (pairs *word credit*, *slot
        // free*).
        unsafe {
            let offset = self.payload + at as usize;
            if !self.mem.read_short(offset, to, len as usize) {
                // The room is soon given back, and what the caller sends in answer stands behind
                // that store in this core's store buffer; so its line is asked for ahead of the
                // copy, which takes as long.
                self.mem.prefetch_write(self.credit);
                read_lines(self.mem, offset, to, len as usize);
            }
        }
    }

    /// Copies from byte `at` of the payload, as many bytes as `to` has; says
    /// whether the payload has them, and copies nothing if not.
    #[inline]
    #[must_use]
    pub fn read_bytes(&self, at: u32, to: &mut [u8]) -> bool {
        if at > self.len || to.len() > (self.len - at) as usize {
            return false;
        }
        // SAFETY: just checked; a slice of private memory is outside of the ring.
        unsafe { self.read(at, to.as_mut_ptr(), to.len() as u32) }
        true
    }
}

/// Copies a payload of several lines.
///
/// # Safety
///
/// As [`Record::read`], `offset` being that of the first byte.
#[inline(never)]
unsafe fn read_lines<M: Memory>(mem: &M, offset: usize, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { mem.read(offset, to, len) }
}
