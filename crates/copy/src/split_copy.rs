//! The blocks of a message that both sides copy at once.

use std::ops::Range;

/// How a message is cut into blocks that its receiver reads from the front while its sender writes
/// them from the back. Both sides compute it from the same two numbers.
///
/// Each side counts the blocks that it has claimed where the other one can read it, and claims the
/// next one while the two counts leave one. Whatever the other side's count says, no block is
/// outside of the message. If both claim the last block at the same time, both copy it, which
/// leaves the same bytes there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitCopy {
    total_len: u64,
    block_bytes: u64,
    blocks: u32,
}

/// Why a message cannot be cut so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SplitCopyError {
    /// The block size is 0.
    #[error("the block size of a split-copy copy is 0 bytes")]
    EmptyBlock,
    /// More blocks than 32 bits count.
    #[error(
        "a message of {total_len} bytes in blocks of {block_bytes} has more than 2^32 - 1 blocks: \
         use larger blocks"
    )]
    TooManyBlocks {
        /// Length of the message in bytes.
        total_len: u64,
        /// Block size in bytes.
        block_bytes: u64,
    },
}

impl SplitCopy {
    /// Cuts `total_len` bytes into blocks of `block_bytes`, the last one shorter if it must be.
    ///
    /// # Errors
    /// [`SplitCopyError`]: a block size of 0, or more than 2^32 - 1 blocks.
    pub fn new(total_len: u64, block_bytes: u64) -> Result<Self, SplitCopyError> {
        if block_bytes == 0 {
            return Err(SplitCopyError::EmptyBlock);
        }
        let blocks = u32::try_from(total_len.div_ceil(block_bytes)).map_err(|_| {
            SplitCopyError::TooManyBlocks {
                total_len,
                block_bytes,
            }
        })?;
        Ok(Self {
            total_len,
            block_bytes,
            blocks,
        })
    }

    /// Length of the message in bytes.
    #[must_use]
    pub fn total_len(self) -> u64 {
        self.total_len
    }

    /// Length of every block but the last, in bytes.
    #[must_use]
    pub fn block_bytes(self) -> u64 {
        self.block_bytes
    }

    /// Number of blocks; 0 for an empty message.
    #[must_use]
    pub fn blocks(self) -> u32 {
        self.blocks
    }

    /// The bytes of block `index`, or `None` if there is no such block. Start and length are what
    /// [`CopyEngine::read_at`](crate::CopyEngine::read_at) takes as `skip` and `limit`.
    #[must_use]
    pub fn range(self, index: u32) -> Option<Range<u64>> {
        if index >= self.blocks {
            return None;
        }
        // index < blocks, so index * block_bytes < total_len: no overflow.
        let start = u64::from(index) * self.block_bytes;
        let end = start.saturating_add(self.block_bytes).min(self.total_len);
        Some(start..end)
    }

    /// The bytes of the next block from the front for a receiver that has copied `own`, while its
    /// sender has claimed `back`. `None`: the two have met.
    #[must_use]
    pub fn next_front(self, own: u32, back: u32) -> Option<Range<u64>> {
        self.is_left(own, back).then(|| self.range(own)).flatten()
    }

    /// The bytes of the next block from the back for a sender that has copied `own`, while its
    /// receiver has claimed `front`. `None`: the two have met.
    #[must_use]
    pub fn next_back(self, own: u32, front: u32) -> Option<Range<u64>> {
        // A block that is left is not the sender's own: own < blocks.
        let index = || self.range(self.blocks - 1 - own);
        self.is_left(own, front).then(index).flatten()
    }

    /// The bytes that neither side has copied, of which the receiver has copied `front` blocks and
    /// the sender `back` blocks. Empty if there are none.
    #[must_use]
    pub fn left(self, front: u32, back: u32) -> Range<u64> {
        let start_of = |block: u32| {
            let start = u64::from(block).saturating_mul(self.block_bytes);
            start.min(self.total_len)
        };
        let start = start_of(front);
        start..start_of(self.blocks.saturating_sub(back)).max(start)
    }

    fn is_left(self, own: u32, theirs: u32) -> bool {
        u64::from(own) + u64::from(theirs) < u64::from(self.blocks)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lengths_over_4_gib_and_odd_ends() {
        let cut = SplitCopy::new((5 << 30) + 1, 1 << 20).unwrap();
        assert_eq!(cut.blocks(), 5 * 1024 + 1);
        assert_eq!(cut.range(5 * 1024), Some(5 << 30..(5 << 30) + 1));
        assert_eq!(cut.range(5 * 1024 + 1), None);
        assert_eq!(SplitCopy::new(0, 64).unwrap().blocks(), 0);
        assert_eq!(
            SplitCopy::new(u64::MAX, u64::MAX).unwrap().range(0),
            Some(0..u64::MAX)
        );
    }

    #[test]
    fn bad_sizes_are_refused() {
        assert_eq!(SplitCopy::new(1, 0), Err(SplitCopyError::EmptyBlock));
        assert_eq!(
            SplitCopy::new(u64::from(u32::MAX), 1).unwrap().blocks(),
            u32::MAX
        );
        assert_eq!(
            SplitCopy::new(1 << 32, 1),
            Err(SplitCopyError::TooManyBlocks {
                total_len: 1 << 32,
                block_bytes: 1
            })
        );
    }

    #[test]
    fn the_two_sides_meet_in_the_middle() {
        let cut = SplitCopy::new(250, 100).unwrap();
        assert_eq!(cut.next_front(0, 0), Some(0..100));
        assert_eq!(cut.next_back(0, 1), Some(200..250));
        assert_eq!(cut.next_back(1, 1), Some(100..200));
        assert_eq!(cut.next_back(2, 1), None);
        assert_eq!(cut.next_front(1, 2), None);
        assert_eq!(SplitCopy::new(0, 100).unwrap().next_back(0, 0), None);
    }

    /// All short messages in all small blocks, with all counts of both sides: what is claimed from
    /// the front and from the back and what is left make up the message, and nothing else.
    #[test]
    fn every_byte_of_a_short_message_is_somebodys() {
        for (total, block) in
            (0..=24_u64).flat_map(|total| (1..=9).map(move |block| (total, block)))
        {
            let cut = SplitCopy::new(total, block).unwrap();
            let blocks = cut.blocks();
            for (front, back) in
                (0..=blocks + 2).flat_map(|f| (0..=blocks + 2).map(move |b| (f, b)))
            {
                let met = front + back >= blocks;
                let ranges = [cut.next_front(front, back), cut.next_back(back, front)];
                assert!(
                    ranges.iter().all(|range| range.is_none() == met),
                    "{cut:?} {front} {back}"
                );
                let left = cut.left(front, back);
                assert!(left.start <= left.end && left.end <= total);
                if met {
                    assert!(left.is_empty());
                    continue;
                }
                let [next, last] = ranges.map(|range| range.unwrap());
                assert_eq!((next.start, last.end), (left.start, left.end));
                let of_front = (0..front).filter_map(|block| cut.range(block));
                let of_back = (blocks - back..blocks).filter_map(|block| cut.range(block));
                let all = of_front.chain([left.clone()]).chain(of_back).flatten();
                assert!(all.eq(0..total), "{cut:?} {front} {back}");
            }
        }
    }

    /// The ends of all numbers that a message and a peer may bring.
    #[test]
    fn no_number_at_the_end_of_its_range_overflows() {
        let long = [
            0,
            1,
            2,
            (1 << 32) - 1,
            1 << 32,
            (1 << 63) - 1,
            1 << 63,
            u64::MAX - 1,
            u64::MAX,
        ];
        let counts = [0, 1, 2, (1 << 31) - 1, 1 << 31, u32::MAX - 1, u32::MAX];
        for (total, block) in long.iter().flat_map(|t| long.iter().map(move |b| (*t, *b))) {
            let Ok(cut) = SplitCopy::new(total, block) else {
                continue;
            };
            for (front, back) in counts
                .iter()
                .flat_map(|f| counts.iter().map(move |b| (*f, *b)))
            {
                let left = cut.left(front, back);
                let met = u64::from(front) + u64::from(back) >= u64::from(cut.blocks());
                assert_eq!(left.is_empty(), met, "{cut:?} {front} {back}");
                assert!(left.end <= total);
                let start = cut.next_front(front, back).map(|range| range.start);
                let end = cut.next_back(back, front).map(|range| range.end);
                let of_left = (!met).then_some((left.start, left.end));
                assert_eq!(start.zip(end), of_left, "{cut:?} {front} {back}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_count_leads_outside_of_the_message(total in 0..1_u64 << 40, own: u32, theirs: u32) {
            let cut = SplitCopy::new(total, 1 << 14).unwrap();
            for range in [cut.next_front(own, theirs), cut.next_back(own, theirs)] {
                prop_assert!(range.is_none_or(|range| range.start < range.end && range.end <= total));
            }
        }

        #[test]
        fn blocks_tile_the_message(total_len in any::<u64>(), block_bytes in 1..=u64::MAX) {
            let Ok(cut) = SplitCopy::new(total_len, block_bytes) else { return Ok(()) };
            let mut blocks = vec![0, cut.blocks() / 2, cut.blocks().saturating_sub(1)];
            blocks.retain(|&block| block < cut.blocks());
            for block in blocks {
                let range = cut.range(block).unwrap();
                prop_assert!(range.start < range.end && range.end <= total_len);
                let next = if block + 1 == cut.blocks() {
                    total_len
                } else {
                    cut.range(block + 1).unwrap().start
                };
                prop_assert_eq!(range.end, next);
            }
        }
    }
}
