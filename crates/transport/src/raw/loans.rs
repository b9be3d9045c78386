//! Messages that lie in shared memory.

use std::any::Any;

use crate::Status;
use crate::engine::protocol::arena_message::LoanHold;

/// Room in the segment, lent by [`RawEndpoint::borrow_loan`](crate::raw::RawEndpoint::borrow_loan).
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
/// [`RawEndpoint::take_loan`](crate::raw::RawEndpoint::take_loan).
#[derive(Debug)]
pub struct RawLoaned {
    /// Who sent it, tag and length.
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
