//! A blocking receive with nothing in its way: the message goes from the ring, or from a piece that a record names, into the buffer,
//! past the queues and the table of requests.
//!
//! That is the same as posting the receive and waiting for it, as long as no other receive is posted (none is older)
//! and no message waits unexpected (none came before). Both are looked at again after everything that could have
//! changed them.

use limic_shm::ring::Mapped;
use limic_shm::ring::line::LineConsumer;

use super::requests::receive_outcome;
use super::told::Told;
use super::{Core, Engine};
use super::{direct_pieces, inbound, wire};
use crate::Selector;
use crate::buffer::ReceiveBuffer;
use crate::error::Outcome;
use crate::raw::{Posted, RawSliceMut, RequestId};

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
    /// The same, of one that came in pieces.
    InPieces(u64, u64),
    /// The message, with its tag and length; so many of its bytes have come, and the others come in pieces.
    Begun(u64, u64, u64),
}

/// What became of a receive past the queues.
enum Direct {
    /// It is done: tag and length.
    Received(u64, u64),
    /// As [`Look::Begun`].
    Begun(u64, u64, u64),
    /// It takes longer, or something is in the way; nothing has come.
    No,
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
            let room = buffer.len();
            match self.receive_directly(source.0, selector, &buffer) {
                Direct::Received(tag, len) => {
                    return receive_outcome(source.0, tag, None, len, room);
                }
                Direct::Begun(tag, len, at) => {
                    let id = self.go_on_ordinarily(source.0, tag, len, at, buffer);
                    return self.wait(id);
                }
                Direct::No => {}
            }
        }
        // SAFETY: the caller's promise.
        match unsafe { self.core.post_recv(selector, into, 0) }? {
            Posted::Done(outcome) => outcome,
            Posted::Pending(id) => self.wait(id),
        }
    }

    #[inline]
    fn receive_directly(
        &mut self,
        source: u32,
        selector: &Selector,
        into: &ReceiveBuffer,
    ) -> Direct {
        self.directly += 1;
        if self.core.has_chores() || self.directly >= OTHERS_TURN {
            // Who receives one message after the other must not keep the others from theirs. What comes from this source would be
            // unexpected if it were taken now.
            self.directly = 0;
            self.poll_but(Some(source));
        }
        for _ in 0..ROWS.min(self.core.spins.div_ceil(POLLS_PER_ROW)) {
            if !self.core.nothing_to_match() {
                return Direct::No;
            }
            match self.inputs.look(&mut self.core, source, selector, into) {
                Look::Received(tag, len) => return Direct::Received(tag, len),
                Look::InPieces(tag, len) => {
                    // It took as long as some dozen short ones.
                    self.directly += OTHERS_TURN / 4 - 1;
                    return Direct::Received(tag, len);
                }
                Look::Begun(tag, len, at) => return Direct::Begun(tag, len, at),
                Look::NoRing | Look::Longer => return Direct::No,
                // The message may come meanwhile, and would have no receive.
                Look::Empty => {
                    self.progress_but(Some(source));
                }
                Look::Other => {}
            }
        }
        Direct::No
    }

    /// The first `at` bytes of a message are in the buffer; it goes on in the ordinary way.
    #[cold]
    fn go_on_ordinarily(
        &mut self,
        source: u32,
        tag: u64,
        len: u64,
        at: u64,
        into: ReceiveBuffer,
    ) -> RequestId {
        let incoming = inbound::incoming(source, tag, None, len, into.len());
        let slot = self.core.go_on_receiving(incoming, at, into);
        self.core.requests.id(slot)
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
        core: &mut Core,
        source: u32,
        selector: &Selector,
        into: &ReceiveBuffer,
    ) -> Look {
        let Some(ring) = self.private_ring_of(source) else {
            return Look::NoRing;
        };
        for _ in 0..LOOKS {
            let record = match ring.peek() {
                Ok(Some(record)) => record,
                Ok(None) => {
                    ring.ask_for_second_line();
                    // Looks without a pause would take the line away from the sender while it writes it: 10 to 15 % of a
                    // short message's time.
                    core::hint::spin_loop();
                    continue;
                }
                Err(corrupt) => {
                    core.corrupt(source, &corrupt.to_string());
                    return Look::NoRing;
                }
            };
            let (kind, tag) = (record.kind, record.tag);
            let fits = selector.fits_tag(tag);
            if fits && kind == wire::EAGER {
                let len = u64::from(record.len);
                into.copy_from(0, len, &record);
                core.note_received(source, 1, len);
                core.popped(source, ring.pop());
                return Look::Received(tag, len);
            }
            if fits && kind == wire::EAGER_CHUNK {
                let (told, immediate) = Told::whole(&record);
                if immediate.is_some() {
                    return Look::Longer;
                }
                if !core.copy_told(source, told, 0, told.len(), into) {
                    return Look::NoRing;
                }
                core.note_received(source, 1, told.len());
                core.popped(source, ring.pop());
                return Look::Received(tag, told.len());
            }
            return look_at_another(ring, core, source, selector, into);
        }
        Look::Empty
    }
}

/// Looks at a record that is not a message in one piece, or not one that fits. By itself, so that the ways of all kinds of records
/// do not stand in that of the most frequent ones.
#[inline(never)]
fn look_at_another(
    ring: &mut LineConsumer<Mapped>,
    core: &mut Core,
    source: u32,
    selector: &Selector,
    into: &ReceiveBuffer,
) -> Look {
    let Ok(Some(record)) = ring.peek() else {
        return Look::Empty;
    };
    let (kind, tag) = (record.kind, record.tag);
    // Both read anew, like everything in the record.
    if !selector.fits_tag(tag) || !wire::is_message(kind) {
        core.on_record(source, kind, tag, &record);
        core.popped(source, ring.pop());
        return Look::Other;
    }
    if kind != wire::BEGINS {
        return Look::Longer;
    }
    let Some(len) = direct_pieces::begins(&record, into) else {
        return Look::Longer;
    };
    if !core.begins_directly(source) {
        return Look::Longer;
    }
    core.popped(source, ring.pop());
    let at = direct_pieces::take(ring, core, source, len, into);
    if at < len {
        return Look::Begun(tag, len, at);
    }
    core.received_in_pieces(source, len);
    Look::InPieces(tag, len)
}

#[cfg(test)]
#[path = "direct_tests.rs"]
mod tests;
