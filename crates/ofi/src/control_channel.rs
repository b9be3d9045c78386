//! What endpoints say to each other beside the application's messages: that a write with data is
//! done, and atomic operations with their answers.
//!
//! Such messages travel like all others, so they keep their order; a tag of their own keeps them
//! out of matching.

use std::collections::{HashMap, VecDeque};

use limic::raw::{Messages, Posted, RawSliceMut, Runtime};
use limic::{Outcome, Peer, Status};

use crate::abi::errno::FI_EIO;
use crate::abi::*;
use crate::endpoint::{Endpoint, sort};
use crate::errors::errno_of;
use crate::log;
use crate::node::{Node, mark};
use crate::progress::{kind, name_of};
use crate::send::Sent;

/// What a message says, in bits 32 and above of its tag.
const TOPIC_SHIFT: u32 = 32;
/// A write is done: its data is the immediate word, its length the payload.
const WRITTEN: u64 = 1;
/// An atomic operation.
const ATOMIC: u64 = 2;
/// The answer to one: the result, with an error number as immediate word.
const ANSWER: u64 = 3;

/// Longest message of this kind that makes sense.
pub(crate) const LONGEST: usize = 16 * 1024;

fn tag_of(topic: u64, number: u32) -> u64 {
    sort::ASIDE | topic << TOPIC_SHIFT | u64::from(number)
}

/// The tag of an atomic operation.
pub(crate) fn atomic_tag(number: u32) -> u64 {
    tag_of(ATOMIC, number)
}

/// The tag of its answer.
pub(crate) fn answer_tag(number: u32) -> u64 {
    tag_of(ANSWER, number)
}

/// A message that is on its way into memory of its own.
#[repr(align(8))]
pub(crate) struct Coming {
    bytes: Vec<u8>,
    status: Status,
    /// What became of it, once it is over.
    pub(crate) outcome: Option<Outcome>,
}

/// Messages that wait, by peer: for their own bytes, or for those of an earlier one. Peers without
/// any are not there.
pub(crate) type Waiting = HashMap<Peer, VecDeque<*mut Coming>>;

impl Endpoint {
    /// Handles what other endpoints have said.
    #[inline(always)]
    pub(crate) fn hear_peers(&self) {
        while let Some((status, claim)) = self.limic.take_reserved() {
            self.hear(status, claim);
        }
    }

    #[cold]
    fn hear(&self, status: Status, claim: limic::raw::ClaimId) {
        let len = usize::try_from(status.len).unwrap_or(usize::MAX);
        let mut coming = Box::new(Coming {
            bytes: vec![0; len.min(LONGEST)],
            status,
            outcome: None,
        });
        let room = [RawSliceMut {
            start: coming.bytes.as_mut_ptr(),
            len: coming.bytes.len(),
        }];
        // SAFETY: the room lives until the receive is over: `coming` is kept until then.
        let posted = unsafe { self.limic.post_claimed(claim, &room) };
        let pending = match posted {
            Ok(Posted::Done(outcome)) => {
                coming.outcome = Some(outcome);
                None
            }
            Ok(Posted::Pending(id)) => Some(id),
            Err(error) => return log::info(&error),
        };
        if pending.is_none() && !self.waiting.borrow().contains_key(&status.peer) {
            return self.heard(&coming);
        }
        // A short message may be there before a long one of the same peer that was sent earlier,
        // and waits for it: operations are executed in the order in which they were asked for.
        let coming = Box::into_raw(coming);
        if let Some(id) = pending {
            self.watch(id, name_of(coming, kind::ASIDE));
        }
        let mut waiting = self.waiting.borrow_mut();
        waiting.entry(status.peer).or_default().push_back(coming);
    }

    /// A long message of another endpoint is there.
    ///
    /// # Safety
    /// `coming` came from `hear`, and was not over.
    pub(crate) unsafe fn aside_has_come(&self, coming: *mut Coming, outcome: Outcome) {
        // SAFETY: the caller's promise: it waits for this.
        let peer = unsafe {
            (*coming).outcome = Some(outcome);
            (*coming).status.peer
        };
        while let Some(next) = self.next_heard(peer) {
            self.heard(&next);
        }
    }

    /// Takes the oldest message of a peer that waits, if it is there.
    fn next_heard(&self, peer: Peer) -> Option<Box<Coming>> {
        let mut waiting = self.waiting.borrow_mut();
        let queue = waiting.get_mut(&peer)?;
        // SAFETY: what is in a queue is alive, and is in none after this.
        let next = unsafe {
            let first = *queue.front()?;
            (*first).outcome.as_ref()?;
            Box::from_raw(first)
        };
        queue.pop_front();
        if queue.is_empty() {
            waiting.remove(&peer);
        }
        Some(next)
    }

    /// The endpoint is closed, and what has come is not executed any more. A message that is not
    /// over stays: its peer may be writing into it.
    pub(crate) fn forget_asides(&self) {
        for coming in self.waiting.take().into_values().flatten() {
            // SAFETY: what was in a queue is alive, and is in none any more.
            unsafe {
                if (*coming).outcome.is_some() {
                    drop(Box::from_raw(coming));
                }
            }
        }
    }

    fn heard(&self, coming: &Coming) {
        let (peer, tag) = (coming.status.peer, coming.status.tag.0);
        if let Some(Err(error)) = &coming.outcome {
            return log::warn(error);
        }
        match (tag & !sort::MASK) >> TOPIC_SHIFT {
            WRITTEN => self.was_written(coming),
            ATOMIC => {
                let fetches = coming.status.immediate.is_some_and(|word| word != 0);
                self.answer(peer, tag as u32, &coming.bytes, fetches);
            }
            // The answer to an operation that is given up.
            ANSWER => {}
            _ => log::warn(&format_args!("{peer} said something unknown ({tag:#x})")),
        }
    }

    /// A peer has written, with data.
    fn was_written(&self, coming: &Coming) {
        let len = coming
            .bytes
            .first_chunk()
            .map(|len| u64::from_ne_bytes(*len));
        let node: *mut Node = self.domain.pool.take(core::ptr::null_mut()).cast();
        // SAFETY: the node was just taken, and is in no list.
        unsafe {
            (*node).flags |= FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA | self.mark();
            (*node).len = len.unwrap_or(0) as usize;
            (*node).data = coming.status.immediate.unwrap_or(0);
            (*node).peer = coming.status.peer.index();
            self.report(node);
        }
    }

    /// A write with data is over: its target gets to know.
    ///
    /// # Safety
    /// The node is one of such a write, and in no list.
    #[cold]
    pub(crate) unsafe fn notify(&self, node: *mut Node) {
        // SAFETY: the caller's promise.
        unsafe {
            (*node).flags &= !mark::NOTIFY;
            let data = core::mem::replace(&mut (*node).data, 0);
            if (*node).flags & mark::FAILED != 0 {
                return;
            }
            let bytes = ((*node).len as u64).to_ne_bytes().to_vec();
            let peer = Peer::from_index((*node).peer);
            if let Err(errno) = self.say(peer, tag_of(WRITTEN, 0), Some(data), bytes) {
                (*node).flags |= mark::FAILED;
                (*node).error = errno;
            }
        }
    }

    /// Sends a message of this kind.
    pub(crate) fn say(
        &self,
        peer: Peer,
        tag: u64,
        word: Option<u64>,
        bytes: Vec<u8>,
    ) -> Result<(), i32> {
        let sent = Sent {
            to: FI_ADDR_UNSPEC,
            tag,
            data: word,
            context: core::ptr::null_mut(),
            flags: 0,
            reported: false,
            delivered: false,
        };
        // SAFETY: there is no context.
        unsafe { self.send_copy_to(peer, &sent, bytes) }.map(drop)
    }

    /// The error number that an outcome stands for.
    pub(crate) fn number_of(outcome: &Outcome) -> i32 {
        match outcome {
            Ok(status) => status.immediate.map_or(0, |errno| errno as i32),
            Err(limic::Error::Truncated { .. }) => FI_EIO,
            Err(error) => errno_of(error),
        }
    }
}
