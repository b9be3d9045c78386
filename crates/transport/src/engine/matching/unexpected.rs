//! Messages that came before their receive: the unexpected queue, what is kept out of it, and the
//! bytes that wait there.

use limic_matching::{Envelope, Full, Selector as Query};

use super::Matching;
use super::unexpected_store::{UnexpectedBody, UnexpectedMessage};
use crate::Status;
use crate::counters::{Event, Recorder};
use crate::raw::ClaimId;

impl Matching {
    /// Puts a message behind all that wait; gives its token.
    ///
    /// # Errors
    /// There is no memory for the queue, and the message is gone.
    pub(crate) fn store_message(
        &mut self,
        counters: &Recorder,
        message: UnexpectedMessage,
    ) -> Result<u32, Full> {
        counters.event(Event::Unexpected);
        let envelope = Envelope {
            source: message.envelope.from,
            tag: message.envelope.tag,
        };
        let token = self.unexpected.insert(message);
        if self.is_reserved(envelope.tag) {
            self.reserved_messages.extend(self.unexpected.claim(token));
            return Ok(token);
        }
        let queued = self.matcher.push_unexpected(&envelope, token).or_else(|_| {
            let more = self.matcher.unexpected_len().max(256);
            self.matcher.reserve(0, more)?;
            self.matcher.push_unexpected(&envelope, token)
        });
        match queued {
            Ok(id) => {
                self.unexpected.set_queued(token, id);
                let depth = self.matcher.unexpected_len() as u64;
                counters.at_least(Event::UnexpectedDepthMost, depth);
                Ok(token)
            }
            Err(full) => {
                self.unexpected.take(token);
                Err(full)
            }
        }
    }

    /// The oldest message that matches, left where it is.
    pub(crate) fn probe(&mut self, query: &Query) -> Option<u32> {
        self.matcher.probe(query).map(|(_, token)| token)
    }

    /// The oldest message that matches, taken out of the queue; it stays in the store.
    #[inline]
    pub(crate) fn take_unexpected(&mut self, query: &Query) -> Option<u32> {
        let (_, token) = self.matcher.take_unexpected(query)?;
        Some(token)
    }

    /// Takes a message out of the queue; it stays in the store.
    pub(crate) fn unqueue(&mut self, token: u32) {
        if let Some(id) = self.unexpected.queued(token) {
            self.matcher.remove_unexpected(id);
        }
    }

    /// Takes a message out of the queue and the store: its sender is gone, or has cancelled.
    pub(crate) fn withdraw(&mut self, token: u32) -> Option<UnexpectedMessage> {
        self.unqueue(token);
        self.unexpected.take(token)
    }

    /// Counts bytes that wait. Over the budget, senders are asked to offer their messages, so that
    /// only the headers are kept here; under half of it they may send again. Gives the new state if
    /// it changed.
    pub(crate) fn count_bytes(&mut self, counters: &mut Recorder, change: i64) -> Option<bool> {
        let bytes = counters.unexpected_bytes().saturating_add_signed(change);
        counters.set_unexpected_bytes(bytes);
        let limit = if self.over_budget {
            self.budget / 2
        } else {
            self.budget
        };
        let over_budget = bytes > limit;
        if over_budget == self.over_budget {
            return None;
        }
        self.over_budget = over_budget;
        if over_budget {
            counters.event(Event::OverBudget);
        }
        Some(over_budget)
    }

    /// Keeps messages with this tag under this mask out of matching.
    pub(crate) fn reserve_tags(&mut self, tag: u64, mask: u64) {
        self.reserved = Some((tag, mask));
    }

    fn is_reserved(&self, tag: u64) -> bool {
        self.reserved
            .is_some_and(|(reserved, mask)| (tag ^ reserved) & mask == 0)
    }

    /// The oldest message with a reserved tag.
    pub(crate) fn take_reserved(&mut self) -> Option<(Status, ClaimId)> {
        loop {
            let claim = self.reserved_messages.pop_front()?;
            let token = self.unexpected.claimed(claim);
            let message = token.and_then(|token| self.unexpected.get(token));
            if let Some(message) = message {
                return Some((message.status(), claim));
            }
        }
    }
}

/// Bytes of a message that this endpoint keeps.
pub(crate) fn kept_bytes(message: &UnexpectedMessage) -> i64 {
    match &message.body {
        UnexpectedBody::Bytes(bytes) | UnexpectedBody::Partial(bytes) => bytes.len() as i64,
        _ => 0,
    }
}
