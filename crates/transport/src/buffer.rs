//! The one place where message bytes are touched: buffers of operations under way, and copies
//! between them and shared memory.

use limic_shm::ring::{self, Mapped, Memory};
use limic_shm::segment::PeerArena;

use crate::raw::{RawSlice, RawSliceMut};

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
}

impl Sink for ring::line::Reservation<'_, Mapped> {
    #[inline(always)]
    unsafe fn put(&mut self, at: u64, from: *const u8, len: usize) {
        // SAFETY: the caller's promise; records are shorter than 4 GiB.
        unsafe { self.write(at as u32, from, len as u32) }
    }
}

impl Sink for ring::shared::Reservation<'_, Mapped> {
    #[inline(always)]
    unsafe fn put(&mut self, at: u64, from: *const u8, len: usize) {
        // SAFETY: the caller's promise; records are shorter than 4 GiB.
        unsafe { self.write(at as u32, from, len as u32) }
    }
}

impl Source for ring::line::Record<'_, Mapped> {
    #[inline(always)]
    fn len(&self) -> u64 {
        u64::from(self.len)
    }
    #[inline(always)]
    unsafe fn get(&self, at: u64, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.read(at as u32, to, len as u32) }
    }
}

impl Source for ring::shared::Record<'_, Mapped> {
    #[inline(always)]
    fn len(&self) -> u64 {
        u64::from(self.len)
    }
    #[inline(always)]
    unsafe fn get(&self, at: u64, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.read(at as u32, to, len as u32) }
    }
}

/// A range of mapped memory: a pool chunk or a loan.
pub(crate) struct Window<'a> {
    memory: &'a Mapped,
    start: usize,
    len: usize,
}

impl<'a> Window<'a> {
    /// `None` unless the range lies within the memory; the numbers may come from a peer.
    pub(crate) fn new(memory: &'a Mapped, start: u64, len: u64) -> Option<Self> {
        let (start, len) = (usize::try_from(start).ok()?, usize::try_from(len).ok()?);
        (start.checked_add(len)? <= memory.len()).then_some(Self { memory, start, len })
    }
}

impl Sink for Window<'_> {
    #[inline]
    unsafe fn put(&mut self, at: u64, from: *const u8, len: usize) {
        debug_assert!(at as usize + len <= self.len);
        // SAFETY: the caller keeps within the window, which `new` checked against the memory.
        unsafe { self.memory.write(self.start + at as usize, from, len) }
    }
}

impl Source for Window<'_> {
    fn len(&self) -> u64 {
        self.len as u64
    }
    #[inline]
    unsafe fn get(&self, at: u64, to: *mut u8, len: usize) {
        debug_assert!(at as usize + len <= self.len);
        // SAFETY: the caller keeps within the window, which `new` checked against the memory.
        unsafe { self.memory.read(self.start + at as usize, to, len) }
    }
}

/// Bytes of a peer's arena.
pub(crate) struct Lying {
    start: *const u8,
    len: u64,
}

impl Lying {
    /// `None` unless the range lies within the arena; the numbers come from a peer.
    pub(crate) fn new(arena: &PeerArena, offset: u64, len: u64) -> Option<Self> {
        Some(Self {
            start: arena.pointer(offset, len)?,
            len,
        })
    }

    pub(crate) fn start(&self) -> *const u8 {
        self.start
    }
}

impl Source for Lying {
    fn len(&self) -> u64 {
        self.len
    }
    unsafe fn get(&self, at: u64, to: *mut u8, len: usize) {
        // SAFETY: within the range that `new` checked; callers hold the arena while they copy. A sender that writes
        // now changes which bytes are copied, nothing else.
        unsafe { ring::copy_bytes(self.start.wrapping_add(at as usize), to, len) }
    }
}

impl Source for [u8] {
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }
    #[inline]
    unsafe fn get(&self, at: u64, to: *mut u8, len: usize) {
        debug_assert!(at as usize + len <= <[u8]>::len(self));
        // SAFETY: the caller's promise; `to` is memory of an operation, never this slice.
        unsafe { ring::copy_bytes(self.as_ptr().add(at as usize), to, len) }
    }
}

/// Private memory of this process as a place to write to.
pub(crate) struct Place<'a>(&'a mut [u8]);

impl<'a> Place<'a> {
    #[cfg_attr(not(feature = "ibverbs"), expect(dead_code, reason = "packets only"))]
    pub(crate) fn new(room: &'a mut [u8]) -> Self {
        Self(room)
    }
}

impl Sink for Place<'_> {
    #[inline]
    unsafe fn put(&mut self, at: u64, from: *const u8, len: usize) {
        debug_assert!(at as usize + len <= self.0.len());
        // SAFETY: the caller's promise; `from` is memory of an operation, never this slice.
        unsafe { ring::copy_bytes(from, self.0.as_mut_ptr().add(at as usize), len) }
    }
}

/// The bytes of a source or sink behind its first `skip` ones.
pub(crate) struct Behind<S> {
    pub(crate) inner: S,
    pub(crate) skip: u64,
}

impl<S: Source> Source for Behind<&S> {
    #[inline(always)]
    fn len(&self) -> u64 {
        self.inner.len().saturating_sub(self.skip)
    }
    #[inline(always)]
    unsafe fn get(&self, at: u64, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise; `skip + at + len` is within the inner source.
        unsafe { self.inner.get(self.skip + at, to, len) }
    }
}

impl<S: Sink> Sink for Behind<&mut S> {
    #[inline(always)]
    unsafe fn put(&mut self, at: u64, from: *const u8, len: usize) {
        // SAFETY: the caller's promise, `skip` bytes further on.
        unsafe { self.inner.put(self.skip + at, from, len) }
    }
}

/// Reads up to `N` words from the start of a record; missing ones are 0.
#[inline]
pub(crate) fn words<const N: usize>(source: &(impl Source + ?Sized)) -> [u64; N] {
    let mut words = [0_u64; N];
    let len = (source.len() as usize).min(N * 8);
    // SAFETY: `len` is within both; every bit pattern is a `u64`.
    unsafe { source.get(0, words.as_mut_ptr().cast::<u8>(), len) }
    words
}

/// Writes words to the start of a record.
#[inline]
pub(crate) fn put_words<const N: usize>(sink: &mut impl Sink, words: &[u64; N]) {
    // SAFETY: the array is valid for its bytes, and callers reserve `N * 8` bytes.
    unsafe { sink.put(0, words.as_ptr().cast::<u8>(), N * 8) }
}

/// The bytes of a source as a private vector, appended to `into`.
pub(crate) fn append(source: &(impl Source + ?Sized), into: &mut Vec<u8>) {
    let (old, len) = (into.len(), source.len() as usize);
    into.reserve(len);
    // SAFETY: room for `len` bytes was just reserved behind the `old` ones.
    unsafe { source.get(0, into.as_mut_ptr().add(old), len) }
    // SAFETY: the bytes up to the new length have just been written.
    unsafe { into.set_len(old + len) }
}

enum Pieces<S> {
    One(S),
    Many(Box<[S]>),
}

impl<S: Copy> Pieces<S> {
    #[inline(always)]
    fn new(slices: &[S], empty: S) -> Self {
        match slices {
            [] => Self::One(empty),
            [one] => Self::One(*one),
            many => Self::many(many),
        }
    }

    #[cold]
    fn many(slices: &[S]) -> Self {
        Self::Many(slices.into())
    }

    #[inline]
    fn as_slice(&self) -> &[S] {
        match self {
            Self::One(one) => core::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

/// Calls `visit(offset in the run, start, bytes)` for the pieces of `limit` bytes from `skip` on.
#[inline(always)]
fn walk<S: Copy>(
    slices: &[S],
    parts: impl Fn(S) -> (*mut u8, usize),
    mut skip: u64,
    limit: u64,
    mut visit: impl FnMut(u64, *mut u8, usize),
) {
    let mut done = 0;
    for slice in slices {
        let (start, len) = parts(*slice);
        if done == limit {
            return;
        }
        if skip >= len as u64 {
            skip -= len as u64;
            continue;
        }
        let n = (len as u64 - skip).min(limit - done) as usize;
        visit(done, start.wrapping_add(skip as usize), n);
        done += n as u64;
        skip = 0;
    }
}

/// Total length of the pieces.
#[inline]
pub(crate) fn total(slices: &[RawSlice]) -> u64 {
    match slices {
        [one] => one.len as u64,
        many => many.iter().map(|slice| slice.len as u64).sum(),
    }
}

/// Writes an immediate word, and all bytes of `slices` behind it.
///
/// # Safety
/// As [`gather`], with room for 8 bytes more.
#[inline(always)]
pub(crate) unsafe fn gather_behind(immediate: u64, slices: &[RawSlice], sink: &mut impl Sink) {
    put_words(sink, &[immediate]);
    // SAFETY: the caller's promise.
    unsafe {
        gather(
            slices,
            &mut Behind {
                inner: sink,
                skip: 8,
            },
        )
    }
}

/// Copies all bytes of `slices` to the start of `sink`.
///
/// # Safety
/// The slices are readable, and the sink has room for [`total`] bytes.
#[inline(always)]
pub(crate) unsafe fn gather(slices: &[RawSlice], sink: &mut impl Sink) {
    if let [one] = slices {
        // SAFETY: the caller's promise.
        unsafe { sink.put(0, one.start, one.len) }
    } else {
        walk(
            slices,
            |s| (s.start.cast_mut(), s.len),
            0,
            u64::MAX,
            |at, start, len| {
                // SAFETY: the caller's promise; `walk` stays within the slices.
                unsafe { sink.put(at, start, len) }
            },
        );
    }
}

/// The bytes of a send under way.
///
/// # Invariants
/// The slices stay readable, and unwritten by others, until the operation is done: what
/// [`RawEndpoint::post_send`](crate::RawEndpoint::post_send) demands of its caller.
pub(crate) struct SendBuffer {
    pieces: Pieces<RawSlice>,
    len: u64,
}

// SAFETY: by the type's invariant the bytes stay readable wherever the endpoint moves to.
unsafe impl Send for SendBuffer {}

impl SendBuffer {
    /// # Safety
    /// The type's invariant holds.
    pub(crate) unsafe fn new(slices: &[RawSlice]) -> Self {
        let empty = RawSlice {
            start: core::ptr::null(),
            len: 0,
        };
        Self {
            pieces: Pieces::new(slices, empty),
            len: total(slices),
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn slices(&self) -> &[RawSlice] {
        self.pieces.as_slice()
    }

    /// Copies `limit` bytes from `skip` on to the start of the sink, which has room for them.
    #[inline]
    pub(crate) fn copy_to(&self, skip: u64, limit: u64, sink: &mut impl Sink) {
        walk(
            self.slices(),
            |s| (s.start.cast_mut(), s.len),
            skip,
            limit,
            |at, start, len| {
                // SAFETY: readable by the type's invariant; `walk` stays within the slices.
                unsafe { sink.put(at, start, len) }
            },
        );
    }

    /// A private copy of the bytes.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
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

/// The room of a receive under way.
///
/// # Invariants
/// The slices stay writable, and untouched by others, until the operation is done: what
/// [`RawEndpoint::post_recv`](crate::RawEndpoint::post_recv) demands of its caller.
pub(crate) struct ReceiveBuffer {
    pieces: Pieces<RawSliceMut>,
}

// SAFETY: by the type's invariant the room stays writable wherever the endpoint moves to.
unsafe impl Send for ReceiveBuffer {}

impl ReceiveBuffer {
    /// # Safety
    /// The type's invariant holds.
    #[inline(always)]
    pub(crate) unsafe fn new(slices: &[RawSliceMut]) -> Self {
        let empty = RawSliceMut {
            start: core::ptr::null_mut(),
            len: 0,
        };
        Self {
            pieces: Pieces::new(slices, empty),
        }
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> u64 {
        match &self.pieces {
            Pieces::One(one) => one.len as u64,
            Pieces::Many(many) => many.iter().map(|slice| slice.len as u64).sum(),
        }
    }

    pub(crate) fn slices(&self) -> &[RawSliceMut] {
        self.pieces.as_slice()
    }

    /// Copies the first `limit` bytes of `source` (or what fits, or what there is) to offset `skip`.
    #[inline(always)]
    pub(crate) fn copy_from(&self, skip: u64, limit: u64, source: &(impl Source + ?Sized)) {
        let limit = limit.min(source.len());
        if let Pieces::One(one) = &self.pieces
            && skip <= one.len as u64
        {
            let n = limit.min(one.len as u64 - skip) as usize;
            // SAFETY: `skip + n` is within the slice, which is writable by the type's invariant, and `n` within
            // the source.
            unsafe { source.get(0, one.start.wrapping_add(skip as usize), n) }
            return;
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

    /// Copies the first `limit` bytes of a send of the same process.
    pub(crate) fn copy_from_send(&self, data: &SendBuffer, limit: u64) {
        walk(
            self.slices(),
            |s| (s.start, s.len),
            0,
            limit.min(data.len),
            |at, start, len| {
                let mut to = PointerSink(start);
                data.copy_to(at, len as u64, &mut to);
            },
        );
    }
}

/// Room of a receive, as the target of a plain copy.
struct PointerSink(*mut u8);

impl Sink for PointerSink {
    unsafe fn put(&mut self, at: u64, from: *const u8, len: usize) {
        // SAFETY: `copy_from_send` gives it room for what it copies. A process may send to itself from a buffer
        // that overlaps the receive's only by breaking the raw form's contract.
        unsafe { ring::copy_bytes(from, self.0.wrapping_add(at as usize), len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_shape_meet() {
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
    }
}
