//! Work requests: what an adapter is asked to do.

use crate::sys;

use super::memory::Registration;

/// A slice of registered memory of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalSlice {
    /// First byte.
    pub start: u64,
    /// Bytes.
    pub len: u32,
    /// [`Registration::local_key`].
    pub key: u32,
}

impl LocalSlice {
    /// `len` bytes from offset `at` of a registration. `None` if they lie outside.
    #[must_use]
    pub fn of(registration: &Registration, at: usize, len: usize) -> Option<Self> {
        let inside = at <= registration.len() && len <= registration.len() - at;
        inside.then_some(())?;
        Some(Self {
            start: registration.start() + at as u64,
            len: u32::try_from(len).ok()?,
            key: registration.local_key(),
        })
    }

    pub(super) fn raw(self) -> sys::ibv_sge {
        sys::ibv_sge {
            addr: self.start,
            length: self.len,
            lkey: self.key,
        }
    }
}

/// Memory of the peer, by the key that the peer gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteMemory {
    /// First byte, as the peer counts.
    pub start: u64,
    /// The peer's [`Registration::remote_key`].
    pub key: u32,
}

/// What a work request of the send queue does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendKind {
    /// Fills a receive of the peer.
    Send,
    /// Writes into the peer's memory.
    Write(RemoteMemory),
    /// Reads the peer's memory.
    Read(RemoteMemory),
}

/// A work request for the send queue.
#[derive(Clone, Copy, Debug)]
pub struct SendWork<'a> {
    /// Comes back in the completion.
    pub id: u64,
    /// What to do.
    pub kind: SendKind,
    /// The bytes, in this order.
    pub slices: &'a [LocalSlice],
    /// The adapter takes the bytes during the post (no more than the queue pair's inline room): the
    /// memory is free at once and its keys do not count.
    pub inline: bool,
    /// A completion is wanted. Without one, the request is known to be over when a later one
    /// completes.
    pub signalled: bool,
}
