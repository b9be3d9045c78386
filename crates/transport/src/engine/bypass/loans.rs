//! A loan is taken out of its sender's ring, past the queues, if nothing is in the way: as
//! `receive` does it with messages that are copied.

use limic_pools::arena::LoanHold;
use limic_records as frame;

use crate::engine::cx::Cx;
use crate::engine::envelope::{Envelope, Told};
use crate::engine::progress::dispatch;
use crate::engine::progress::rings::{self, ReceiveRings};
use crate::engine::protocol::arena_message;
use crate::raw::{Hold, RawLoaned};
use crate::{Selector, Status};

/// Looks at the sender's ring in a row, of a call that does not wait.
pub(crate) const FEW_PEEKS: u32 = 32;

/// A loan that was taken, in words. [`RawLoaned`] is made of it by the caller, in its place: what
/// was stored word by word and is copied two words at a time waits for all stores before it.
pub(crate) struct TakenLoan {
    hold: LoanHold,
    tag: u64,
    start: *const u8,
    source: u32,
    len: u64,
}

impl From<TakenLoan> for RawLoaned {
    #[inline(always)]
    fn from(taken: TakenLoan) -> Self {
        let status: Status = Envelope::new(taken.source, taken.tag).status(taken.len);
        Self {
            status,
            start: taken.start,
            hold: Hold::of_loan(taken.hold),
        }
    }
}

/// Takes a loan. `None`: nothing came, or the message has to be matched.
///
/// Cache lines that move for a loan: its record, or half of it, and once for some loans a line of
/// flags, there and back.
#[inline(never)]
pub(crate) fn take(
    rings: &mut ReceiveRings,
    cx: &mut Cx,
    selector: &Selector,
    peeks: u32,
) -> Option<TakenLoan> {
    let source = selector.source?.0;
    if !cx.matching.is_idle(&cx.requests) {
        return None;
    }
    let ring = rings.private_ring_of(source)?;
    for _ in 0..peeks.min(cx.wakeup.spins()) {
        let record = match ring.peek() {
            Ok(Some(record)) => record,
            Ok(None) => {
                // The sender may be writing the line.
                core::hint::spin_loop();
                continue;
            }
            Err(corrupt) => {
                cx.peers.violated(source, corrupt.to_string());
                return None;
            }
        };
        let (kind, tag) = (record.kind, record.tag);
        if kind == frame::ARENA && selector.fits_tag(tag) {
            cx.arenas.expect_return();
            if let Ok(message) = frame::arena(&record) {
                let held = match message.send_ahead {
                    // It has to do with the pace of this receiver.
                    Some(_) => None,
                    None => arena_message::hold(cx, source, &message),
                };
                if let Some((start, hold)) = held {
                    rings::credit_returned(cx, source, ring.pop());
                    return Some(TakenLoan {
                        hold,
                        tag,
                        start,
                        source,
                        len: message.len,
                    });
                }
            }
        }
        // Also a loan in an arena whose descriptor has not been taken in yet, and what is too short
        // for a loan.
        dispatch::on_record(cx, source, kind, tag, &record);
        rings::credit_returned(cx, source, ring.pop());
        return None;
    }
    None
}
