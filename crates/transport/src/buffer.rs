//! The one place where message bytes are touched: buffers of operations under way, and copies
//! between them and shared memory (`limic_shm::bytes`).

mod operations;
mod slices;

pub(crate) use limic_shm::bytes::{
    PrivateBytes, Sink, Skip, Source, Window, append, word_at, words,
};
pub(crate) use operations::{ReceiveBuffer, SendBuffer, SingleSlice};
pub(crate) use slices::{gather, gather_behind, gather_part, total};

/// Writes words to the start of a record.
#[inline]
pub(crate) fn put_words(sink: &mut impl Sink, words: &[u64]) {
    // SAFETY: the slice is valid for its bytes, and callers reserve as many.
    unsafe { sink.put(0, words.as_ptr().cast::<u8>(), size_of_val(words)) }
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
}
