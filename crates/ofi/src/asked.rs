//! Operations that the owner of the memory executes when it makes progress: atomic ones, and short
//! writes with data. One message asks for one, and another is its answer.
//!
//! Operations of one endpoint on another are executed in the order in which they were made, since
//! the messages keep theirs. The answer comes into a receive that names its sender, so an operation
//! ends when the owner dies.

use limic::raw::{Messages, Posted, RawSliceMut};
use limic::{Access, Outcome, Peer, Selector, Tag};

use crate::call::append;
use crate::control_channel::{Coming, Topic};
use crate::endpoint::Endpoint;
use crate::errors::{errno_of, text_of};
use crate::log;
use crate::node::{Node, mark};
use crate::progress::{kind, name_of};
use limic_ofi_abi::endpoint::fi_rma_iov;
use limic_ofi_abi::errno::*;
use limic_ofi_abi::*;

/// Most bytes of a write with data that go to its target with the data. Longer ones go into place
/// by themselves, and the data follows.
pub(crate) const LONGEST_WRITE: usize = 4096;

/// Most operations that are not answered yet. The caller of one more has to make progress first:
/// each has memory here, and its answer has some at the peer until it is taken.
const MOST_UNANSWERED: u32 = 1 << 16;

/// An operation that a peer is asked for.
pub(crate) struct Asked {
    pub(crate) topic: Topic,
    pub(crate) word: u64,
    pub(crate) message: Vec<u8>,
}

impl Endpoint {
    /// Whether a peer may be asked for one more operation.
    pub(crate) fn may_ask(&self) -> Result<(), i32> {
        if self.unanswered.get() >= MOST_UNANSWERED {
            self.progress();
            return Err(FI_EAGAIN);
        }
        self.may_inject()
    }

    /// Asks a peer for an operation, which is over with the answer.
    ///
    /// # Safety
    /// The node is this operation's, and in no list; the room for results is its own until it is
    /// over.
    pub(crate) unsafe fn ask(
        &self,
        peer: Peer,
        node: *mut Node,
        asked: Asked,
        results: &[RawSliceMut],
    ) {
        let number = self.asked.get().wrapping_add(1);
        self.asked.set(number);
        self.unanswered.set(self.unanswered.get() + 1);
        let selector = Selector::exact(peer, Tag(Topic::Answer.tag(number)));
        // SAFETY: the caller's promise.
        match unsafe { self.limic.post_recv(&selector, results) } {
            Ok(Posted::Pending(id)) => self.watch(id, name_of(node, kind::ASKED)),
            // A peer that answers before it is asked.
            // SAFETY: the caller's promise; nobody waits for it.
            Ok(Posted::Done(outcome)) => unsafe { self.asked_is_over(node, &outcome) },
            // SAFETY: as above.
            Err(error) => return unsafe { self.asked_is_over(node, &Err(error)) },
        }
        // If it cannot be sent, the peer is gone, and the receive of the answer has ended or will.
        let _ = self.say(
            peer,
            asked.topic.tag(number),
            Some(asked.word),
            asked.message,
        );
    }

    /// An operation is over: its answer is here, or will not come.
    ///
    /// # Safety
    /// The node is one of such an operation, and in no list.
    pub(crate) unsafe fn asked_is_over(&self, node: *mut Node, outcome: &Outcome) {
        self.unanswered.set(self.unanswered.get() - 1);
        let errno = Self::number_of(outcome);
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

    /// The error number that an answer stands for: its immediate word, if it came.
    fn number_of(outcome: &Outcome) -> i32 {
        match outcome {
            Ok(status) => status.immediate.map_or(0, |errno| errno as i32),
            Err(limic::Error::Truncated { .. }) => FI_EIO,
            Err(error) => errno_of(error),
        }
    }

    /// Answers a peer: with these bytes, or with the reason why its operation is refused.
    pub(crate) fn answer(&self, peer: Peer, number: u32, result: Result<Vec<u8>, i32>) {
        let (bytes, errno) = match result {
            Ok(bytes) => (bytes, 0),
            Err(errno) => {
                log::warn(&format_args!(
                    "an operation of {peer} on memory here is refused: {}",
                    text_of(errno).to_string_lossy()
                ));
                (self.empty(), errno)
            }
        };
        let tag = Topic::Answer.tag(number);
        if let Err(errno) = self.say(peer, tag, Some(errno as u64), bytes) {
            log::info(&format_args!("{peer} gets no answer: error {errno}"));
        }
    }

    /// Asks the target of a short write to copy its bytes into place, and to report the data.
    ///
    /// # Safety
    /// The node is this operation's, and in no list; the bytes are readable during the call.
    pub(crate) unsafe fn ask_to_write(
        &self,
        peer: Peer,
        node: *mut Node,
        data: u64,
        to: &fi_rma_iov,
        bytes: &[RawSliceMut],
    ) {
        let mut message = self.empty();
        message.extend(to.key.to_ne_bytes());
        message.extend(to.addr.to_ne_bytes());
        let bytes = bytes.iter().map(|p| (p.start.cast_const(), p.len));
        // SAFETY: the caller's promise.
        unsafe { append(&mut message, bytes) };
        let asked = Asked {
            topic: Topic::Write,
            word: data,
            message,
        };
        // SAFETY: the caller's promise; there are no results.
        unsafe { self.ask(peer, node, asked, &[]) };
    }

    /// A peer asks for a write. The data is reported when the bytes are in place.
    pub(crate) fn write_for(&self, coming: &Coming, number: u32) {
        let peer = coming.status.peer;
        let written = self.place(&coming.bytes);
        if let Ok(len) = written {
            self.was_written(&coming.status, len);
        }
        self.answer(peer, number, written.map(|_| self.empty()));
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
        Ok(bytes.len())
    }
}
