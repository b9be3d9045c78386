//! Messages that came before their receive: the unexpected queue, what is kept out of it, and the bytes that wait there.

use limic_matching::Envelope;
use limic_shm::ring::Memory;
use limic_shm::sync::Ordering;

use super::Core;
use super::stash::{Arrived, Waiting};
use crate::Status;
use crate::buffer::{Source, append};
use crate::counters::Event;
use crate::raw::ClaimId;

impl Core {
    #[cold]
    pub(crate) fn keep_bytes(
        &mut self,
        from: u32,
        tag: u64,
        immediate: Option<u64>,
        source: &impl Source,
    ) {
        let mut bytes = self.stash.buffer();
        append(source, &mut bytes);
        self.count_unexpected(bytes.len() as i64);
        let len = source.len();
        self.store(Arrived {
            from,
            tag,
            immediate,
            len,
            waiting: Waiting::Bytes(bytes),
        });
    }

    /// Puts a message into the unexpected queue; gives its token.
    pub(crate) fn store(&mut self, arrived: Arrived) -> u32 {
        self.tally.event(Event::Unexpected);
        let envelope = Envelope {
            source: arrived.from,
            tag: arrived.tag,
        };
        let from = arrived.from;
        if arrived.waiting.holds_up().is_some() {
            self.sender_waits(from);
        }
        let token = self.stash.insert(arrived);
        if let Some((tag, mask)) = self.aside
            && (envelope.tag ^ tag) & mask == 0
        {
            self.set_aside.extend(self.stash.claim(token));
            return token;
        }
        let queued = self.matcher.push_unexpected(&envelope, token).or_else(|_| {
            let more = self.matcher.unexpected_len().max(256);
            self.matcher.reserve(0, more)?;
            self.matcher.push_unexpected(&envelope, token)
        });
        match queued {
            Ok(id) => {
                self.stash.set_queued(token, id);
                let depth = self.matcher.unexpected_len() as u64;
                self.tally.at_least(Event::UnexpectedDepthMost, depth);
            }
            Err(_) => {
                self.stash.take(token);
                self.corrupt(from, "more unexpected messages than memory can hold");
            }
        }
        token
    }

    /// Counts bytes that wait unexpected. Over the budget senders are asked to offer their messages instead:
    /// then only the headers are kept here. Under half of it they may send again.
    pub(crate) fn count_unexpected(&mut self, change: i64) {
        let bytes = self.tally.unexpected_bytes().saturating_add_signed(change);
        self.tally.set_unexpected_bytes(bytes);
        let budget = self.settings.unexpected_budget_bytes();
        let pressed = if self.pressed {
            bytes > budget / 2
        } else {
            bytes > budget
        };
        if pressed != self.pressed {
            self.pressed = pressed;
            if pressed {
                self.tally.event(Event::Pressed);
            }
            self.tell_pressed(pressed);
            self.segment
                .status()
                .word32(0)
                .store(u32::from(pressed), Ordering::Relaxed);
        }
    }

    /// Takes a message out of the unexpected queue again: its sender is gone or has cancelled.
    pub(crate) fn withdraw(&mut self, token: u32) {
        if let Some(id) = self.stash.queued(token) {
            self.matcher.remove_unexpected(id);
        }
        let Some(arrived) = self.stash.take(token) else {
            return;
        };
        if arrived.waiting.holds_up().is_some()
            && let Some(link) = self.peers.link(arrived.from)
        {
            link.lag.withdrawn();
        }
        if let Waiting::Bytes(bytes) | Waiting::Coming(bytes) = arrived.waiting {
            self.count_unexpected(-(bytes.len() as i64));
        }
    }

    /// Keeps messages with this tag out of matching.
    pub(crate) fn set_aside(&mut self, tag: u64, mask: u64) {
        self.aside = Some((tag, mask));
    }

    /// The oldest message that was kept out of matching.
    pub(crate) fn take_aside(&mut self) -> Option<(Status, ClaimId)> {
        loop {
            let claim = self.set_aside.pop_front()?;
            let arrived = self
                .stash
                .claimed(claim)
                .and_then(|token| self.stash.get(token));
            if let Some(arrived) = arrived {
                return Some((arrived.status(), claim));
            }
        }
    }
}
