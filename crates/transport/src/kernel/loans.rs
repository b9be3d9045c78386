//! Loans: memory of this process, since nothing here is shared. They are copied once, as other
//! messages are.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use limic_policy::ByteSize;

use super::KernelEngine;
use crate::engine::request::sent;
use crate::raw::{Hold, Posted, RawLoan, RawLoaned, RawSlice};
use crate::{Error, Peer, Result, Selector, Tag};

/// What is lent.
pub(super) struct Loans {
    lent: HashMap<u64, Room>,
    next: u64,
    most: u64,
    /// Bytes that are lent or on their way.
    used: Arc<AtomicU64>,
}

/// Room of a loan: counted until it is dropped.
struct Room {
    bytes: Vec<u8>,
    used: Arc<AtomicU64>,
}

impl Drop for Room {
    fn drop(&mut self) {
        // Relaxed: a count, which publishes nothing.
        self.used
            .fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
    }
}

impl Loans {
    pub(super) fn new(most: u64) -> Self {
        Self {
            lent: HashMap::new(),
            next: 0,
            most,
            used: Arc::new(AtomicU64::new(0)),
        }
    }
}

impl KernelEngine {
    /// Lends room.
    pub(super) fn borrow_loan(&mut self, len: usize) -> Result<RawLoan> {
        let loans = &mut self.loans;
        let used = loans.used.load(Ordering::Relaxed);
        let none = || {
            Error::NoMemory(format!(
                "a loan of {len} bytes: {} of at most {} are lent or on their way (LIMIC_LOAN_BYTES)",
                ByteSize(used),
                ByteSize(loans.most)
            ))
        };
        if len as u64 > loans.most.saturating_sub(used) {
            return Err(none());
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| none())?;
        bytes.resize(len, 0);
        loans.used.fetch_add(len as u64, Ordering::Relaxed);
        loans.next += 1;
        let id = loans.next;
        let mut room = Room {
            bytes,
            used: Arc::clone(&loans.used),
        };
        let start = room.bytes.as_mut_ptr();
        loans.lent.insert(id, room);
        Ok(RawLoan { start, len, id })
    }

    /// Sends the first bytes of a loan. The room stays until the module has no more use for it; the
    /// sender does not wait.
    pub(super) fn post_loan(
        &mut self,
        to: Peer,
        tag: Tag,
        loan: RawLoan,
        len: usize,
    ) -> Result<Posted> {
        let room = self.loans.lent.remove(&loan.id);
        let room = room.ok_or(Error::UnknownRequest)?;
        let slice = RawSlice {
            start: loan.start,
            len: len.min(loan.len),
        };
        // SAFETY: the room is kept until the request is over: here, or by `abandon`.
        match unsafe { self.post_send(to.0, tag.0, None, &[slice]) }? {
            Posted::Done(outcome) => Ok(Posted::Done(outcome)),
            Posted::Pending(id) => {
                self.abandon(id, Box::new(room));
                Ok(Posted::Done(sent(to.0, tag.0, slice.len as u64)))
            }
        }
    }

    /// Takes a loan back unsent.
    pub(super) fn return_loan(&mut self, loan: &RawLoan) {
        self.loans.lent.remove(&loan.id);
    }

    /// Takes a message where it lies: in memory of this endpoint, into which it is copied first.
    pub(super) fn take_loan(&mut self, selector: &Selector) -> Result<Option<RawLoaned>> {
        let Some((status, bytes)) = self.take_whole(selector)? else {
            return Ok(None);
        };
        Ok(Some(RawLoaned {
            status,
            start: bytes.as_ptr(),
            hold: Hold::new(Box::new(bytes)),
        }))
    }

    /// Keeps a buffer until a request is over.
    pub(super) fn abandon(&mut self, id: crate::RequestId, buffer: Box<dyn Any + Send>) {
        if let Some(slot) = self.requests.find(id) {
            self.requests.abandon(slot, buffer);
        }
    }
}
