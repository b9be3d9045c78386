//! A peer is gone: everything that needed it ends with an error, and nothing else does.

use limic_matching::Source as From;

use super::Core;
use super::requests::{Operation, ReceiveStage, SendStage};
use super::stash::Waiting;
use crate::counters::Event;
use crate::error::PeerFailure;
use crate::{Error, Peer};

impl Core {
    /// Fails a peer whose bytes make no sense.
    #[cold]
    pub(crate) fn corrupt(&mut self, peer: u32, what: &str) {
        tracing::error!("peer {peer} sent {what}; the connection is given up");
        self.endings
            .push((peer, PeerFailure::Corrupt(what.to_owned())));
    }

    /// Ends everything that has to do with a peer. What it had published before is delivered first:
    /// the caller has drained the rings.
    pub(crate) fn fail_peer(&mut self, number: u32, why: PeerFailure) {
        let Some(peer) = self.peers.get(number) else {
            return;
        };
        if peer.failure.is_some() {
            return;
        }
        self.stop_writer(number, !matches!(why, PeerFailure::Corrupt(_)));
        let Some(peer) = self.peers.get(number) else {
            return;
        };
        if peer.failure.is_some() {
            // What came meanwhile was the reason of its failure.
            return;
        }
        let died = why != PeerFailure::Closed;
        if peer.wire.take().is_some() {
            self.fail_remote(number);
        }
        self.keep_loans(number);
        let Some(peer) = self.peers.get(number) else {
            return;
        };
        peer.failure = Some(why.clone());
        peer.backlog.clear();
        peer.connecting = false;
        let ring = peer.ring.take();
        let link = peer.link.take();
        if died {
            tracing::warn!("peer {number}: {why}");
            self.tally.event(Event::PeersFailed);
            self.tally.reason(None, number, &why.to_string());
        }
        // Also one that was not answered yet: a late welcome would attach the peer again.
        for index in self.connections_of(number) {
            self.drop_connection(index);
        }
        if !died {
            // It may have said goodbye over another connection than that which ended first. Nothing is kept for it yet.
            self.given_up.leave(number);
        }
        if let Some(link) = link {
            if let Some(word) = link.passing.word()
                && !self.given_up.keep_meet(number, word)
            {
                self.meets.push(word);
            }
            self.peers.attached -= 1;
            self.adapt_spins();
            self.dead_links.push((number, ring));
        }
        if !self.given_up.lives(number) {
            self.pool.forget_peer(number);
        }
        self.arenas.forget_peer(number);
        let error = Error::PeerFailed {
            peer: Peer(number),
            why: why.clone(),
        };
        let mut slots = self.take_back_all(From::Is(number));
        if died && !self.any_outlives {
            // Who waits for anybody may have waited for this one.
            let of_any = self.take_back_all(From::Any);
            if of_any.is_empty() {
                self.unreported.push((number, why));
            }
            slots.extend(of_any);
        }
        for slot in slots {
            self.requests.complete(slot, Err(error.clone()));
        }
        self.forget_offers(number);
        for slot in self.requests.slots() {
            let concerned = match self.requests.get(slot) {
                Operation::Send(sending) => {
                    sending.to == number && sending.stage != SendStage::Local
                }
                Operation::Receive(receiving) => match receiving.stage {
                    ReceiveStage::Posted { .. } => false,
                    ReceiveStage::Assembling(incoming)
                    | ReceiveStage::Reading(incoming)
                    | ReceiveStage::Front(incoming, _)
                    | ReceiveStage::Exposed(incoming, _) => incoming.from == number,
                    ReceiveStage::Get { from, .. } => from == number,
                },
                _ => false,
            };
            if concerned {
                self.fail_operation(slot, &error);
            }
        }
    }

    /// Receives from any source do not fail with a peer from now on.
    pub(crate) fn keep_receives_from_any(&mut self) {
        self.any_outlives = true;
        self.unreported.clear();
    }

    fn fail_operation(&mut self, slot: u32, error: &Error) {
        if let Operation::Receive(receiving) = self.requests.get(slot) {
            if let ReceiveStage::Front(incoming, halves) = receiving.stage {
                if !halves.abandoned || halves.theirs.is_some() {
                    self.meets.push(halves.meet);
                } else if !self.given_up.keep_meet(incoming.from, halves.meet) {
                    tracing::debug!(
                        "a meet word that peer {} may look at is not used again",
                        incoming.from
                    );
                }
            }
            if let ReceiveStage::Exposed(_, handle) = receiving.stage {
                // The buffer goes back to its owner: nobody may write there any more.
                self.device.revoke(handle);
            }
            if let ReceiveStage::Assembling(incoming) = receiving.stage
                && incoming.region.is_some()
            {
                self.abort_put(slot, &incoming);
                return;
            }
        }
        let id = self.requests.id(slot);
        self.remote.send_is_over(id);
        if matches!(self.requests.get(slot), Operation::Send(_)) {
            // The peer's link is gone already, so this cannot be asked of it.
            crate::same_process::leave(self.address.id, id.0);
        }
        self.requests.complete(slot, Err(error.clone()));
    }

    /// Loans that a peer had sent before it went are whole messages: they are copied while its arenas are
    /// still mapped.
    fn keep_loans(&mut self, number: u32) {
        for token in self.stash.loaned_by(number) {
            let loan = match self.stash.get(token).map(|arrived| &arrived.waiting) {
                Some(Waiting::Loaned(loan)) => Some(*loan),
                _ => None,
            };
            if let Some(bytes) = self.loan_bytes(token) {
                self.count_unexpected(bytes.len() as i64);
                self.stash.replace(token, Waiting::Bytes(bytes));
            }
            // It may only have closed this endpoint, or this one closes: nobody reads there any more.
            if let (Some(loan), Some(link)) = (loan, self.peers.link(number)) {
                link.loans_released.release(loan.flag, loan.generation);
            }
        }
    }

    /// Offers of a peer that is gone can never be fulfilled, and what has come in part never ends; they must not match
    /// anybody.
    fn forget_offers(&mut self, number: u32) {
        let offers = self
            .stash
            .find(|arrived| arrived.from == number && !arrived.is_here());
        for token in offers {
            self.withdraw(token);
        }
    }
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;
