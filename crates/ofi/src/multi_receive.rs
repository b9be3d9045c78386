//! Buffers for many messages (`FI_MULTI_RECV`): each is a receive that is posted again with the
//! room that is left.
//!
//! Messages of one sender are reported in the order sent, though completions have no order. MPICH
//! needs it: of some messages that overtake others it keeps a part only (docs/libfabric.md). So all
//! that has ended is reported before any buffer is posted again, which may meet a message that
//! waits; and what has overtaken a longer message of its sender is reported after that. Messages
//! meet buffers in the order in which these were posted, so that order tells.

use core::ffi::c_void;

use limic::raw::{Messages, Posted, RawSliceMut, Requests};
use limic::{Error, Outcome, Peer, RequestId, Selector, Tag};

use crate::abi::FI_MULTI_RECV;
use crate::endpoint::{Endpoint, sort};
use crate::node::{NO_REQUEST, Node, Spare, mark};
use crate::progress::{kind, name_of};

/// The buffers of an endpoint. All that are listed are alive.
#[derive(Default)]
pub(crate) struct Multi {
    /// All of them, in the order in which they were posted last.
    all: Vec<*mut Spare>,
    /// Those that have met a message which is over and not reported.
    pub(crate) ended: Vec<(*mut Spare, Outcome)>,
    /// Those that are to be posted.
    left: Vec<*mut Spare>,
}

impl Multi {
    /// It is posted now, after all others.
    fn goes_last(&mut self, multi: *mut Spare) {
        self.all.retain(|known| *known != multi);
        self.all.push(multi);
    }
}

/// Whose message it was.
fn sender(outcome: &Outcome) -> Option<Peer> {
    match outcome {
        Ok(status) => Some(status.peer),
        Err(Error::Truncated { peer, .. }) => Some(*peer),
        Err(_) => None,
    }
}

impl Endpoint {
    /// Posts a new one.
    ///
    /// # Safety
    /// It is filled in but for its request; its room is the operation's until it is given back.
    pub(crate) unsafe fn add_multi(&self, multi: *mut Spare) {
        // What has ended before is before what this one may have at once.
        self.collect();
        {
            let mut lists = self.multi.borrow_mut();
            lists.all.push(multi);
            lists.left.push(multi);
        }
        self.settle_multis();
    }

    /// Ends one, if it has this name: a message that is on its way into it is its last. Gives its
    /// request.
    pub(crate) fn end_multi(&self, context: *mut c_void) -> Option<RequestId> {
        let lists = self.multi.borrow();
        // SAFETY: listed ones are alive.
        let named = |multi: &*mut Spare| unsafe { (**multi).context } == context;
        let multi = lists.all.iter().copied().find(named)?;
        // SAFETY: as above.
        unsafe {
            (*multi).node.flags |= mark::CANCELLED;
            Some(RequestId((*multi).node.rest))
        }
    }

    /// Reports what has ended, and posts again what has room left, until nothing more is there.
    pub(crate) fn settle_multis(&self) {
        loop {
            self.report_multis();
            let mut left = core::mem::take(&mut self.multi.borrow_mut().left);
            if left.is_empty() {
                return;
            }
            for multi in left.drain(..) {
                // SAFETY: listed ones are alive, and it is not posted.
                let met = unsafe { self.post_multi(multi) };
                if let Some(outcome) = met {
                    self.multi.borrow_mut().ended.push((multi, outcome));
                }
            }
            // For its memory.
            self.multi.borrow_mut().left = left;
        }
    }

    /// Reports what has ended, but for what has overtaken a message that is still on its way.
    fn report_multis(&self) {
        let mut on_the_way: Vec<Peer> = Vec::new();
        let mut at = 0;
        loop {
            let mut lists = self.multi.borrow_mut();
            let Some(&multi) = lists.all.get(at).filter(|_| !lists.ended.is_empty()) else {
                return;
            };
            at += 1;
            let Some(nth) = lists.ended.iter().position(|(one, _)| *one == multi) else {
                // SAFETY: listed ones are alive.
                let request = unsafe { (*multi).node.rest };
                on_the_way.extend(self.limic.sender_of(RequestId(request)));
                continue;
            };
            let overtook = sender(&lists.ended[nth].1).is_some_and(|it| on_the_way.contains(&it));
            if overtook {
                continue;
            }
            let (_, outcome) = lists.ended.remove(nth);
            drop(lists);
            // SAFETY: listed ones are alive, and it is not posted.
            if unsafe { self.report_multi(multi, outcome) } {
                self.multi.borrow_mut().left.push(multi);
            } else {
                // It is listed no more.
                at -= 1;
            }
        }
    }

    /// Reports a message. Whether room is left; else the application has it back.
    ///
    /// # Safety
    /// `multi` is one of this endpoint that is not posted.
    unsafe fn report_multi(&self, multi: *mut Spare, outcome: Outcome) -> bool {
        // SAFETY: the caller's promise; the application leaves the room alone until it gets it
        // back.
        unsafe {
            let (start, len) = (*multi).room;
            let used = match &outcome {
                Ok(status) => status.len as usize,
                Err(Error::Truncated { buffer, .. }) => *buffer as usize,
                Err(_) => 0,
            };
            let ended = matches!(&outcome, Err(error) if !matches!(error, Error::Truncated { .. }));
            let left = len.saturating_sub(used);
            // The next message begins where any type may lie.
            let rest = start.wrapping_add(used);
            let skip = rest.align_offset(16).min(left);
            (*multi).room = (rest.wrapping_add(skip), left - skip);
            (*multi).node.rest = NO_REQUEST;
            let cancelled = (*multi).node.flags & mark::CANCELLED != 0;
            let over = ended || cancelled || left - skip < self.least_room.get().max(1);
            let node = self.domain.pool.take((*multi).context).cast::<Node>();
            (*node).flags |= (*multi).node.flags & mark::PUBLIC | self.mark();
            (*node).buf = start.cast();
            if over {
                (*node).flags |= FI_MULTI_RECV;
                self.multi.borrow_mut().all.retain(|known| *known != multi);
                self.domain.pool.give_back(multi.cast());
            }
            self.finish(node, outcome);
            !over
        }
    }

    /// Posts the room that is left. Gives an outcome if a message was there already.
    ///
    /// # Safety
    /// As [`report_multi`](Self::report_multi).
    unsafe fn post_multi(&self, multi: *mut Spare) -> Option<Outcome> {
        self.multi.borrow_mut().goes_last(multi);
        // SAFETY: the caller's promise.
        unsafe {
            let (start, len) = (*multi).room;
            let selector = Selector {
                source: (*multi).source,
                tag: Tag(sort::UNTAGGED),
                mask: sort::MASK,
            };
            match self
                .limic
                .post_recv(&selector, &[RawSliceMut { start, len }])
            {
                Ok(Posted::Done(outcome)) => Some(outcome),
                Ok(Posted::Pending(id)) => {
                    (*multi).node.rest = id.0;
                    self.watch(id, name_of(multi, kind::MULTI));
                    None
                }
                Err(error) => Some(Err(error)),
            }
        }
    }
}
