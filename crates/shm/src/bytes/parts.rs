//! Memory that is known by its address alone, so that nobody holds a reference to bytes that others
//! may write: a vector taken apart, or memory of the application.

use core::mem::ManuallyDrop;

use super::{RawSlice, RawSliceMut};

/// Memory, and whose it is.
#[derive(Clone, Copy, Debug)]
pub struct LooseMemory {
    start: *mut u8,
    len: usize,
    /// Of the vector that it was; `None`: the memory stays the application's.
    capacity: Option<usize>,
}

// SAFETY: it stands for a `Vec<u8>`, or for memory that whoever lent it promised to leave there.
unsafe impl Send for LooseMemory {}

#[expect(clippy::len_without_is_empty, reason = "nobody asks whether it is")]
impl LooseMemory {
    /// The memory of a vector, until it is [rebuilt](Self::rebuild).
    #[inline]
    #[must_use]
    pub fn of(bytes: Vec<u8>) -> Self {
        let mut bytes = ManuallyDrop::new(bytes);
        Self {
            // Of the vector, whose memory it is to be again: not of a slice in it.
            start: bytes.as_mut_ptr(),
            len: bytes.len(),
            capacity: Some(bytes.capacity()),
        }
    }

    /// Memory that is that of a vector if it has a capacity, else the application's.
    #[inline]
    #[must_use]
    pub const fn new(memory: RawSliceMut, capacity: Option<usize>) -> Self {
        let RawSliceMut { start, len } = memory;
        Self {
            start,
            len,
            capacity,
        }
    }

    /// Bytes.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len as u64
    }

    /// All of it, to be read.
    #[inline]
    #[must_use]
    pub fn readable(&self) -> RawSlice {
        RawSlice {
            start: self.start,
            len: self.len,
        }
    }

    /// All of it, to be written.
    #[inline]
    #[must_use]
    pub fn writable(&self) -> RawSliceMut {
        RawSliceMut {
            start: self.start,
            len: self.len,
        }
    }

    /// Some bytes of it, if it has them. The numbers may come from a peer.
    #[inline]
    #[must_use]
    pub fn get(&self, offset: u64, len: u64) -> Option<RawSliceMut> {
        let end = offset.checked_add(len);
        end.is_some_and(|end| end <= self.len())
            .then(|| RawSliceMut {
                start: self.start.wrapping_add(offset as usize),
                len: len as usize,
            })
    }

    /// The vector; an empty one, if the memory stays the application's.
    ///
    /// # Safety
    /// Nobody else uses the memory any more, and this is called once, of all copies of this value.
    #[inline]
    pub unsafe fn rebuild(self) -> Vec<u8> {
        match self.capacity {
            // SAFETY: the three came from one `Vec<u8>`; the caller promises that nobody else uses
            // them.
            Some(capacity) => unsafe { Vec::from_raw_parts(self.start, self.len, capacity) },
            None => Vec::new(),
        }
    }
}
