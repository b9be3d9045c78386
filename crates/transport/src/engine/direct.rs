//! A blocking receive with nothing in its way: the message goes from the ring, or from a piece that a record names, into the buffer,
//! past the queues and the table of requests.
//!
//! That is the same as posting the receive and waiting for it, as long as no other receive is posted (none is older)
//! and no message waits unexpected (none came before). Both are looked at again after everything that could have
//! changed them.

use super::Engine;
use super::hand::Told;
use super::requests::receive_outcome;
use super::wire;
use crate::Selector;
use crate::buffer::ReceiveBuffer;
use crate::error::Outcome;
use crate::raw::{Posted, RawSliceMut};

/// Looks at the sender's ring in a row, between two turns of everything else: some 300 ns.
pub(super) const LOOKS: u32 = 16;
/// Such rows before the receive is posted in the ordinary way: about 10 us.
pub(super) const ROWS: u32 = 32;
/// Polls of the ordinary way that take as long as one row.
pub(super) const POLLS_PER_ROW: u32 = 16;
/// Receives between two turns of everything else.
pub(super) const OTHERS_TURN: u32 = 64;

/// What looks at one private ring found.
enum Look {
    /// The sender has no private ring.
    NoRing,
    Empty,
    /// A record of another kind or tag; it was handled.
    Other,
    /// The message, which is more than bytes of this record or of one piece: it is left there for the receive that will be posted.
    Longer,
    /// The message, with its tag and length.
    Received(u64, u64),
}

impl Engine {
    /// Receives and waits.
    ///
    /// # Safety
    /// As [`RawEndpoint::recv_blocking`](crate::RawEndpoint::recv_blocking).
    #[inline]
    pub(crate) unsafe fn recv_blocking(
        &mut self,
        selector: &Selector,
        into: &[RawSliceMut],
    ) -> Outcome {
        if let Some(source) = selector.source {
            // SAFETY: the caller's promise, for the time of the call.
            let buffer = unsafe { ReceiveBuffer::new(into) };
            if let Some((tag, len)) = self.receive_directly(source.0, selector, &buffer) {
                return receive_outcome(source.0, tag, None, len, buffer.len());
            }
        }
        // SAFETY: the caller's promise.
        match unsafe { self.core.post_recv(selector, into, 0) }? {
            Posted::Done(outcome) => outcome,
            Posted::Pending(id) => self.wait(id),
        }
    }

    /// Tag and length of the message. `None`: it takes longer, or something is in the way.
    #[inline]
    fn receive_directly(
        &mut self,
        source: u32,
        selector: &Selector,
        into: &ReceiveBuffer,
    ) -> Option<(u64, u64)> {
        self.directly = self.directly.wrapping_add(1);
        if self.core.has_chores() || self.directly.is_multiple_of(OTHERS_TURN) {
            // Who receives one message after the other must not keep the others from theirs.
            self.poll();
        }
        for _ in 0..ROWS.min(self.core.spins.div_ceil(POLLS_PER_ROW)) {
            if !self.core.nothing_to_match() {
                return None;
            }
            match self.inputs.look(&mut self.core, source, selector, into) {
                Look::Received(tag, len) => return Some((tag, len)),
                Look::NoRing | Look::Longer => return None,
                // The message may come meanwhile, and would have no receive.
                Look::Empty => {
                    self.progress_but(Some(source));
                }
                Look::Other => {}
            }
        }
        None
    }
}

impl super::inputs::Inputs {
    /// Looks at the private ring of a sender, for a receive that is the only one.
    ///
    /// Between the store that publishes the message and the return to the caller: one line that moves, its copy, and two
    /// counts.
    #[inline]
    fn look(
        &mut self,
        core: &mut super::Core,
        source: u32,
        selector: &Selector,
        into: &ReceiveBuffer,
    ) -> Look {
        let Some(ring) = self.private_ring_of(source) else {
            return Look::NoRing;
        };
        for _ in 0..LOOKS {
            let look = match ring.peek() {
                Ok(None) => {
                    // Looks without a pause would take the line away from the sender while it writes it: 10 to 15 % of a
                    // short message's time.
                    core::hint::spin_loop();
                    continue;
                }
                Ok(Some(record)) => {
                    let fits = (record.tag ^ selector.tag.0) & selector.mask == 0;
                    if record.kind == wire::EAGER && fits {
                        let len = u64::from(record.len);
                        into.copy_from(0, len, &record);
                        core.note_received(source, 1, len);
                        Look::Received(record.tag, len)
                    } else if record.kind == wire::EAGER_CHUNK && fits {
                        let (told, immediate) = Told::whole(&record);
                        if immediate.is_some() {
                            return Look::Longer;
                        }
                        let len = told.len();
                        if !core.copy_told(source, told, into) {
                            return Look::NoRing;
                        }
                        core.note_received(source, 1, len);
                        Look::Received(record.tag, len)
                    } else if fits && wire::is_message(record.kind) {
                        return Look::Longer;
                    } else {
                        core.on_record(source, record.kind, record.tag, &record);
                        Look::Other
                    }
                }
                Err(corrupt) => {
                    core.corrupt(source, &corrupt.to_string());
                    return Look::NoRing;
                }
            };
            // The sender may sleep because its ring was full.
            if ring.pop()
                && let Some(link) = core.peers.link(source)
            {
                link.wake();
            }
            return look;
        }
        Look::Empty
    }
}

#[cfg(test)]
#[path = "direct_tests.rs"]
mod tests;
