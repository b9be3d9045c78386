//! Bytes that can be recognised, and numbers that a seed reproduces.

use std::sync::LazyLock;

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

/// Bytes after which the pattern repeats: a prime, so that neither pages nor lines repeat in it.
const PERIOD: usize = 65_521;

/// One period of it.
static TABLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut random = Random::new(77);
    (0..PERIOD).map(|_| random.next() as u8).collect()
});

/// The pattern of `seed` from the byte numbered `from` on, in slices without end.
fn pieces(seed: u64, from: usize) -> impl Iterator<Item = &'static [u8]> {
    let start = (seed % PERIOD as u64) as usize + from % PERIOD;
    std::iter::once(&TABLE[start % PERIOD..]).chain(std::iter::repeat(&TABLE[..]))
}

/// Writes the pattern of `seed`.
pub fn fill(bytes: &mut [u8], seed: u64) {
    let mut left = bytes;
    for piece in pieces(seed, 0) {
        let (now, rest) = left.split_at_mut(piece.len().min(left.len()));
        now.copy_from_slice(&piece[..now.len()]);
        left = rest;
        if left.is_empty() {
            return;
        }
    }
}

/// Asserts the pattern of `seed`, from the byte numbered `from` on.
///
/// # Panics
/// If a byte differs.
pub fn check(bytes: &[u8], seed: u64, from: usize) {
    let mut left = bytes;
    for piece in pieces(seed, from) {
        let (now, rest) = left.split_at(piece.len().min(left.len()));
        if now != &piece[..now.len()] {
            let differs = now
                .iter()
                .zip(piece)
                .position(|(found, wanted)| found != wanted);
            let at = bytes.len() - left.len() + differs.unwrap_or(0);
            panic!(
                "byte {at} of {} is wrong (pattern {seed:#x} from {from})",
                bytes.len()
            );
        }
        left = rest;
        if left.is_empty() {
            return;
        }
    }
}
