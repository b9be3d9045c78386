//! Operations end: they are counted, and their completions are put into queues.

use core::ffi::c_void;

use limic::raw::Requests;
use limic::{Endpoint as _, Error, Outcome, RequestId};

use crate::completion_queue::Completion;
use crate::control_channel::Coming;
use crate::endpoint::{Endpoint, sort};
use crate::errors::{errno_of, is_dropped, logged_errno};
use crate::log;
use crate::node::{Node, Spare, context_of, give_back, mark};
use crate::send::Copied;
use limic_ofi_abi::errno::FI_ECANCELED;
use limic_ofi_abi::*;

/// What a watched request's name points to; names are aligned addresses with this in their lowest
/// bits.
pub(crate) mod kind {
    /// The node of an operation.
    pub(crate) const NODE: u64 = 0;
    /// A multi-receive.
    pub(crate) const MULTI: u64 = 1;
    /// The copy of an injected message.
    pub(crate) const COPY: u64 = 2;
    /// A part of a larger operation.
    pub(crate) const PART: u64 = 3;
    /// A control message of another endpoint (`control_channel`).
    pub(crate) const ASIDE: u64 = 4;
    /// The node of a message in a buffer for many.
    pub(crate) const PIECE: u64 = 5;
    /// The spare node of a receive that another provider owns.
    pub(crate) const ENTRY: u64 = 6;
    pub(crate) const BITS: u64 = 7;
}

/// The name under which a request is watched.
#[inline(always)]
pub(crate) fn name_of<T>(pointer: *mut T, kind: u64) -> u64 {
    pointer.expose_provenance() as u64 | kind
}

pub(crate) fn pointer_of<T>(name: u64) -> *mut T {
    core::ptr::with_exposed_provenance_mut((name & !kind::BITS) as usize)
}

impl Endpoint {
    /// Moves messages along, and puts what has ended into the completion queues. True if anything
    /// moved.
    #[inline(always)]
    pub(crate) fn progress(&self) -> bool {
        let moved = self.limic.progress();
        self.collect();
        if self.receipts.awaited.get() {
            return moved | self.look_for_receipts(moved);
        }
        moved
    }

    /// Puts what has ended into the completion queues.
    #[inline(always)]
    pub(crate) fn collect(&self) {
        if self.has_multi.get() {
            // Before anything else is: some of it may be over.
            self.pieces_were_taken();
        }
        while let Some((name, outcome)) = self.limic.next_completed() {
            self.ended(name, outcome);
        }
        self.hear_peers();
    }

    #[inline(always)]
    fn ended(&self, name: u64, outcome: Outcome) {
        if name & kind::BITS == kind::NODE {
            // SAFETY: watched under the name of its node, which lives until the operation is
            // reported.
            unsafe { self.finish(pointer_of(name), outcome) };
        } else {
            self.ended_otherwise(name, outcome);
        }
    }

    #[cold]
    fn ended_otherwise(&self, name: u64, outcome: Outcome) {
        // SAFETY: names are made by `name_of` of what their kinds say, which lives until here.
        unsafe {
            match name & kind::BITS {
                kind::MULTI => self.multi_has_ended(pointer_of(name), outcome),
                kind::PIECE => self.piece_is_over(pointer_of(name), outcome),
                kind::COPY => self.copy_has_gone(*Box::from_raw(pointer_of(name)), outcome),
                kind::ENTRY => self.entry_is_over(pointer_of(name), outcome),
                kind::PART => self.part_is_over(pointer_of::<Spare>(name), &outcome),
                _ => self.aside_has_come(pointer_of(name), outcome),
            }
        }
    }

    /// The endpoint is closed: what was under way is not reported. Gives back the memory that it
    /// kept; nodes go back to their pool in one sweep. Copies of which peers may still be reading
    /// are not over, and stay.
    pub(crate) fn forget_pending(&self) {
        while let Some((name, outcome)) = self.limic.next_completed() {
            // SAFETY: as in `ended_otherwise`.
            unsafe {
                match name & kind::BITS {
                    kind::COPY => drop(Box::from_raw(pointer_of::<Copied>(name))),
                    kind::ENTRY => self.free_entry(pointer_of(name)),
                    kind::ASIDE => (*pointer_of::<Coming>(name)).outcome = Some(outcome),
                    _ => {}
                }
            }
        }
        self.forget_asides();
    }

    /// An operation is over, and is reported.
    ///
    /// # Safety
    /// The node is alive, and not reported yet.
    #[inline(always)]
    pub(crate) unsafe fn finish(&self, node: *mut Node, outcome: Outcome) {
        // SAFETY: the caller's promise.
        unsafe {
            match outcome {
                Ok(status) if (*node).flags & (FI_RECV | mark::SILENT) == FI_RECV => {
                    let has_data = status.immediate.map_or(0, |_| FI_REMOTE_CQ_DATA);
                    let completion = Completion {
                        context: context_of(node),
                        node: Node {
                            flags: (*node).flags | has_data,
                            len: status.len as usize,
                            buf: (*node).buf,
                            data: status.immediate.unwrap_or(0),
                            tag: application_tag(status.tag.0),
                            peer: status.peer.index(),
                            ..Node::EMPTY
                        },
                    };
                    give_back(node);
                    return self.complete(completion);
                }
                Ok(_) => {}
                Err(error) => self.fill_error(node, error),
            }
            self.report(node);
        }
    }

    /// # Safety
    /// As [`finish`](Self::finish).
    #[cold]
    unsafe fn fill_error(&self, node: *mut Node, error: Error) {
        // SAFETY: the caller's promise.
        unsafe {
            (*node).rest = 0;
            if is_dropped(&error) && (*node).flags & (FI_SEND | mark::DELIVERED) == FI_SEND {
                // As if the message had been the last that it did not ask for. It was not asked to
                // be delivered.
                return;
            }
            (*node).flags |= mark::FAILED;
            (*node).error = errno_of(&error);
            (*node).len = 0;
            if let Error::Truncated {
                peer,
                tag,
                sent,
                buffer,
                immediate,
            } = &error
            {
                (*node).len = *buffer as usize;
                (*node).rest = sent - buffer;
                (*node).tag = application_tag(tag.0);
                (*node).peer = peer.index();
                if let Some(data) = immediate {
                    (*node).data = *data;
                    (*node).flags |= FI_REMOTE_CQ_DATA;
                }
            } else if (*node).flags & mark::SILENT != 0 {
                // There may be thousands, and one line for each drowns all others.
                log::info(&error);
            } else if (*node).error != FI_ECANCELED {
                logged_errno(&error);
            }
        }
    }

    /// Tells the target of a write that is over, counts the operation, and puts it into its
    /// completion queue if somebody wants to know.
    ///
    /// # Safety
    /// As [`finish`](Self::finish); the node is filled in.
    pub(crate) unsafe fn report(&self, node: *mut Node) {
        // SAFETY: the caller's promise.
        unsafe {
            if (*node).flags & mark::NOTIFY != 0 {
                self.notify(node);
            }
            let completion = Completion::of(node);
            give_back(node);
            if completion.node.flags & (mark::SILENT | mark::FAILED) != mark::SILENT {
                self.complete(completion);
            } else if self.counters.any.get() {
                self.count(completion.node.flags);
            }
        }
    }

    /// An operation of so many bytes went well in the call that began it.
    #[inline(always)]
    pub(crate) fn over_at_once(
        &self,
        context: *mut c_void,
        reported: bool,
        flags: u64,
        len: usize,
    ) {
        if reported {
            self.complete(Completion {
                context,
                node: Node {
                    flags: flags | self.mark(),
                    len,
                    ..Node::EMPTY
                },
            });
        } else if self.counters.any.get() {
            self.count(flags);
        }
    }

    /// Counts an operation that is over, and puts it into its completion queue.
    #[inline(always)]
    pub(crate) fn complete(&self, completion: Completion) {
        if self.counters.any.get() {
            self.count(completion.node.flags);
        }
        let receives = completion.node.flags & (FI_RECV | FI_REMOTE_WRITE) != 0;
        let binding = if receives {
            &self.receives
        } else {
            &self.sends
        };
        if let Some(queue) = binding.queue.get() {
            queue.push(completion);
        }
    }

    /// Counts an operation with these flags.
    #[cold]
    pub(crate) fn count(&self, flags: u64) {
        if flags & mark::LOOK != 0 {
            return;
        }
        let counters = &self.counters;
        let counter = if flags & FI_RECV != 0 {
            &counters.receive
        } else if flags & FI_SEND != 0 {
            &counters.send
        } else if flags & FI_REMOTE_WRITE != 0 {
            return;
        } else if flags & FI_READ != 0 {
            &counters.read
        } else {
            &counters.write
        };
        if let Some(counter) = &*counter.borrow() {
            counter.count(flags & mark::FAILED != 0);
        }
    }

    /// Has a request that was just posted listed when it ends.
    #[inline(always)]
    pub(crate) fn watch(&self, id: RequestId, name: u64) {
        // A request that was posted a moment ago is known.
        let _ = self.limic.watch(id, name);
    }
}

/// The tag as the application gave it.
#[inline(always)]
pub(crate) fn application_tag(tag: u64) -> u64 {
    if tag & sort::NOT_TAGGED == 0 { tag } else { 0 }
}
