//! What an explanation is asked for: a message, its receiver, and what went before.

use limic_fabric::Limits;

use super::{Capabilities, Locality, ReceiverPace};

/// What has gone between two endpoints before a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum History {
    /// Nothing is known: the first message, or one at a time one way before their receives.
    OneWay,
    /// Messages as long went one way, many at a time or each behind its receive, until no other
    /// path was to be tried for them.
    Stream,
    /// Messages as long went to and fro, as in a ping-pong: this one is a reply to the last.
    Reply,
}

/// The memory that a message lies in before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SendMemory {
    /// The process's own.
    Private,
    /// Memory that peers may read (`limic::Buffer`).
    PeerReadable,
    /// A loan: memory of the endpoint that changes hands (`limic::Loan`).
    Loan,
}

/// How the receiver of a message is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// Through shared memory; or it is the sender itself.
    Near {
        /// How far away it is.
        locality: Locality,
        /// How it keeps up.
        pace: ReceiverPace,
        /// What the pair can do.
        capabilities: Capabilities,
    },
    /// Over a network with these limits.
    Network(Limits),
    /// By the kernel module, which matches the message.
    Module,
}

/// What an explanation is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Length of the message in bytes.
    pub bytes: u64,
    /// Slices that they lie in.
    pub slices: usize,
    /// The memory that they lie in.
    pub memory: SendMemory,
    /// Its receiver, into one slice.
    pub receiver: Receiver,
    /// What went before.
    pub history: History,
}

impl Question {
    /// A question about the first message, in one slice of private memory.
    #[must_use]
    pub const fn new(bytes: u64, receiver: Receiver) -> Self {
        Self {
            bytes,
            slices: 1,
            memory: SendMemory::Private,
            receiver,
            history: History::OneWay,
        }
    }

    /// A question about the first message to a receiver that keeps up, for a pair that can do
    /// everything.
    #[must_use]
    pub const fn near(bytes: u64, locality: Locality) -> Self {
        let receiver = Receiver::Near {
            locality,
            pace: ReceiverPace::Steady,
            capabilities: Capabilities::ALL,
        };
        Self::new(bytes, receiver)
    }
}
