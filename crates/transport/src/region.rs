//! One-sided access: memory that peers read and write without this side's help.

use core::fmt;

use crate::raw::RegionId;
use crate::{Endpoint, Error, Result, warning};

/// The key of an exposed region: whoever holds it, and is a peer, may read and write the region.
/// Random, so that it cannot be guessed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RegionKey(pub u64);

impl fmt::Debug for RegionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegionKey(..)")
    }
}

/// Exposed memory. Peers may change its bytes at any time, so it is read and written by copies
/// only.
///
/// Dropping it revokes the exposure, and waits as [`revoke`](Self::revoke) does, also if the
/// endpoint was closed meanwhile. Where that would fail because a peer is in the middle of an
/// access, the memory is never freed, and a warning says so.
pub struct Region<'e, E: Endpoint> {
    endpoint: &'e E,
    id: RegionId,
    key: RegionKey,
    len: u64,
    revoked: bool,
}

impl<E: Endpoint> fmt::Debug for Region<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl<'e, E: Endpoint> Region<'e, E> {
    pub(crate) fn new(endpoint: &'e E, memory: Vec<u8>) -> Result<Self> {
        let len = memory.len() as u64;
        let (id, key) = endpoint.expose(memory)?;
        Ok(Self {
            endpoint,
            id,
            key: RegionKey(key),
            len,
            revoked: false,
        })
    }

    /// What peers need to name it. Send it to them in a message.
    #[must_use]
    pub fn key(&self) -> RegionKey {
        self.key
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies bytes out of the region.
    ///
    /// # Errors
    /// [`Error::OutOfRegion`](crate::Error::OutOfRegion).
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.endpoint.region_read(self.id, offset, into)
    }

    /// Copies bytes into the region.
    ///
    /// # Errors
    /// [`Error::OutOfRegion`](crate::Error::OutOfRegion).
    pub fn write_at(&self, offset: u64, from: &[u8]) -> Result<()> {
        self.endpoint.region_write(self.id, offset, from)
    }

    /// Ends the exposure and gives the memory back, after accesses under way have finished.
    ///
    /// # Errors
    /// [`Error::RegionInUse`] if a peer is stopped in the middle of an access, and nothing of that
    /// moves for ten seconds, or if accesses go on for a minute: the memory is never freed.
    /// [`Error::UnknownRequest`] if the endpoint was closed while no peer accessed the region: its
    /// memory is never freed.
    pub fn revoke(mut self) -> Result<Vec<u8>> {
        self.revoked = true;
        self.endpoint.revoke(self.id)
    }
}

impl<E: Endpoint> Drop for Region<'_, E> {
    fn drop(&mut self) {
        if self.revoked {
            return;
        }
        // Of a closed endpoint there is nothing to revoke, but for what a peer still accesses.
        if let Err(error @ Error::RegionInUse { .. }) = self.endpoint.revoke(self.id) {
            warning::say(&format!(
                "a region of {} bytes is dropped: {error}",
                self.len
            ));
        }
    }
}
