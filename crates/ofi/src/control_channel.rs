//! What endpoints say to each other beside the application's messages: that a long write with data
//! is done, and what the owner of memory is asked for, with the answers ([`crate::asked`]).
//!
//! Such messages travel like all others, so they keep their order; a tag of their own keeps them
//! out of matching.

use std::collections::{HashMap, VecDeque};

use limic::raw::{ClaimId, Messages, Posted, RawSlice, RawSliceMut, Runtime};
use limic::{Outcome, Peer, Status, Tag};

use crate::endpoint::{Endpoint, sort};
use crate::log;
use crate::node::{Node, mark};
use crate::progress::{kind, name_of};
use crate::send::Sent;
use limic_ofi_abi::*;

/// What a message says, in bits 32 and above of its tag. Below stands a number, which an operation
/// and its answer have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    /// A long write is done: its data is the immediate word, its length the payload.
    Written = 1,
    /// An atomic operation; the immediate word says whether it fetches.
    Atomic = 2,
    /// The answer to an operation: the result, with an error number as immediate word.
    Answer = 3,
    /// A short write: its data is the immediate word, its place and its bytes the payload.
    Write = 4,
}

impl Topic {
    const SHIFT: u32 = 32;

    pub(crate) const fn tag(self, number: u32) -> u64 {
        sort::ASIDE | (self as u64) << Self::SHIFT | number as u64
    }

    /// What a tag of such a message says.
    fn of(tag: u64) -> Option<Self> {
        let all = [Self::Written, Self::Atomic, Self::Answer, Self::Write];
        all.into_iter().find(|topic| topic.tag(tag as u32) == tag)
    }
}

/// Longest message of this kind that makes sense.
const LONGEST: usize = 16 * 1024;

/// A message that is on its way into memory of its own.
#[repr(align(8))]
pub(crate) struct Coming {
    pub(crate) bytes: Vec<u8>,
    pub(crate) status: Status,
    /// What became of it, once it is over.
    pub(crate) outcome: Option<Outcome>,
}

/// Messages of one peer that have memory here. More than an application has in flight that waits
/// for answers now and then.
const MOST: usize = 32;

/// Messages of a peer that wait: for their own bytes, or for those of an earlier one.
///
/// Few of them have memory here. The others stay with the engine, which counts them with all that
/// the peer has sent and was not received, and holds the peer back.
#[derive(Debug)]
pub(crate) struct Line<C, L> {
    coming: VecDeque<C>,
    later: VecDeque<L>,
}

impl<C, L> Default for Line<C, L> {
    fn default() -> Self {
        Self {
            coming: VecDeque::new(),
            later: VecDeque::new(),
        }
    }
}

impl<C, L> Line<C, L> {
    fn is_empty(&self) -> bool {
        self.coming.is_empty() && self.later.is_empty()
    }

    /// Whether the next one has to wait for memory.
    fn is_full(&self) -> bool {
        self.coming.len() >= MOST || !self.later.is_empty()
    }

    /// The next message that is to have memory, if there is room.
    fn next_to_come(&mut self) -> Option<L> {
        let room = self.coming.len() < MOST;
        room.then(|| self.later.pop_front()).flatten()
    }
}

/// Messages that wait, by peer. Peers without any are not there.
pub(crate) type Waiting = HashMap<Peer, Line<*mut Coming, (Status, ClaimId)>>;

impl Endpoint {
    /// Handles what other endpoints have said.
    #[inline(always)]
    pub(crate) fn hear_peers(&self) {
        while let Some((status, claim)) = self.limic.take_reserved() {
            if status.tag.0 & sort::MASK == sort::ASIDE {
                self.hear(status, claim);
            } else {
                self.has_arrived(status, claim);
            }
        }
    }

    #[cold]
    fn hear(&self, status: Status, claim: ClaimId) {
        let peer = status.peer;
        let (waits, full) = {
            let waiting = self.waiting.borrow();
            let line = waiting.get(&peer);
            (line.is_some(), line.is_some_and(Line::is_full))
        };
        if full {
            let mut waiting = self.waiting.borrow_mut();
            let line = waiting.entry(peer).or_default();
            return line.later.push_back((status, claim));
        }
        let Some(coming) = self.fetch(status, claim) else {
            return;
        };
        // SAFETY: `fetch` has made it, and nobody else has it if it is over.
        let is_here = unsafe { (*coming).outcome.is_some() };
        if is_here && !waits {
            // SAFETY: as above.
            return self.heard(unsafe { Box::from_raw(coming) });
        }
        self.wait_for(peer, coming);
    }

    /// Memory for a message of which no byte has come: of the last one that is over, so a steady
    /// state does not allocate.
    fn room_for(&self, status: Status) -> Box<Coming> {
        if let Some(mut coming) = self.heard_last.take() {
            coming.bytes.clear();
            coming.status = status;
            coming.outcome = None;
            return coming;
        }
        Box::new(Coming {
            bytes: Vec::new(),
            status,
            outcome: None,
        })
    }

    /// Has the bytes of a message come, into memory that came from a box. `None`: it is lost.
    fn fetch(&self, status: Status, claim: ClaimId) -> Option<*mut Coming> {
        let len = usize::try_from(status.len).unwrap_or(usize::MAX);
        let mut coming = self.room_for(status);
        coming.bytes.resize(len.min(LONGEST), 0);
        let room = [RawSliceMut {
            start: coming.bytes.as_mut_ptr(),
            len: coming.bytes.len(),
        }];
        // SAFETY: the room lives until the receive is over: `coming` is kept until then.
        match unsafe { self.limic.post_claimed(claim, &room) } {
            Ok(Posted::Done(outcome)) => coming.outcome = Some(outcome),
            Ok(Posted::Pending(id)) => {
                let coming = Box::into_raw(coming);
                self.watch(id, name_of(coming, kind::ASIDE));
                return Some(coming);
            }
            Err(error) => {
                log::info(&error);
                return None;
            }
        }
        Some(Box::into_raw(coming))
    }

    /// A short message may be there before a long one of the same peer that was sent earlier, and
    /// waits for it: operations are executed in the order in which they were asked for.
    fn wait_for(&self, peer: Peer, coming: *mut Coming) {
        let mut waiting = self.waiting.borrow_mut();
        waiting.entry(peer).or_default().coming.push_back(coming);
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
            self.heard(next);
            self.fetch_more(peer);
        }
    }

    /// Has those come for which there was no room.
    fn fetch_more(&self, peer: Peer) {
        loop {
            let next = self
                .waiting
                .borrow_mut()
                .get_mut(&peer)
                .and_then(Line::next_to_come);
            let Some((status, claim)) = next else { break };
            if let Some(coming) = self.fetch(status, claim) {
                self.wait_for(peer, coming);
            }
        }
        let mut waiting = self.waiting.borrow_mut();
        if waiting.get(&peer).is_some_and(Line::is_empty) {
            waiting.remove(&peer);
        }
    }

    /// Takes the oldest message of a peer that waits, if it is there.
    fn next_heard(&self, peer: Peer) -> Option<Box<Coming>> {
        let mut waiting = self.waiting.borrow_mut();
        let line = waiting.get_mut(&peer)?;
        // SAFETY: what is in a queue is alive, and is in none after this.
        let next = unsafe {
            let first = *line.coming.front()?;
            (*first).outcome.as_ref()?;
            Box::from_raw(first)
        };
        line.coming.pop_front();
        Some(next)
    }

    /// The endpoint is closed, and what has come is not executed any more. A message that is not
    /// over stays: its peer may be writing into it.
    pub(crate) fn forget_asides(&self) {
        let lines = self.waiting.take().into_values();
        for coming in lines.flat_map(|line| line.coming) {
            // SAFETY: what was in a queue is alive, and is in none any more.
            unsafe {
                if (*coming).outcome.is_some() {
                    drop(Box::from_raw(coming));
                }
            }
        }
    }

    fn heard(&self, coming: Box<Coming>) {
        let (peer, tag) = (coming.status.peer, coming.status.tag.0);
        match (&coming.outcome, Topic::of(tag)) {
            (Some(Err(error)), _) => log::warn(error),
            (_, Some(Topic::Write)) => self.write_for(&coming, tag as u32),
            (_, Some(Topic::Atomic)) => {
                let fetches = coming.status.immediate.is_some_and(|word| word != 0);
                let result = self.execute(&coming.bytes, fetches);
                self.answer(peer, tag as u32, result);
            }
            (_, Some(Topic::Written)) => {
                let len = coming.bytes.first_chunk();
                let len = len.map_or(0, |len| u64::from_ne_bytes(*len));
                self.was_written(&coming.status, len as usize);
            }
            // The answer to an operation that is given up.
            (_, Some(Topic::Answer)) => {}
            (_, None) => log::warn(&format_args!("{peer} said something unknown ({tag:#x})")),
        }
        self.heard_last.set(Some(coming));
    }

    /// A peer has written so many bytes, with data.
    pub(crate) fn was_written(&self, status: &Status, len: usize) {
        let node: *mut Node = self.pool.take(core::ptr::null_mut()).cast();
        // SAFETY: the node was just taken, and is in no list.
        unsafe {
            (*node).flags |= FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA | self.mark();
            (*node).len = len;
            (*node).data = status.immediate.unwrap_or(0);
            (*node).peer = status.peer.index();
            self.report(node);
        }
    }

    /// A long write with data is over: its target gets to know.
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
            let mut bytes = self.empty();
            bytes.extend(((*node).len as u64).to_ne_bytes());
            let peer = Peer::from_index((*node).peer);
            if let Err(errno) = self.say(peer, Topic::Written.tag(0), Some(data), bytes) {
                (*node).flags |= mark::FAILED;
                (*node).error = errno;
            }
        }
    }

    /// An empty vector for what is said next: of the last message that went at once, so a steady
    /// state does not allocate.
    pub(crate) fn empty(&self) -> Vec<u8> {
        let mut bytes = self.said_last.take();
        bytes.clear();
        bytes
    }

    /// Sends a message of this kind.
    pub(crate) fn say(
        &self,
        peer: Peer,
        tag: u64,
        word: Option<u64>,
        bytes: Vec<u8>,
    ) -> Result<(), i32> {
        let whole = [RawSlice {
            start: bytes.as_ptr(),
            len: bytes.len(),
        }];
        // SAFETY: the bytes live during the call.
        if unsafe { self.limic.try_send(peer, Tag(tag), word, &whole) } {
            self.said_last.set(bytes);
            return Ok(());
        }
        let sent = Sent {
            to: FI_ADDR_UNSPEC,
            tag,
            data: word,
            context: core::ptr::null_mut(),
            flags: 0,
            reported: false,
            matched: false,
        };
        // SAFETY: there is no context.
        unsafe { self.send_copy_to(peer, &sent, bytes) }.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_memory_for_few_messages_and_keeps_their_order() {
        const SENT: usize = 10 * MOST;
        let mut line = Line::default();
        for number in 0..SENT {
            if line.is_full() {
                line.later.push_back(number);
            } else {
                line.coming.push_back(number);
            }
        }
        let mut heard = Vec::new();
        while let Some(first) = line.coming.pop_front() {
            heard.push(first);
            while let Some(next) = line.next_to_come() {
                line.coming.push_back(next);
            }
            assert!(line.coming.len() <= MOST);
        }
        assert!(line.is_empty() && heard.into_iter().eq(0..SENT));
    }
}
