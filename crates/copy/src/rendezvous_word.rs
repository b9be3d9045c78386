//! The word through which two copiers of one message share its blocks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Most times that a claim tries again because the other side got in between. The other side
/// copies a block (thousands of bytes) per claim, so an honest one never gets near.
const MOST_TRIES: u32 = 1 << 16;

/// One 64-bit word in shared memory: how many blocks the reader has claimed from the front (low
/// 32 bits) and the writer from the back (high 32 bits).
///
/// A claim is one compare-and-swap that moves both counts' sum by one, so no block is claimed
/// twice: the blocks below `front` are the reader's, the last `back` ones the writer's, and claims
/// stop when the two meet. Cost: the word's cache line moves once per claim.
///
/// The word says who copies a block, not that it has been copied: that each side says in a message
/// when its claims have ended. So no ordering hangs on it and all accesses are `Relaxed`; whoever
/// [`reset`](Self::reset)s it does so before it sends the message that starts the copy.
///
/// The other side can write the word at any time. No value of it gives an index outside the
/// message, and a claim finds a word whose own half somebody else has changed: only this side moves
/// that, and it knows how often it did. That also bounds the number of claims by the number of
/// blocks.
#[derive(Debug, Clone, Copy)]
pub struct RendezvousWord<'a>(pub &'a AtomicU64);

/// Whose half of the word a claim moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Side {
    /// The receiver, which reads from the first block on.
    Front,
    /// The sender, which writes from the last block on.
    Back,
}

/// What is wrong with the word. The copy must then be done again by another path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RendezvousWordError {
    /// The counts cannot be: together more than the blocks, or not this side's own count.
    #[error(
        "the word of a split-copy copy is corrupt: {front} blocks from the front and {back} from \
         the back of {total}"
    )]
    Corrupt {
        /// Blocks claimed from the front, as the word says.
        front: u32,
        /// Blocks claimed from the back, as the word says.
        back: u32,
        /// Blocks that there are.
        total: u32,
    },
    /// The other side changed the word between every look and every claim.
    #[error("the peer keeps changing the word of a split-copy copy")]
    Contended,
}

impl RendezvousWord<'_> {
    /// No block claimed. Before the message that tells the peer of the copy.
    pub fn reset(self) {
        self.0.store(0, Relaxed);
    }

    /// Blocks claimed from the front and from the back, as the word says now.
    #[must_use]
    pub fn counts(self) -> (u32, u32) {
        unpack(self.0.load(Relaxed))
    }

    /// Ends the copy: no block is claimed any more. Gives how many of `total` were claimed from the
    /// back until then.
    pub fn end(self, total: u32) -> u32 {
        unpack(self.0.swap(pack(total, 0), Relaxed)).1
    }

    /// Claims the first block that nobody has: its index below `total`, or `None` if there is
    /// none left. `own`: how many this side has claimed before.
    ///
    /// # Errors
    /// [`RendezvousWordError`] if the word holds what no honest peer writes.
    pub fn claim_front(self, total: u32, own: u32) -> Result<Option<u32>, RendezvousWordError> {
        self.claim(Side::Front, total, own)
    }

    /// Claims the last block that nobody has: see [`claim_front`](Self::claim_front).
    ///
    /// # Errors
    /// [`RendezvousWordError`]; also if the other side has [ended](Self::end) the copy.
    pub fn claim_back(self, total: u32, own: u32) -> Result<Option<u32>, RendezvousWordError> {
        self.claim(Side::Back, total, own)
    }

    /// A claim; this side's half must hold `own`.
    fn claim(self, side: Side, total: u32, own: u32) -> Result<Option<u32>, RendezvousWordError> {
        let mut word = self.0.load(Relaxed);
        for _ in 0..MOST_TRIES {
            let (front, back) = unpack(word);
            let mine = if side == Side::Front { front } else { back };
            let taken = u64::from(front) + u64::from(back);
            if taken > u64::from(total) || own != mine {
                return Err(RendezvousWordError::Corrupt { front, back, total });
            }
            if taken == u64::from(total) {
                return Ok(None);
            }
            // taken < total, so neither half can overflow, nor can `total - 1 - back`.
            let (index, next) = match side {
                Side::Front => (front, pack(front + 1, back)),
                Side::Back => (total - 1 - back, pack(front, back + 1)),
            };
            match self.0.compare_exchange(word, next, Relaxed, Relaxed) {
                Ok(_) => return Ok(Some(index)),
                Err(now) => word = now,
            }
        }
        Err(RendezvousWordError::Contended)
    }
}

fn pack(front: u32, back: u32) -> u64 {
    u64::from(front) | u64::from(back) << 32
}

fn unpack(word: u64) -> (u32, u32) {
    // The two halves, on purpose.
    (word as u32, (word >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The claims of one side.
    struct Claims<'a> {
        meet: RendezvousWord<'a>,
        side: Side,
        total: u32,
        own: u32,
    }

    impl<'a> Claims<'a> {
        fn new(word: &'a AtomicU64, side: Side, total: u32) -> Self {
            Self {
                meet: RendezvousWord(word),
                side,
                total,
                own: 0,
            }
        }

        fn claim(&mut self) -> Result<Option<u32>, RendezvousWordError> {
            let claimed = self.meet.claim(self.side, self.total, self.own)?;
            self.own += u32::from(claimed.is_some());
            Ok(claimed)
        }
    }

    #[test]
    fn sides_meet_in_the_middle() {
        let word = AtomicU64::new(77);
        let meet = RendezvousWord(&word);
        meet.reset();
        assert_eq!(meet.claim_front(3, 0), Ok(Some(0)));
        assert_eq!(meet.claim_back(3, 0), Ok(Some(2)));
        assert_eq!(meet.claim_back(3, 1), Ok(Some(1)));
        assert_eq!(meet.claim_back(3, 2), Ok(None));
        assert_eq!(meet.claim_front(3, 1), Ok(None));
        assert_eq!(meet.counts(), (1, 2));
        assert_eq!(
            RendezvousWord(&AtomicU64::new(0)).claim_front(0, 0),
            Ok(None)
        );
    }

    #[test]
    fn nothing_is_claimed_after_the_end() {
        let word = AtomicU64::new(0);
        let meet = RendezvousWord(&word);
        assert_eq!(meet.claim_back(5, 0), Ok(Some(4)));
        assert_eq!(meet.claim_front(5, 0), Ok(Some(0)));
        assert_eq!(meet.end(5), 1);
        assert!(meet.claim_back(5, 1).is_err());
        assert_eq!(meet.claim_back(5, 0), Ok(None));
        assert_eq!(meet.claim_front(5, 5), Ok(None));
    }

    #[test]
    fn the_largest_count_works() {
        let most = u32::MAX - 1;
        let word = AtomicU64::new(pack(most, 0));
        assert_eq!(
            RendezvousWord(&word).claim_front(u32::MAX, most),
            Ok(Some(most))
        );
        assert_eq!(
            RendezvousWord(&word).claim_front(u32::MAX, u32::MAX),
            Ok(None)
        );
    }

    #[test]
    fn a_word_put_back_by_the_peer_is_found() {
        let word = AtomicU64::new(0);
        let mut claims = Claims::new(&word, Side::Front, 4);
        assert_eq!(claims.claim(), Ok(Some(0)));
        word.store(0, Relaxed);
        assert_eq!(
            claims.claim(),
            Err(RendezvousWordError::Corrupt {
                front: 0,
                back: 0,
                total: 4
            })
        );
        assert_eq!(claims.own, 1);
    }

    proptest! {
        #[test]
        fn no_word_gives_an_index_outside(word in any::<u64>(), total in any::<u32>()) {
            for side in [Side::Front, Side::Back] {
                let shared = AtomicU64::new(word);
                let (front, back) = unpack(word);
                let own = if side == Side::Front { front } else { back };
                let claimed = RendezvousWord(&shared).claim(side, total, own);
                match claimed {
                    Ok(Some(index)) => prop_assert!(index < total),
                    Ok(None) => {
                        prop_assert_eq!(u64::from(front) + u64::from(back), u64::from(total));
                    }
                    Err(error) => {
                        prop_assert_eq!(error, RendezvousWordError::Corrupt { front, back, total });
                        prop_assert_eq!(shared.load(Relaxed), word);
                    }
                }
            }
        }

        #[test]
        fn any_order_of_claims_covers_every_block_once(
            total in 0..200_u32,
            order in prop::collection::vec(any::<bool>(), 0..64),
        ) {
            let word = AtomicU64::new(0);
            let mut front = Claims::new(&word, Side::Front, total);
            let mut back = Claims::new(&word, Side::Back, total);
            let mut seen = vec![0; total as usize];
            let mut order = order.into_iter().cycle().chain(std::iter::repeat(true));
            loop {
                let side = if order.next().unwrap() { &mut front } else { &mut back };
                match side.claim().unwrap() {
                    Some(index) => seen[index as usize] += 1,
                    None => break,
                }
            }
            prop_assert!(seen.iter().all(|&times| times == 1));
            prop_assert_eq!(front.own + back.own, total);
        }
    }

    #[test]
    fn two_threads_claim_every_block_once() {
        const TOTAL: u32 = if cfg!(miri) { 200 } else { 100_000 };
        let word = AtomicU64::new(0);
        let side = |side| {
            let mut claims = Claims::new(&word, side, TOTAL);
            let mut mine = Vec::new();
            while let Some(index) = claims.claim().unwrap() {
                mine.push(index);
            }
            mine
        };
        let (front, back) = std::thread::scope(|scope| {
            let other = scope.spawn(|| side(Side::Back));
            (side(Side::Front), other.join().unwrap())
        });
        let all: Vec<_> = front.into_iter().chain(back.into_iter().rev()).collect();
        assert!(all.into_iter().eq(0..TOTAL));
    }
}
