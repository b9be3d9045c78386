//! Slices of memory that are known by address and length: of an operation, walked one by one.

use super::{Sink, Skip, put_words};

/// Bytes to send: address and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RawSlice {
    /// First byte.
    pub start: *const u8,
    /// Bytes.
    pub len: usize,
}

/// Room to receive into: address and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RawSliceMut {
    /// First byte.
    pub start: *mut u8,
    /// Bytes.
    pub len: usize,
}

impl From<&[u8]> for RawSlice {
    #[inline(always)]
    fn from(bytes: &[u8]) -> Self {
        Self {
            start: bytes.as_ptr(),
            len: bytes.len(),
        }
    }
}

impl From<&mut [u8]> for RawSliceMut {
    #[inline(always)]
    fn from(bytes: &mut [u8]) -> Self {
        Self {
            start: bytes.as_mut_ptr(),
            len: bytes.len(),
        }
    }
}

#[derive(Debug)]
pub(super) enum Slices<S> {
    One(S),
    Many(Box<[S]>),
}

impl<S: Copy> Slices<S> {
    #[inline(always)]
    pub(super) fn new(slices: &[S], empty: S) -> Self {
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
    pub(super) fn as_slice(&self) -> &[S] {
        match self {
            Self::One(one) => core::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

/// Calls `visit(offset in the run, start, bytes)` for the slices of `limit` bytes from `skip` on.
#[inline(always)]
pub(super) fn walk<S: Copy>(
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

/// Total length of the slices.
#[inline]
#[must_use]
pub fn total(slices: &[RawSlice]) -> u64 {
    match slices {
        [one] => one.len as u64,
        many => many.iter().map(|slice| slice.len as u64).sum(),
    }
}

/// Writes an immediate word, and all bytes of `slices` behind it. The word last: in a ring it lies
/// in the header's line, which is to be written behind all others.
///
/// # Safety
/// As [`gather`], with room for 8 bytes more.
#[inline(always)]
pub unsafe fn gather_behind(immediate: u64, slices: &[RawSlice], sink: &mut impl Sink) {
    // SAFETY: the caller's promise.
    unsafe {
        gather(
            slices,
            &mut Skip {
                inner: &mut *sink,
                skip: 8,
            },
        );
        put_words(sink, &[immediate]);
    }
}

/// Copies `limit` bytes of `slices`, from `skip` on, to the start of `sink`.
///
/// # Safety
/// The slices are readable, and have so many bytes; the sink has room for them.
#[inline]
pub unsafe fn gather_part(slices: &[RawSlice], skip: u64, limit: u64, sink: &mut impl Sink) {
    if let [one] = slices {
        // SAFETY: the caller's promise.
        return unsafe { sink.put(0, one.start.wrapping_add(skip as usize), limit as usize) };
    }
    walk(
        slices,
        |s| (s.start.cast_mut(), s.len),
        skip,
        limit,
        |at, start, len| {
            // SAFETY: the caller's promise; `walk` stays within the slices.
            unsafe { sink.put(at, start, len) }
        },
    );
}

/// Copies all bytes of `slices` to the start of `sink`.
///
/// # Safety
/// The slices are readable, and the sink has room for [`total`] bytes.
#[inline(always)]
pub unsafe fn gather(slices: &[RawSlice], sink: &mut impl Sink) {
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
