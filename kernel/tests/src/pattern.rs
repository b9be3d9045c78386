//! Bytes that can be recognised, and numbers that a seed reproduces.

/// xorshift64*: small, and the same for ever.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next 64 bits.
    #[allow(
        clippy::should_implement_trait,
        reason = "it has no end, so Option would be noise"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// One of the items.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }
}

fn byte(seed: u64, at: usize) -> u8 {
    // Two neighbours differ, and so do two pages.
    (seed as usize + at * 7 + at / 4096 * 13) as u8
}

/// Writes the pattern of `seed`.
pub fn fill(bytes: &mut [u8], seed: u64) {
    for (at, slot) in bytes.iter_mut().enumerate() {
        *slot = byte(seed, at);
    }
}

/// Asserts the pattern of `seed`, from the byte numbered `from` on.
///
/// # Panics
/// If a byte differs.
pub fn check(bytes: &[u8], seed: u64, from: usize) {
    for (at, &found) in bytes.iter().enumerate() {
        let wanted = byte(seed, from + at);
        assert_eq!(found, wanted, "byte {at} of {} is wrong", bytes.len());
    }
}
