//! How much memory unexpected messages may take.
//!
//! A message counts with its bytes, and with what its entry takes in the tables. Three bounds
//! follow from `LIMIC_UNEXPECTED_BYTES`:
//!
//! 1. Beyond it, senders are asked to offer long messages, of which only the offer is kept. Short
//!    ones come as before.
//! 2. Beyond [`CAP`] times as much, the private ring of each peer that fills more than its share
//!    is held back: its messages wait there, and then the peer itself waits, as for any receiver
//!    that does not keep up.
//! 3. Beyond twice that cap, a peer without a private ring in use fails, if it fills more than its
//!    share: the shared ring is not to wait for one peer, since all others would too. All shares
//!    together are half of the cap, so there is a bound of what all may take. What a peer that has
//!    gone left in its arenas is copied up to that bound, and lost beyond it.
//!
//! # What may wait for what
//!
//! A ring that is held back is still read. The record at its head is taken if a posted receive
//! matches it, or if it brings no message: a fragment of a message that has begun, or a record that
//! moves an operation on. Only a message that would have to be kept stays, and all that the peer
//! sent behind it. It stays until a receive for it is posted, or the application has received so
//! much that the memory is below the cap, or the peer below its share.
//!
//! So an application that goes on receiving gets everything in order. Two programs wait for ever,
//! where they would have taken all memory before: one that waits for a message that the peer sent
//! behind more unexpected ones than the cap; and one that waits for the peer to answer an offer,
//! if the answer lies behind as many. Both are said at the time by a warning that names the peer.
//! Other peers are not held up: each has a share of its own, which does not depend on what others
//! send.

/// What a message takes beside its bytes: its entry here, its node and buckets in the queue, and
/// what the allocator adds to a buffer.
const ENTRY: i64 = 256;

/// Beyond so many times the budget, messages wait in the rings of their senders.
const CAP: u64 = 16;

/// What unexpected messages take, against what they may.
#[derive(Clone, Debug)]
pub struct UnexpectedBound {
    /// Bytes beyond which senders are asked to offer.
    budget: u64,
    /// Bytes of all messages, with their entries.
    held: u64,
    over_budget: bool,
    /// What each peer has added since `over_budget` is so, and was not received, in bytes.
    added: Vec<u64>,
}

impl UnexpectedBound {
    /// No messages yet, of which so many bytes may wait.
    #[must_use]
    pub fn new(budget: u64) -> Self {
        Self {
            budget,
            held: 0,
            over_budget: false,
            added: Vec::new(),
        }
    }

    /// So many bytes, and messages, of a peer are more; or fewer. Gives whether senders are to be
    /// asked to offer, if that changes.
    #[inline(always)]
    #[must_use]
    pub fn count(&mut self, from: u32, bytes: i64, messages: i64) -> Option<bool> {
        let change = bytes + messages * ENTRY;
        self.held = self.held.saturating_add_signed(change);
        if self.over_budget {
            return self.count_over(from, change);
        }
        self.over_budget = self.held > self.budget;
        self.over_budget.then_some(true)
    }

    #[cold]
    fn count_over(&mut self, from: u32, change: i64) -> Option<bool> {
        if self.held <= self.budget / 2 {
            self.over_budget = false;
            self.added = Vec::new();
            return Some(false);
        }
        let at = from as usize;
        let missing = (at + 1).saturating_sub(self.added.len());
        // Without memory for its count the peer has added nothing.
        if missing == 0 || self.added.try_reserve(missing).is_ok() {
            self.added.resize(self.added.len() + missing, 0);
            self.added[at] = self.added[at].saturating_add_signed(change);
        }
        None
    }

    /// Whether messages take more than the budget, or did and still take half of it.
    #[inline]
    #[must_use]
    pub fn is_over_budget(&self) -> bool {
        self.over_budget
    }

    fn cap(&self) -> u64 {
        self.budget.saturating_mul(CAP)
    }

    /// Whether messages take more than the cap.
    #[inline(always)]
    #[must_use]
    pub fn is_over_cap(&self) -> bool {
        self.over_budget && self.held > self.cap()
    }

    /// Whether messages, and so many bytes more, take more than any may.
    #[must_use]
    pub fn is_over_all(&self, more: u64) -> bool {
        self.held.saturating_add(more) > self.cap().saturating_mul(2)
    }

    /// Whether the messages of a peer, which is one of so many, are to wait: together they are over
    /// the cap, and it has added more than its share. Half of the cap is shared out, so that there
    /// is always such a peer.
    #[must_use]
    pub fn is_over_share(&self, from: u32, peers: u32) -> bool {
        let share = self.cap() / (2 * u64::from(peers.max(1)));
        let added = self.added.get(from as usize);
        self.is_over_cap() && added.is_some_and(|added| *added > share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: u64 = 1000;

    fn fill(bound: &mut UnexpectedBound, from: u32, bytes: u64) {
        let _ = bound.count(from, bytes as i64, 0);
    }

    #[test]
    fn an_empty_message_counts_too() {
        let mut bound = UnexpectedBound::new(BUDGET);
        let asked = (0..4).map(|_| bound.count(1, 0, 1)).collect::<Vec<_>>();
        assert_eq!(asked, [None, None, None, Some(true)]);
        let asked = (0..4).map(|_| bound.count(1, 0, -1)).collect::<Vec<_>>();
        assert_eq!(asked, [None, None, Some(false), None]);
    }

    #[test]
    fn a_peer_with_little_is_not_held_back_for_one_with_much() {
        let mut bound = UnexpectedBound::new(BUDGET);
        fill(&mut bound, 3, BUDGET + 1);
        fill(&mut bound, 3, CAP * BUDGET);
        fill(&mut bound, 5, 10);
        assert!(bound.is_over_share(3, 2));
        assert!(!bound.is_over_share(5, 2));
        assert!(!bound.is_over_share(9, 2), "it has sent nothing");
        fill(&mut bound, 5, CAP * BUDGET / 4);
        assert!(bound.is_over_share(5, 2));
        let _ = bound.count(5, -11, 0);
        assert!(!bound.is_over_share(5, 2), "its messages were received");
    }

    #[test]
    fn some_peer_is_over_its_share_whenever_all_are_over_the_cap() {
        for peers in [1, 2, 7] {
            let mut bound = UnexpectedBound::new(BUDGET);
            while !bound.is_over_cap() {
                (0..peers).for_each(|peer| fill(&mut bound, peer, 3));
            }
            assert!((0..peers).any(|peer| bound.is_over_share(peer, peers)));
        }
    }

    #[test]
    fn without_a_limit_nobody_is_held_back() {
        let mut bound = UnexpectedBound::new(u64::MAX);
        fill(&mut bound, 0, 1 << 60);
        assert!(!bound.is_over_share(0, 1) && !bound.is_over_all(0));
    }
}
