//! What endpoints say to each other beside the application's messages: that a long write with data
//! is done, and what the owner of memory is asked for, with the answers ([`crate::asked`]).
//!
//! Such messages travel like all others, so they keep their order; a tag of their own keeps them
//! out of matching.

use std::collections::HashMap;

use limic::raw::{
    ClaimId, Messages, Posted, RawSlice, RawSliceMut, Reserved, Runtime, SendOptions,
};
use limic::{Error, Outcome, Peer, Status, Tag};

use crate::asked::Answers;
use crate::call::NO_CONTEXT;
use crate::completion_queue::Completion;
use crate::endpoint::{Endpoint, sort};
use crate::errors::{errno_of, is_dropped, logged_errno};
use crate::line::Line;
use crate::log;
use crate::node::{Node, mark};
use crate::progress::{kind, name_of};
use crate::send::Of;
use limic_ofi_abi::*;

/// What a message says, in bits 48 and above of its first word. Below stands a number, which an
/// operation and its answer have in common. All have one tag, since a record under the tag of the
/// one before takes less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    /// A long write is done: its data is the immediate word, its length the payload.
    Written = 1,
    /// An atomic operation that fetches nothing.
    Change = 2,
    /// An atomic operation that fetches what was there before.
    Fetch = 3,
    /// A short write: its data is the immediate word, its place and its bytes the payload.
    Write = 4,
    /// Answers to operations; the number is how many.
    Answers = 5,
}

impl Topic {
    /// The first word of a message.
    pub(crate) fn word(self, number: u64) -> u64 {
        numbered(self as u16, number)
    }

    /// Writes the first word of a message, for which there is room.
    pub(crate) fn head(self, number: u64, message: &mut [u8]) {
        if let Some(head) = message.first_chunk_mut() {
            *head = self.word(number).to_ne_bytes();
        }
    }

    /// What the first word of a message says, and the number there.
    fn of(word: u64) -> Option<(Self, u64)> {
        let (topic, number) = parts_of(word);
        let topic = match topic {
            1 => Self::Written,
            2 => Self::Change,
            3 => Self::Fetch,
            4 => Self::Write,
            5 => Self::Answers,
            _ => return None,
        };
        Some((topic, number))
    }
}

/// A word with a number in its lower 48 bits.
pub(crate) const fn numbered(above: u16, number: u64) -> u64 {
    (above as u64) << 48 | number
}

/// What stands above the number of a word, and the number.
pub(crate) const fn parts_of(word: u64) -> (u16, u64) {
    ((word >> 48) as u16, word & (u64::MAX >> 16))
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

/// Messages that wait, by peer. Peers without any are not there.
pub(crate) type Waiting = HashMap<Peer, Line<*mut Coming, (Status, ClaimId)>>;

impl Endpoint {
    /// Handles what other endpoints have said.
    #[inline(always)]
    pub(crate) fn hear_peers(&self) {
        if self.limic.has_reserved() {
            self.hear_all();
        }
    }

    /// Most messages come whole, and in the memory of those before, so a steady state does not
    /// allocate.
    #[inline(never)]
    fn hear_all(&self) {
        let mut answers = Answers::default();
        loop {
            let mut inbox = self.heard_last.take();
            self.limic.take_inbox(&mut inbox);
            for (status, message) in inbox.iter() {
                self.heard(status, message, &mut answers);
            }
            self.heard_last.set(inbox);
            if !self.limic.has_reserved() {
                break;
            }
            self.hear_claimed(&mut answers);
        }
        self.send_answers(&mut answers);
    }

    /// What has not come whole, what belongs to an owner of the receives, and what has to wait for
    /// an earlier message of its peer.
    #[cold]
    fn hear_claimed(&self, answers: &mut Answers) {
        while let Some(reserved) = self.limic.take_reserved() {
            match reserved {
                Reserved::Claimed(status, claim) => {
                    if status.tag.0 & sort::MASK == sort::ASIDE {
                        self.hear(status, claim, answers);
                    } else {
                        self.has_arrived(status, claim);
                    }
                }
                Reserved::Ended(peer, why, receipt) => {
                    self.received(peer, receipt);
                    self.end_unanswered(peer, errno_of(&why));
                }
                Reserved::Accessed(key, accesses) => self.were_accessed(key, accesses),
            }
        }
    }

    /// While messages wait for others, those behind them stay with the engine, which counts them.
    /// Those of an owner of the receives are claimed too.
    pub(crate) fn choose_inbox(&self) {
        let waits = !self.waiting.borrow().is_empty();
        self.limic.use_inbox(!waits && !self.has_owner());
    }

    fn hear(&self, status: Status, claim: ClaimId, answers: &mut Answers) {
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
        let coming = self.fetch(status, claim);
        // SAFETY: `fetch` has made it, and nobody else has it if it is over.
        let is_here = unsafe { (*coming).outcome.is_some() };
        if is_here && !waits {
            // SAFETY: as above.
            let coming = unsafe { Box::from_raw(coming) };
            return self.heard_late(&coming, answers);
        }
        self.wait_for(peer, coming);
    }

    /// Has the bytes of a message come, into memory that came from a box.
    fn fetch(&self, status: Status, claim: ClaimId) -> *mut Coming {
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
        match unsafe { self.limic.post_claimed(claim, &room) } {
            Ok(Posted::Done(outcome)) => coming.outcome = Some(outcome),
            Ok(Posted::Pending(id)) => {
                let coming = Box::into_raw(coming);
                self.watch(id, name_of(coming, kind::ASIDE));
                return coming;
            }
            Err(error) => coming.outcome = Some(Err(error)),
        }
        Box::into_raw(coming)
    }

    /// A short message may be there before a long one of the same peer that was sent earlier, and
    /// waits for it: operations are executed in the order in which they were asked for.
    fn wait_for(&self, peer: Peer, coming: *mut Coming) {
        let mut waiting = self.waiting.borrow_mut();
        waiting.entry(peer).or_default().coming.push_back(coming);
        drop(waiting);
        // What comes from now on is behind it.
        self.choose_inbox();
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
        let mut answers = Answers::default();
        while let Some(next) = self.next_heard(peer) {
            self.heard_late(&next, &mut answers);
            self.fetch_more(peer);
        }
        self.send_answers(&mut answers);
        self.choose_inbox();
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
            let coming = self.fetch(status, claim);
            self.wait_for(peer, coming);
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

    /// A message is over that was claimed. If it is lost, nobody knows what it was: answers to this
    /// side, or what the peer asked for, of which it would hear nothing.
    fn heard_late(&self, coming: &Coming, answers: &mut Answers) {
        match &coming.outcome {
            // What it asked for is over at both ends, each of which hears of the other's end. One
            // that is back by now has asked for other things.
            Some(Err(Error::PeerFailed { .. })) => {}
            Some(Err(error)) => {
                log::warn(error);
                let peer = coming.status.peer;
                self.received(peer, self.limic.receipt_of(peer));
                self.end_unanswered(peer, errno_of(error));
                self.gives_no_receipts(answers, peer);
                self.send_answers(answers);
                // A message that announces an answer and holds none ends all that the peer waits
                // for. It goes behind the answers that were made before.
                let lost = self.begin(Topic::Answers, 1);
                if let Err(errno) = self.say(peer, None, lost) {
                    log::info(&format_args!(
                        "{peer} does not get to know it: error {errno}"
                    ));
                }
            }
            _ => self.heard(&coming.status, &coming.bytes, answers),
        }
    }

    /// Does what a peer has said.
    fn heard(&self, status: &Status, message: &[u8], answers: &mut Answers) {
        let peer = status.peer;
        let (word, said) = message.split_first_chunk().unwrap_or((&[0; 8], message));
        let word = u64::from_ne_bytes(*word);
        let Some((topic, number)) = Topic::of(word) else {
            return log::warn(&format_args!("{peer} said something unknown ({word:#x})"));
        };
        let operation = (peer, number);
        let refused = |errno: &i32| self.tell_refusal(peer, topic, said, *errno);
        match topic {
            Topic::Write => {
                let written = self.write_for(status, said).inspect_err(refused);
                self.answer_change(answers, operation, written);
            }
            Topic::Fetch => self.answer(answers, operation, |results| {
                self.execute(said, true, results).inspect_err(refused)
            }),
            Topic::Change => {
                // What was there before is for nobody.
                let mut before = self.said_last.take();
                before.clear();
                let changed = self.execute(said, false, &mut before).inspect_err(refused);
                self.said_last.set(before);
                self.answer_change(answers, operation, changed);
            }
            // Nobody waits for writes where there is no memory to be written.
            Topic::Written if self.caps & FI_RMA == 0 => {
                log::warn(&format_args!(
                    "{peer} says that it has written, and cannot have"
                ));
            }
            Topic::Written => {
                let len = said.first_chunk();
                let len = len.map_or(0, |len| u64::from_ne_bytes(*len));
                self.was_written(status, len as usize);
            }
            Topic::Answers => self.answered(peer, number, said),
        }
    }

    /// A peer has written so many bytes, with data.
    pub(crate) fn was_written(&self, status: &Status, len: usize) {
        self.complete(Completion {
            context: NO_CONTEXT,
            node: Node {
                flags: FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA | self.mark(),
                len,
                data: status.immediate.unwrap_or(0),
                peer: status.peer.index(),
                ..Node::EMPTY
            },
        });
    }

    /// A long write with data is over: its target gets to know.
    ///
    /// # Safety
    /// The node is one of such a write, and not reported yet.
    #[cold]
    pub(crate) unsafe fn notify(&self, node: *mut Node) {
        // SAFETY: the caller's promise.
        unsafe {
            (*node).flags &= !mark::NOTIFY;
            let data = core::mem::replace(&mut (*node).data, 0);
            if (*node).flags & mark::FAILED != 0 {
                return;
            }
            let mut message = self.begin(Topic::Written, 0);
            message.extend_from_slice(&((*node).len as u64).to_ne_bytes());
            let peer = Peer::from_index((*node).peer);
            if let Err(errno) = self.say(peer, Some(data), message) {
                (*node).flags |= mark::FAILED;
                (*node).error = errno;
            }
        }
    }

    /// The beginning of a message, in the memory of the last one that went at once, so a steady
    /// state does not allocate.
    pub(crate) fn begin(&self, topic: Topic, number: u64) -> Vec<u8> {
        let mut message = self.said_last.take();
        message.clear();
        message.extend_from_slice(&topic.word(number).to_ne_bytes());
        message
    }

    /// Sends a message of this kind.
    pub(crate) fn say(&self, peer: Peer, word: Option<u64>, message: Vec<u8>) -> Result<(), i32> {
        if self.says_now(peer, word, &message) {
            self.said_last.set(message);
            return Ok(());
        }
        self.say_later(peer, word, message, Of::Said)
    }

    /// Sends a message of this kind, if it goes at once. True if it did.
    pub(crate) fn says_now(&self, peer: Peer, word: Option<u64>, message: &[u8]) -> bool {
        let whole = [RawSlice::from(message)];
        // SAFETY: the bytes live during the call.
        unsafe { self.limic.try_send(peer, Tag(sort::ASIDE), word, &whole) }
    }

    /// Sends a message of this kind that does not go at once.
    #[cold]
    pub(crate) fn say_later(
        &self,
        peer: Peer,
        word: Option<u64>,
        message: Vec<u8>,
        of: Of,
    ) -> Result<(), i32> {
        let options = SendOptions {
            immediate: word,
            ..SendOptions::default()
        };
        let whole = [RawSlice::from(&message[..])];
        // SAFETY: the bytes live until the send is done: `Copied` keeps them.
        let posted = unsafe {
            self.limic
                .post_send_with(peer, Tag(sort::ASIDE), options, &whole)
        };
        match posted {
            Ok(Posted::Pending(id)) => self.watch_copy(id, message, of),
            Ok(Posted::Done(Err(error))) | Err(error) if !is_dropped(&error) => {
                return Err(logged_errno(&error));
            }
            Ok(Posted::Done(_)) | Err(_) => {}
        }
        Ok(())
    }
}
