//! How long the fragments of a message through staging buffers are.

use super::Routes;

/// Each but the last has whole pages of so many bytes: what a pool of staging buffers hands out.
pub const PAGE: u64 = 4 << 10;

/// Staging buffers in the longest fragment.
pub const BUFFERS_IN_FRAGMENT: u64 = 2;

/// The least that a setting makes of the fragments in the middle, in bytes, unless a staging buffer
/// is shorter.
const LEAST_LONGEST: u64 = 16 << 10;

/// Bytes of the first and the last fragment: a quarter of the message, within these bounds, and at
/// most half of it. The receiver can only begin when the first is there, and ends when it has
/// copied the last.
const FIRST_FRAGMENT: core::ops::RangeInclusive<u64> = 8 << 10..=16 << 10;

/// A message of more staging buffers goes in fragments of two: they are half as many to tell of,
/// and still few bytes of it.
const MANY_BUFFERS: u64 = 32;

/// Eager messages up to this many bytes have fragments of one length.
const ALIKE: u64 = 256 << 10;

/// What a message is cut for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutFor {
    /// It goes without asking, most often as a reply through recycled buffers. Up to 256 KiB all
    /// share buffers of one length, so that none brings further memory into the caches.
    Eager,
    /// The receiver has asked for it, and for others perhaps, which follow without a gap.
    Asked,
    /// There are more endpoints than processors, and each turn has to move much.
    Oversubscribed,
}

/// How a message is cut: short fragments first and last, and longer ones, of which each costs as
/// much to tell as a short one, in between.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    len: u64,
    first: u64,
    most: u64,
}

/// Bytes of the fragments in the middle of a message, where so many are set.
pub(super) fn longest(set: u32, buffer_bytes: u64) -> u64 {
    u64::from(set).max(LEAST_LONGEST).min(buffer_bytes)
}

fn pages(bytes: u64) -> u64 {
    bytes.next_multiple_of(PAGE)
}

impl Routes {
    /// How a message of `len` bytes is cut.
    #[inline]
    #[must_use]
    pub fn cut(&self, len: u64, what: CutFor) -> Cut {
        let longest = self.longest_fragment;
        let (first, most) = match what {
            CutFor::Oversubscribed => (longest, longest),
            _ => {
                let quarter = pages(len / 4);
                let first = quarter.clamp(*FIRST_FRAGMENT.start(), *FIRST_FRAGMENT.end());
                let most = if what == CutFor::Eager && len <= ALIKE {
                    longest.min(LEAST_LONGEST)
                } else if len <= MANY_BUFFERS * longest {
                    longest
                } else {
                    BUFFERS_IN_FRAGMENT * longest
                };
                (first.min(pages(len.div_ceil(2))), most)
            }
        };
        Cut { len, first, most }
    }
}

impl Cut {
    /// Bytes of the fragment that begins at byte `at`.
    #[inline]
    #[must_use]
    pub fn bytes_at(&self, at: u64) -> u64 {
        let left = self.len - at;
        let middle = at.min(pages(left / 2)).max(self.first);
        middle.min(self.most).min(left)
    }

    /// Bytes of the longest fragment.
    #[must_use]
    pub fn longest(&self) -> u64 {
        let (mut at, mut longest) = (0, 0);
        // Each is as long as all before it until one has the most, or half of the message is out.
        while at < self.len && longest < self.most {
            let bytes = self.bytes_at(at);
            longest = longest.max(bytes);
            at += bytes;
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes() -> Routes {
        Routes {
            longest_fragment: longest(32 << 10, 32 << 10),
            ..Routes::default()
        }
    }

    fn fragments(len: u64, what: CutFor) -> Vec<u64> {
        let cut = routes().cut(len, what);
        let mut at = 0;
        let mut all = Vec::new();
        while at < len {
            let fragment = cut.bytes_at(at);
            at += fragment;
            all.push(fragment);
        }
        assert_eq!(at, len);
        all
    }

    #[test]
    fn fragments_are_short_at_both_ends_and_longest_in_long_messages() {
        let kib = |sizes: &[u64]| sizes.iter().map(|size| size << 10).collect::<Vec<_>>();
        for what in [CutFor::Eager, CutFor::Asked] {
            assert_eq!(fragments(16 << 10, what), kib(&[8, 8]));
            assert_eq!(fragments(64 << 10, what), kib(&[16, 16, 16, 16]));
            for (len, longest) in [(1 << 20, 32 << 10), ((1 << 20) + 1, 64 << 10)] {
                assert_eq!(fragments(len, what).into_iter().max(), Some(longest));
            }
        }
        let asked = kib(&[16, 16, 32, 32, 16, 16]);
        assert_eq!(fragments(128 << 10, CutFor::Asked), asked);
        assert_eq!(fragments(128 << 10, CutFor::Eager), kib(&[16; 8]));
    }

    #[test]
    fn the_longest_fragment_is_one_that_is_cut() {
        for len in (12 << 10..3 << 20).step_by(7919) {
            for what in [CutFor::Eager, CutFor::Asked] {
                let longest = fragments(len, what).into_iter().max();
                assert_eq!(longest, Some(routes().cut(len, what).longest()), "{len}");
            }
        }
    }

    /// Recycled buffers are used in the opposite order.
    #[test]
    fn a_reply_as_long_has_the_same_fragments_from_behind() {
        for len in [16 << 10, 96 << 10, 512 << 10, 1 << 20] {
            let mut back = fragments(len, CutFor::Eager);
            back.reverse();
            assert_eq!(back, fragments(len, CutFor::Eager));
        }
    }

    #[test]
    fn what_is_set_is_bounded_by_the_staging_buffers() {
        let of = |set, buffer_bytes| longest(set, buffer_bytes);
        assert_eq!(of(64, 32 << 10), 16 << 10);
        assert_eq!(of(64 << 10, 32 << 10), 32 << 10);
        assert_eq!(of(64, 4 << 10), 4 << 10);
    }
}
