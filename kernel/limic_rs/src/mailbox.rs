// SPDX-License-Identifier: GPL-2.0

//! The two queues of one member of a group, over the same matching code that user space runs.

use crate::abi;
use crate::events::Events;
use crate::ffi;
use crate::held::Held;
use crate::matching::{Envelope, Matcher, PostedId, Selector, Source, UnexpectedId};
use crate::request::{Party, Place, Request, Requests};
use crate::tables::Tables;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::atomic::{Acquire, Atomic, Full};
use kernel::{new_mutex, sync::Mutex};

/// The bytes of a message that waits.
pub(crate) enum Body {
    /// In the sender's memory.
    Held(Arc<Held>),
    /// Kept by the kernel.
    Bytes(KVec<u8>),
    /// The sender left after the message was taken by a probe.
    Gone,
}

/// A message without its receive.
pub(crate) struct Message {
    pub(crate) source: u32,
    pub(crate) tag: u64,
    pub(crate) len: u64,
    /// The word beside the bytes.
    pub(crate) immediate: Option<u64>,
    pub(crate) body: Body,
    /// The request to complete; `None` if that has been done.
    pub(crate) sender: Option<Party>,
}

/// Names a message in a mailbox; stale once it was received or taken back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessageName {
    index: u32,
    generation: u32,
}

impl MessageName {
    /// As user space sees it; not 0, since generations begin at 1.
    pub(crate) fn number(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    pub(crate) fn from_number(number: u64) -> Self {
        Self {
            index: number as u32,
            generation: (number >> 32) as u32,
        }
    }
}

/// One place for a message.
struct Entry {
    generation: u32,
    /// In the matcher under this id; `None` once a probe has taken it.
    queued: Option<UnexpectedId>,
    message: Option<Message>,
}

pub(crate) struct Inner {
    /// The owner's slots, which are the tokens of posted receives.
    requests: Arc<Requests>,
    matcher: Matcher<Tables>,
    entries: KVVec<Entry>,
    /// Places that are free. It has room for all of them, so nothing is allocated under the lock.
    free: KVVec<u32>,
}

/// The queues of one member.
#[pin_data]
pub(crate) struct Mailbox {
    /// `abi::MEMBER_PRESENT`, or how it went. Set before the last messages and receives are taken
    /// out; nothing goes in afterwards.
    state: Atomic<u32>,
    /// `None` once the member has left: then it takes next to no memory, though the group keeps it.
    #[pin]
    inner: Mutex<Option<KBox<Inner>>>,
}

/// A receive that a message met.
pub(crate) struct Met {
    pub(crate) receiver: Party,
    pub(crate) held: Arc<Held>,
}

/// What a probe sees.
pub(crate) struct Seen {
    pub(crate) source: u32,
    pub(crate) tag: u64,
    pub(crate) len: u64,
    pub(crate) immediate: Option<u64>,
    pub(crate) name: Option<MessageName>,
}

impl Mailbox {
    pub(crate) fn new(requests: Arc<Requests>, unexpected: u32) -> Result<Arc<Self>> {
        let capacity = unexpected as usize;
        let tables = Tables::new(requests.len(), capacity)?;
        let mut entries = KVVec::with_capacity(capacity, GFP_KERNEL_ACCOUNT)?;
        let mut free = KVVec::with_capacity(capacity, GFP_KERNEL_ACCOUNT)?;
        for index in (0..unexpected).rev() {
            let entry = Entry {
                generation: 1,
                queued: None,
                message: None,
            };
            entries.push(entry, GFP_KERNEL_ACCOUNT)?;
            free.push(index, GFP_KERNEL_ACCOUNT)?;
        }
        let inner = KBox::new(
            Inner {
                requests,
                // With a seed of its own, so that nobody can choose tags that make matching slow.
                matcher: Matcher::with_seed(tables, ffi::random_nonzero()),
                entries,
                free,
            },
            GFP_KERNEL_ACCOUNT,
        )?;
        Arc::pin_init(
            pin_init!(Self {
                state: Atomic::new(abi::MEMBER_PRESENT),
                inner <- new_mutex!(Some(inner), "limic_mailbox"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// The mailbox of a member without slots, which takes no messages.
    pub(crate) fn without_messages() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                state: Atomic::new(abi::MEMBER_PRESENT),
                inner <- new_mutex!(None, "limic_mailbox"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Whether the member has left.
    pub(crate) fn has_left(&self) -> bool {
        self.state() != abi::MEMBER_PRESENT
    }

    /// `abi::MEMBER_PRESENT`, `abi::MEMBER_LEFT` or `abi::MEMBER_CLOSED`.
    pub(crate) fn state(&self) -> u32 {
        self.state.load(Acquire)
    }

    /// A message arrives: the receive that it meets. Without one, `queue` gives the message, if its
    /// sender has prepared it, and it is queued.
    pub(crate) fn arrive(
        self: &Arc<Self>,
        envelope: &Envelope,
        prepared: &mut Option<Message>,
    ) -> Result<Arrival> {
        let mut guard = self.inner.lock();
        let inner = (*guard).as_mut().ok_or(EPIPE)?;
        if let Some(slot) = inner.matcher.take_posted(envelope) {
            let (receiver, held) = inner.requests.get(slot).ok_or(EPIPE)?.set_matched();
            let held = held.ok_or(EPIPE)?;
            return Ok(Arrival::Met(Met { receiver, held }));
        }
        if inner.free.is_empty() {
            return Err(ffi::ENOBUFS());
        }
        let Some(message) = prepared.take() else {
            return Ok(Arrival::Wanted);
        };
        let index = inner.free.pop().ok_or(EPIPE)?;
        let queued = inner.matcher.push_unexpected(envelope, index);
        let entry = inner.entries.get_mut(index as usize);
        let (Ok(id), Some(entry)) = (queued, entry) else {
            // The tables are as large as the list of free places, so this is not reached.
            drop(guard);
            drop(message);
            return Err(ffi::ENOBUFS());
        };
        entry.queued = Some(id);
        let name = MessageName {
            index,
            generation: entry.generation,
        };
        if let Some(sender) = &message.sender {
            let held = match &message.body {
                Body::Held(held) => Some(held.clone()),
                _ => None,
            };
            sender.set_posted(held, Place::Message(self.clone(), name));
        }
        entry.message = Some(message);
        Ok(Arrival::Queued(inner.requests.events.clone()))
    }

    /// A receive looks for its message. Without one, `held` is its memory, if it has been prepared,
    /// and it is posted.
    ///
    /// `left` says whether the member that it wants to hear from has left; it is asked under the
    /// lock.
    pub(crate) fn receive(
        &self,
        selector: &Selector,
        left: impl Fn() -> bool,
        request: &Arc<Request>,
        slot: u32,
        held: &mut Option<Arc<Held>>,
    ) -> Result<Receipt> {
        let mut guard = self.inner.lock();
        let inner = (*guard).as_mut().ok_or(EPIPE)?;
        if let Some((_, index)) = inner.matcher.take_unexpected(selector) {
            return inner.take(index).map(Receipt::Found).ok_or(EPIPE);
        }
        // Whoever leaves says so before it comes for our lock to end the receives that name it: it
        // comes either before us, and is seen here, also if it was not there yet when the call
        // began, or behind us, and finds this receive.
        if left() {
            return Err(EPIPE);
        }
        let Some(held) = held.take() else {
            return Ok(Receipt::Wanted);
        };
        match inner.matcher.post(selector, slot) {
            Ok(id) => request.set_posted(Some(held), Place::Posted(id)),
            Err(_) => {
                // The table has a place for each slot, so this is not reached.
                drop(guard);
                drop(held);
                return Err(ffi::ENOBUFS());
            }
        }
        Ok(Receipt::Posted)
    }

    /// Receives what a probe took.
    pub(crate) fn receive_taken(&self, name: MessageName) -> Result<Message> {
        let mut guard = self.inner.lock();
        let inner = (*guard).as_mut().ok_or(EPIPE)?;
        let entry = inner.entries.get(name.index as usize).ok_or(ENOENT)?;
        if entry.generation != name.generation || entry.queued.is_some() {
            return Err(ENOENT);
        }
        inner.take(name.index).ok_or(ENOENT)
    }

    /// The oldest message that fits.
    pub(crate) fn probe(
        &self,
        selector: &Selector,
        left: impl Fn() -> bool,
        take: bool,
    ) -> Result<Seen> {
        let mut guard = self.inner.lock();
        let inner = (*guard).as_mut().ok_or(EPIPE)?;
        let found = if take {
            inner.matcher.take_unexpected(selector)
        } else {
            inner.matcher.probe(selector)
        };
        let Some((_, index)) = found else {
            return Err(if left() { EPIPE } else { EAGAIN });
        };
        let entry = inner.entries.get_mut(index as usize).ok_or(EAGAIN)?;
        let mut name = None;
        if take {
            entry.queued = None;
            name = Some(MessageName {
                index,
                generation: entry.generation,
            });
            if let Some(sender) = entry.message.as_ref().and_then(|it| it.sender.as_ref()) {
                sender.set_matched();
            }
        }
        let message = entry.message.as_ref().ok_or(EAGAIN)?;
        Ok(Seen {
            source: message.source,
            tag: message.tag,
            len: message.len,
            immediate: message.immediate,
            name,
        })
    }

    /// Takes back a receive that is posted here. `None` if it has been matched.
    pub(crate) fn withdraw_receive(&self, id: PostedId) -> Option<Party> {
        let mut guard = self.inner.lock();
        let inner = (*guard).as_mut()?;
        let slot = inner.matcher.cancel_posted(id)?;
        // Another call for the same slot finds it matched now.
        Some(inner.requests.get(slot)?.set_matched().0)
    }

    /// Takes back a message that waits here. `None` if it has been matched; with `leaving` also one
    /// that a probe took loses its bytes.
    pub(crate) fn withdraw_message(&self, name: MessageName, leaving: bool) -> Option<Message> {
        let mut guard = self.inner.lock();
        let inner = (*guard).as_mut()?;
        let entry = inner.entries.get_mut(name.index as usize)?;
        if entry.generation != name.generation {
            return None;
        }
        if let Some(id) = entry.queued {
            inner.matcher.remove_unexpected(id)?;
            let message = inner.take(name.index)?;
            if let Some(sender) = &message.sender {
                sender.set_matched();
            }
            return Some(message);
        }
        if leaving {
            if let Some(message) = &mut entry.message {
                message.sender = None;
                // The request holds the memory still, so nothing is unpinned under the lock.
                message.body = Body::Gone;
            }
        }
        None
    }

    /// Where the owner sees what happens; `None` once it has left.
    pub(crate) fn events(&self) -> Option<Arc<Events>> {
        let guard = self.inner.lock();
        guard.as_ref().map(|inner| inner.requests.events.clone())
    }

    /// Ends receives that name a member which has left, at most as many as fit; returns how many.
    pub(crate) fn end_receives(&self, of: u32, ended: &mut [Option<Party>]) -> usize {
        let mut guard = self.inner.lock();
        let Some(inner) = (*guard).as_mut() else {
            return 0;
        };
        let Inner {
            requests, matcher, ..
        } = &mut **inner;
        let (mut picked, mut stored) = (0, 0);
        let room = ended.len();
        let which = |selector: &Selector| {
            let pick = selector.source == Source::Is(of) && picked < room;
            picked += usize::from(pick);
            pick
        };
        matcher.drain_posted_if(which, |_, slot| {
            if let (Some(request), Some(place)) = (requests.get(slot), ended.get_mut(stored)) {
                *place = Some(request.set_matched().0);
                stored += 1;
            }
        });
        stored
    }

    /// The member leaves: nothing goes in any more. `how` is `abi::MEMBER_LEFT` or
    /// `abi::MEMBER_CLOSED`. Returns what was in the queues.
    pub(crate) fn leave(&self, how: u32) -> Option<KBox<Inner>> {
        // Full: a receive elsewhere that does not see this is in its queue when `end_receives`
        // comes there.
        self.state.xchg(how, Full);
        self.inner.lock().take()
    }
}

impl Inner {
    /// Takes a message out of its place, which is free then. The matcher has let it go.
    fn take(&mut self, index: u32) -> Option<Message> {
        let entry = self.entries.get_mut(index as usize)?;
        let message = entry.message.take()?;
        entry.queued = None;
        entry.generation = entry.generation.wrapping_add(1).max(1);
        // There is room for every place.
        let _ = self.free.push_within_capacity(index);
        if let Some(sender) = &message.sender {
            sender.set_matched();
        }
        Some(message)
    }

    /// Takes the messages out, when the queues are taken down.
    pub(crate) fn messages(&mut self) -> impl Iterator<Item = Message> + '_ {
        let entries = self.entries.iter_mut();
        entries.filter_map(|entry| entry.message.take())
    }
}

/// What became of a message.
pub(crate) enum Arrival {
    /// It met a receive.
    Met(Met),
    /// There is no receive: it has to be prepared.
    Wanted,
    /// It is queued, and this is where the receiver sees that.
    Queued(Arc<Events>),
}

/// What became of a receive.
pub(crate) enum Receipt {
    /// It found its message.
    Found(Message),
    /// There is no message: its memory has to be prepared.
    Wanted,
    /// It is posted.
    Posted,
}
