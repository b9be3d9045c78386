//! Messages of a runtime to itself: they match nothing, and wait in the order of their arrival.
//!
//! Short ones that come whole lie in an inbox, if the runtime uses one, and are received: they are
//! handed over without a way through the store. Of the others the bytes are to be had yet, as if a
//! matched probe had found them.

use std::collections::{BTreeMap, VecDeque};

use super::Matching;
use super::unexpected::NoMemory;
use super::unexpected_store::UnexpectedMessage;
use crate::raw::{Accesses, ClaimId, Inbox, Reserved};
use crate::{Error, Peer};

/// What waits for the runtime.
enum Waiting {
    /// A claimed message; the store has what is there of it.
    Message(ClaimId),
    /// A peer has failed, with this last receipt.
    Ended(Peer, Error, u64),
}

/// Which messages these are, and those that have come.
#[derive(Default)]
pub(super) struct Kept {
    /// Tag and mask.
    tags: Option<(u64, u64)>,
    uses_inbox: bool,
    inbox: Inbox,
    /// What has come behind the messages in the inbox.
    waiting: VecDeque<Waiting>,
    /// How often regions were accessed, by key: one entry for each region waits, however often
    /// peers access it. It has no place in the order of the messages.
    accesses: BTreeMap<u64, Accesses>,
}

impl Matching {
    /// Keeps messages with this tag under this mask out of matching.
    pub(crate) fn reserve_tags(&mut self, tag: u64, mask: u64) {
        self.reserved.tags = Some((tag, mask));
    }

    pub(crate) fn use_inbox(&mut self, used: bool) {
        self.reserved.uses_inbox = used;
    }

    #[inline(always)]
    pub(super) fn is_reserved(&self, tag: u64) -> bool {
        let tags = self.reserved.tags;
        tags.is_some_and(|(reserved, mask)| (tag ^ reserved) & mask == 0)
    }

    /// Whether anything waits for the runtime.
    #[inline(always)]
    pub(crate) fn has_reserved(&self) -> bool {
        let kept = &self.reserved;
        !(kept.inbox.is_empty() & kept.waiting.is_empty() & kept.accesses.is_empty())
    }

    /// Whether a whole message with this tag goes to the inbox.
    #[inline(always)]
    pub(crate) fn goes_to_inbox(&self, tag: u64) -> bool {
        let kept = &self.reserved;
        // It would be ahead of what waits.
        self.is_reserved(tag) && kept.uses_inbox && kept.waiting.is_empty() && kept.inbox.has_room()
    }

    /// The inbox, for one more message.
    pub(crate) fn inbox(&mut self) -> &mut Inbox {
        self.kept = self.kept.wrapping_add(1);
        &mut self.reserved.inbox
    }

    /// Takes the messages in the inbox, in exchange for one.
    #[inline(always)]
    pub(crate) fn take_inbox(&mut self, inbox: &mut Inbox) {
        inbox.clear();
        core::mem::swap(&mut self.reserved.inbox, inbox);
    }

    /// Puts a message behind all that wait; gives its token.
    ///
    /// # Errors
    /// There is no memory for it, and the message is gone.
    pub(super) fn reserve(&mut self, message: UnexpectedMessage) -> Result<u32, NoMemory> {
        self.reserved.waiting.try_reserve(1).map_err(|_| NoMemory)?;
        let token = self.unexpected.insert(message).ok_or(NoMemory)?;
        let claim = self.unexpected.claim(token).map(Waiting::Message);
        self.reserved.waiting.extend(claim);
        Ok(token)
    }

    /// A peer has failed. The runtime learns it behind all that the peer has sent.
    pub(crate) fn reserve_end(&mut self, peer: u32, why: &Error, receipt: u64) {
        if self.reserved.tags.is_some() {
            let end = Waiting::Ended(Peer(peer), why.clone(), receipt);
            self.reserved.waiting.push_back(end);
        }
    }

    /// The region under this key was written, or read.
    pub(crate) fn reserve_access(&mut self, key: u64, wrote: bool) {
        let count = self.reserved.accesses.entry(key).or_default();
        let kind = if wrote {
            &mut count.writes
        } else {
            &mut count.reads
        };
        *kind = kind.wrapping_add(1);
    }

    /// The runtime does not want to know any more how often the region under this key was accessed.
    pub(crate) fn forget_accesses(&mut self, key: u64) {
        self.reserved.accesses.remove(&key);
    }

    /// The counts of a region, or the oldest of what waits and is in no inbox.
    pub(crate) fn take_reserved(&mut self) -> Option<Reserved> {
        if let Some((key, count)) = self.reserved.accesses.pop_first() {
            return Some(Reserved::Accessed(key, count));
        }
        loop {
            match self.reserved.waiting.pop_front()? {
                Waiting::Ended(peer, why, receipt) => {
                    return Some(Reserved::Ended(peer, why, receipt));
                }
                Waiting::Message(claim) => {
                    let token = self.unexpected.claimed(claim);
                    let message = token.and_then(|token| self.unexpected.get(token));
                    if let Some(message) = message {
                        return Some(Reserved::Claimed(message.status(), claim));
                    }
                }
            }
        }
    }
}
