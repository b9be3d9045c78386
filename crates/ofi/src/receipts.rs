//! Operations without results are answered by receipts, where their peer sends through a private
//! ring.
//!
//! A receipt names the last operation of the peer that was executed here, in its own numbers. It is
//! a word in memory, so the peer need not take a message that is in the way of the next one. It
//! looks at the word when no message has come, and before it sleeps, from which a receipt wakes it.
//!
//! What is refused is told by a message, and no receipt may be ahead of that one: it would say that
//! all is well. So a peer of which something was refused or lost gets messages alone from then on.

use core::cell::{Cell, RefCell};

use limic::Peer;
use limic::raw::Runtime;

use crate::asked::Answers;
use crate::endpoint::Endpoint;
use crate::unanswered::Operation;

/// Looks in a row that bring messages and pass receipts over. The next one looks at receipts too.
const SELDOM: u32 = 8;

/// What an endpoint knows of receipts, beside the operations that they end.
#[derive(Default)]
pub(crate) struct Receipts {
    /// Peers were asked for something without results.
    pub(crate) awaited: Cell<bool>,
    /// Looks in a row that passed receipts over.
    passed_over: Cell<u32>,
    /// Peers that get no receipts any more, also of those that take none yet: what they are refused
    /// may still be on its way when they begin to send through a private ring.
    without: RefCell<Peers>,
}

/// Some of the peers, by number.
#[derive(Default)]
pub(crate) struct Peers(Vec<bool>);

impl Peers {
    fn has(&self, peer: Peer) -> bool {
        self.0.get(peer.index() as usize).is_some_and(|has| *has)
    }

    /// True if it was not there.
    pub(crate) fn add(&mut self, peer: Peer) -> bool {
        let place = peer.index() as usize;
        if place >= self.0.len() {
            self.0.resize(place + 1, false);
        }
        !core::mem::replace(&mut self.0[place], true)
    }
}

impl Endpoint {
    /// Looks for receipts after a look at messages, which has brought some or not. True if there
    /// was news.
    #[inline(never)]
    pub(crate) fn look_for_receipts(&self, moved: bool) -> bool {
        let passed_over = &self.receipts.passed_over;
        if moved && passed_over.get() < SELDOM {
            passed_over.set(passed_over.get() + 1);
            return false;
        }
        passed_over.set(0);
        self.look_at_receipts()
    }

    /// Looks at the receipts of peers that were asked for something without results. True if there
    /// was news.
    #[inline(never)]
    pub(crate) fn look_at_receipts(&self) -> bool {
        let (mut at, mut moved) = (0, false);
        loop {
            let listed = self.unanswered.borrow().listed(at);
            let Some(peer) = listed else { break };
            moved |= self.received(peer, self.limic.receipt_of(peer));
            at += usize::from(!self.unanswered.borrow_mut().unlist(at));
        }
        self.receipts.awaited.set(at > 0);
        moved
    }

    /// A peer says that it has executed all up to this number that have no results. That is its
    /// word: what it was not asked for is left out. True if any are over by that.
    pub(crate) fn received(&self, peer: Peer, number: u64) -> bool {
        let mut moved = false;
        loop {
            let operation = self.unanswered.borrow_mut().take_received(peer, number);
            let Some(Operation { node, .. }) = operation else {
                return moved;
            };
            moved = true;
            // SAFETY: the operation was not over, so its node is not reported yet.
            unsafe { self.asked_is_over(node, 0) };
        }
    }

    /// Answers an operation without results that was executed, or is refused.
    pub(crate) fn answer_change(
        &self,
        answers: &mut Answers,
        (peer, number): (Peer, u64),
        executed: Result<(), i32>,
    ) {
        if executed.is_ok() && self.receipt_will_do(answers, peer) {
            return self.receipt_later(answers, (peer, number));
        }
        if executed.is_err() {
            self.gives_no_receipts(answers, peer);
        }
        self.answer(answers, (peer, number), |_| executed);
    }

    /// Whether a receipt is answer enough for a peer.
    fn receipt_will_do(&self, answers: &Answers, peer: Peer) -> bool {
        // Where one is to be given already, another will do: that of a peer which is to get no more
        // is given by `gives_no_receipts`, so it is not there any more.
        answers.receipt.is_some_and(|(to, _)| to == peer)
            || self.limic.takes_receipts(peer) && !self.receipts.without.borrow().has(peer)
    }

    /// Puts off a receipt, in place of an older one of the same peer, until there is one for
    /// another peer, or the answers go. One for another peer is given now.
    fn receipt_later(&self, answers: &mut Answers, (peer, number): (Peer, u64)) {
        if answers.receipt.is_some_and(|(to, _)| to != peer) {
            self.give_receipt(answers);
        }
        answers.receipt = Some((peer, number));
    }

    /// Gives the receipt that there is.
    pub(crate) fn give_receipt(&self, answers: &mut Answers) {
        if let Some((peer, number)) = answers.receipt.take() {
            self.limic.give_receipt(peer, number);
        }
    }

    /// Something of a peer is refused, or lost: it gets receipts of what came before, and no more.
    #[cold]
    pub(crate) fn gives_no_receipts(&self, answers: &mut Answers, peer: Peer) {
        self.give_receipt(answers);
        self.receipts.without.borrow_mut().add(peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_peer_without_receipts_is_known_by_its_number() {
        let mut without = Peers::default();
        let [refused, other] = [3, 5].map(Peer::from_index);
        for attempt in 0..100 {
            assert_eq!(without.add(refused), attempt == 0);
        }
        assert!(without.has(refused) && !without.has(Peer::from_index(2)));
        assert!(!without.has(other), "it is beyond the last one");
        assert_eq!(without.0.len(), 4);
    }
}
