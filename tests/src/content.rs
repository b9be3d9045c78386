//! Random numbers from a seed, and message contents that can be checked.

/// SplitMix64 (Steele, Lea, Flood 2014): the same numbers in every process that has the seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts at a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next_u64() % end
    }

    /// A message length of up to `2^max_log` bytes: every order of magnitude is as likely as any
    /// other.
    pub fn length(&mut self, max_log: u32) -> usize {
        let bits = self.below(u64::from(max_log) + 1);
        self.below((1 << bits) + 1) as usize
    }

    /// Brings a list into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            let other = self.below(end as u64 + 1) as usize;
            items.swap(end, other);
        }
    }
}

/// Contents repeat after so many bytes: a prime, so that no chunk, line or page begins like
/// another.
const PERIOD: usize = 4093;

/// The bytes of message number `seed`: no two numbers, and no two chunks of one, look the same.
#[must_use]
pub fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len.max(PERIOD) + 8);
    let mut word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1_e995;
    while bytes.len() < len.min(PERIOD) {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        bytes.extend_from_slice(&(word ^ (word >> 29)).to_le_bytes());
    }
    bytes.truncate(len.min(PERIOD));
    while bytes.len() < len {
        let next = bytes.len().min(len - bytes.len());
        bytes.extend_from_within(..next);
    }
    bytes
}

/// Checks that `found` is the beginning of message number `seed`.
///
/// # Panics
/// With the first place that differs.
#[track_caller]
pub fn check(seed: u64, found: &[u8]) {
    let wanted = content(seed, found.len());
    if wanted != found {
        let at = wanted.iter().zip(found).position(|(a, b)| a != b);
        let at = at.unwrap_or(0);
        let end = (at + 16).min(found.len());
        panic!(
            "message {seed} of {} bytes differs at byte {at}: {:02x?} instead of {:02x?}",
            found.len(),
            &found[at..end],
            &wanted[at..end]
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_differ_and_agree_with_themselves() {
        check(3, &content(3, 1000));
        check(3, &content(3, 1000)[..17]);
        assert_ne!(content(3, 64), content(4, 64));
        assert!(content(1, 0).is_empty());
        let long = content(5, 100_000);
        assert_eq!(long[..50_000], content(5, 50_000));
        assert_ne!(long[..4096], long[4096..8192]);
        assert_ne!(long[..32 << 10], long[32 << 10..64 << 10]);
    }

    #[test]
    fn lengths_stay_below_their_limit() {
        let mut random = Random::new(1);
        assert!((0..10_000).all(|_| random.length(10) <= 1024));
    }
}
