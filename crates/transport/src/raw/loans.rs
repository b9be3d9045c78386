//! Messages that lie in shared memory.

use std::any::Any;

use limic_pools::arena::LoanHold;

use super::{Messages, Posted};
use crate::{Peer, Result, Selector, Status, Tag};

/// Room in the segment, lent by [`Loans::borrow_loan`](crate::raw::Loans::borrow_loan).
#[derive(Debug)]
pub struct RawLoan {
    /// First byte; stays valid until the loan is sent or returned.
    pub start: *mut u8,
    /// Bytes.
    pub len: usize,
    /// The endpoint's name for it.
    pub id: u64,
}

/// A message that lies in its sender's segment, taken by
/// [`Loans::take_loan`](crate::raw::Loans::take_loan).
#[derive(Debug)]
pub struct RawLoaned {
    /// Its sender, tag and length.
    pub status: Status,
    /// First byte. The sender's process can still write there, so never make a reference of it.
    pub start: *const u8,
    /// What keeps the bytes mapped, and tells the sender when it is dropped.
    pub hold: Hold,
}

/// Keeps the bytes of a [`RawLoaned`].
#[derive(Debug)]
pub struct Hold {
    _held: Held,
}

#[derive(Debug)]
enum Held {
    Loan { _loan: LoanHold },
    Other { _keeps: Box<dyn Any + Send> },
}

impl Hold {
    /// Whatever keeps them.
    #[must_use]
    pub fn new(keeps: Box<dyn Any + Send>) -> Self {
        Self {
            _held: Held::Other { _keeps: keeps },
        }
    }

    /// Without an allocation.
    pub(crate) fn of_loan(loan: LoanHold) -> Self {
        Self {
            _held: Held::Loan { _loan: loan },
        }
    }
}

const _: () = {
    const fn is_send<T: Send>() {}
    // `Loaned` relies on it.
    is_send::<Hold>();
};

/// Messages that are built and read in shared memory.
pub trait Loans: Messages {
    /// Lends room in the segment.
    ///
    /// # Errors
    /// [`Error::NoMemory`](crate::Error::NoMemory) with the limit that was hit.
    fn borrow_loan(&self, len: usize) -> Result<RawLoan>;

    /// Sends the first `len` bytes of a loan without copying them; the loan is gone in any case.
    ///
    /// # Errors
    /// As [`post_send`](super::Messages::post_send).
    ///
    /// # Safety
    /// The loan is one of this endpoint's ([`borrow_loan`](Self::borrow_loan)), as it gave it, and
    /// at least `len` bytes long; nobody touches its bytes any more.
    unsafe fn post_loan(&self, to: Peer, tag: Tag, loan: RawLoan, len: usize) -> Result<Posted>;

    /// Sends a loan and waits: [`post_loan`](Self::post_loan) and
    /// [`wait`](crate::raw::Requests::wait) in one, which an endpoint may do in less time.
    ///
    /// # Errors
    /// What became of the send.
    ///
    /// # Safety
    /// As [`post_loan`](Self::post_loan).
    unsafe fn send_loan(&self, to: Peer, tag: Tag, loan: RawLoan, len: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        let posted = unsafe { self.post_loan(to, tag, loan, len) }?;
        crate::handle::finish(self, posted).map(|_| ())
    }

    /// Takes a loan back unsent.
    ///
    /// # Safety
    /// As [`post_loan`](Self::post_loan).
    unsafe fn return_loan(&self, loan: RawLoan);

    /// Takes an arrived message that fits in place if it was sent as a loan; else `Ok(None)` if
    /// there is none yet. A message sent in another way is first copied into memory of the
    /// endpoint.
    ///
    /// # Errors
    /// As [`peek`](super::Messages::peek).
    fn take_loan(&self, selector: &Selector) -> Result<Option<RawLoaned>>;

    /// Waits for such a message: [`take_loan`](Self::take_loan) again and again, with sleep
    /// between, which an endpoint may do in less time.
    ///
    /// # Errors
    /// As [`peek`](super::Messages::peek).
    fn take_loan_blocking(&self, selector: &Selector) -> Result<RawLoaned>;
}
