//! Access to memory that peers expose.

use super::{Access, Posted, RawSlice, RawSliceMut, RegionId, Requests};
use crate::{Peer, Result};

/// Exposes memory, and reads and writes that of peers.
pub trait OneSided: Requests {
    /// Exposes memory for reading and writing by peers, under the returned key. The endpoint owns
    /// the memory until [`revoke`](Self::revoke) gives it back.
    ///
    /// # Errors
    /// [`Error::NoMemory`](crate::Error::NoMemory) if the table of regions is full.
    fn expose(&self, memory: Vec<u8>) -> Result<(RegionId, u64)>;

    /// Exposes memory that stays the caller's; [`revoke`](Self::revoke) gives an empty vector for
    /// it. Without a `key`, peers name it by a random one; a key that the caller picks is not 0,
    /// and none of another region. Peers name its first byte by the offset `origin`: 0, or its
    /// address. Its length may reach beyond what is mapped (a whole address space): an access to
    /// memory that is not there then fails, or faults as the owner's own would.
    ///
    /// # Errors
    /// [`Error::KeyInUse`](crate::Error::KeyInUse), and as [`expose`](Self::expose).
    ///
    /// # Safety
    /// What is mapped of the memory may be read and written by others, as `access` says, and nobody
    /// holds a reference to it, until [`revoke`](Self::revoke) has returned.
    unsafe fn expose_raw(
        &self,
        memory: RawSliceMut,
        key: Option<u64>,
        access: Access,
        origin: u64,
    ) -> Result<(RegionId, u64)>;

    /// Copies out of an own region.
    ///
    /// # Errors
    /// [`Error::OutOfRegion`](crate::Error::OutOfRegion),
    /// [`Error::UnknownRequest`](crate::Error::UnknownRequest).
    fn region_read(&self, region: RegionId, offset: u64, into: &mut [u8]) -> Result<()>;

    /// Copies into an own region.
    ///
    /// # Errors
    /// As [`region_read`](Self::region_read).
    fn region_write(&self, region: RegionId, offset: u64, from: &[u8]) -> Result<()>;

    /// Ends the exposure, waits for accesses under way, and returns the memory.
    ///
    /// # Errors
    /// [`Error::UnknownRequest`](crate::Error::UnknownRequest);
    /// [`Error::RegionInUse`](crate::Error::RegionInUse) if nothing of an access moves for ten
    /// seconds, or accesses go on for a minute. No other access begins, and this can be tried
    /// again. A closed endpoint over shared memory knows no regions but those that a peer was
    /// accessing at its end.
    fn revoke(&self, region: RegionId) -> Result<Vec<u8>>;

    /// Ends the exposure as [`revoke`](Self::revoke) does, without waiting: `Ok(None)` while
    /// accesses are under way. No other one begins from the first call on. Calls that follow make
    /// progress, and give the memory or an error in the end. Until they do the endpoint does not
    /// sleep for long, since nobody tells of the end of an access: go on soon.
    ///
    /// # Errors
    /// As [`revoke`](Self::revoke).
    fn try_revoke(&self, region: RegionId) -> Result<Option<Vec<u8>>>;

    /// Starts a read of a peer's region (one-sided).
    ///
    /// # Errors
    /// [`Error::UnknownRegion`](crate::Error::UnknownRegion),
    /// [`Error::OutOfRegion`](crate::Error::OutOfRegion), and as
    /// [`post_send`](super::Messages::post_send).
    ///
    /// # Safety
    /// As [`post_recv`](super::Messages::post_recv).
    unsafe fn post_read(
        &self,
        peer: Peer,
        key: u64,
        offset: u64,
        into: &[RawSliceMut],
    ) -> Result<Posted>;

    /// Starts a write to a peer's region (one-sided). Done means that the bytes are in place.
    ///
    /// # Errors
    /// As [`post_read`](Self::post_read).
    ///
    /// # Safety
    /// As [`post_send`](super::Messages::post_send).
    unsafe fn post_write(
        &self,
        peer: Peer,
        key: u64,
        offset: u64,
        from: &[RawSlice],
    ) -> Result<Posted>;

    /// Whether the peer helps with reads or writes of this endpoint that are not over. Those that
    /// it helps with end in any order.
    fn is_helping(&self, peer: Peer) -> bool;
}
