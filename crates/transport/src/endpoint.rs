//! The safe face of an endpoint.

use core::time::Duration;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use crate::counters::Counters;
use crate::error::Outcome;
use crate::handle::finish;
use crate::heap::Buffer;
use crate::loan::{Loan, Loaned};
use crate::owned::{OwnedRecv, OwnedSend};
use crate::owned_bytes::OwnedBytes;
use crate::polling::{poll_until, poll_within};
use crate::probe::Claimed;
use crate::raw::{RawEndpoint, RawSlice, RawSliceMut};
use crate::region::{Region, RegionKey};
use crate::scope::Scope;
use crate::{Address, Error, Peer, Result, Selector, Status, Tag};

/// Tagged messages, sound without `unsafe`.
///
/// Three kinds of buffers, one for each way in which Rust code holds memory:
///
/// - **blocking** calls ([`send`](Self::send), [`recv`](Self::recv)) borrow for their own duration;
/// - **scoped** requests ([`scope`](Self::scope)) borrow for the scope, as `std::thread::scope`
///   does;
/// - **owned** requests ([`isend`](Self::isend), [`irecv`](Self::irecv)) take the buffer and give
///   it back at completion; **loans** ([`loan`](Self::loan)) are owned buffers that lie in shared
///   memory.
///
/// Order: messages from one peer match in the order sent, whatever paths they took. An endpoint is
/// `Send` but not `Sync`: one thread uses it at a time; give each thread an endpoint of its own.
///
/// Progress happens inside these calls only: no thread of the library moves messages.
pub trait Endpoint: RawEndpoint {
    /// This endpoint's address.
    ///
    /// ```
    /// use limic::{ADDRESS_LEN, Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let bytes = endpoint.address().to_bytes();
    /// assert_eq!(bytes.len(), ADDRESS_LEN); // To be told to others.
    /// # Ok::<(), limic::Error>(())
    /// ```
    fn address(&self) -> Address;

    /// This endpoint as its own peer.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// endpoint.send(endpoint.myself(), 7, b"a note")?;
    /// # Ok::<(), limic::Error>(())
    /// ```
    fn myself(&self) -> Peer;

    /// Decodes an address and names its owner. Nothing is contacted: a peer that is gone fails at
    /// the first message. The same address gives the same peer.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let one = HybridEndpoint::open()?;
    /// let other = HybridEndpoint::open()?;
    /// let address = other.address().to_bytes();
    /// let peer = one.connect(&address)?;
    /// assert_eq!(one.connect(&address)?, peer);
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::BadAddress`](crate::Error::BadAddress);
    /// [`Error::NoCommonNetwork`](crate::Error::NoCommonNetwork) if the address is of another node,
    /// and names no network that this endpoint has.
    fn connect(&self, address: &[u8]) -> Result<Peer>;

    /// The address of a peer, also of one that made the first contact itself.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let myself = endpoint.myself();
    /// assert_eq!(endpoint.peer_address(myself)?, endpoint.address());
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownPeer`](crate::Error::UnknownPeer).
    fn peer_address(&self, peer: Peer) -> Result<Address>;

    /// Begins to attach the peer if nothing has yet, without waiting: true if it is attached, so
    /// that one-sided access will not wait for it.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let one = HybridEndpoint::open()?;
    /// let other = HybridEndpoint::open()?;
    /// let peer = one.connect(&other.address().to_bytes())?;
    /// while !one.attach(peer)? {
    ///     one.progress();
    ///     other.progress();
    /// }
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownPeer`](crate::Error::UnknownPeer),
    /// [`Error::PeerFailed`](crate::Error::PeerFailed).
    fn attach(&self, peer: Peer) -> Result<bool>;

    /// Moves messages along once, without waiting. True if anything moved.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// while endpoint.progress() {}
    /// # Ok::<(), limic::Error>(())
    /// ```
    fn progress(&self) -> bool;

    /// Sleeps until something may have happened, or the time is over. Returns at once if
    /// something has happened already.
    ///
    /// ```
    /// use core::time::Duration;
    ///
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// endpoint.sleep(Some(Duration::from_millis(1)));
    /// # Ok::<(), limic::Error>(())
    /// ```
    fn sleep(&self, timeout: Option<Duration>);

    /// A file descriptor that becomes readable when a sleeping endpoint is wanted, for the poll
    /// loop of a runtime. Call [`arm`](Self::arm) before polling it, and
    /// [`progress`](Self::progress) afterwards.
    ///
    /// One task polls at a time: `arm` takes away what the descriptor has told. A second task that
    /// polls would see its message a quarter of a second late. Other calls may be made meanwhile.
    /// If they take what the descriptor was to tell of, they make it readable.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint};
    /// use rustix::event::{PollFd, PollFlags, Timespec, poll};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// if endpoint.arm() {
    ///     let wake = endpoint.wake_fd();
    ///     let timeout = Timespec::default();
    ///     poll(&mut [PollFd::new(&wake, PollFlags::IN)], Some(&timeout))?;
    /// }
    /// endpoint.progress();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn wake_fd(&self) -> BorrowedFd<'_>;

    /// Asks senders to ring from now on. False if there is work already: do not poll then.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// if endpoint.arm() {
    ///     // Nothing is left to do: poll `wake_fd`.
    /// }
    /// endpoint.progress();
    /// # Ok::<(), limic::Error>(())
    /// ```
    fn arm(&self) -> bool;

    /// What was moved so far, by path and by peer.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let myself = endpoint.myself();
    /// endpoint.send(myself, 7, b"hello")?;
    /// let sizes = endpoint.counters().sizes;
    /// assert_eq!(sizes.iter().sum::<u64>(), 1);
    /// # Ok::<(), limic::Error>(())
    /// ```
    fn counters(&self) -> Counters;

    /// Completes what can be completed, tells the peers, and fails the rest. Afterwards every
    /// operation gives [`Error::PeerFailed`](crate::Error::PeerFailed). Dropping the endpoint does
    /// the same.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let myself = endpoint.myself();
    /// endpoint.close();
    /// assert!(endpoint.send(myself, 7, b"too late").is_err());
    /// # Ok::<(), limic::Error>(())
    /// ```
    fn close(&self);

    /// Sends and waits until the buffer may be used again. That says nothing about whether the
    /// receiver has posted a receive, for messages up to the eager limit. Such a message lies in
    /// the receiver's memory, and is lost if the receiver goes before it takes it; operations that
    /// need the receiver fail from then on.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let myself = endpoint.myself();
    /// endpoint.send(myself, 7, b"hello")?;
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::PeerFailed`](crate::Error::PeerFailed),
    /// [`Error::UnknownPeer`](crate::Error::UnknownPeer), [`Error::NoPath`](crate::Error::NoPath).
    #[inline]
    fn send(&self, to: Peer, tag: impl Into<Tag>, data: &[u8]) -> Result<()>
    where
        Self: Sized,
    {
        // SAFETY: `data` is borrowed until this call returns, which is after completion.
        unsafe { self.send_blocking(to, tag.into(), &[RawSlice::from(data)]) }
    }

    /// Sends the concatenation of several slices as one message. They may name the same bytes.
    ///
    /// ```
    /// use std::io::IoSlice;
    ///
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let myself = endpoint.myself();
    /// let slices = [IoSlice::new(b"one "), IoSlice::new(b"message")];
    /// endpoint.send_vectored(myself, 7, &slices)?;
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`send`](Self::send); [`Error::System`](crate::Error::System) for more than `isize::MAX`
    /// bytes.
    fn send_vectored(&self, to: Peer, tag: impl Into<Tag>, data: &[IoSlice<'_>]) -> Result<()>
    where
        Self: Sized,
    {
        let slices = slices_of(data.iter().map(|slice| &**slice))?;
        // SAFETY: as in `send`.
        let posted = unsafe { self.post_send(to, tag.into(), &slices) }?;
        finish(self, posted).map(|_| ())
    }

    /// Receives one message and waits for it.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let myself = endpoint.myself();
    /// endpoint.send(myself, 7, b"hello")?;
    /// let mut buffer = [0; 64];
    /// let status = endpoint.recv((myself, 7), &mut buffer)?;
    /// assert_eq!(&buffer[..status.len as usize], b"hello");
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Truncated`](crate::Error::Truncated) with both lengths if the message is longer
    /// than the buffer, [`Error::PeerFailed`](crate::Error::PeerFailed) if the peer named (or, for
    /// any source, some peer that this endpoint has met) died. A peer that dies before the two have
    /// met is missed only by who names it: a receive from any source waits on.
    #[inline]
    fn recv(&self, from: impl Into<Selector>, buffer: &mut [u8]) -> Outcome
    where
        Self: Sized,
    {
        // SAFETY: `buffer` is borrowed until this call returns, which is after completion.
        unsafe { self.recv_blocking(&from.into(), &[RawSliceMut::from(buffer)]) }
    }

    /// Receives one message into several slices, filled in order.
    ///
    /// ```
    /// use std::io::IoSliceMut;
    ///
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let myself = endpoint.myself();
    /// endpoint.send(myself, 7, b"head and body")?;
    /// let (mut head, mut body) = ([0; 5], [0; 64]);
    /// let mut slices = [IoSliceMut::new(&mut head), IoSliceMut::new(&mut body)];
    /// endpoint.recv_vectored((myself, 7), &mut slices)?;
    /// assert_eq!(&head, b"head ");
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    fn recv_vectored(&self, from: impl Into<Selector>, buffers: &mut [IoSliceMut<'_>]) -> Outcome
    where
        Self: Sized,
    {
        let slices: Vec<RawSliceMut> = buffers
            .iter_mut()
            .map(|slice| RawSliceMut::from(&mut **slice))
            .collect();
        // SAFETY: as in `recv`.
        let posted = unsafe { self.post_recv(&from.into(), &slices) }?;
        finish(self, posted)
    }

    /// Sends and receives at the same time: the way to exchange without a deadlock.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let myself = endpoint.myself();
    /// let mut buffer = [0; 5];
    /// endpoint.send_recv(myself, 7, b"hello", (myself, 7), &mut buffer)?;
    /// assert_eq!(&buffer, b"hello");
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`send`](Self::send) and [`recv`](Self::recv); both operations are over when it returns.
    fn send_recv(
        &self,
        to: Peer,
        tag: impl Into<Tag>,
        data: &[u8],
        from: impl Into<Selector>,
        buffer: &mut [u8],
    ) -> Outcome
    where
        Self: Sized,
    {
        let (tag, from) = (tag.into(), from.into());
        self.scope(|scope| {
            let receive = scope.irecv(from, buffer)?;
            let send = scope.isend(to, tag, data)?;
            let status = receive.wait().map(|(status, _)| status);
            send.wait()?;
            status
        })
    }

    /// Runs `body` with a scope in which operations may borrow buffers that live outside of it.
    ///
    /// When `body` returns, the scope waits for all its operations. If `body` fails or panics, they
    /// are cancelled first where that is still possible.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let myself = endpoint.myself();
    /// let (data, mut buffer) = ([1; 1000], [0; 1000]);
    /// endpoint.scope(|scope| {
    ///     let receive = scope.irecv((myself, 7), &mut buffer)?;
    ///     scope.isend(myself, 7, &data)?;
    ///     // Other work.
    ///     receive.wait().map(drop)
    /// })?;
    /// assert_eq!(buffer, data);
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// What `body` returns, else the first error of an operation that `body` did not wait for.
    fn scope<'env, T, F>(&'env self, body: F) -> Result<T>
    where
        F: for<'scope> FnOnce(&'scope Scope<'scope, 'env, Self>) -> Result<T>,
        Self: Sized,
    {
        crate::scope::run(self, body)
    }

    /// Starts a send of a buffer that it takes, and gives back at completion.
    ///
    /// Over TCP a short one that follows another one at once goes with the next call that waits,
    /// tests or makes progress, or with the drop of its handle.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let myself = endpoint.myself();
    /// let send = endpoint.isend(myself, 7, vec![1; 1000])?;
    /// let mut buffer = [0; 1000];
    /// endpoint.recv((myself, 7), &mut buffer)?;
    /// let data = send.wait()?; // The buffer comes back.
    /// assert_eq!(data, buffer);
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`send`](Self::send); the buffer is dropped then.
    fn isend(
        &self,
        to: Peer,
        tag: impl Into<Tag>,
        data: impl OwnedBytes,
    ) -> Result<OwnedSend<'_, Self>>
    where
        Self: Sized,
    {
        OwnedSend::start(self, to, tag.into(), data.into_vec())
    }

    /// Starts a receive into a buffer that it takes, and gives back at completion. There is room
    /// for as many bytes as the buffer is long: `vec![0; 64]`, not `Vec::with_capacity(64)`.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let myself = endpoint.myself();
    /// let receive = endpoint.irecv((myself, 7), vec![0; 64])?;
    /// endpoint.send(myself, 7, b"hello")?;
    /// let (status, buffer) = receive.wait()?;
    /// assert_eq!(&buffer[..status.len as usize], b"hello");
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    fn irecv(
        &self,
        from: impl Into<Selector>,
        buffer: impl OwnedBytes,
    ) -> Result<OwnedRecv<'_, Self>>
    where
        Self: Sized,
    {
        OwnedRecv::start(self, &from.into(), buffer.into_vec())
    }

    /// Makes progress once and describes a fitting message if one has arrived, without taking it.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let myself = endpoint.myself();
    /// assert_eq!(endpoint.probe((myself, 7))?, None);
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::PeerFailed`](crate::Error::PeerFailed) if the peer named failed.
    fn probe(&self, from: impl Into<Selector>) -> Result<Option<Status>>
    where
        Self: Sized,
    {
        self.peek(&from.into())
    }

    /// Receives one message as [`recv`](Self::recv) does, if it comes within the time; `None` if it
    /// does not. A message that has begun to arrive by then is waited for.
    ///
    /// ```
    /// use core::time::Duration;
    ///
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let myself = endpoint.myself();
    /// let mut buffer = [0; 64];
    /// let late = endpoint.recv_timeout((myself, 7), &mut buffer, Duration::from_millis(1))?;
    /// assert_eq!(late, None);
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    fn recv_timeout(
        &self,
        from: impl Into<Selector>,
        buffer: &mut [u8],
        timeout: Duration,
    ) -> Result<Option<Status>>
    where
        Self: Sized,
    {
        self.scope(|scope| {
            let mut receive = scope.irecv(from, buffer)?;
            if !receive.wait_timeout(timeout) {
                receive.cancel()?;
            }
            match receive.wait() {
                Ok((status, _)) => Ok(Some(status)),
                Err(Error::Cancelled) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    /// Waits until a fitting message has arrived, and describes it without taking it.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint, Selector};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let myself = endpoint.myself();
    /// endpoint.send(myself, 7, b"hello")?;
    /// let found = endpoint.wait_probe(Selector::any())?;
    /// let mut buffer = vec![0; found.len as usize];
    /// endpoint.recv((found.peer, found.tag), &mut buffer)?;
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`probe`](Self::probe).
    fn wait_probe(&self, from: impl Into<Selector>) -> Result<Status>
    where
        Self: Sized,
    {
        let selector = from.into();
        poll_until(self, "wait_probe", &selector, || self.peek(&selector))
    }

    /// As [`wait_probe`](Self::wait_probe); `None` if no fitting message arrives within the time.
    ///
    /// ```
    /// use core::time::Duration;
    ///
    /// use limic::{Endpoint, HybridEndpoint, Selector};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let late = endpoint.wait_probe_timeout(Selector::any(), Duration::from_millis(1))?;
    /// assert_eq!(late, None);
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`probe`](Self::probe).
    fn wait_probe_timeout(
        &self,
        from: impl Into<Selector>,
        timeout: Duration,
    ) -> Result<Option<Status>>
    where
        Self: Sized,
    {
        let selector = from.into();
        poll_within(self, timeout, || self.peek(&selector))
    }

    /// Takes a fitting message, if one has arrived, so that no other receive can match it.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let myself = endpoint.myself();
    /// endpoint.send(myself, 7, b"hello")?;
    /// if let Some(claimed) = endpoint.matched_probe((myself, 7))? {
    ///     assert_eq!(claimed.recv_vec()?, b"hello");
    /// }
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`probe`](Self::probe).
    fn matched_probe(&self, from: impl Into<Selector>) -> Result<Option<Claimed<'_, Self>>>
    where
        Self: Sized,
    {
        let claimed = self.claim(&from.into())?;
        Ok(claimed.map(|(status, id)| Claimed::new(self, status, id)))
    }

    /// Waits until a fitting message has arrived, and takes it, so that no other receive can match
    /// it.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint, Selector};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// endpoint.send(endpoint.myself(), 7, b"hello")?;
    /// let claimed = endpoint.wait_matched_probe(Selector::any())?;
    /// assert_eq!(claimed.recv_vec()?, b"hello");
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`probe`](Self::probe).
    fn wait_matched_probe(&self, from: impl Into<Selector>) -> Result<Claimed<'_, Self>>
    where
        Self: Sized,
    {
        let selector = from.into();
        let claim = || self.claim(&selector);
        let (status, id) = poll_until(self, "wait_matched_probe", &selector, claim)?;
        Ok(Claimed::new(self, status, id))
    }

    /// As [`wait_matched_probe`](Self::wait_matched_probe); `None` if no fitting message arrives
    /// within the time.
    ///
    /// ```
    /// use core::time::Duration;
    ///
    /// use limic::{Endpoint, HybridEndpoint, Selector};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let late = endpoint.wait_matched_probe_timeout(Selector::any(), Duration::from_millis(1))?;
    /// assert!(late.is_none());
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`probe`](Self::probe).
    fn wait_matched_probe_timeout(
        &self,
        from: impl Into<Selector>,
        timeout: Duration,
    ) -> Result<Option<Claimed<'_, Self>>>
    where
        Self: Sized,
    {
        let selector = from.into();
        let claimed = poll_within(self, timeout, || self.claim(&selector))?;
        Ok(claimed.map(|(status, id)| Claimed::new(self, status, id)))
    }

    /// Lends a buffer of `len` bytes in shared memory that the receiver maps too, to be filled and
    /// sent without a copy.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let myself = endpoint.myself();
    /// let mut loan = endpoint.loan(5)?;
    /// loan.copy_from_slice(b"hello");
    /// loan.send(myself, 7)?;
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoMemory`](crate::Error::NoMemory) names the limit; receivers that hold loans are
    /// part of it.
    #[inline(always)]
    fn loan(&self, len: usize) -> Result<Loan<'_, Self>>
    where
        Self: Sized,
    {
        Loan::new(self, len)
    }

    /// A buffer of `len` bytes, all 0, that peers on this node may read: a message out of it, or
    /// out of any slice of it, is copied once, by its receiver. It is sent as any slice is, as
    /// often as wanted; [`heap`](crate::heap) says what peers see.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let mut buffer = endpoint.buffer(1 << 20)?;
    /// buffer[..5].copy_from_slice(b"hello");
    /// endpoint.send(endpoint.myself(), 7, &buffer[..5])?;
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoMemory`](crate::Error::NoMemory).
    fn buffer(&self, len: usize) -> Result<Buffer> {
        Buffer::new(len).ok_or_else(|| Error::NoMemory(format!("a buffer of {len} bytes")))
    }

    /// Waits for a message and takes it where it lies: without a copy if it was sent as a [`Loan`].
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let myself = endpoint.myself();
    /// endpoint.send(myself, 7, b"hello")?;
    /// assert_eq!(endpoint.recv_loaned((myself, 7))?.to_vec(), b"hello");
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    #[inline(always)]
    fn recv_loaned(&self, from: impl Into<Selector>) -> Result<Loaned>
    where
        Self: Sized,
    {
        self.take_loan_blocking(&from.into()).map(Loaned::new)
    }

    /// As [`recv_loaned`](Self::recv_loaned); `None` if no fitting message arrives within the time.
    ///
    /// ```
    /// use core::time::Duration;
    ///
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let myself = endpoint.myself();
    /// let late = endpoint.recv_loaned_timeout((myself, 7), Duration::from_millis(1))?;
    /// assert!(late.is_none());
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    fn recv_loaned_timeout(
        &self,
        from: impl Into<Selector>,
        timeout: Duration,
    ) -> Result<Option<Loaned>>
    where
        Self: Sized,
    {
        let selector = from.into();
        let taken = poll_within(self, timeout, || self.take_loan(&selector))?;
        Ok(taken.map(Loaned::new))
    }

    /// Exposes memory, so that peers that are given its key can read and write it without this
    /// side's help.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let myself = endpoint.myself();
    /// let region = endpoint.region(vec![0; 1 << 20])?;
    /// endpoint.send(myself, 7, &region.key().0.to_le_bytes())?; // A peer with the key has access.
    /// let memory = region.revoke()?;
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoMemory`](crate::Error::NoMemory) if the table of regions is full.
    fn region(&self, memory: impl OwnedBytes) -> Result<Region<'_, Self>>
    where
        Self: Sized,
    {
        Region::new(self, memory.into_vec())
    }

    /// Reads from a region of a peer.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let myself = endpoint.myself();
    /// let region = endpoint.region(b"some bytes".to_vec())?;
    /// let mut found = [0; 5];
    /// endpoint.read(myself, region.key(), 5, &mut found)?;
    /// assert_eq!(&found, b"bytes");
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownRegion`](crate::Error::UnknownRegion),
    /// [`Error::OutOfRegion`](crate::Error::OutOfRegion),
    /// [`Error::PeerFailed`](crate::Error::PeerFailed).
    fn read(&self, peer: Peer, key: RegionKey, offset: u64, into: &mut [u8]) -> Result<()> {
        // SAFETY: as in `recv`.
        let posted = unsafe { self.post_read(peer, key.0, offset, &[RawSliceMut::from(into)]) }?;
        finish(self, posted).map(|_| ())
    }

    /// Writes to a region of a peer; when it returns, the bytes are in place.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let myself = endpoint.myself();
    /// let region = endpoint.region(vec![0; 10])?;
    /// endpoint.write(myself, region.key(), 5, b"bytes")?;
    /// assert_eq!(&region.revoke()?[5..], b"bytes");
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`read`](Self::read).
    fn write(&self, peer: Peer, key: RegionKey, offset: u64, from: &[u8]) -> Result<()> {
        // SAFETY: as in `send`.
        let posted = unsafe { self.post_write(peer, key.0, offset, &[RawSlice::from(from)]) }?;
        finish(self, posted).map(|_| ())
    }

    /// Starts a read from a region of a peer into a buffer that it takes, and gives back at
    /// completion. [`Scope::iread`] reads into a borrowed one.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let myself = endpoint.myself();
    /// let region = endpoint.region(b"some bytes".to_vec())?;
    /// let read = endpoint.iread(myself, region.key(), 5, vec![0; 5])?;
    /// let (_, found) = read.wait()?;
    /// assert_eq!(found, b"bytes");
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`read`](Self::read).
    fn iread(
        &self,
        peer: Peer,
        key: RegionKey,
        offset: u64,
        into: impl OwnedBytes,
    ) -> Result<OwnedRecv<'_, Self>>
    where
        Self: Sized,
    {
        OwnedRecv::start_read(self, peer, key, offset, into.into_vec())
    }

    /// Starts a write of a buffer that it takes to a region of a peer, and gives it back when the
    /// bytes are in place. [`Scope::iwrite`] writes a borrowed one.
    ///
    /// ```
    /// use limic::{Endpoint, HybridEndpoint};
    ///
    /// let endpoint = HybridEndpoint::open()?;
    /// let myself = endpoint.myself();
    /// let region = endpoint.region(vec![0; 10])?;
    /// let write = endpoint.iwrite(myself, region.key(), 5, b"bytes".to_vec())?;
    /// write.wait()?;
    /// assert_eq!(&region.revoke()?[5..], b"bytes");
    /// # Ok::<(), limic::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`read`](Self::read).
    fn iwrite(
        &self,
        peer: Peer,
        key: RegionKey,
        offset: u64,
        from: impl OwnedBytes,
    ) -> Result<OwnedSend<'_, Self>>
    where
        Self: Sized,
    {
        OwnedSend::start_write(self, peer, key, offset, from.into_vec())
    }
}

/// The slices of one message.
///
/// # Errors
/// Together they are longer than any memory: a list may name the same bytes again and again.
pub(crate) fn slices_of<'a>(data: impl Iterator<Item = &'a [u8]>) -> Result<Vec<RawSlice>> {
    let mut total = 0_usize;
    let slices = data.map(|slice| {
        total = total.saturating_add(slice.len());
        RawSlice::from(slice)
    });
    let slices = slices.collect();
    if total > isize::MAX as usize {
        return Err(Error::system("a message in slices", Errno::MSGSIZE));
    }
    Ok(slices)
}
