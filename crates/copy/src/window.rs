//! Cutting long lists of slices into what one system call takes.

use libc::{c_void, iovec};

use crate::{LocalSlice, LocalSliceMut, RemoteRange};

/// Most bytes of a message in one call. The kernel stops at `INT_MAX` rounded down to a page
/// (`MAX_RW_COUNT`) on the local side, at most 64 KiB below. This leaves room for the word by which
/// a peer is known, and keeps alignment.
pub(crate) const MAX_BYTES_PER_CALL: u64 = 0x7ffe_0000;

/// A slice of memory in a list. Only numbers: nothing here touches the memory.
pub(crate) trait Span {
    /// Address of byte `offset` of the slice, for an iovec.
    fn at(&self, offset: u64) -> *mut c_void;
    /// Length in bytes.
    fn bytes(&self) -> u64;
}

impl Span for LocalSlice {
    fn at(&self, offset: u64) -> *mut c_void {
        // The offset is below the length, which is a usize: the cast loses nothing.
        self.pointer()
            .wrapping_add(offset as usize)
            .cast_mut()
            .cast()
    }

    fn bytes(&self) -> u64 {
        self.len() as u64
    }
}

impl Span for LocalSliceMut {
    fn at(&self, offset: u64) -> *mut c_void {
        // As above.
        self.pointer().wrapping_add(offset as usize).cast()
    }

    fn bytes(&self) -> u64 {
        self.len() as u64
    }
}

impl Span for RemoteRange {
    fn at(&self, offset: u64) -> *mut c_void {
        // An address in another process: here it is a number. `transfer` has checked that it
        // and the end of the range fit a usize.
        std::ptr::without_provenance_mut(self.address.wrapping_add(offset) as usize)
    }

    fn bytes(&self) -> u64 {
        self.len
    }
}

/// Total length of a list in bytes; `None` from 2^64 on.
pub(crate) fn total<S: Span>(spans: &[S]) -> Option<u64> {
    spans
        .iter()
        .try_fold(0_u64, |sum, span| sum.checked_add(span.bytes()))
}

/// An entry that names nothing.
pub(crate) const EMPTY: iovec = iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};

/// A place in a list: the slices from the current one on, and an offset into the first of them.
#[derive(Debug)]
pub(crate) struct Cursor<'a, S> {
    spans: &'a [S],
    offset: u64,
}

impl<'a, S: Span> Cursor<'a, S> {
    /// The start of `spans`.
    pub(crate) fn new(spans: &'a [S]) -> Self {
        Self { spans, offset: 0 }
    }

    /// Whether at most `entries` slices are left.
    pub(crate) fn is_short(&self, entries: usize) -> bool {
        self.spans.len() <= entries
    }

    /// Moves `bytes` further, at most to the end.
    pub(crate) fn advance(&mut self, bytes: u64) {
        let mut left = bytes;
        while let Some((first, rest)) = self.spans.split_first() {
            let here = first.bytes() - self.offset;
            if left < here {
                self.offset += left;
                return;
            }
            left -= here;
            self.spans = rest;
            self.offset = 0;
        }
    }

    /// Fills `out` with what comes next, at most `limit` bytes and leaving out empty slices.
    /// Returns the entries used and the bytes that they name.
    pub(crate) fn window(&self, out: &mut [iovec], limit: u64) -> (usize, u64) {
        let (mut used, mut named, mut offset) = (0, 0, self.offset);
        for span in self.spans {
            if used == out.len() || named == limit {
                break;
            }
            let take = (span.bytes() - offset).min(limit - named);
            if take > 0 {
                // At most `limit`, which is below 2 GiB: fits every usize.
                out[used] = iovec {
                    iov_base: span.at(offset),
                    iov_len: take as usize,
                };
                used += 1;
                named += take;
            }
            offset = 0;
        }
        (used, named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(list: &[(u64, u64)]) -> Vec<RemoteRange> {
        list.iter()
            .map(|&(address, len)| RemoteRange {
                key: 0,
                address,
                len,
            })
            .collect()
    }

    fn named(cursor: &Cursor<'_, RemoteRange>, entries: usize, limit: u64) -> Vec<(usize, usize)> {
        let mut out = vec![EMPTY; entries];
        let (used, bytes) = cursor.window(&mut out, limit);
        let list: Vec<_> = out[..used]
            .iter()
            .map(|entry| (entry.iov_base.addr(), entry.iov_len))
            .collect();
        assert_eq!(bytes, list.iter().map(|entry| entry.1 as u64).sum::<u64>());
        list
    }

    #[test]
    fn windows_follow_the_cursor() {
        let list = ranges(&[(100, 10), (0, 0), (200, 5), (300, 20)]);
        let mut cursor = Cursor::new(&list);
        assert_eq!(named(&cursor, 8, 100), [(100, 10), (200, 5), (300, 20)]);
        assert_eq!(named(&cursor, 2, 100), [(100, 10), (200, 5)]);
        assert_eq!(named(&cursor, 8, 12), [(100, 10), (200, 2)]);
        cursor.advance(10);
        assert_eq!(named(&cursor, 8, 100), [(200, 5), (300, 20)]);
        cursor.advance(7);
        assert_eq!(named(&cursor, 8, 3), [(302, 3)]);
        cursor.advance(1000);
        assert_eq!(named(&cursor, 8, 3), []);
    }

    #[test]
    fn a_total_that_does_not_fit_is_none() {
        assert_eq!(total(&ranges(&[(0, u64::MAX), (0, 1)])), None);
        assert_eq!(total(&ranges(&[(0, u64::MAX - 1), (0, 1)])), Some(u64::MAX));
    }
}
