//! Two endpoints in one thread, connected, each with a private ring to the other.

use std::time::Duration;

use limic::settings::{Path, PathSet, Spin};
use limic::{Endpoint, Error, HybridEndpoint, Peer, Result, Settings, Tag};

/// The tag of all messages here.
pub const TAG: Tag = Tag(7);

/// Messages each way before anything is measured: enough for the hand-shake, for the private rings
/// to be granted, and for every table to have its size.
const ACQUAINTANCE: usize = 300;

/// Of a private ring: room for [`Pair::fill`] with 64 messages of 1 KiB.
const RING_BYTES: u32 = 256 << 10;

/// Two endpoints that have met.
///
/// They are in one thread, so the one that is waited for must have been served before: a blocking
/// receive is given what was sent already.
#[derive(Debug)]
pub struct Pair {
    /// The one that sends.
    pub sender: HybridEndpoint,
    /// The one that receives.
    pub receiver: HybridEndpoint,
    /// The receiver, to the sender.
    pub to: Peer,
    /// The sender, to the receiver.
    pub from: Peer,
}

impl Pair {
    /// Opens both, with settings that do not depend on the machine, and lets them meet.
    ///
    /// # Errors
    /// As [`HybridEndpoint::with`], and those of a send.
    pub fn open() -> Result<Self> {
        let settings = Settings::builder()
            .without_environment()
            .spin(Spin::For(Duration::from_millis(1)))
            .ring_bytes(RING_BYTES)
            // As between two processes.
            .allowed(PathSet::ALL.without(Path::SameProcess))
            .eager_max(64 << 10)
            .build()
            .map_err(|error| Error::Settings(error.to_string()))?;
        let (sender, receiver) = (
            HybridEndpoint::with(settings.clone())?,
            HybridEndpoint::with(settings)?,
        );
        let to = sender.connect(&receiver.address().to_bytes())?;
        let from = receiver.connect(&sender.address().to_bytes())?;
        for _ in 0..ACQUAINTANCE {
            pass(&sender, to, &receiver, from)?;
            pass(&receiver, from, &sender, to)?;
        }
        Ok(Self {
            sender,
            receiver,
            to,
            from,
        })
    }

    /// Sends `count` messages, which wait in the receiver's ring then.
    ///
    /// # Errors
    /// As [`Endpoint::send`].
    pub fn fill(&self, count: usize, message: &[u8]) -> Result<()> {
        (0..count).try_for_each(|_| self.sender.send(self.to, TAG, message))
    }

    /// Receives `count` messages that were sent already.
    ///
    /// # Errors
    /// As [`Endpoint::recv`].
    pub fn empty(&self, count: usize, room: &mut [u8]) -> Result<()> {
        (0..count).try_for_each(|_| self.receiver.recv((self.from, TAG), room).map(drop))
    }

    /// The receiver sends `count` messages, and the sender receives them: so it may answer in the
    /// memory in which they came.
    ///
    /// # Errors
    /// As [`Endpoint::send`] and [`Endpoint::recv`].
    pub fn back(&self, count: usize, message: &[u8], room: &mut [u8]) -> Result<()> {
        (0..count).try_for_each(|_| self.receiver.send(self.from, TAG, message))?;
        (0..count).try_for_each(|_| self.sender.recv((self.to, TAG), room).map(drop))
    }

    /// Moves `count` messages that were sent already into the receiver's unexpected queue.
    pub fn take_in(&self, count: u64) {
        let wanted = self.receiver.counters().unexpected + count;
        while self.receiver.counters().unexpected < wanted {
            self.receiver.progress();
        }
    }
}

/// One message, while both sides get their turns.
fn pass(one: &HybridEndpoint, to: Peer, other: &HybridEndpoint, from: Peer) -> Result<()> {
    let mut send = one.isend(to, TAG, vec![1; 8])?;
    let mut receive = other.irecv((from, TAG), vec![0; 8])?;
    while !(send.test() & receive.test()) {}
    send.wait()?;
    receive.wait().map(drop)
}
