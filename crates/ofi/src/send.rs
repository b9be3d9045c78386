//! Sends of all forms.

use core::ffi::c_void;

use limic::raw::{Messages, Posted, RawSlice, SendOptions};
use limic::{Error, Outcome, Peer, RequestId, Tag};

use crate::call::{Bytes, CallFlags, NO_CONTEXT, TagSpace, append, slice};
use crate::endpoint::Endpoint;
use crate::errors::{is_dropped, logged_errno};
use crate::node::{Node, Spare, mark};
use crate::progress::{kind, name_of};
use limic_ofi_abi::errno::*;
use limic_ofi_abi::*;

/// Most injected messages that wait in copies, and most bytes of them; beyond that callers have to
/// make progress first.
const MOST_INJECTED: u32 = 1 << 16;
const MOST_INJECTED_BYTES: usize = 64 << 20;

/// What an operation is about, beside its bytes.
#[derive(Clone, Copy)]
struct Sent {
    tag: u64,
    data: Option<u64>,
    context: *mut c_void,
    /// Flags of the completion, and [`mark::DELIVERED`].
    flags: u64,
    /// Whether there is to be one.
    reported: bool,
    /// It is there only when a receive has taken the message.
    matched: bool,
}

impl Sent {
    #[inline(always)]
    fn of(given: &SendArgs, tag: u64, flags: u64) -> Self {
        Self {
            tag,
            data: given.data,
            context: given.context,
            flags: given.sort.flag() | FI_SEND,
            reported: flags & FI_COMPLETION != 0,
            matched: false,
        }
    }

    /// Whether the completion is there only when the message is at its target, whatever becomes of
    /// this process.
    fn is_delivered(&self) -> bool {
        self.flags & mark::DELIVERED != 0
    }

    fn options(&self) -> SendOptions {
        SendOptions {
            immediate: self.data,
            delivered: self.is_delivered(),
            matched: self.matched,
            more: false,
        }
    }
}

/// Injected bytes that could not go at once.
#[repr(align(8))]
pub(crate) struct Copied {
    pub(crate) bytes: Vec<u8>,
    pub(crate) of: Of,
}

/// What is over when a copy has gone.
pub(crate) enum Of {
    /// A send that is not to be reported, with the flags of its completion.
    Unreported(u64),
    Operation(*mut Node),
    /// A part of a larger operation.
    Part(*mut Spare),
    /// What the provider itself says to a peer.
    Said,
    /// The same, in answer to so many of the peer's operations.
    Answers(Peer, u64),
}

/// What a call says, beside its form and its bytes.
pub(crate) struct SendArgs {
    pub(crate) to: fi_addr_t,
    pub(crate) sort: TagSpace,
    pub(crate) data: Option<u64>,
    pub(crate) context: *mut c_void,
}

/// A call that sends.
///
/// Most messages are one buffer, which goes whole at once. What is known of the others is put
/// together for them alone.
///
/// # Safety
/// The bytes, and a context that is lent, are the operation's until it is over; injected bytes
/// until the call returns.
#[inline(always)]
pub(crate) unsafe fn call(
    endpoint: &Endpoint,
    form: CallFlags,
    given: &SendArgs,
    bytes: Bytes,
) -> Result<usize, i32> {
    let flags = form.flags(&endpoint.sends);
    let tag = given.sort.tag()?;
    let peer = endpoint.peer(given.to)?;
    // SAFETY: the caller's promise.
    unsafe {
        if let (0, Bytes::One(start, len)) = (flags & REACHES, bytes) {
            let one = slice(start, len);
            if endpoint.limic.try_send(peer, Tag(tag), given.data, &[one]) {
                endpoint.sent(&Sent::of(given, tag, flags));
                return Ok(0);
            }
            let sent = Sent::of(given, tag, flags);
            return match flags & FI_INJECT {
                0 => endpoint.send_slowly(peer, sent, one),
                _ => endpoint.inject_later(peer, sent, &[one]),
            };
        }
        endpoint.send_otherwise(peer, Sent::of(given, tag, flags), bytes, flags)
    }
}

/// Flags of sends that are complete only when something has become of them at their target.
const REACHES: u64 = FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE;

impl Endpoint {
    /// Sends what does not go whole at once.
    ///
    /// # Safety
    /// Until the operation is over, the bytes are readable, and a context that is lent is valid.
    #[inline(never)]
    unsafe fn send_slowly(&self, peer: Peer, sent: Sent, one: RawSlice) -> Result<usize, i32> {
        let (tag, options) = (Tag(sent.tag), sent.options());
        // SAFETY: the caller's promise.
        let posted = unsafe { self.limic.post_send_slow(peer, tag, options, &[one]) };
        self.was_posted(&sent, posted)
    }

    /// Sends what is in several pieces, or is over only when it has reached its target.
    ///
    /// # Safety
    /// As [`call`].
    #[inline(never)]
    unsafe fn send_otherwise(
        &self,
        peer: Peer,
        sent: Sent,
        bytes: Bytes,
        flags: u64,
    ) -> Result<usize, i32> {
        let reaches = flags & REACHES != 0;
        let sent = Sent {
            flags: sent.flags | if reaches { mark::DELIVERED } else { 0 },
            matched: flags & FI_MATCH_COMPLETE != 0,
            ..sent
        };
        // SAFETY: the caller's promise.
        unsafe {
            let slices = bytes.slices()?;
            let slices = slices.as_slice();
            if flags & FI_INJECT == 0 {
                let posted = self.post(peer, &sent, slices);
                return self.was_posted(&sent, posted);
            }
            // One that waits for its match would be over as soon as it has gone.
            if !sent.matched && self.limic.try_send(peer, Tag(sent.tag), sent.data, slices) {
                self.sent(&sent);
                return Ok(0);
            }
            self.inject_later(peer, sent, slices)
        }
    }

    /// Posts a send.
    ///
    /// # Safety
    /// The slices are readable until it is over.
    unsafe fn post(&self, peer: Peer, sent: &Sent, slices: &[RawSlice]) -> limic::Result<Posted> {
        // SAFETY: the caller's promise.
        unsafe {
            self.limic
                .post_send_with(peer, Tag(sent.tag), sent.options(), slices)
        }
    }

    /// A send was posted; it may be over already.
    fn was_posted(&self, sent: &Sent, posted: limic::Result<Posted>) -> Result<usize, i32> {
        match posted {
            Ok(Posted::Done(Ok(_))) => {
                self.sent(sent);
                Ok(0)
            }
            Ok(Posted::Pending(id)) => {
                let node = self.sending(sent);
                self.watch(id, name_of(node, kind::NODE));
                Ok(0)
            }
            Ok(Posted::Done(Err(error))) | Err(error) => self.not_sent(sent, error),
        }
    }

    /// A send is over in the call that posted it.
    #[inline(always)]
    fn sent(&self, sent: &Sent) {
        self.over_at_once(sent.context, sent.reported, sent.flags, 0);
    }

    /// The node of a send.
    #[inline(always)]
    fn sending(&self, sent: &Sent) -> *mut Node {
        let node = Node {
            flags: sent.flags,
            ..Node::EMPTY
        };
        self.node(sent.context, sent.reported, node)
    }

    #[cold]
    fn not_sent(&self, sent: &Sent, error: Error) -> Result<usize, i32> {
        if is_dropped(&error) && !sent.is_delivered() {
            // What it did not ask for any more is dropped.
            self.sent(sent);
            return Ok(0);
        }
        Err(logged_errno(&error))
    }

    /// Sends a copy of bytes that are the caller's again when this returns.
    ///
    /// # Safety
    /// The slices are readable during the call; a context that is lent is valid until it is
    /// over.
    #[cold]
    unsafe fn inject_later(
        &self,
        peer: Peer,
        sent: Sent,
        slices: &[RawSlice],
    ) -> Result<usize, i32> {
        self.may_inject()?;
        let mut bytes = Vec::new();
        // SAFETY: the caller's promise; the copy lives until the send is done: `Copied` keeps it.
        let posted = unsafe {
            append(&mut bytes, slices.iter().map(|s| (s.start, s.len)));
            self.post(peer, &sent, &[RawSlice::from(&bytes[..])])
        };
        let Ok(Posted::Pending(id)) = posted else {
            return self.was_posted(&sent, posted);
        };
        let of = if sent.reported {
            Of::Operation(self.sending(&sent))
        } else {
            Of::Unreported(sent.flags)
        };
        self.watch_copy(id, bytes, of);
        Ok(0)
    }

    /// Whether one more copy may wait.
    #[inline(always)]
    pub(crate) fn may_inject(&self) -> Result<(), i32> {
        let bytes = self.injected_bytes.get();
        if self.injected.get() >= MOST_INJECTED || bytes >= MOST_INJECTED_BYTES {
            self.progress();
            return Err(FI_EAGAIN);
        }
        Ok(())
    }

    /// Keeps bytes until they have gone. Answers do not count as injected: how many there are is
    /// the peer's doing.
    pub(crate) fn watch_copy(&self, id: RequestId, bytes: Vec<u8>, of: Of) {
        if let Of::Answers(peer, count) = of {
            self.untaken.borrow_mut().add(peer, count);
        } else {
            self.injected.set(self.injected.get() + 1);
            let all = self.injected_bytes.get() + bytes.len();
            self.injected_bytes.set(all);
        }
        let copied = Box::into_raw(Box::new(Copied { bytes, of }));
        self.watch(id, name_of(copied, kind::COPY));
    }

    /// The copy of some bytes has gone.
    pub(crate) fn copy_has_gone(&self, copied: Copied, outcome: Outcome) {
        if let Of::Answers(peer, count) = copied.of {
            return self.untaken.borrow_mut().remove(peer, count);
        }
        self.injected.set(self.injected.get().saturating_sub(1));
        let rest = self.injected_bytes.get() - copied.bytes.len();
        self.injected_bytes.set(rest);
        drop(copied.bytes);
        // SAFETY: the node of this operation, not reported yet; or a part that is over.
        unsafe {
            match copied.of {
                Of::Operation(node) => self.finish(node, outcome),
                Of::Part(part) => self.part_is_over(part, &outcome),
                Of::Said | Of::Answers(..) => {}
                Of::Unreported(flags) => match outcome {
                    Ok(_) => self.count(flags),
                    // Failures are reported, whether or not success would have been.
                    Err(_) => {
                        let node = self.pool.take(NO_CONTEXT).cast::<Node>();
                        (*node).flags |= flags | self.mark() | mark::SILENT;
                        self.finish(node, outcome);
                    }
                },
            }
        }
    }
}

/// Marks that are not flags of an application.
const _: () = assert!(mark::PUBLIC & mark::SILENT == 0);
