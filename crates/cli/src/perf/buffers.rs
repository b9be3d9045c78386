//! The memory that messages are sent from and received into.

use limic::{Buffer, Error};

/// Start of a pool: on a page, as applications' large arrays are.
const ALIGNMENT: usize = 4096;

/// Memory that grows to what a measurement needs and is then used again.
#[derive(Debug)]
pub(super) struct Pool {
    bytes: Memory,
}

#[derive(Debug)]
enum Memory {
    Private(Vec<u8>),
    /// `None` at first.
    PeerReadable(Option<Buffer>),
}

/// One rank's memory.
#[derive(Debug)]
pub(super) struct Buffers {
    pub(super) send: Pool,
    pub(super) receive: Pool,
}

impl Buffers {
    /// None yet, of memory that is this process's alone.
    pub(super) fn private() -> Self {
        Self {
            send: Pool::private(),
            receive: Pool::private(),
        }
    }

    /// None yet, of memory that peers may read.
    pub(super) fn peer_readable() -> Self {
        Self {
            send: Pool::peer_readable(),
            receive: Pool::peer_readable(),
        }
    }
}

impl Memory {
    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Private(bytes) => bytes,
            Self::PeerReadable(buffer) => buffer.as_deref().unwrap_or_default(),
        }
    }

    #[inline(always)]
    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Private(bytes) => bytes,
            Self::PeerReadable(buffer) => buffer.as_deref_mut().unwrap_or_default(),
        }
    }

    /// So many bytes in place of those that are there.
    fn make(&mut self, len: usize) -> limic::Result<()> {
        let no_memory = || Error::NoMemory(format!("{len} bytes for messages"));
        match self {
            Self::Private(bytes) => {
                // The old content has no use: not copied.
                *bytes = Vec::new();
                bytes.try_reserve_exact(len).map_err(|_| no_memory())?;
                bytes.resize(len, 0);
            }
            Self::PeerReadable(buffer) => {
                *buffer = None;
                *buffer = Some(Buffer::new(len).ok_or_else(no_memory)?);
            }
        }
        // Not 0: pages of 0 may all be the same one until they are written.
        self.bytes_mut().fill(1);
        Ok(())
    }
}

impl Pool {
    /// Nothing yet, of memory that is this process's alone.
    pub(super) fn private() -> Self {
        Self {
            bytes: Memory::Private(Vec::new()),
        }
    }

    /// Nothing yet, of memory that peers may read.
    fn peer_readable() -> Self {
        Self {
            bytes: Memory::PeerReadable(None),
        }
    }

    /// The first `len` bytes, touched, beginning on a page.
    pub(super) fn take(&mut self, len: usize) -> limic::Result<&mut [u8]> {
        let needed = len.saturating_add(ALIGNMENT);
        if self.bytes.bytes().len() < needed {
            self.bytes.make(needed)?;
        }
        Ok(self.bytes_mut(len))
    }

    /// The same bytes, which were taken before.
    #[inline(always)]
    pub(super) fn bytes(&self, len: usize) -> &[u8] {
        let start = self.start();
        &self.bytes.bytes()[start..start + len]
    }

    /// The same bytes, which were taken before, to be written.
    #[inline(always)]
    pub(super) fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        let start = self.start();
        &mut self.bytes.bytes_mut()[start..start + len]
    }

    #[inline(always)]
    fn start(&self) -> usize {
        self.bytes.bytes().as_ptr().align_offset(ALIGNMENT) % ALIGNMENT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_begin_on_a_page_and_refuse_the_absurd() {
        for mut pool in [Buffers::private().send, Buffers::peer_readable().send] {
            for len in [0, 1, 5000, 100] {
                let bytes = pool.take(len).unwrap();
                assert_eq!((bytes.len(), bytes.as_ptr().addr() % ALIGNMENT), (len, 0));
            }
            assert!(matches!(pool.take(usize::MAX), Err(Error::NoMemory(_))));
        }
    }
}
