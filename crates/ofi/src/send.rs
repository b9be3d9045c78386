//! Sends of all forms.

use core::ffi::c_void;

use limic::raw::{Posted, RawSlice};
use limic::{Error, Outcome, PeerFailure, RawEndpoint, Tag};

use crate::abi::endpoint::fid_ep;
use crate::abi::errno::*;
use crate::abi::*;
use crate::call::{Bytes, Form, Sort, with};
use crate::endpoint::Endpoint;
use crate::errors::reported;
use crate::node::{NO_PEER, NO_REQUEST, Node, mark};
use crate::progress::{kind, name_of};

/// Most injected messages that wait in copies; beyond that callers have to make progress first.
const MOST_INJECTED: u32 = 1 << 16;

/// What an operation is about, beside its bytes.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) to: fi_addr_t,
    pub(crate) tag: u64,
    pub(crate) data: Option<u64>,
    pub(crate) context: *mut c_void,
    /// Flags of the completion.
    pub(crate) flags: u64,
    /// Whether there is to be one.
    pub(crate) reported: bool,
}

/// The bytes of an injected message that could not go at once.
#[repr(align(8))]
pub(crate) struct Copied {
    pub(crate) bytes: Vec<u8>,
    /// The operation to report when it is sent; null: nobody asks.
    pub(crate) node: *mut Node,
}

/// What a call says, beside its form and its bytes.
pub(crate) struct Given {
    pub(crate) to: fi_addr_t,
    pub(crate) sort: Sort,
    pub(crate) data: Option<u64>,
    pub(crate) context: *mut c_void,
}

/// A call that sends.
///
/// # Safety
/// `endpoint` is one of this provider. The bytes, and a context that is lent, are the operation's until it is over;
/// injected bytes until the call returns.
#[inline(always)]
pub(crate) unsafe fn call(endpoint: *mut fid_ep, form: Form, given: &Given, bytes: Bytes) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        with(endpoint, |endpoint| {
            let sent = Sent {
                to: given.to,
                tag: given.sort.tag()?,
                data: given.data,
                context: given.context,
                flags: given.sort.flag() | FI_SEND,
                reported: form.reports(&endpoint.sends),
            };
            let slices = bytes.slices()?;
            if form.flags() & FI_INJECT != 0 {
                endpoint.inject(&sent, slices.as_slice())
            } else {
                endpoint.send(&sent, slices.as_slice())
            }
        })
    }
}

impl Endpoint {
    /// Sends.
    ///
    /// # Safety
    /// The slices are readable until the operation is over; a context that is lent is valid until it is reported.
    #[inline(always)]
    pub(crate) unsafe fn send(&self, sent: &Sent, slices: &[RawSlice]) -> Result<usize, i32> {
        let peer = self.peer(sent.to)?;
        // SAFETY: the caller's promise.
        let posted = unsafe {
            self.limic
                .post_send_with(peer, Tag(sent.tag), sent.data, slices)
        };
        match posted {
            Ok(Posted::Done(Ok(_))) => {
                self.sent(sent);
                Ok(0)
            }
            Ok(Posted::Pending(id)) => {
                let node = self.sending(sent);
                // SAFETY: a node of this operation.
                unsafe { (*node).request = id.0 };
                self.watch(id, name_of(node, kind::NODE));
                Ok(0)
            }
            Ok(Posted::Done(Err(error))) | Err(error) => self.not_sent(sent, &error),
        }
    }

    /// A send is over in the call that posted it.
    #[inline(always)]
    fn sent(&self, sent: &Sent) {
        if sent.reported {
            let node = self.sending(sent);
            // SAFETY: a node of this operation, in no list.
            unsafe { self.report(node) };
        } else if self.counters.any.get() {
            self.count_sent();
        }
    }

    #[cold]
    fn count_sent(&self) {
        if let Some(counter) = &*self.counters.send.borrow() {
            counter.count(false);
        }
    }

    /// The node of a send.
    #[inline(always)]
    fn sending(&self, sent: &Sent) -> *mut Node {
        let node = self.node(sent.context, sent.reported);
        // SAFETY: memory for a node, which is nobody else's during the operation.
        unsafe {
            node.write(Node {
                next: core::ptr::null_mut(),
                flags: sent.flags | self.marks(sent.context, sent.reported),
                len: 0,
                buf: core::ptr::null_mut(),
                data: 0,
                tag: 0,
                peer: NO_PEER,
                error: 0,
                request: NO_REQUEST,
            });
        }
        node
    }

    #[cold]
    fn not_sent(&self, sent: &Sent, error: &Error) -> Result<usize, i32> {
        if let Error::PeerFailed {
            why: PeerFailure::Closed,
            ..
        } = error
        {
            // It closed in good order: what it did not ask for any more is dropped.
            self.sent(sent);
            return Ok(0);
        }
        Err(reported(error))
    }

    /// Sends bytes that are the caller's again when this returns.
    ///
    /// # Safety
    /// The slices are readable during the call; the context as for [`send`](Self::send).
    #[inline(always)]
    pub(crate) unsafe fn inject(&self, sent: &Sent, slices: &[RawSlice]) -> Result<usize, i32> {
        let peer = self.peer(sent.to)?;
        // SAFETY: the caller's promise.
        let at_once = unsafe {
            self.limic
                .send_at_once(peer, Tag(sent.tag), sent.data, slices)
        };
        match at_once {
            Ok(Some(_)) => {
                self.sent(sent);
                Ok(0)
            }
            // SAFETY: the caller's promise.
            Ok(None) => unsafe { self.inject_later(sent, slices) },
            Err(error) => self.not_sent(sent, &error),
        }
    }

    /// # Safety
    /// As [`inject`](Self::inject).
    #[cold]
    unsafe fn inject_later(&self, sent: &Sent, slices: &[RawSlice]) -> Result<usize, i32> {
        if self.injected.get() >= MOST_INJECTED {
            self.progress();
            return Err(FI_EAGAIN);
        }
        let mut bytes = Vec::new();
        for slice in slices.iter().filter(|slice| slice.len > 0) {
            // SAFETY: the caller's promise; nobody writes there during the call.
            bytes.extend_from_slice(unsafe { core::slice::from_raw_parts(slice.start, slice.len) });
        }
        // SAFETY: the copy lives until `copy_was_sent`.
        unsafe { self.send_copy(sent, bytes) }
    }

    /// Sends bytes that the provider has made or copied.
    ///
    /// # Safety
    /// The context as for [`send`](Self::send).
    pub(crate) unsafe fn send_copy(&self, sent: &Sent, bytes: Vec<u8>) -> Result<usize, i32> {
        let peer = self.peer(sent.to)?;
        // SAFETY: handed on.
        unsafe { self.send_copy_to(peer, sent, bytes) }
    }

    /// # Safety
    /// As [`send_copy`](Self::send_copy).
    pub(crate) unsafe fn send_copy_to(
        &self,
        peer: limic::Peer,
        sent: &Sent,
        bytes: Vec<u8>,
    ) -> Result<usize, i32> {
        let slices = [RawSlice {
            start: bytes.as_ptr(),
            len: bytes.len(),
        }];
        // SAFETY: the bytes live until the send is done: they go into `Copied` below.
        let posted = unsafe {
            self.limic
                .post_send_with(peer, Tag(sent.tag), sent.data, &slices)
        };
        match posted {
            Ok(Posted::Done(Ok(_))) => {
                self.sent(sent);
                Ok(0)
            }
            Ok(Posted::Pending(id)) => {
                let node = if sent.reported {
                    self.sending(sent)
                } else {
                    core::ptr::null_mut()
                };
                self.injected.set(self.injected.get() + 1);
                let copied = Box::into_raw(Box::new(Copied { bytes, node }));
                self.watch(id, name_of(copied, kind::COPY));
                Ok(0)
            }
            Ok(Posted::Done(Err(error))) | Err(error) => self.not_sent(sent, &error),
        }
    }

    /// The copy of an injected message is sent.
    pub(crate) fn copy_was_sent(&self, copied: Copied, outcome: &Outcome) {
        self.injected.set(self.injected.get().saturating_sub(1));
        drop(copied.bytes);
        if copied.node.is_null() {
            // Injected messages are never reported; the log has the reason.
            if let Err(error) = outcome {
                crate::log::info(&format_args!("an injected message was lost: {error}"));
            } else if self.counters.any.get() {
                self.count_sent();
            }
            return;
        }
        // SAFETY: the node of this operation, in no list.
        unsafe { self.finish(copied.node, outcome.clone()) };
    }
}

/// Marks that are not flags of an application.
const _: () = assert!(mark::PUBLIC & mark::SILENT == 0);
