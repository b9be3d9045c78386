//! Operations that the owner of the memory executes when it makes progress: atomic ones, and short
//! writes with data. One message asks for one. Another answers all that were executed in a row.
//!
//! Those without results need no message for that in most cases: see `receipts`.
//!
//! Operations of one endpoint on another are executed in the order in which they were made, since
//! the messages keep theirs. An operation ends when its answer is here, or its owner has failed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use limic::raw::{RawSliceMut, Runtime};
use limic::{Access, Peer, Status};

use crate::call::{append, parts};
use crate::control_channel::{Topic, numbered, parts_of};
use crate::endpoint::Endpoint;
use crate::log;
use crate::node::{Node, give_back, mark};
use crate::send::Of;
use crate::unanswered::{MOST, Operation, Room};
use limic_ofi_abi::endpoint::fi_rma_iov;
use limic_ofi_abi::errno::*;
use limic_ofi_abi::*;

/// Most bytes of a write with data that go to its target with the data. Longer ones go into place
/// by themselves, and the data follows.
pub(crate) const LONGEST_WRITE: usize = 4096;

/// Bytes after which answers go, though others may follow.
const MANY_BYTES: usize = 4096;

/// Least bytes of a message of answers. One so long has a cache line of a ring to itself. Whoever
/// waits for it reads that line again and again, so what is sent next is better off in another one.
const LEAST_BYTES: usize = 32;

/// Above the number of an operation that is refused, with an error number. Else the length of the
/// results stands there, so that answers which come too late can be passed over.
const REFUSED: u16 = 1 << 15;

/// An operation that a peer is asked for.
pub(crate) struct Asked {
    pub(crate) topic: Topic,
    /// The immediate word of the message.
    pub(crate) word: Option<u64>,
    /// Where the results go.
    pub(crate) room: Room,
}

/// Answers that are on their way to one message, or to a receipt.
#[derive(Default)]
pub(crate) struct Answers {
    /// Who is to have a receipt, and its number.
    pub(crate) receipt: Option<(Peer, u64)>,
    to: Option<Peer>,
    count: u64,
    /// The message; the count comes into its first word in the end.
    bytes: Vec<u8>,
}

/// Operations of peers whose answers have not gone yet, by peer. Peers without any are not there.
#[derive(Default)]
pub(crate) struct Untaken(HashMap<Peer, u64>);

impl Untaken {
    /// Whether more answers to a peer may wait. One that keeps the rules has asked for no more.
    fn has_room(&self, peer: Peer) -> bool {
        self.0.get(&peer).is_none_or(|count| *count < MOST as u64)
    }

    pub(crate) fn add(&mut self, peer: Peer, count: u64) {
        *self.0.entry(peer).or_default() += count;
    }

    pub(crate) fn remove(&mut self, peer: Peer, count: u64) {
        if let Entry::Occupied(mut known) = self.0.entry(peer) {
            *known.get_mut() -= count;
            if *known.get() == 0 {
                known.remove();
            }
        }
    }
}

/// The word of this number in a message of peers.
pub(crate) fn word(message: &[u8], number: usize) -> Option<u64> {
    let bytes = message.get(8 * number..)?.first_chunk()?;
    Some(u64::from_ne_bytes(*bytes))
}

impl Endpoint {
    /// Whether this peer may be asked for one more operation.
    #[inline(always)]
    pub(crate) fn may_ask(&self, peer: Peer) -> Result<(), i32> {
        if self.unanswered.borrow().is_full(peer) {
            self.progress();
            return Err(FI_EAGAIN);
        }
        self.may_begin(peer, true)?;
        self.may_inject()
    }

    /// Asks a peer for an operation. `put` writes the message down: the first word, which it gets,
    /// and what is to be done. It is over with the answer. On an error it was not begun, and the
    /// node is nobody's any more.
    ///
    /// # Safety
    /// The node is this operation's, and not reported yet; the room for results is its own until
    /// it is over.
    pub(crate) unsafe fn ask(
        &self,
        peer: Peer,
        node: *mut Node,
        asked: Asked,
        put: impl FnOnce(u64, &mut Vec<u8>),
    ) -> Result<(), i32> {
        let Asked { topic, word, room } = asked;
        let has_no_results = room.is_none();
        let operation = Operation { node, room };
        // There is room, by `may_ask`.
        let number = self.unanswered.borrow_mut().add(peer, operation);
        if has_no_results {
            self.receipts.awaited.set(true);
        }
        let mut message = self.said_last.take();
        message.clear();
        put(topic.word(number), &mut message);
        // Most peers are attached, which this shows too.
        if self.says_now(peer, word, &message) {
            self.said_last.set(message);
            return Ok(());
        }
        let said = self.attached(peer);
        let said = said.and_then(|()| self.say_later(peer, word, message, Of::Said));
        let Err(errno) = said else { return Ok(()) };
        let unasked = self.unanswered.borrow_mut().take(peer, number);
        if unasked.is_none() {
            // It is over, and reported: its peer has failed meanwhile, or has given a receipt that
            // names what never came.
            return Ok(());
        }
        // SAFETY: the caller's promise; nobody has the node.
        unsafe { give_back(node) };
        Err(errno)
    }

    /// An operation is over: it is answered, or will not be.
    ///
    /// # Safety
    /// The node is one of such an operation, and not reported yet.
    pub(crate) unsafe fn asked_is_over(&self, node: *mut Node, errno: i32) {
        // SAFETY: the caller's promise.
        unsafe {
            if errno != 0 {
                (*node).flags |= mark::FAILED;
                (*node).error = errno;
                (*node).len = 0;
            }
            self.report(node);
        }
    }

    /// A peer answers so many operations. For each there is a word, which is its number and the
    /// length of its results, which follow; or its number and why it is refused.
    pub(crate) fn answered(&self, peer: Peer, count: u64, mut answers: &[u8]) {
        if self.receipts.awaited.get() {
            // Its receipt is older, and so are those operations.
            self.received(peer, self.limic.receipt_of(peer));
        }
        for _ in 0..count {
            let answer = answers.split_first_chunk().and_then(|(word, rest)| {
                let (above, number) = parts_of(u64::from_ne_bytes(*word));
                let refused = above & REFUSED != 0;
                let len = if refused { 0 } else { usize::from(above) };
                let (results, rest) = rest.split_at_checked(len)?;
                let errno = if refused { above & !REFUSED } else { 0 };
                Some((number, i32::from(errno), results, rest))
            });
            let Some((number, mut errno, results, rest)) = answer else {
                log::warn(&format_args!("{peer} has lost what it was asked for"));
                return self.end_unanswered(peer, FI_EIO);
            };
            answers = rest;
            let operation = self.unanswered.borrow_mut().take(peer, number);
            let Some(Operation { node, room }) = operation else {
                // It has failed already, since messages were lost.
                continue;
            };
            // SAFETY: whoever asked promised that the room is the operation's until it is over.
            if errno == 0 && !unsafe { room.fill(results) } {
                errno = FI_EIO;
            }
            // SAFETY: the operation was not over, so its node is not reported yet.
            unsafe { self.asked_is_over(node, errno) };
        }
    }

    /// A peer answers nothing any more: it has failed, or what it said is lost, answers perhaps.
    pub(crate) fn end_unanswered(&self, peer: Peer, errno: i32) {
        let ended = self.unanswered.borrow_mut().take_all_of(peer);
        for Operation { node, .. } in ended {
            // SAFETY: the operation was not over, so its node is not reported yet.
            unsafe { self.asked_is_over(node, errno) };
        }
    }

    /// Answers an operation of a peer: with what `execute` puts behind other answers, or with the
    /// reason why it is refused.
    pub(crate) fn answer(
        &self,
        answers: &mut Answers,
        (peer, number): (Peer, u64),
        execute: impl FnOnce(&mut Vec<u8>) -> Result<(), i32>,
    ) {
        if answers.to != Some(peer) || answers.bytes.len() >= MANY_BYTES {
            self.send_answers(answers);
            answers.to = Some(peer);
            answers.bytes = self.begin(Topic::Answers, 0);
        }
        answers.count += 1;
        let at = answers.bytes.len();
        answers.bytes.extend_from_slice(&number.to_ne_bytes());
        let results = answers.bytes.len();
        let above = match execute(&mut answers.bytes) {
            // No operation has more than fit into some 4096 bytes.
            Ok(()) => (answers.bytes.len() - results) as u16,
            Err(errno) => {
                answers.bytes.truncate(results);
                REFUSED | errno as u16
            }
        };
        if above != 0
            && let Some(word) = answers.bytes[at..].first_chunk_mut()
        {
            *word = numbered(above, number).to_ne_bytes();
        }
    }

    /// Says that an operation of a peer is refused. A peer may repeat it as often as it likes, so
    /// only the first one is a warning.
    #[cold]
    pub(crate) fn tell_refusal(&self, peer: Peer, topic: Topic, said: &[u8], errno: i32) {
        let why = match errno {
            FI_EKEYREJECTED => "no memory here has this key and allows it",
            FI_EACCES => "it reaches outside of the memory region",
            FI_EOPNOTSUPP => "it is not done here on this type, or on so many elements",
            FI_EINVAL => "what the peer says makes no sense",
            _ => "see libfabric's error number",
        };
        // Both kinds of operations name their memory first.
        let place = match (word(said, 0), word(said, 1), word(said, 2)) {
            (Some(key), Some(at), _) if topic == Topic::Write => {
                format!(" (key {key}, offset {at:#x}, {} bytes)", said.len() - 16)
            }
            (Some(key), Some(at), Some(count)) => {
                format!(" (key {key}, offset {at:#x}, elements: {count})")
            }
            _ => String::new(),
        };
        let line = format_args!(
            "an operation of {peer} on memory here{place} is refused: {why} (error {errno})"
        );
        if self.refused.borrow_mut().add(peer) {
            log::warn(&line);
        } else {
            log::info(&line);
        }
    }

    /// Gives the receipt, and sends the answers, that there are.
    pub(crate) fn send_answers(&self, answers: &mut Answers) {
        self.give_receipt(answers);
        let Answers {
            to, count, bytes, ..
        } = core::mem::take(answers);
        let Some(peer) = to else { return };
        let mut message = bytes;
        Topic::Answers.head(count, &mut message);
        if message.len() < LEAST_BYTES {
            message.resize(LEAST_BYTES, 0);
        }
        if self.says_now(peer, None, &message) {
            return self.said_last.set(message);
        }
        let has_room = self.untaken.borrow().has_room(peer);
        let said = has_room.then_some(()).ok_or(FI_ENOMEM);
        let said =
            said.and_then(|()| self.say_later(peer, None, message, Of::Answers(peer, count)));
        if let Err(errno) = said {
            log::info(&format_args!("{peer} gets no answer: error {errno}"));
        }
    }

    /// Asks the target of a short write to copy its bytes into place, and to report the data.
    ///
    /// # Safety
    /// The node is this operation's, and not reported yet; the bytes are readable during the call.
    #[inline(always)]
    pub(crate) unsafe fn ask_to_write(
        &self,
        peer: Peer,
        node: *mut Node,
        data: u64,
        to: &fi_rma_iov,
        bytes: &[RawSliceMut],
    ) -> Result<(), i32> {
        let asked = Asked {
            topic: Topic::Write,
            word: Some(data),
            room: Room::None,
        };
        let put = |first, message: &mut Vec<u8>| {
            let words = [first, to.key, to.addr].map(u64::to_ne_bytes);
            message.extend_from_slice(words.as_flattened());
            // SAFETY: the caller's promise.
            unsafe { append(message, parts(bytes)) };
        };
        // SAFETY: the caller's promise; there are no results.
        unsafe { self.ask(peer, node, asked, put) }
    }

    /// A peer asks for a write. The data is reported when the bytes are in place.
    pub(crate) fn write_for(&self, status: &Status, said: &[u8]) -> Result<(), i32> {
        let len = self.place(said)?;
        self.was_written(status, len);
        Ok(())
    }

    /// Copies the bytes of a peer's write into place. Whatever the message says is checked first.
    fn place(&self, message: &[u8]) -> Result<usize, i32> {
        if self.caps & FI_RMA == 0 {
            return Err(FI_EKEYREJECTED);
        }
        let (key, rest) = message.split_first_chunk().ok_or(FI_EINVAL)?;
        let (addr, bytes) = rest.split_first_chunk().ok_or(FI_EINVAL)?;
        let (key, addr) = (u64::from_ne_bytes(*key), u64::from_ne_bytes(*addr));
        let to = self.domain.reached(key, addr, bytes.len(), Access::WRITE)?;
        // SAFETY: within a region, which the application registered for such accesses, and which
        // is not closed during this call; its own threads that look at it meanwhile accept what
        // libfabric says of that.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        self.has_written_for_peer(key);
        Ok(bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_takes_no_answers_has_room_for_as_many_as_it_may_ask_for() {
        let (peer, other) = (Peer::from_index(3), Peer::from_index(4));
        let mut untaken = Untaken::default();
        for _ in 0..MOST {
            assert!(untaken.has_room(peer));
            untaken.add(peer, 1);
        }
        assert!(!untaken.has_room(peer) && untaken.has_room(other));
        untaken.remove(peer, 1);
        assert!(untaken.has_room(peer));
        untaken.remove(peer, MOST as u64 - 1);
        assert!(untaken.0.is_empty());
    }
}
