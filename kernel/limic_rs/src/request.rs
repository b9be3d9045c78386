// SPDX-License-Identifier: GPL-2.0

//! The slots of a session, each of which holds one send or receive at a time.

use crate::events::{Events, Outcome};
use crate::ffi;
use crate::held::Held;
use crate::mailbox::{Mailbox, MessageName};
use crate::matching::PostedId;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::{new_spinlock, sync::SpinLock};

/// Where a slot is in its life.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Never used.
    Idle,
    /// A call is about to use it.
    Busy,
    /// In a queue. Only under the lock of the queue's mailbox does it leave this phase.
    Posted,
    /// It met the other side, whose call completes it.
    Matched,
    /// Over, and free again.
    Done,
}

/// In which queue a request is.
#[derive(Clone)]
pub(crate) enum Place {
    /// A receive, among those posted in its owner's mailbox.
    Posted(PostedId),
    /// A send, among the messages in the receiver's mailbox.
    Message(Arc<Mailbox>, MessageName),
}

struct Inner {
    phase: Phase,
    /// How often it was claimed, or taken back by force.
    claims: u64,
    cookie: u64,
    /// The memory, while it is pinned. Whoever completes it takes it out, so there is none when it
    /// is claimed.
    held: Option<Arc<Held>>,
    place: Option<Place>,
}

/// One slot.
#[pin_data]
pub(crate) struct Request {
    number: u32,
    events: Arc<Events>,
    #[pin]
    inner: SpinLock<Inner>,
}

/// What [`Request::place`] finds.
pub(crate) enum Whereabouts {
    /// Nothing was ever posted.
    Nowhere,
    /// It was in this queue a moment ago.
    Queued(Place),
    /// It has met the other side, or is over.
    Past,
}

impl Request {
    fn new(number: u32, events: Arc<Events>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                number,
                events,
                inner <- new_spinlock!(
                    Inner { phase: Phase::Idle, claims: 0, cookie: 0, held: None, place: None },
                    "limic_request"
                ),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Puts it into a queue. The queue's mailbox is locked, and its entry there is made.
    pub(crate) fn set_posted(&self, held: Option<Arc<Held>>, place: Place) {
        let mut inner = self.inner.lock();
        inner.phase = Phase::Posted;
        let held = core::mem::replace(&mut inner.held, held);
        let place = inner.place.replace(place);
        self.events.show_pending(self.number, inner.cookie);
        drop(inner);
        // There was none; if there were, it would have to go outside of the lock.
        drop((held, place));
    }

    /// Takes it out of a queue: for the other side, with its memory, or for whoever ends it. The
    /// queue's mailbox is locked, and its entry there is gone.
    pub(crate) fn set_matched(self: &Arc<Self>) -> (Party, Option<Arc<Held>>) {
        let mut inner = self.inner.lock();
        inner.phase = Phase::Matched;
        let party = Party {
            request: self.clone(),
            claim: inner.claims,
        };
        (party, inner.held.clone())
    }

    /// Ends the claim of this number, unless it was taken back by force. The caller holds no lock
    /// and has let its own reference to the memory go, so that the pages are free before user space
    /// sees the end.
    fn complete(&self, claim: u64, outcome: &Outcome, by_other: bool) {
        let mut inner = self.inner.lock();
        if inner.claims != claim {
            return;
        }
        let (held, place) = (inner.held.take(), inner.place.take());
        drop(inner);
        // Unpins, which may sleep.
        drop((held, place));
        let mut inner = self.inner.lock();
        if inner.claims != claim {
            return;
        }
        inner.phase = Phase::Done;
        self.events.show_done(self.number, inner.cookie, outcome);
        drop(inner);
        if by_other {
            self.events.completed();
        } else {
            self.events.freed();
        }
    }

    /// Takes it back from the other side: when this returns, nobody touches its memory any more,
    /// and whoever comes to complete it finds that it is over. False if it has not matched.
    ///
    /// Waits for one burst at most, and never for the other side's page faults.
    pub(crate) fn take_back(&self, outcome: &Outcome) -> bool {
        let mut inner = self.inner.lock();
        if inner.phase != Phase::Matched {
            return false;
        }
        // Nobody claims the slot before it is shown as over.
        inner.phase = Phase::Busy;
        inner.claims = inner.claims.wrapping_add(1);
        let (held, place) = (inner.held.take(), inner.place.take());
        drop(inner);
        if let Some(held) = held {
            held.shut();
        }
        drop(place);
        let mut inner = self.inner.lock();
        inner.phase = Phase::Done;
        self.events.show_done(self.number, inner.cookie, outcome);
        drop(inner);
        self.events.freed();
        true
    }

    /// Where it is queued.
    pub(crate) fn place(&self) -> Whereabouts {
        let inner = self.inner.lock();
        match (inner.phase, &inner.place) {
            (Phase::Idle, _) => Whereabouts::Nowhere,
            (Phase::Posted, Some(place)) => Whereabouts::Queued(place.clone()),
            _ => Whereabouts::Past,
        }
    }

    /// Whether it is under way.
    pub(crate) fn is_pending(&self) -> bool {
        matches!(
            self.inner.lock().phase,
            Phase::Busy | Phase::Posted | Phase::Matched
        )
    }

    /// Its session goes: it leaves its queue, nobody touches its memory any more, and it is
    /// forgotten.
    ///
    /// Calls of the other side that are on their way to complete it find another claim's number.
    pub(crate) fn abandon(&self) {
        let mut inner = self.inner.lock();
        inner.claims = inner.claims.wrapping_add(1);
        let (held, place) = (inner.held.take(), inner.place.take());
        drop(inner);
        if let Some(Place::Message(mailbox, name)) = &place {
            drop(mailbox.withdraw_message(*name, true));
        }
        if let Some(held) = held {
            held.shut();
        }
    }
}

/// A request as those who complete it know it: of one claim of its slot. If it was taken back by
/// force meanwhile, it is another claim's, or nobody's, and this does nothing.
pub(crate) struct Party {
    request: Arc<Request>,
    claim: u64,
}

impl Party {
    /// Takes it out of a queue. The queue's mailbox is locked, and its entry there is gone.
    pub(crate) fn set_matched(&self) {
        let mut inner = self.request.inner.lock();
        if inner.claims == self.claim {
            inner.phase = Phase::Matched;
        }
    }

    /// Puts it into a queue, in the call that has claimed it. The queue's mailbox is locked, and
    /// its entry there is made.
    pub(crate) fn set_posted(&self, held: Option<Arc<Held>>, place: Place) {
        self.request.set_posted(held, place);
    }

    /// Ends it, by a call of somebody else or of its owner's. The caller holds no lock and has let
    /// its own reference to the memory go.
    pub(crate) fn complete(self, outcome: &Outcome, by_other: bool) {
        self.request.complete(self.claim, outcome, by_other);
    }
}

/// All slots of a session.
pub(crate) struct Requests {
    slots: KVVec<Arc<Request>>,
    pub(crate) events: Arc<Events>,
}

impl Requests {
    pub(crate) fn new(slots: u32) -> Result<Arc<Self>> {
        let events = Arc::pin_init(Events::new(slots), GFP_KERNEL_ACCOUNT)?;
        let mut requests = KVVec::with_capacity(slots as usize, GFP_KERNEL_ACCOUNT)?;
        for slot in 0..slots {
            requests.push(Request::new(slot, events.clone())?, GFP_KERNEL_ACCOUNT)?;
            ffi::resched();
        }
        Ok(Arc::new(
            Self {
                slots: requests,
                events,
            },
            GFP_KERNEL_ACCOUNT,
        )?)
    }

    /// Number of slots.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&Arc<Request>> {
        self.slots.get(slot as usize)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Request>> {
        self.slots.iter()
    }

    /// Takes a slot for a new request.
    pub(crate) fn claim(&self, slot: u32, cookie: u64) -> Result<Claim<'_>> {
        let request = self.get(slot).ok_or(EINVAL)?;
        let mut inner = request.inner.lock();
        if !matches!(inner.phase, Phase::Idle | Phase::Done) {
            return Err(EBUSY);
        }
        let claim = Claim {
            request,
            before: inner.phase,
            number: inner.claims.wrapping_add(1),
        };
        inner.phase = Phase::Busy;
        inner.claims = claim.number;
        inner.cookie = cookie;
        Ok(claim)
    }
}

/// A slot that a call has taken. Dropped without being used, it is as it was before.
///
/// As soon as it is posted or over, the slot may belong to another call, and so to another claim.
pub(crate) struct Claim<'a> {
    request: &'a Arc<Request>,
    before: Phase,
    /// Which of the slot's claims it is.
    number: u64,
}

impl Claim<'_> {
    pub(crate) fn request(&self) -> &Arc<Request> {
        self.request
    }

    pub(crate) fn party(&self) -> Party {
        Party {
            request: self.request.clone(),
            claim: self.number,
        }
    }

    /// The request is over within its own call.
    pub(crate) fn finish(self, outcome: &Outcome) {
        self.request.complete(self.number, outcome, false);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut inner = self.request.inner.lock();
        if inner.phase == Phase::Busy && inner.claims == self.number {
            inner.phase = self.before;
            drop(inner);
            self.request.events.freed();
        }
    }
}
