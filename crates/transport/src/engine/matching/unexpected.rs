//! Messages that came before their receive: the unexpected queue, what is kept out of it, and the
//! bytes that wait there.

use limic_matching::{Envelope, Selector as Query};

use super::Matching;
use super::unexpected_store::{UnexpectedBody, UnexpectedMessage};
use crate::counters::{Event, Recorder};

/// There is no memory for a message.
#[derive(Debug)]
pub(crate) struct NoMemory;

impl Matching {
    /// Puts a message behind all that wait; gives its token.
    ///
    /// # Errors
    /// There is no memory for the queue or the store, and the message is gone.
    pub(crate) fn store_message(
        &mut self,
        counters: &Recorder,
        message: UnexpectedMessage,
    ) -> Result<u32, NoMemory> {
        counters.event(Event::Unexpected);
        self.kept = self.kept.wrapping_add(1);
        let envelope = Envelope {
            source: message.envelope.from,
            tag: message.envelope.tag,
        };
        if self.is_reserved(envelope.tag) {
            return self.reserve(message);
        }
        let token = self.unexpected.insert(message).ok_or(NoMemory)?;
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
            Err(_) => {
                self.unexpected.take(token);
                Err(NoMemory)
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
        let message = self.unexpected.take(token)?;
        self.unexpected.forget_offer(&message);
        Some(message)
    }

    /// Counts bytes and messages of a peer that wait, or do no longer. Over the budget, senders are
    /// asked to offer their messages, so that only the headers are kept here; under half of it they
    /// may send again. Gives the new state if it changed.
    #[inline]
    pub(crate) fn count(
        &mut self,
        counters: &mut Recorder,
        from: u32,
        (bytes, messages): (i64, i64),
    ) -> Option<bool> {
        counters.set_unexpected_bytes(counters.unexpected_bytes().saturating_add_signed(bytes));
        let changed = self.bound.count(from, bytes, messages);
        if changed == Some(true) {
            counters.event(Event::OverBudget);
        }
        changed
    }

    /// Messages that found no receive so far, and news of accesses, wrapping.
    #[inline(always)]
    pub(crate) fn kept(&self) -> u32 {
        self.kept
    }

    /// A peer has said something that no receive asks for, and that is no message.
    pub(crate) fn note_unasked(&mut self) {
        self.kept = self.kept.wrapping_add(1);
    }

    /// Whether senders are asked to offer their messages.
    pub(crate) fn is_over_budget(&self) -> bool {
        self.bound.is_over_budget()
    }

    /// Whether messages take more memory than is given to them, so that some are to wait where they
    /// are.
    #[inline(always)]
    pub(crate) fn is_over_cap(&self) -> bool {
        self.bound.is_over_cap()
    }

    /// Whether they would take, with so many bytes more, so much that a peer that cannot be held
    /// back is given up.
    pub(crate) fn is_over_all(&self, more: u64) -> bool {
        self.bound.is_over_all(more)
    }

    /// Whether the messages of a peer, which is one of so many, are to wait where they are.
    pub(crate) fn is_over_share(&self, from: u32, peers: u32) -> bool {
        self.bound.is_over_share(from, peers)
    }
}

/// Bytes of a message that this endpoint keeps.
pub(crate) fn kept_bytes(body: &UnexpectedBody) -> i64 {
    match body {
        UnexpectedBody::Bytes(bytes) | UnexpectedBody::Partial(bytes) => bytes.len() as i64,
        _ => 0,
    }
}
