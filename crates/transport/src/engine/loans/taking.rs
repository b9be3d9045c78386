//! Messages received where they lie: out of the stash, or past it, from the sender's ring.

use super::super::direct::{LOOKS, OTHERS_TURN, POLLS_PER_ROW, ROWS};
use super::super::stash::LoanedAt;
use super::super::{Engine, posted, wire};
use super::LoanHold;
use crate::buffer::ReceiveBuffer;
use crate::raw::{Hold, Posted, RawLoaned, RawSliceMut};
use crate::{Error, Peer, Result, Selector, Status, Tag};

/// Looks at the sender's ring in a row, of a call that does not wait.
const FEW_LOOKS: u32 = 32;

/// A loan that was taken, in words. [`RawLoaned`] is made of it by the caller, in its place: what was stored word by word and is
/// copied in pieces of two waits for all stores before it.
struct Taken {
    hold: LoanHold,
    tag: u64,
    start: *const u8,
    source: u32,
    len: u64,
}

impl From<Taken> for RawLoaned {
    #[inline(always)]
    fn from(taken: Taken) -> Self {
        Self {
            status: Status {
                peer: Peer(taken.source),
                tag: Tag(taken.tag),
                len: taken.len,
                immediate: None,
            },
            start: taken.start,
            hold: Hold::of_loan(taken.hold),
        }
    }
}

impl Engine {
    /// Takes an arrived message where it lies.
    pub(crate) fn take_loan(&mut self, selector: &Selector) -> Result<Option<RawLoaned>> {
        if let Some(taken) = self.take_loan_directly(selector, FEW_LOOKS) {
            return Ok(Some(taken.into()));
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
    #[inline(always)]
    pub(crate) fn take_loan_soon(&mut self, selector: &Selector) -> Option<RawLoaned> {
        for _ in 0..ROWS.min(self.core.spins.div_ceil(POLLS_PER_ROW)) {
            if let Some(taken) = self.take_loan_directly(selector, LOOKS) {
                return Some(taken.into());
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
    /// Cache lines that move for a loan: its record, or half of it, and once for some loans a line of flags, there and back.
    #[inline(never)]
    fn take_loan_directly(&mut self, selector: &Selector, looks: u32) -> Option<Taken> {
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
            let record = match ring.peek() {
                Ok(Some(record)) => record,
                Ok(None) => {
                    // As in `Inputs::look`: the sender may be writing the line.
                    core::hint::spin_loop();
                    continue;
                }
                Err(corrupt) => {
                    core.corrupt(source, &corrupt.to_string());
                    return None;
                }
            };
            let (kind, tag) = (record.kind, record.tag);
            if kind == wire::LOAN && selector.fits_tag(tag) {
                core.arenas.expect_return();
                let (loan, len) = LoanedAt::told(source, &record);
                if let Some((start, hold)) = core.hold_in_place(&loan, len) {
                    core.popped(source, ring.pop());
                    return Some(Taken {
                        hold,
                        tag,
                        start,
                        source,
                        len,
                    });
                }
            }
            // Also a loan in an arena whose descriptor has not been taken in yet.
            core.on_record(source, kind, tag, &record);
            core.popped(source, ring.pop());
            return None;
        }
        None
    }
}
