//! Buffers of operations under way.

use super::slices::{RawSlice, RawSliceMut, Slices, gather_part, total, walk};
use super::{Sink, Source, StoreHint};
use crate::ring::{self, StoreMode};

/// Bytes of a message, the room for which is in no cache of its receiver, most likely, but in the
/// one that all cores share. From longer ones' rooms lines come out of memory, and are better
/// fetched when they are due (decision 0011).
const PREFETCH_TARGET: core::ops::Range<u64> = 1 << 20..3 << 20;

/// The bytes of a send under way.
///
/// # Invariants
/// The slices stay readable, and unwritten by others, until the operation is done: what limic's
/// `Messages::post_send` demands of its caller.
#[derive(Debug)]
pub struct SendBuffer {
    slices: Slices<RawSlice>,
    len: u64,
}

// SAFETY: by the type's invariant the bytes stay readable wherever the endpoint moves to.
unsafe impl Send for SendBuffer {}

#[expect(clippy::len_without_is_empty, reason = "nobody asks whether it is")]
impl SendBuffer {
    /// # Safety
    /// The type's invariant holds.
    #[inline]
    pub unsafe fn new(slices: &[RawSlice]) -> Self {
        let empty = RawSlice {
            start: core::ptr::null(),
            len: 0,
        };
        Self {
            slices: Slices::new(slices, empty),
            len: total(slices),
        }
    }

    /// Of all slices together.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Where they lie.
    #[inline]
    pub fn slices(&self) -> &[RawSlice] {
        self.slices.as_slice()
    }

    /// Copies `limit` bytes from `skip` on, or as many as there are, to the start of the sink.
    ///
    /// # Safety
    /// The sink has room for them.
    #[inline]
    pub unsafe fn copy_to(&self, skip: u64, limit: u64, sink: &mut impl Sink) {
        let limit = limit.min(self.len.saturating_sub(skip));
        // SAFETY: readable by the type's invariant, and of that length; the rest is the caller's
        // promise.
        unsafe { gather_part(self.slices(), skip, limit, sink) }
    }

    /// A private copy of the bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len as usize);
        walk(
            self.slices(),
            |s| (s.start.cast_mut(), s.len),
            0,
            u64::MAX,
            |_, start, len| {
                // SAFETY: readable by the type's invariant, and nobody writes there meanwhile.
                out.extend_from_slice(unsafe { core::slice::from_raw_parts(start, len) });
            },
        );
        out
    }
}

/// The room of a receive under way that is in one slice.
///
/// # Invariants
/// Those of [`ReceiveBuffer`].
#[derive(Clone, Copy, Debug)]
pub struct SingleSlice(RawSliceMut);

// SAFETY: by the type's invariant the room stays writable wherever the endpoint moves to.
unsafe impl Send for SingleSlice {}

#[expect(clippy::len_without_is_empty, reason = "nobody asks whether it is")]
impl SingleSlice {
    /// Room for no bytes.
    pub const EMPTY: Self = Self(RawSliceMut {
        start: core::ptr::null_mut(),
        len: 0,
    });

    /// # Safety
    /// The type's invariant holds.
    #[inline(always)]
    pub unsafe fn new(slice: RawSliceMut) -> Self {
        Self(slice)
    }

    /// Copies all of `source`, if it fits. False: nothing was copied.
    #[inline(always)]
    pub fn fill(self, source: &(impl Source + ?Sized)) -> bool {
        let len = source.len();
        if len > self.0.len as u64 {
            return false;
        }
        // SAFETY: `len` is within the slice, which is writable by the type's invariant, and all of
        // the source.
        unsafe { source.get(0, self.0.start, len as usize) }
        true
    }

    /// First byte.
    #[inline]
    pub fn start(self) -> *mut u8 {
        self.0.start
    }

    /// Bytes.
    #[inline]
    pub fn len(self) -> usize {
        self.0.len
    }

    /// Cuts the first `len` bytes off, or as many as there are. The rest begins at a multiple of
    /// `align`.
    pub fn cut(&mut self, len: u64, align: usize) -> Self {
        let RawSliceMut { start, len: all } = self.0;
        let len = usize::try_from(len).map_or(all, |len| len.min(all));
        let behind = start.wrapping_add(len);
        let skip = behind.align_offset(align).min(all - len);
        self.0 = RawSliceMut {
            start: behind.wrapping_add(skip),
            len: all - len - skip,
        };
        Self(RawSliceMut { start, len })
    }
}

impl From<SingleSlice> for ReceiveBuffer {
    #[inline]
    fn from(room: SingleSlice) -> Self {
        Self {
            slices: Slices::One(room.0),
        }
    }
}

/// The room of a receive under way.
///
/// # Invariants
/// The slices stay writable, and untouched by others, until the operation is done: what
/// limic's `Messages::post_recv` demands of its caller.
#[derive(Debug)]
pub struct ReceiveBuffer {
    slices: Slices<RawSliceMut>,
}

// SAFETY: by the type's invariant the room stays writable wherever the endpoint moves to.
unsafe impl Send for ReceiveBuffer {}

#[expect(clippy::len_without_is_empty, reason = "nobody asks whether it is")]
impl ReceiveBuffer {
    /// # Safety
    /// The type's invariant holds.
    #[inline(always)]
    pub unsafe fn new(slices: &[RawSliceMut]) -> Self {
        let empty = RawSliceMut {
            start: core::ptr::null_mut(),
            len: 0,
        };
        Self {
            slices: Slices::new(slices, empty),
        }
    }

    /// Of all slices together.
    #[inline(always)]
    pub fn len(&self) -> u64 {
        match &self.slices {
            Slices::One(one) => one.len as u64,
            Slices::Many(many) => many.iter().map(|slice| slice.len as u64).sum(),
        }
    }

    /// Where the room lies.
    #[inline]
    pub fn slices(&self) -> &[RawSliceMut] {
        self.slices.as_slice()
    }

    /// The room, if it is in one slice.
    #[inline(always)]
    pub fn single_slice(&self) -> Option<SingleSlice> {
        match &self.slices {
            Slices::One(one) => Some(SingleSlice(*one)),
            Slices::Many(_) => None,
        }
    }

    /// Copies the first `limit` bytes of `source` (or what fits, or what there is) to offset
    /// `skip`.
    #[inline(always)]
    pub fn copy_from(&self, skip: u64, limit: u64, source: &(impl Source + ?Sized)) {
        let limit = limit.min(source.len());
        match &self.slices {
            Slices::One(one) if skip <= one.len as u64 => {
                let n = limit.min(one.len as u64 - skip) as usize;
                // SAFETY: `skip + n` is within the slice, which is writable by the type's
                // invariant, and `n` within the source.
                unsafe { source.get(0, one.start.wrapping_add(skip as usize), n) }
                return;
            }
            _ => {}
        }
        walk(
            self.slices(),
            |s| (s.start, s.len),
            skip,
            limit,
            |at, start, len| {
                // SAFETY: writable by the type's invariant; `at + len <= limit <= source.len()`.
                unsafe { source.get(at, start, len) }
            },
        );
    }

    /// The same with a part of a message of `whole` bytes.
    #[inline(always)]
    pub fn copy_part(&self, skip: u64, limit: u64, source: &(impl Source + ?Sized), whole: u64) {
        if PREFETCH_TARGET.contains(&whole) {
            self.copy_from(skip, limit, &StoreHint(StoreMode::Prefetched, source));
        } else {
            self.copy_from(skip, limit, source);
        }
    }

    /// The same with stores past the caches.
    #[inline]
    pub fn copy_non_temporal(&self, skip: u64, limit: u64, source: &(impl Source + ?Sized)) {
        self.copy_from(skip, limit, &StoreHint(StoreMode::NonTemporal, source));
    }

    /// Copies the first `limit` bytes of a send of the same process.
    pub fn copy_from_send(&self, data: &SendBuffer, limit: u64) {
        walk(
            self.slices(),
            |s| (s.start, s.len),
            0,
            limit.min(data.len),
            |at, start, len| {
                let mut to = PointerSink(start);
                // SAFETY: `len` bytes of this buffer's room, writable by the type's invariant.
                unsafe { data.copy_to(at, len as u64, &mut to) };
            },
        );
    }
}

/// Room of a receive, as the target of a plain copy.
struct PointerSink(*mut u8);

impl Sink for PointerSink {
    unsafe fn put(&mut self, at: u64, from: *const u8, len: usize) {
        // SAFETY: `copy_from_send` gives it room for what it copies. A process may send to itself
        // from a buffer that overlaps the receive's only by breaking the raw form's contract.
        unsafe { ring::copy_bytes(from, self.0.wrapping_add(at as usize), len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Window;

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
        let memory = ring::heap(1 << 10);
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
