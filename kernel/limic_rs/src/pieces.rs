// SPDX-License-Identifier: GPL-2.0

//! The list of pieces of a call: read from user space once, checked once.

use crate::abi::{self, Iov};
use crate::ffi;
use kernel::prelude::*;
use kernel::uaccess::{UserPtr, UserSlice};

/// Pieces that need no allocation.
const INLINE: usize = 8;

/// Pieces of the caller's memory.
///
/// # Invariants
/// Each non-empty piece lies in the user's half of the address space; `len` is the sum of their
/// lengths, and at most [`abi::MAX_LEN`].
pub(crate) struct Pieces {
    inline: [Iov; INLINE],
    heap: KVec<Iov>,
    count: usize,
    len: u64,
}

impl Pieces {
    pub(crate) fn read(address: u64, count: u32) -> Result<Self> {
        if count > abi::MAX_IOV {
            return Err(EINVAL);
        }
        let count = count as usize;
        let mut pieces = Self {
            inline: [Iov { base: 0, len: 0 }; INLINE],
            heap: KVec::new(),
            count,
            len: 0,
        };
        let list = UserPtr::from_addr(address as usize);
        let mut reader = UserSlice::new(list, count * size_of::<Iov>()).reader();
        if count > INLINE {
            pieces.heap.reserve(count, GFP_KERNEL_ACCOUNT)?;
        }
        for at in 0..count {
            let piece: Iov = reader.read()?;
            pieces.len = pieces
                .len
                .checked_add(piece.len)
                .filter(|&len| len <= abi::MAX_LEN)
                .ok_or(EINVAL)?;
            if piece.len > 0 && !ffi::user_range(piece.base as usize, piece.len as usize) {
                return Err(EFAULT);
            }
            match pieces.inline.get_mut(at) {
                Some(slot) if count <= INLINE => *slot = piece,
                _ => pieces.heap.push(piece, GFP_KERNEL_ACCOUNT)?,
            }
        }
        // INVARIANT: checked above, piece by piece.
        Ok(pieces)
    }

    pub(crate) fn as_slice(&self) -> &[Iov] {
        if self.heap.is_empty() {
            self.inline.get(..self.count).unwrap_or(&[])
        } else {
            &self.heap
        }
    }

    /// The first piece, if there is no other, by an address without a tag: where that is kept, it
    /// is compared with what the kernel says of changes, which knows none. Copies take the address
    /// as it was given, since memory may be checked by it.
    pub(crate) fn single(&self) -> Option<Iov> {
        match self.as_slice() {
            &[piece] => Some(Iov {
                base: ffi::untagged(piece.base),
                ..piece
            }),
            _ => None,
        }
    }

    /// Bytes in all.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }
}
