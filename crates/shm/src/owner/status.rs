//! How an endpoint is, in a line of its own: whether it holds too many unexpected bytes, and how
//! many peers it has given up. The line stays in its peers' caches while nothing changes.

use super::Words;
use crate::ring::Memory;
use crate::sync::{Ordering, fence};

/// Where the line says whether its owner holds too many unexpected bytes: 1 or 0.
const OVER_BUDGET: usize = 0;
/// Where it says how many peers its owner has given up.
const GIVEN_UP: usize = 8;

/// The line of this endpoint.
#[derive(Debug)]
pub struct OwnStatus<M>(M);

impl<M: Memory> OwnStatus<M> {
    /// In this line, which is zero.
    pub const fn new(line: M) -> Self {
        Self(line)
    }

    /// Tells all peers whether this endpoint holds too many unexpected bytes.
    pub fn tell_over_budget(&mut self, over_budget: bool) {
        // Relaxed: senders look at it now and then, and nothing hangs on the order.
        let word = self.0.word64(OVER_BUDGET);
        word.store(u64::from(over_budget), Ordering::Relaxed);
    }

    /// Tells all peers, before buffers of sends are their owners' again that a peer which was given
    /// up may still read, that there was such a peer. Pairs with [`PeerStatus::given_up`].
    pub fn count_given_up(&mut self) {
        let count = self.0.word64(GIVEN_UP);
        count.store(
            count.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Relaxed,
        );
        // Stronger than a release, which orders no non-temporal stores of the owners.
        fence(Ordering::SeqCst);
    }
}

/// The line of a peer.
#[derive(Debug)]
pub struct PeerStatus<W> {
    line: W,
    /// Peers that it had given up when this endpoint was last known to be none of them.
    others_given_up: u64,
}

impl<W: Words> PeerStatus<W> {
    /// In this line.
    pub const fn new(line: W) -> Self {
        // If that is wrong, the first look finds out.
        let others_given_up = 0;
        Self {
            line,
            others_given_up,
        }
    }

    /// Whether the peer holds too many unexpected bytes.
    #[inline(always)]
    pub fn is_over_budget(&self) -> bool {
        self.line.load(OVER_BUDGET) != 0
    }

    /// How many peers it has given up, if that has changed since this endpoint was last known to be
    /// none of them. Then this endpoint may be one, and what it has read out of the peer's buffers
    /// may be what their owner wrote there later. Pairs with [`OwnStatus::count_given_up`].
    pub fn given_up(&self) -> Option<u64> {
        fence(Ordering::Acquire);
        let given_up = self.line.load(GIVEN_UP);
        (given_up != self.others_given_up).then_some(given_up)
    }

    /// This endpoint was none of those.
    pub fn others_were_given_up(&mut self, count: u64) {
        self.others_given_up = count;
    }
}
