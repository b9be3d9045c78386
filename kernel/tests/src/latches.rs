//! The latches of a session, as its owner maps them.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use crate::abi;
use crate::session::{Errno, Session};

/// The mapping, unmapped when dropped.
#[derive(Debug)]
pub struct Latches {
    base: NonNull<AtomicU32>,
}

// SAFETY: the mapping is all atomics.
unsafe impl Send for Latches {}
// SAFETY: as for Send.
unsafe impl Sync for Latches {}

impl Latches {
    /// Maps those of a session.
    ///
    /// # Errors
    /// Of mmap.
    pub fn of(session: &Session) -> Result<Self, Errno> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let base = session.map_at(abi::LATCH_BYTES, access, abi::LATCH_OFFSET)?;
        let base = NonNull::new(base.cast_mut().cast()).ok_or(Errno(libc::EFAULT))?;
        Ok(Self { base })
    }

    /// The counts of a latch: for how many messages it is open, and who is inside.
    fn words(&self, index: u32) -> (&AtomicU32, &AtomicU32) {
        assert!(index < abi::LATCHES);
        // SAFETY: there are so many, of 64 bytes, and all accesses are atomic.
        unsafe {
            let open = self.base.add(index as usize * 16);
            (open.as_ref(), open.add(1).as_ref())
        }
    }

    /// Opens it for one message more; false if it is struck.
    #[must_use]
    pub fn open(&self, index: u32) -> bool {
        let more = |open: u32| (open & abi::LATCH_STRUCK == 0).then(|| open + 1);
        self.words(index)
            .0
            .fetch_update(SeqCst, SeqCst, more)
            .is_ok()
    }

    /// Shuts it for one message. True if the buffer is nobody else's any more, so that nothing
    /// needs to be revoked.
    #[must_use]
    pub fn shut(&self, index: u32) -> bool {
        let (open, inside) = self.words(index);
        let before = open.fetch_sub(1, SeqCst);
        assert_ne!(before & !abi::LATCH_STRUCK, 0, "it was not open");
        before & !abi::LATCH_STRUCK > 1 || inside.load(SeqCst) == 0
    }

    /// Keeps one that is shut from being opened, as its owner may; false if it is open or struck.
    #[must_use]
    pub fn strike(&self, index: u32) -> bool {
        let open = self.words(index).0;
        open.compare_exchange(0, abi::LATCH_STRUCK, SeqCst, SeqCst)
            .is_ok()
    }

    /// Whether it cannot be opened: its memory has changed, or its owner struck it.
    #[must_use]
    pub fn is_struck(&self, index: u32) -> bool {
        self.words(index).0.load(SeqCst) & abi::LATCH_STRUCK != 0
    }

    /// What an owner should not do: writes anything into the words.
    pub fn scribble(&self, index: u32, open: u32, inside: u32) {
        let words = self.words(index);
        words.0.store(open, SeqCst);
        words.1.store(inside, SeqCst);
    }
}

impl Drop for Latches {
    fn drop(&mut self) {
        // SAFETY: its own mapping. In a forked child it is not there, and unmapping nothing is no
        // error.
        unsafe { libc::munmap(self.base.as_ptr().cast(), abi::LATCH_BYTES) };
    }
}
