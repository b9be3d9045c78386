//! Where the bytes of a message come from, and where they go: records of rings, staging buffers,
//! arenas of peers, private memory, buffers of operations under way.
//!
//! A [`Source`] or [`Sink`] knows how its memory is read or written; who copies between the two
//! need not. Both are bounded: whoever makes one has checked that its bytes are there.

mod buffers;
mod memory;
mod parts;
mod slices;
mod words;

use std::collections::TryReserveError;

pub use buffers::{ReceiveBuffer, SendBuffer, SingleSlice};
pub use memory::{ArenaBytes, PrivateBytes, Skip, StoreHint, Window};
pub use parts::LooseMemory;
pub use slices::{RawSlice, RawSliceMut, gather, gather_behind, gather_part, total};
pub use words::{flagged, halves, put_words, unflagged, word_at, words};

use crate::ring::StoreMode;

/// Where bytes of a message go.
pub trait Sink {
    /// Copies `len` bytes to offset `at`.
    ///
    /// # Safety
    /// `from` is valid for `len` bytes and `at + len` is within the sink.
    unsafe fn put(&mut self, at: u64, from: *const u8, len: usize);
}

/// Where bytes of a message come from.
///
/// # Safety
/// [`len`](Self::len) says the same as long as nobody has `&mut` access, and [`get`](Self::get)
/// writes just the bytes that it was asked for.
#[expect(clippy::len_without_is_empty, reason = "nobody asks whether it is")]
pub unsafe trait Source {
    /// Bytes that can be read.
    fn len(&self) -> u64;

    /// Copies `len` bytes from offset `at`.
    ///
    /// # Safety
    /// `to` is valid for `len` bytes and `at + len` is within [`len`](Self::len).
    unsafe fn get(&self, at: u64, to: *mut u8, len: usize);

    /// The same, to memory that is written as `how` says, if these are a peer's bytes.
    ///
    /// # Safety
    /// As [`get`](Self::get).
    unsafe fn get_to(&self, _how: StoreMode, at: u64, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.get(at, to, len) }
    }
}

/// The bytes of a source as a private vector, appended to `into`.
///
/// # Errors
/// There is no memory for them.
pub fn append(source: &(impl Source + ?Sized), into: &mut Vec<u8>) -> Result<(), TryReserveError> {
    let (old, len) = (into.len(), source.len() as usize);
    into.try_reserve(len)?;
    // SAFETY: room for `len` bytes was just reserved behind the `old` ones.
    unsafe { source.get(0, into.as_mut_ptr().add(old), len) }
    // SAFETY: the bytes up to the new length have just been written.
    unsafe { into.set_len(old + len) }
    Ok(())
}
