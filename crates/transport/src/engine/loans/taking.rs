//! Messages received where they lie: out of the stash, or past it, from the sender's ring.

use super::super::direct::{LOOKS, OTHERS_TURN, POLLS_PER_ROW, ROWS};
use super::super::stash::LoanedAt;
use super::super::{Engine, posted, wire};
use crate::buffer::ReceiveBuffer;
use crate::raw::{Hold, Posted, RawLoaned, RawSliceMut};
use crate::{Error, Peer, Result, Selector, Status, Tag};

/// Looks at the sender's ring in a row, of a call that does not wait.
const FEW_LOOKS: u32 = 32;

impl Engine {
    /// Takes an arrived message where it lies.
    pub(crate) fn take_loan(&mut self, selector: &Selector) -> Result<Option<RawLoaned>> {
        if let Some(taken) = self.take_loan_directly(selector, FEW_LOOKS) {
            return taken.map(Some);
        }
        self.poll();
        // Looked at first: a message that there is no memory for stays for a later receive.
        let Some((envelope, token)) = self.core.matcher.probe(&posted::query(selector)) else {
            return self.core.check_selector(selector).map(|()| None);
        };
        // If its bytes are with the sender, they are fetched into memory of this endpoint.
        let len = match self.core.stash.get(token) {
            Some(arrived) if !arrived.waiting.is_in_place() => arrived.len as usize,
            _ => 0,
        };
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(len).map_err(|_| {
            Error::NoMemory(format!(
                "{len} bytes for a message from {}",
                Peer(envelope.source)
            ))
        })?;
        if let Some(id) = self.core.stash.queued(token) {
            self.core.matcher.remove_unexpected(id);
        }
        if let Some(loaned) = self.core.take_in_place(token)? {
            return Ok(Some(loaned));
        }
        buffer.resize(len, 0_u8);
        // SAFETY: the buffer lives until the receive is done, which `wait` below waits for.
        let into = unsafe {
            ReceiveBuffer::new(&[RawSliceMut {
                start: buffer.as_mut_ptr(),
                len,
            }])
        };
        let status = match self.core.receive_known(token, into) {
            Posted::Done(outcome) => outcome?,
            Posted::Pending(id) => self.wait(id)?,
        };
        Ok(Some(RawLoaned {
            status,
            start: buffer.as_ptr(),
            hold: Hold::new(Box::new(buffer)),
        }))
    }

    /// Waits for a loan as long as that takes a few microseconds at most. `None`: it takes longer, or something is in the way.
    #[inline]
    pub(crate) fn take_loan_soon(&mut self, selector: &Selector) -> Option<Result<RawLoaned>> {
        for _ in 0..ROWS.min(self.core.spins.div_ceil(POLLS_PER_ROW)) {
            if let Some(taken) = self.take_loan_directly(selector, LOOKS) {
                return Some(taken);
            }
            self.progress();
            if !self.core.nothing_to_match() {
                return None;
            }
        }
        None
    }

    /// Takes a loan out of its sender's ring, past the queues, if nothing is in the way: as `direct` does it with messages
    /// that are copied. `None`: nothing came, or the ordinary way has to be taken.
    ///
    /// Cache lines that move for a loan: its record, and once for a dozen loans, or four long ones, a line of flags there and back.
    fn take_loan_directly(&mut self, selector: &Selector, looks: u32) -> Option<Result<RawLoaned>> {
        let source = selector.source?.0;
        let core = &mut self.core;
        self.directly = self.directly.wrapping_add(1);
        if core.has_chores()
            || self.directly.is_multiple_of(OTHERS_TURN)
            || !core.nothing_to_match()
        {
            return None;
        }
        let ring = self.inputs.private_ring_of(source)?;
        for _ in 0..looks.min(core.spins) {
            let taken = match ring.peek() {
                Ok(None) => {
                    // As in `Inputs::look`: the sender may be writing the line.
                    core::hint::spin_loop();
                    continue;
                }
                Ok(Some(record)) => {
                    let fits = selector.fits_tag(record.tag);
                    if record.kind == wire::LOAN && fits {
                        let (loan, len) = LoanedAt::told(source, &record);
                        let status = Status {
                            peer: Peer(source),
                            tag: Tag(record.tag),
                            len,
                            immediate: None,
                        };
                        Some(core.in_place(&loan, status))
                    } else {
                        core.on_record(source, record.kind, record.tag, &record);
                        None
                    }
                }
                Err(corrupt) => {
                    core.corrupt(source, &corrupt.to_string());
                    return None;
                }
            };
            // The sender may sleep because its ring was full.
            if ring.pop()
                && let Some(link) = core.peers.link(source)
            {
                link.wake();
            }
            return taken;
        }
        None
    }
}
