//! Words of records: how they are read, and what is packed into one.

use super::{Sink, Skip, Source};

/// Reads up to `N` words from the start of a record; missing ones are 0.
#[inline(always)]
pub fn words<const N: usize>(source: &(impl Source + ?Sized)) -> [u64; N] {
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

/// Writes words to the start of a record.
///
/// # Safety
/// The sink has room for them.
#[inline]
pub unsafe fn put_words(sink: &mut impl Sink, words: &[u64]) {
    // SAFETY: the slice is valid for its bytes; the rest is the caller's promise.
    unsafe { sink.put(0, words.as_ptr().cast::<u8>(), size_of_val(words)) }
}

/// Reads word number `index` of a record; a missing one is 0.
#[inline(always)]
pub fn word_at(source: &(impl Source + ?Sized), index: u64) -> u64 {
    let [word] = words(&Skip {
        inner: source,
        skip: index * size_of::<u64>() as u64,
    });
    word
}

/// Two halves of a word, the low one first.
#[inline(always)]
#[must_use]
pub fn halves(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// Up to eight flags, and a length of up to 56 bits, in one word.
#[inline(always)]
#[must_use]
pub fn flagged(flags: u64, len: u64) -> u64 {
    debug_assert!(flags < 1 << 8 && len < 1 << 56, "flags and a length");
    flags << 56 | len
}

/// Flags and length of such a word.
#[inline(always)]
#[must_use]
pub const fn unflagged(word: u64) -> (u64, u64) {
    (word >> 56, word & (u64::MAX >> 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_cross_as_bytes() {
        let bytes: Vec<u8> = [1_u64, 2, 3].iter().flat_map(|w| w.to_ne_bytes()).collect();
        assert_eq!(words::<4>(&bytes[..]), [1, 2, 3, 0]);
        assert_eq!(words::<2>(&bytes[..]), [1, 2]);
        assert_eq!([0, 2, 3].map(|index| word_at(&bytes[..], index)), [1, 3, 0]);
    }
}
