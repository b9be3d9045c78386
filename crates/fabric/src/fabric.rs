//! The trait.

use core::fmt::Debug;
use core::time::Duration;
use std::os::fd::BorrowedFd;

use crate::{
    Arrivals, ConnectionFailure, ConnectionId, Counts, Event, Form, Limits, Part, SendRefused,
};

/// A range of a peer's memory, with the word of keys that the peer gave ([`Fabric::offer`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteRange {
    /// First byte as the peer counts.
    pub start: u64,
    /// What gives access; never 0.
    pub keys: u64,
}

/// A part of a message where it lies in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// First byte.
    pub start: *const u8,
    /// Bytes.
    pub len: usize,
}

/// Stretches of a message that one call of the kernel writes.
pub const MOST_STRETCHES: usize = 8;

/// All connections of one endpoint over one network.
///
/// An endpoint has an id and a secret. Whoever shows the secret is let in, and nothing else that it
/// says is believed before.
pub trait Fabric: Debug + Send {
    /// Where peers reach this endpoint.
    fn part(&self) -> Part;

    /// Whether the endpoint at this place is of the same network.
    fn reaches(&self, to: &Part) -> bool {
        to.network() == self.part().network()
    }

    /// What peers are told when they are connected.
    fn set_hello(&mut self, hello: Vec<u8>);

    /// Begins a connection with the endpoint of this id, or gives the one that there is.
    /// [`Event::Connected`] or [`Event::Failed`] follows.
    ///
    /// # Errors
    /// The place is not one of this network, or this side has no room for a connection.
    fn connect(
        &mut self,
        to: &Part,
        id: u64,
        secret: u64,
    ) -> Result<ConnectionId, ConnectionFailure>;

    /// Ends a connection at once. No event tells of it; its reads are over, and nothing touches
    /// their memory any more.
    fn disconnect(&mut self, connection: ConnectionId);

    /// Whether a connection is ready: messages go at once, as far as there is room.
    fn is_connected(&self, connection: ConnectionId) -> bool;

    /// What a connection takes.
    fn limits(&self, connection: ConnectionId) -> Limits;

    /// Sends a message, whose payload `fill` writes. Messages of one connection arrive in the order
    /// sent.
    ///
    /// # Errors
    /// [`SendRefused`]; `fill` was not called then.
    fn send(
        &mut self,
        to: ConnectionId,
        form: Form,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), SendRefused>;

    /// Begins a message: its payload is `head`, a few bytes, and then `data`, or more if the form
    /// says so. Gives how many bytes of `data` have gone. The others follow by
    /// [`go_on`](Self::go_on), and nothing else goes on the connection before.
    ///
    /// # Errors
    /// [`SendRefused`]; nothing of it has gone then.
    ///
    /// # Safety
    /// The data can be read during the call.
    #[expect(
        unsafe_code,
        reason = "an implementation reads memory behind the borrow checker"
    )]
    unsafe fn begin(
        &mut self,
        _to: ConnectionId,
        form: Form,
        _head: &[u8],
        _data: &[Stretch],
    ) -> Result<usize, SendRefused> {
        let len = form.len as usize;
        Err(SendRefused::TooLong { len, most: 0 })
    }

    /// Goes on with the message that has begun. Gives how many bytes of `data` have gone.
    ///
    /// # Safety
    /// As [`begin`](Self::begin).
    #[expect(
        unsafe_code,
        reason = "an implementation reads memory behind the borrow checker"
    )]
    unsafe fn go_on(&mut self, _to: ConnectionId, _data: &[Stretch]) -> usize {
        0
    }

    /// Bytes of the message that has begun to go on a connection, which are still to be given.
    fn left_to_go(&self, _to: ConnectionId) -> usize {
        0
    }

    /// Takes bytes of the message that [has begun](Arrivals::begun), as many as are there and have
    /// room; gives their number. [`Event::More`] says when there may be more.
    ///
    /// # Safety
    /// `into` has room for `len` bytes.
    #[expect(
        unsafe_code,
        reason = "an implementation writes memory behind the borrow checker"
    )]
    unsafe fn receive(&mut self, _from: ConnectionId, _into: *mut u8, _len: usize) -> usize {
        0
    }

    /// Says that several messages are sent one after the other now, until
    /// [`uncork`](Self::uncork): they may travel together.
    fn cork(&mut self, to: ConnectionId);

    /// The last of them has been sent.
    fn uncork(&mut self, to: ConnectionId);

    /// Connections on which messages that were taken wait, but for those that were [given
    /// time](Self::gave_time): only [`poll`](Self::poll) sends them.
    fn holding(&self) -> u32;

    /// The peers for which messages wait now had time to make room. They do not count again before
    /// they have.
    fn gave_time(&mut self);

    /// Moves everything on, and gives one event. `None`: nothing is to be told now.
    fn poll(&mut self, arrivals: &mut Arrivals) -> Option<Event>;

    /// Turns of other work between two polls: more than 1 where a poll is a call of the kernel.
    fn poll_every(&self) -> u32 {
        1
    }

    /// The descriptors that become readable when something happens, after [`arm`](Self::arm).
    fn wake_fds(&self) -> Vec<BorrowedFd<'_>>;

    /// Asks for notice of what comes next. Poll once more before sleeping, and sleep no longer than
    /// [`longest_sleep`](Self::longest_sleep).
    ///
    /// # Errors
    /// Says why there will be no notice.
    fn arm(&mut self) -> Result<(), String>;

    /// One of the descriptors is readable: the next [`poll`](Self::poll) looks at everything.
    fn notice(&mut self) {}

    /// How long a sleeper may sleep before it has to [`poll`](Self::poll). `None`: until a
    /// descriptor is readable.
    fn longest_sleep(&self) -> Option<Duration>;

    /// Whether threads of the kernel do the work, on processors that pollers want too.
    fn needs_processors(&self) -> bool {
        false
    }

    /// What was moved so far.
    fn counts(&self) -> Counts;

    /// Says goodbye to every peer that is connected, and waits until that has arrived, but
    /// no longer than this.
    fn close(&mut self, within: Duration);

    /// Gives everything up in a process that was forked from the one that uses it. What belongs to
    /// both stays as it is.
    fn leave_to_parent(self: Box<Self>);

    /// Lets peers read `len` bytes at `start`, until [`withdraw`](Self::withdraw) with the same
    /// token. Offered again under one token, it is the same range.
    ///
    /// # Errors
    /// The network has no remote reads, or this memory cannot be read.
    ///
    /// # Safety
    /// The bytes stay mapped until [`withdraw`](Self::withdraw). Peers may read there also later
    /// on, whatever the process has at these addresses.
    #[expect(
        unsafe_code,
        reason = "an implementation reads memory behind the borrow checker"
    )]
    unsafe fn offer(
        &mut self,
        _token: u64,
        _start: *const u8,
        _len: usize,
    ) -> Result<RemoteRange, String> {
        Err(NO_READS.to_owned())
    }

    /// What was offered under this token may go.
    fn withdraw(&mut self, _token: u64) {}

    /// Reads `len` bytes that the peer has offered. [`Event::Transferred`] says when it is over.
    ///
    /// # Errors
    /// The read was not begun.
    ///
    /// # Safety
    /// `into` has room for `len` bytes, which stay mapped and untouched until the event, or until
    /// the connection is over.
    #[expect(
        unsafe_code,
        reason = "an implementation writes memory behind the borrow checker"
    )]
    unsafe fn read(
        &mut self,
        _from: ConnectionId,
        _remote: RemoteRange,
        _into: *mut u8,
        _len: usize,
        _token: u64,
    ) -> Result<(), String> {
        Err(NO_READS.to_owned())
    }
}

const NO_READS: &str = "this network has no remote reads";
