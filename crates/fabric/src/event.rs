//! What happens at a network.

/// A connection of one fabric. Its number is given to no other one while the connection lasts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct ConnectionId(pub u32);

/// Why a connection is over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionFailure {
    /// The peer was never reached, or does not answer any more.
    #[error("it does not answer ({0}): its process has ended, or the network does not lead there")]
    Unreachable(String),
    /// The connection broke.
    #[error(
        "every connection to it broke ({0}): its process or its node has ended, or the network does not lead there any more"
    )]
    Lost(String),
    /// The peer said goodbye.
    #[error("it closed its endpoint")]
    Closed,
    /// What the peer sent makes no sense.
    #[error("it sent bytes that make no sense ({0})")]
    Corrupt(String),
    /// This process is short of something, and may not be for long: the same may go well later.
    #[error("this process is short of something: {0}")]
    Short(String),
    /// This side could not do its part, at the contact or later.
    #[error("this side could not reach it: {0}")]
    Local(String),
}

/// What [`Fabric::poll`](crate::Fabric::poll) found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A peer is connected; it or this side began.
    Connected {
        /// The connection.
        connection: ConnectionId,
        /// The peer's number.
        peer: u64,
        /// What the peer says of itself.
        hello: Vec<u8>,
    },
    /// Messages have arrived: they are in [`Arrivals`](crate::Arrivals). The last one may
    /// have [begun] only.
    ///
    /// [begun]: crate::Arrivals::begun
    Messages,
    /// More bytes may be there of the message that has begun on this connection, for
    /// [`Fabric::receive`](crate::Fabric::receive).
    More {
        /// The connection.
        connection: ConnectionId,
        /// Bytes of the message that are still to come.
        left: usize,
    },
    /// A read is over.
    Transferred {
        /// What it was started with.
        token: u64,
        /// How it went.
        result: Result<(), TransferError>,
    },
    /// A connection is over. Everything that was on its way has failed, or is unknown.
    Failed {
        /// The connection.
        connection: ConnectionId,
        /// Why.
        why: ConnectionFailure,
    },
}

/// Why a read was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// The peer's adapter refused: the key is not (or no longer) valid, or the range lies outside.
    #[error("the peer's adapter refused access: the memory is not registered (any more)")]
    Refused,
    /// The connection is over.
    #[error("the peer failed: {0}")]
    Failed(ConnectionFailure),
}

/// Why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendRefused {
    /// Not now: the peer is not connected yet, or everything is in use. Try again after
    /// [`Fabric::poll`](crate::Fabric::poll).
    #[error("no room now")]
    Later,
    /// Longer than [`Limits::longest`](crate::Limits::longest).
    #[error("{len} bytes are more than the {most} of a packet")]
    TooLong {
        /// Its bytes.
        len: usize,
        /// The most that fit.
        most: usize,
    },
    /// The connection is over: [`Event::Failed`] says why.
    #[error("the connection is over")]
    Failed,
}

/// What was moved so far. A network without the thing counts none of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages sent in packets.
    pub messages: u64,
    /// Packets that they took: fewer, if some were coalesced.
    pub packets: u64,
    /// Those of the messages that went into a peer's ring.
    pub ring_messages: u64,
    /// Times that a peer was asked to leave its ring here alone, since this endpoint was about to
    /// sleep.
    pub ring_pauses: u64,
    /// Work requests of remote reads.
    pub parts: u64,
    /// Requests that moved from a stream that failed to another.
    pub moved: u64,
    /// Registrations that were found in the cache.
    pub registrations_found: u64,
    /// Those that were not, and were made for it.
    pub registrations_made: u64,
    /// Greetings that were turned away: not of this network, for another endpoint, or without the
    /// secret of this one.
    pub refused: u64,
}

impl core::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.messages += other.messages;
        self.packets += other.packets;
        self.ring_messages += other.ring_messages;
        self.ring_pauses += other.ring_pauses;
        self.parts += other.parts;
        self.moved += other.moved;
        self.registrations_found += other.registrations_found;
        self.registrations_made += other.registrations_made;
        self.refused += other.refused;
    }
}
