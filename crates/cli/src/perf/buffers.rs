//! The memory that messages are sent from and received into.

use limic::Error;

/// Start of a pool: on a page, as applications' large arrays are.
const ALIGNMENT: usize = 4096;

/// Memory that grows to what a measurement needs and is then used again.
#[derive(Debug, Default)]
pub(super) struct Pool {
    bytes: Vec<u8>,
}

/// One rank's memory.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    pub(super) send: Pool,
    pub(super) receive: Pool,
}

impl Pool {
    /// The first `len` bytes, touched, beginning on a page.
    pub(super) fn take(&mut self, len: usize) -> limic::Result<&mut [u8]> {
        let needed = len.saturating_add(ALIGNMENT);
        if self.bytes.len() < needed {
            // The old content has no use: not copied.
            self.bytes = Vec::new();
            let room = self.bytes.try_reserve_exact(needed);
            room.map_err(|_| Error::NoMemory(format!("{needed} bytes for messages")))?;
            // Not 0: pages of 0 may all be the same one until they are written.
            self.bytes.resize(needed, 1);
        }
        let start = self.start();
        Ok(&mut self.bytes[start..start + len])
    }

    /// The same bytes, which were taken before.
    #[inline(always)]
    pub(super) fn bytes(&self, len: usize) -> &[u8] {
        let start = self.start();
        &self.bytes[start..start + len]
    }

    /// The same bytes, which were taken before, to be written.
    #[inline(always)]
    pub(super) fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        let start = self.start();
        &mut self.bytes[start..start + len]
    }

    #[inline(always)]
    fn start(&self) -> usize {
        self.bytes.as_ptr().align_offset(ALIGNMENT) % ALIGNMENT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_begin_on_a_page_and_refuse_the_absurd() {
        let mut pool = Pool::default();
        for len in [0, 1, 5000, 100] {
            let bytes = pool.take(len).unwrap();
            assert_eq!((bytes.len(), bytes.as_ptr().addr() % ALIGNMENT), (len, 0));
        }
        assert!(matches!(pool.take(usize::MAX), Err(Error::NoMemory(_))));
    }
}
