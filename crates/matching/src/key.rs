//! The key of a hash bin, and its hash.

/// What all entries of one bin have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    /// Tag under the mask of the class.
    pub(super) tag: u64,
    /// Mask of the class.
    pub(super) mask: u64,
    /// Source, 0 if the class is one of any source.
    pub(super) source: u32,
    /// Number of the class in its queue.
    pub(super) class: u8,
    /// Whether the class is one of any source.
    pub(super) any: bool,
}

/// Where a key is looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) bucket: usize,
    /// The key's bit in the filter of the bucket.
    pub(super) filter: u32,
}

/// How keys spread over the buckets of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hasher {
    seed: u64,
    /// 63 - log2(buckets)
    shift: u32,
}

impl Hasher {
    pub(super) const fn new(seed: u64, buckets: usize) -> Self {
        // The largest power of two that the table holds is used.
        let shift = match buckets.checked_ilog2() {
            Some(bits) if bits < 32 => 63 - bits,
            Some(_) => 32,
            None => 63,
        };
        Self { seed, shift }
    }

    /// The key's bucket and its bit there.
    ///
    /// Folded multiplication, as in wyhash: 64 x 64 -> 128 bits, both halves combined. The second
    /// factor is odd and not small, so tags that differ in any bit spread; the top bits are used
    /// since each bit of the factors reaches them.
    #[inline]
    pub(super) const fn place(&self, key: &Key) -> Place {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let label = ((key.class as u64) << 32 | key.source as u64) << 1;
        let product = (key.tag ^ self.seed) as u128 * (label ^ ODD) as u128;
        let hash = product as u64 ^ (product >> 64) as u64;
        // Two shifts, so that a table of one bucket does not shift by 64.
        Place {
            bucket: ((hash >> 1) >> self.shift) as usize,
            filter: 1 << (hash & 31),
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;

    const KEYS: u32 = if cfg!(miri) { 64 } else { 4096 };
    const SOURCES: u32 = if cfg!(miri) { 4 } else { 512 };

    /// Longest chain if the keys go into twice as many buckets.
    fn longest(key: impl Fn(u32) -> Key) -> u32 {
        let hasher = Hasher::new(0xd1b5_4a32_d192_ed03, 2 * KEYS as usize);
        let mut chains = vec![0_u32; 2 * KEYS as usize];
        for i in 0..KEYS {
            let chain = chains.get_mut(hasher.place(&key(i)).bucket);
            *chain.expect("bucket in range") += 1;
        }
        chains.into_iter().max().expect("not empty")
    }

    #[test]
    fn labels_of_mpi_programs_spread() {
        let base = Key {
            tag: 0,
            mask: !0,
            source: 0,
            class: 0,
            any: false,
        };
        for step in 0..52 {
            let chain = longest(|i| Key {
                tag: u64::from(i) << step,
                ..base
            });
            assert!(
                chain <= 12,
                "tags in steps of 1 << {step}: chain of {chain}"
            );
        }
        for step in 0..20 {
            let chain = longest(|i| Key {
                source: i << step,
                ..base
            });
            assert!(
                chain <= 12,
                "sources in steps of 1 << {step}: chain of {chain}"
            );
        }
        for source in 0..SOURCES {
            let chain = longest(|i| Key {
                tag: u64::from(i),
                source,
                ..base
            });
            assert!(chain <= 12, "tags from source {source}: chain of {chain}");
        }
        let chain = longest(|i| Key {
            tag: u64::from(i & 63),
            source: i >> 6,
            ..base
        });
        assert!(
            chain <= 12,
            "64 tags from each of 64 sources: chain of {chain}"
        );
    }

    #[test]
    fn one_bucket_is_enough() {
        let key = Key {
            tag: !0,
            mask: !0,
            source: !0,
            class: 64,
            any: false,
        };
        for buckets in 0..2 {
            assert_eq!(Hasher::new(1, buckets).place(&key).bucket, 0);
        }
        assert!(
            Hasher::new(1, 3).place(&key).bucket < 2,
            "largest power of two"
        );
    }
}
