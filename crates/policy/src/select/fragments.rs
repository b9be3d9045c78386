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

/// Fragments of an eager message, at least, before they become longer than the shortest.
const MANY_FRAGMENTS: u64 = 16;

/// How a message is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It goes without asking, most often as a reply through recycled buffers. Messages of 64 to
    /// 256 KiB use buffers of one length, so that none brings further memory into the caches.
    Eager,
    /// The receiver has asked for it, and for others perhaps, which follow without a gap.
    Asked,
    /// There are more endpoints than processors, and each turn has to move much.
    Longest,
}

/// Bytes of the fragments in the middle of a message, where so many are set.
pub(super) fn longest(set: u32, buffer_bytes: u64) -> u64 {
    u64::from(set).max(LEAST_LONGEST).min(buffer_bytes)
}

impl Routes {
    /// Bytes of the fragment at byte `at` of a message of `len` bytes: short ones first and last,
    /// and longer ones, of which each costs as much to tell as a short one, in between.
    #[inline]
    #[must_use]
    pub fn fragment_bytes(&self, len: u64, at: u64, cut: Cut) -> u64 {
        let left = len - at;
        if cut == Cut::Longest {
            return self.longest_fragment.min(left);
        }
        let pages = |bytes: u64| bytes.next_multiple_of(PAGE);
        let first = pages(len / 4).clamp(*FIRST_FRAGMENT.start(), *FIRST_FRAGMENT.end());
        let first = first.min(pages(len.div_ceil(2)));
        let most = self.most_in_fragment(len, cut);
        at.min(pages(left / 2)).max(first).min(most).min(left)
    }

    /// Bytes of the longest fragment of a message of `len` bytes.
    #[must_use]
    pub fn longest_fragment_of(&self, len: u64, cut: Cut) -> u64 {
        let (mut at, mut longest) = (0, 0);
        // Each is as long as all before it until one has the most, or half of the message is out.
        while at < len && longest < self.most_in_fragment(len, cut) {
            let bytes = self.fragment_bytes(len, at, cut);
            longest = longest.max(bytes);
            at += bytes;
        }
        longest
    }

    #[inline]
    fn most_in_fragment(&self, len: u64, cut: Cut) -> u64 {
        if len > MANY_BUFFERS * self.longest_fragment {
            return BUFFERS_IN_FRAGMENT * self.longest_fragment;
        }
        let few = (len / MANY_FRAGMENTS)
            .next_multiple_of(PAGE)
            .max(LEAST_LONGEST);
        match cut {
            Cut::Eager => few.min(self.longest_fragment),
            Cut::Asked | Cut::Longest => self.longest_fragment,
        }
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

    fn fragments(len: u64, cut: Cut) -> Vec<u64> {
        let mut at = 0;
        let mut all = Vec::new();
        while at < len {
            let fragment = routes().fragment_bytes(len, at, cut);
            at += fragment;
            all.push(fragment);
        }
        assert_eq!(at, len);
        all
    }

    #[test]
    fn fragments_are_short_at_both_ends_and_longest_in_long_messages() {
        let kib = |sizes: &[u64]| sizes.iter().map(|size| size << 10).collect::<Vec<_>>();
        for cut in [Cut::Eager, Cut::Asked] {
            assert_eq!(fragments(16 << 10, cut), kib(&[8, 8]));
            assert_eq!(fragments(64 << 10, cut), kib(&[16, 16, 16, 16]));
            for (len, longest) in [(1 << 20, 32 << 10), ((1 << 20) + 1, 64 << 10)] {
                assert_eq!(fragments(len, cut).into_iter().max(), Some(longest));
            }
        }
        let asked = kib(&[16, 16, 32, 32, 16, 16]);
        assert_eq!(fragments(128 << 10, Cut::Asked), asked);
        assert_eq!(fragments(128 << 10, Cut::Eager), kib(&[16; 8]));
    }

    #[test]
    fn the_longest_fragment_is_one_that_is_cut() {
        for len in (12 << 10..3 << 20).step_by(7919) {
            for cut in [Cut::Eager, Cut::Asked] {
                let longest = fragments(len, cut).into_iter().max();
                assert_eq!(
                    longest,
                    Some(routes().longest_fragment_of(len, cut)),
                    "{len}"
                );
            }
        }
    }

    /// Recycled buffers are used in the opposite order.
    #[test]
    fn a_reply_as_long_has_the_same_fragments_from_behind() {
        for len in [16 << 10, 96 << 10, 512 << 10, 1 << 20] {
            let mut back = fragments(len, Cut::Eager);
            back.reverse();
            assert_eq!(back, fragments(len, Cut::Eager));
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
