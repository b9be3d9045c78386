//! The one place where message bytes are touched: buffers of operations under way, and copies
//! between them and shared memory.

mod memory;
mod operations;
mod slices;

use std::collections::TryReserveError;

use limic_shm::ring::StoreMode;

pub(crate) use memory::{ArenaBytes, PrivateBytes, Skip, Window};
pub(crate) use operations::{ReceiveBuffer, SendBuffer, SingleSlice};
pub(crate) use slices::{gather, gather_behind, gather_part, total};

/// Where bytes of a message go.
pub(crate) trait Sink {
    /// Copies `len` bytes to offset `at`.
    ///
    /// # Safety
    /// `from` is valid for `len` bytes and `at + len` is within the sink.
    unsafe fn put(&mut self, at: u64, from: *const u8, len: usize);
}

/// Where bytes of a message come from.
pub(crate) trait Source {
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

/// Reads up to `N` words from the start of a record; missing ones are 0.
#[inline(always)]
pub(crate) fn words<const N: usize>(source: &(impl Source + ?Sized)) -> [u64; N] {
    let mut words = [0_u64; N];
    let start = words.as_mut_ptr().cast::<u8>();
    let whole = N * 8;
    // SAFETY: the lengths are within both; every bit pattern is a `u64`. One that is known
    // beforehand is a few loads.
    unsafe {
        if source.len() >= whole as u64 {
            source.get(0, start, whole);
        } else {
            source.get(0, start, source.len() as usize);
        }
    }
    words
}

/// Reads word number `index` of a record; a missing one is 0.
#[inline(always)]
pub(crate) fn word_at(source: &(impl Source + ?Sized), index: u64) -> u64 {
    let [word] = words(&Skip {
        inner: source,
        skip: index * size_of::<u64>() as u64,
    });
    word
}

/// Writes words to the start of a record.
#[inline]
pub(crate) fn put_words(sink: &mut impl Sink, words: &[u64]) {
    // SAFETY: the slice is valid for its bytes, and callers reserve as many.
    unsafe { sink.put(0, words.as_ptr().cast::<u8>(), size_of_val(words)) }
}

/// The bytes of a source as a private vector, appended to `into`.
///
/// # Errors
/// There is no memory for them.
pub(crate) fn append(
    source: &(impl Source + ?Sized),
    into: &mut Vec<u8>,
) -> Result<(), TryReserveError> {
    let (old, len) = (into.len(), source.len() as usize);
    into.try_reserve(len)?;
    // SAFETY: room for `len` bytes was just reserved behind the `old` ones.
    unsafe { source.get(0, into.as_mut_ptr().add(old), len) }
    // SAFETY: the bytes up to the new length have just been written.
    unsafe { into.set_len(old + len) }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::{RawSlice, RawSliceMut};

    #[test]
    fn slices_of_any_shape_meet() {
        let data: Vec<u8> = (0..100).collect();
        let slices = [
            RawSlice::from(&data[..7]),
            RawSlice::from(&data[7..7]),
            RawSlice::from(&data[7..]),
        ];
        // SAFETY: `data` outlives the buffer.
        let send = unsafe { SendBuffer::new(&slices) };
        assert_eq!((send.len(), send.to_vec()), (100, data.clone()));
        let mut out = vec![0_u8; 90];
        let (a, b) = out.split_at_mut(33);
        // SAFETY: `out` outlives the buffer and is not used meanwhile.
        let receive = unsafe { ReceiveBuffer::new(&[RawSliceMut::from(a), RawSliceMut::from(b)]) };
        receive.copy_from_send(&send, 100);
        assert_eq!(out, data[..90]);
    }

    #[test]
    fn a_room_in_slices_is_filled_past_the_caches_too() {
        let memory = limic_shm::ring::heap(1 << 10);
        let data: Vec<u8> = (0..1000_u32).map(|i| (i % 251) as u8).collect();
        let window = || Window::new(&memory, 8, 1000).expect("within");
        // SAFETY: the window has room for as many bytes as there are.
        unsafe { window().put(0, data.as_ptr(), data.len()) };
        for non_temporal in [false, true] {
            let mut out = vec![0_u8; 1000];
            let (a, b) = out.split_at_mut(333);
            let rooms = [RawSliceMut::from(a), RawSliceMut::from(b)];
            // SAFETY: `out` outlives the buffer and is not used meanwhile.
            let receive = unsafe { ReceiveBuffer::new(&rooms) };
            if non_temporal {
                receive.copy_non_temporal(0, 1000, &window());
            } else {
                receive.copy_part(0, 1000, &window(), 1 << 20);
            }
            assert_eq!(out, data);
        }
    }

    #[test]
    fn parts_land_at_their_offsets() {
        let mut out = vec![0_u8; 10];
        let (a, b) = out.split_at_mut(4);
        // SAFETY: `out` outlives the buffer and is not used meanwhile.
        let receive = unsafe { ReceiveBuffer::new(&[RawSliceMut::from(a), RawSliceMut::from(b)]) };
        receive.copy_from(2, 5, &[1_u8, 2, 3, 4, 5, 6][..]);
        receive.copy_from(9, 5, &[7_u8, 8, 9][..]);
        assert_eq!(out, [0, 0, 1, 2, 3, 4, 5, 0, 0, 7]);
    }

    #[test]
    fn words_cross_as_bytes() {
        let bytes: Vec<u8> = [1_u64, 2, 3].iter().flat_map(|w| w.to_ne_bytes()).collect();
        assert_eq!(words::<4>(&bytes[..]), [1, 2, 3, 0]);
        assert_eq!(words::<2>(&bytes[..]), [1, 2]);
        assert_eq!([0, 2, 3].map(|index| word_at(&bytes[..], index)), [1, 3, 0]);
    }
}
