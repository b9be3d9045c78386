//! Buffers for many messages (`FI_MULTI_RECV`): limic cuts a piece off for each message, and the
//! buffer keeps its place among the posted receives.
//!
//! Messages of one sender are reported in the order sent, though completions have no order. MPICH
//! needs it: of some messages that overtake others it keeps a part only (docs/libfabric.md). So the
//! messages stand in a list, in the order in which they took their pieces, and one that has
//! overtaken a longer one of its sender is reported after that. A buffer is given back with the
//! last of its messages that is reported.

use core::ffi::c_void;
use std::collections::VecDeque;

use limic::raw::{Messages, Posted, RawSliceMut, Requests, Taken};
use limic::{Outcome, Peer, RequestId, Selector, Tag};

use crate::endpoint::{Endpoint, sort};
use crate::node::{NO_REQUEST, Node, Spare, give_back, mark};
use crate::progress::{kind, name_of, pointer_of};
use limic_ofi_abi::FI_MULTI_RECV;

/// A message for which there is a piece of a buffer.
struct Piece {
    /// Its own node.
    node: *mut Node,
    buffer: *mut Spare,
    from: Peer,
    outcome: Option<Outcome>,
}

/// The buffers of an endpoint. All that are listed are alive.
#[derive(Default)]
pub(crate) struct Multi {
    buffers: Vec<*mut Spare>,
    /// Messages that are not reported, in the order in which they came.
    pieces: VecDeque<Piece>,
}

impl Endpoint {
    /// Posts room for many messages.
    ///
    /// # Safety
    /// The node of the operation is filled in; the room is the operation's until it is given back.
    pub(crate) unsafe fn add_multi(
        &self,
        buffer: *mut Spare,
        from: Option<Peer>,
        room: RawSliceMut,
    ) {
        self.multi.borrow_mut().buffers.push(buffer);
        self.has_multi.set(true);
        let selector = Selector {
            source: from,
            tag: Tag(sort::UNTAGGED),
            mask: sort::MASK,
        };
        let name = name_of(buffer, kind::MULTI);
        let least = self.least_room.get();
        // SAFETY: the caller's promise.
        unsafe {
            let posted = self.limic.post_recv_many(&selector, room, least, name);
            (*buffer).node.rest = match &posted {
                Ok(Some(id)) => id.0,
                Ok(None) | Err(_) => NO_REQUEST,
            };
            // Messages that were there may have taken all pieces of a buffer that is over already.
            // It is this call's until its end is reported.
            (*buffer).pieces += u32::from(posted.is_err());
            self.pieces_were_taken();
            if let Err(error) = posted {
                (*buffer).pieces -= 1;
                self.multi_has_ended(buffer, Err(error));
            }
        }
    }

    /// The request of the buffer with this name, if it is posted.
    pub(crate) fn posted_multi(&self, context: *mut c_void) -> Option<RequestId> {
        let lists = self.multi.borrow();
        // SAFETY: listed ones are alive.
        let named = |buffer: &*mut Spare| unsafe {
            (**buffer).context == context && (**buffer).node.rest != NO_REQUEST
        };
        let buffer = lists.buffers.iter().copied().find(named)?;
        // SAFETY: as above.
        Some(RequestId(unsafe { (*buffer).node.rest }))
    }

    /// Takes note of the messages that have taken pieces, and reports those that are over.
    #[cold]
    pub(crate) fn pieces_were_taken(&self) {
        let mut any = false;
        while let Some(taken) = self.limic.next_taken() {
            self.piece_was_taken(taken);
            any = true;
        }
        if any {
            self.report_pieces();
        }
    }

    fn piece_was_taken(&self, taken: Taken) {
        let buffer: *mut Spare = pointer_of(taken.name);
        // SAFETY: named when it was posted, and alive until its last piece is reported.
        let node = unsafe {
            let node = self.pool.take((*buffer).context).cast::<Node>();
            (*node).flags |= (*buffer).node.flags & (mark::PUBLIC | mark::SILENT) | self.mark();
            (*node).buf = taken.start.cast();
            (*buffer).pieces += 1;
            if taken.last {
                (*buffer).node.rest = NO_REQUEST;
            }
            node
        };
        let outcome = match taken.posted {
            Posted::Done(outcome) => Some(outcome),
            Posted::Pending(id) if self.limic.is_done(id) => self.limic.test(id),
            Posted::Pending(id) => {
                self.watch(id, name_of(node, kind::PIECE));
                None
            }
        };
        self.multi.borrow_mut().pieces.push_back(Piece {
            node,
            buffer,
            from: taken.from,
            outcome,
        });
    }

    /// A message is over.
    ///
    /// # Safety
    /// The node is one of a piece that was watched.
    pub(crate) unsafe fn piece_is_over(&self, node: *mut Node, outcome: Outcome) {
        let mut lists = self.multi.borrow_mut();
        if let Some(piece) = lists.pieces.iter_mut().find(|piece| piece.node == node) {
            piece.outcome = Some(outcome);
        }
        drop(lists);
        self.report_pieces();
    }

    /// Reports what is over, but for what has overtaken a message that is still on its way.
    fn report_pieces(&self) {
        let mut on_the_way: Vec<Peer> = Vec::new();
        let mut at = 0;
        loop {
            let mut lists = self.multi.borrow_mut();
            let Some(piece) = lists.pieces.get_mut(at) else {
                return;
            };
            let waits = on_the_way.contains(&piece.from);
            let outcome = if waits { None } else { piece.outcome.take() };
            let (node, buffer, from) = (piece.node, piece.buffer, piece.from);
            let Some(outcome) = outcome else {
                if !waits {
                    on_the_way.push(from);
                }
                at += 1;
                continue;
            };
            lists.pieces.remove(at);
            drop(lists);
            // SAFETY: listed ones are alive, and not reported yet.
            unsafe {
                (*buffer).pieces -= 1;
                if (*buffer).pieces == 0 && (*buffer).node.rest == NO_REQUEST {
                    // Its end is reported whether or not its messages are.
                    (*node).flags = (*node).flags & !mark::SILENT | FI_MULTI_RECV;
                    self.forget_multi(buffer);
                }
                self.finish(node, outcome);
            }
        }
    }

    /// A buffer has ended that was cancelled, or whose sender is gone: with the message that is on
    /// its way into it, if there is one.
    ///
    /// # Safety
    /// The buffer is listed.
    pub(crate) unsafe fn multi_has_ended(&self, buffer: *mut Spare, outcome: Outcome) {
        // SAFETY: the caller's promise.
        unsafe {
            (*buffer).node.rest = NO_REQUEST;
            if (*buffer).pieces > 0 {
                return;
            }
            let node = self.pool.take((*buffer).context).cast::<Node>();
            (*node).flags |= (*buffer).node.flags & mark::PUBLIC | FI_MULTI_RECV | self.mark();
            self.forget_multi(buffer);
            self.finish(node, outcome);
        }
    }

    /// # Safety
    /// The buffer is listed, and nobody uses it any more.
    unsafe fn forget_multi(&self, buffer: *mut Spare) {
        self.multi
            .borrow_mut()
            .buffers
            .retain(|known| *known != buffer);
        // SAFETY: the caller's promise.
        unsafe { give_back(buffer.cast()) };
    }
}
