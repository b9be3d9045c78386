//! Loans: messages that are built in shared memory and never copied.

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU8, Ordering};
use core::time::Duration;

use crate::error::Outcome;
use crate::handle::Handle;
use crate::raw::{RawLoan, RawLoaned, RequestId};
use crate::wait::place_of;
use crate::wait::sealed::Waited;
use crate::{Endpoint, Error, Peer, Result, Status, Tag};

/// A buffer in this endpoint's shared memory. Peers can map it for reading only, so it is a plain
/// `&mut [u8]` to its holder.
///
/// Dropping it unsent returns the room.
pub struct Loan<'e, E: Endpoint> {
    endpoint: &'e E,
    raw: Option<RawLoan>,
}

impl<E: Endpoint> fmt::Debug for Loan<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loan")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl<'e, E: Endpoint> Loan<'e, E> {
    // Everything that hands a loan on is inlined into its caller. What a function returns in memory
    // is stored word by word there, and copied two words at a time, for which the copy waits until
    // all stores before it are done.
    #[inline(always)]
    pub(crate) fn new(endpoint: &'e E, len: usize) -> Result<Self> {
        Ok(Self {
            endpoint,
            raw: Some(endpoint.borrow_loan(len)?),
        })
    }

    /// Sends the whole buffer. The time does not depend on its length. The first loan between two
    /// endpoints waits until the other one answers; later ones do not wait, unless more is on its
    /// way than fits the peer's ring, or than there are flags (256, with those of loans that this
    /// application holds): then as an ordinary [`send`](crate::Endpoint::send) does, and to a peer
    /// of another node.
    ///
    /// # Errors
    /// As [`Endpoint::send`](crate::Endpoint::send).
    #[inline(always)]
    pub fn send(mut self, to: Peer, tag: impl Into<Tag>) -> Result<()> {
        // First: it is the caller's code, which may panic.
        let tag = tag.into();
        let Some(raw) = self.raw.take() else {
            return Err(Error::UnknownRequest);
        };
        let len = raw.len;
        // SAFETY: the endpoint lent it to this value, which ends here, with this length.
        unsafe { self.endpoint.send_loan(to, tag, raw, len) }
    }

    /// Sends the first `len` bytes.
    ///
    /// # Errors
    /// As [`Endpoint::send`](crate::Endpoint::send), and [`Error::OutOfRegion`] if the loan is
    /// shorter.
    pub fn send_first(self, len: usize, to: Peer, tag: impl Into<Tag>) -> Outcome {
        self.isend_first(len, to, tag)?.wait()
    }

    /// Starts a send of the whole buffer. The first one between two endpoints waits, as
    /// [`send`](Self::send) does, until the other one answers: see
    /// [`attach`](crate::Endpoint::attach).
    ///
    /// # Errors
    /// As [`Endpoint::send`](crate::Endpoint::send).
    pub fn isend(self, to: Peer, tag: impl Into<Tag>) -> Result<LoanSend<'e, E>> {
        let len = self.len();
        self.isend_first(len, to, tag)
    }

    /// Starts a send of the first `len` bytes.
    ///
    /// # Errors
    /// As [`send_first`](Self::send_first).
    pub fn isend_first(
        mut self,
        len: usize,
        to: Peer,
        tag: impl Into<Tag>,
    ) -> Result<LoanSend<'e, E>> {
        // First: it is the caller's code, which may panic.
        let tag = tag.into();
        if len > self.len() {
            return Err(Error::OutOfRegion {
                offset: 0,
                len: len as u64,
                region: self.len() as u64,
            });
        }
        let Some(raw) = self.raw.take() else {
            return Err(Error::UnknownRequest);
        };
        let endpoint = self.endpoint;
        // SAFETY: the endpoint lent it to this value, which ends here, and it is long enough by the
        // check above.
        let posted = unsafe { endpoint.post_loan(to, tag, raw, len) }?;
        Ok(LoanSend(Handle { endpoint, posted }))
    }
}

/// The send of a loan under way. Its bytes are the endpoint's.
///
/// Dropped before completion, the send goes on.
#[derive(Debug)]
pub struct LoanSend<'e, E: Endpoint>(Handle<'e, E>);

impl<E: Endpoint> LoanSend<'_, E> {
    /// Waits until the message is on its way.
    ///
    /// # Errors
    /// What became of the send.
    pub fn wait(mut self) -> Outcome {
        self.0.wait()
    }

    /// Makes progress; true when done. Waiting then returns at once.
    pub fn test(&mut self) -> bool {
        self.0.test()
    }

    /// Waits until it is done or the time is over; true when done. Waiting then returns at once.
    pub fn wait_timeout(&mut self, timeout: Duration) -> bool {
        self.0.wait_timeout(timeout)
    }

    /// Asks that the send be cancelled; waiting says what became of it.
    ///
    /// # Errors
    /// [`Error::UnknownRequest`] never for a handle of this endpoint.
    pub fn cancel(&self) -> Result<()> {
        self.0.cancel()
    }
}

impl<E: Endpoint> Drop for LoanSend<'_, E> {
    fn drop(&mut self) {
        match self.0.pending() {
            Some(id) => self.0.endpoint.abandon(id, Box::new(())),
            None => self.0.push_on(),
        }
    }
}

impl<E: Endpoint> Waited for LoanSend<'_, E> {
    type Output = Outcome;
    fn under_way(&self) -> Option<RequestId> {
        self.0.pending()
    }
    fn is_over(&self) -> bool {
        self.0.is_over()
    }
    fn wait_within(&mut self, timeout: Duration) -> bool {
        self.wait_timeout(timeout)
    }
    fn is_of(&self, endpoint: *const ()) -> bool {
        place_of(self.0.endpoint) == endpoint
    }
    fn complete(mut self, outcome: Option<Outcome>) -> Self::Output {
        self.0.learn(outcome);
        self.0.wait()
    }
}

impl<E: Endpoint> Deref for Loan<'_, E> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.raw {
            // SAFETY: the endpoint lends these bytes to this value alone; peers' mappings are
            // read-only by seal.
            Some(raw) => unsafe { core::slice::from_raw_parts(raw.start, raw.len) },
            None => &[],
        }
    }
}

impl<E: Endpoint> DerefMut for Loan<'_, E> {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.raw {
            // SAFETY: as in `deref`, and `&mut self` makes this the only access.
            Some(raw) => unsafe { core::slice::from_raw_parts_mut(raw.start, raw.len) },
            None => &mut [],
        }
    }
}

impl<E: Endpoint> Drop for Loan<'_, E> {
    fn drop(&mut self) {
        if let Some(raw) = self.raw.take() {
            // SAFETY: the endpoint lent it to this value, which ends here.
            unsafe { self.endpoint.return_loan(raw) };
        }
    }
}

/// A byte of a [`Loaned`] message: it can be read, and not written.
#[derive(Debug)]
#[repr(transparent)]
pub struct LoanedByte(AtomicU8);

impl LoanedByte {
    /// The byte as it is now.
    #[inline]
    #[must_use]
    pub fn load(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A received message where it lies. Dropping it tells the sender that the room is free.
///
/// The sender's process can still write the bytes, so they are given as [`LoanedByte`]s or as
/// copies, never as a plain slice: the compiler may assume that a `u8` behind a reference does not
/// change.
///
/// ```
/// use limic::{Endpoint, HybridEndpoint, Selector, Tag};
///
/// let endpoint = HybridEndpoint::open()?;
/// let myself = endpoint.myself();
/// let mut loan = endpoint.loan(5)?;
/// loan.copy_from_slice(b"hello");
/// loan.send(myself, Tag(1))?;
/// let loaned = endpoint.recv_loaned(Selector::any())?;
/// assert_eq!(loaned.bytes()[0].load(), b'h');
/// assert_eq!(loaned.to_vec(), b"hello");
/// # Ok::<(), limic::Error>(())
/// ```
///
/// They cannot be written: the memory is the sender's, and mapped for reading.
///
/// ```compile_fail
/// fn write(loaned: &limic::Loaned) {
///     loaned.bytes()[0].store(0, std::sync::atomic::Ordering::Relaxed);
/// }
/// ```
pub struct Loaned {
    raw: RawLoaned,
}

// SAFETY: `start` points into memory that `hold`, which is `Send`, keeps mapped.
unsafe impl Send for Loaned {}

impl fmt::Debug for Loaned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loaned")
            .field("status", &self.raw.status)
            .finish_non_exhaustive()
    }
}

impl Loaned {
    #[inline(always)]
    pub(crate) fn new(raw: RawLoaned) -> Self {
        Self { raw }
    }

    /// Its sender, its tag and its length.
    #[must_use]
    pub fn status(&self) -> Status {
        self.raw.status
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.raw.status.len as usize
    }

    /// Whether the message is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes in place.
    #[must_use]
    pub fn bytes(&self) -> &[LoanedByte] {
        // SAFETY: `start` is valid for `len` bytes while `hold` lives, and a `LoanedByte` is an
        // atomic byte, so the sender's process may write at the same time. Nothing of its interface
        // writes, so a read-only mapping is fine.
        unsafe { core::slice::from_raw_parts(self.raw.start.cast::<LoanedByte>(), self.len()) }
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// [`Error::OutOfRegion`] if the range is not within the message.
    pub fn copy_to(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        if offset > self.len() || into.len() > self.len() - offset {
            return Err(Error::OutOfRegion {
                offset: offset as u64,
                len: into.len() as u64,
                region: self.len() as u64,
            });
        }
        // SAFETY: checked against the length just above; `start` is valid for it while `hold`
        // lives. A sender that writes now changes which bytes are copied, nothing else.
        unsafe {
            core::ptr::copy_nonoverlapping(
                self.raw.start.add(offset),
                into.as_mut_ptr(),
                into.len(),
            );
        }
        Ok(())
    }

    /// The whole message as a vector.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = vec![0; self.len()];
        // The range is the whole message, so it fits.
        let _ = self.copy_to(0, &mut out);
        out
    }
}
