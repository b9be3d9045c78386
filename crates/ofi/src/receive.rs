//! Receives of all forms, and looks at messages that nobody has received yet.

use core::ffi::c_void;

use limic::raw::{Messages, Owner, Posted, RawSliceMut, Requests};
use limic::{Selector, Tag};

use crate::call::{Bytes, CallFlags, TagSpace, slice_mut};
use crate::endpoint::{Endpoint, sort};
use crate::node::{Node, Spare, mark};
use crate::progress::{application_tag, kind, name_of};
use limic_ofi_abi::errno::*;
use limic_ofi_abi::*;

/// What a receive asks for, and how it is reported.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) selector: Selector,
    pub(crate) context: *mut c_void,
    /// Flags of the completion.
    pub(crate) flags: u64,
    pub(crate) reported: bool,
}

/// What a call says, beside its form and its room.
pub(crate) struct RecvArgs {
    pub(crate) from: fi_addr_t,
    pub(crate) sort: TagSpace,
    /// Bits of the tag that do not count.
    pub(crate) ignore: u64,
    pub(crate) context: *mut c_void,
}

impl RecvArgs {
    #[inline(always)]
    fn selector(&self, endpoint: &Endpoint) -> Result<Selector, i32> {
        Ok(Selector {
            source: endpoint.source(self.from)?,
            tag: Tag(self.sort.tag()?),
            mask: match self.sort {
                TagSpace::Tagged(_) => !self.ignore | sort::NOT_TAGGED,
                TagSpace::Untagged => sort::MASK,
            },
        })
    }
}

/// A call that receives, or looks for a message.
///
/// # Safety
/// The room, and a context that is lent, are the operation's until it is over.
#[inline(always)]
pub(crate) unsafe fn call(
    endpoint: &Endpoint,
    form: CallFlags,
    asked: &RecvArgs,
    room: Bytes,
) -> Result<usize, i32> {
    let flags = form.own_flags();
    // Whoever looks for a message wants an answer.
    let looks = flags & (FI_PEEK | FI_CLAIM) != 0;
    let all_flags = form.flags(&endpoint.receives);
    let mut wanted = Wanted {
        selector: Selector::any(),
        context: asked.context,
        flags: asked.sort.flag() | FI_RECV,
        reported: looks || all_flags & FI_COMPLETION != 0,
    };
    // SAFETY: the caller's promise.
    unsafe {
        if flags & (FI_PEEK | FI_CLAIM) == FI_CLAIM {
            // The context alone says which message is meant.
            return endpoint.receive_claimed(&wanted, room.room()?.as_slice(), flags);
        }
        wanted.selector = asked.selector(endpoint)?;
        if flags & FI_PEEK != 0 {
            return endpoint.peek(&wanted, flags);
        }
        if flags & FI_DISCARD != 0 {
            return Err(FI_EBADFLAGS);
        }
        let flags = match asked.sort {
            TagSpace::Untagged => all_flags,
            // Default flags are for both sorts, but one buffer for many is for untagged messages
            // alone.
            TagSpace::Tagged(_) => flags,
        };
        match (flags & FI_MULTI_RECV, asked.sort, room) {
            (0, _, Bytes::One(start, len)) => endpoint.receive(&wanted, slice_mut(start, len)),
            (0, ..) => {
                let room = room.room()?;
                let node = endpoint.receiving(&wanted, room.as_slice());
                endpoint.receive_slowly(wanted.selector, room.as_slice(), node);
                Ok(0)
            }
            (_, TagSpace::Untagged, room) => match room.room()?.as_slice() {
                [whole] => endpoint.receive_many(&wanted, *whole),
                _ => Err(FI_EINVAL),
            },
            (_, TagSpace::Tagged(_), _) => Err(FI_EBADFLAGS),
        }
    }
}

impl Endpoint {
    /// Whom a receive accepts.
    #[inline(always)]
    pub(crate) fn source(&self, address: fi_addr_t) -> Result<Option<limic::Peer>, i32> {
        if address == FI_ADDR_UNSPEC || self.caps & FI_DIRECTED_RECV == 0 {
            return Ok(None);
        }
        self.peer(address).map(Some)
    }

    /// Posts a receive.
    ///
    /// # Safety
    /// The room is the operation's until it is over; a context that is lent is valid until it is
    /// over.
    #[inline(always)]
    unsafe fn receive(&self, wanted: &Wanted, room: RawSliceMut) -> Result<usize, i32> {
        let node = self.receiving(wanted, &[room]);
        let owner = Owner::List(name_of(node, kind::NODE));
        // SAFETY: the caller's promise, twice.
        unsafe {
            let selector = &wanted.selector;
            if self
                .limic
                .post_recv_to_fifo(selector, room, owner)
                .is_none()
            {
                self.receive_slowly(wanted.selector, &[room], node);
            }
        }
        Ok(0)
    }

    /// Posts a receive that does not just wait for its message, or into several pieces.
    ///
    /// # Safety
    /// As [`call`]; the node is that of the operation.
    #[inline(never)]
    unsafe fn receive_slowly(&self, selector: Selector, room: &[RawSliceMut], node: *mut Node) {
        let owner = Owner::List(name_of(node, kind::NODE));
        // SAFETY: the caller's promise; the node is not reported yet.
        unsafe {
            match self.limic.post_recv_owned(&selector, room, owner) {
                Ok(Posted::Pending(_)) => {}
                Ok(Posted::Done(outcome)) => self.finish(node, outcome),
                Err(error) => self.finish(node, Err(error)),
            }
        }
    }

    /// The node of a receive.
    #[inline(always)]
    fn receiving(&self, wanted: &Wanted, room: &[RawSliceMut]) -> *mut Node {
        let first = room
            .first()
            .map_or(core::ptr::null_mut(), |room| room.start);
        let node = Node {
            flags: wanted.flags,
            buf: first.cast(),
            ..Node::EMPTY
        };
        self.node(wanted.context, wanted.reported, node)
    }

    /// `FI_PEEK`: looks for a message. Whatever it finds is reported by a completion.
    ///
    /// # Safety
    /// As [`receive`](Self::receive), but for the room.
    pub(crate) unsafe fn peek(&self, wanted: &Wanted, flags: u64) -> Result<usize, i32> {
        let found = if flags & (FI_CLAIM | FI_DISCARD) != 0 {
            self.limic.claim(&wanted.selector)
        } else {
            let seen = self.limic.peek(&wanted.selector);
            seen.map(|seen| seen.map(|status| (status, limic::raw::ClaimId(0))))
        };
        let node = self.receiving(wanted, &[]);
        // SAFETY: the node of this operation, not reported yet.
        unsafe {
            (*node).flags |= mark::LOOK;
            match found {
                Ok(Some((status, claim))) => {
                    if flags & FI_DISCARD != 0 {
                        self.discard(claim);
                    } else if flags & FI_CLAIM != 0 {
                        let context = wanted.context.addr();
                        self.claims.borrow_mut().insert(context, (claim, status));
                    }
                    self.finish(node, Ok(status));
                }
                Ok(None) => {
                    (*node).flags |= mark::FAILED;
                    (*node).error = FI_ENOMSG;
                    (*node).tag = application_tag(wanted.selector.tag.0);
                    self.report(node);
                }
                Err(error) => self.finish(node, Err(error)),
            }
        }
        self.collect();
        Ok(0)
    }

    /// Receives the message that was claimed under the same context, or drops it.
    ///
    /// # Safety
    /// As [`receive`](Self::receive).
    pub(crate) unsafe fn receive_claimed(
        &self,
        wanted: &Wanted,
        room: &[RawSliceMut],
        flags: u64,
    ) -> Result<usize, i32> {
        let claim = self.claims.borrow_mut().remove(&wanted.context.addr());
        let (claim, status) = claim.ok_or(FI_EINVAL)?;
        if flags & FI_DISCARD != 0 {
            self.discard(claim);
            let node = self.receiving(wanted, &[]);
            // SAFETY: the node of this operation, not reported yet.
            unsafe { self.finish(node, Ok(status)) };
            return Ok(0);
        }
        let node = self.receiving(wanted, room);
        // SAFETY: the caller's promise, and the node of this operation, not reported yet.
        unsafe {
            match self.limic.post_claimed(claim, room) {
                Ok(Posted::Pending(id)) => self.watch(id, name_of(node, kind::NODE)),
                Ok(Posted::Done(outcome)) => self.finish(node, outcome),
                Err(error) => self.finish(node, Err(error)),
            }
        }
        Ok(0)
    }

    /// Drops a claimed message; its sender's operation ends.
    pub(crate) fn discard(&self, claim: limic::raw::ClaimId) {
        // SAFETY: there is no room.
        let posted = unsafe { self.limic.post_claimed(claim, &[]) };
        match posted {
            // It is over: nothing is wanted of it.
            Ok(Posted::Done(_)) => {}
            Ok(Posted::Pending(id)) => self.limic.abandon(id, Box::new(())),
            Err(error) => crate::log::info(&error),
        }
    }

    /// Posts room for many messages (`FI_MULTI_RECV`).
    ///
    /// # Safety
    /// As [`receive`](Self::receive).
    pub(crate) unsafe fn receive_many(
        &self,
        wanted: &Wanted,
        room: RawSliceMut,
    ) -> Result<usize, i32> {
        let buffer: *mut Spare = self.pool.take(wanted.context);
        let silent = if wanted.reported { 0 } else { mark::SILENT };
        // SAFETY: a node of this operation; the room is the caller's promise.
        unsafe {
            (*buffer).node.flags |= wanted.flags | silent | self.mark();
            self.add_multi(buffer, wanted.selector.source, room);
        }
        Ok(0)
    }
}
