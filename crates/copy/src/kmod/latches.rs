//! The latches of a session: words in memory that it shares with the module, by which it opens and
//! shuts what it exposed without a call.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::os::fd::{AsRawFd, BorrowedFd};

use super::abi::{self, LATCHES, LatchWords};
use super::mark::Mark;
use super::session::Session;

/// The mapping, and what each latch is in front of.
///
/// # Invariants
/// `base` is a mapping of the session's latches, in the process in which `mark` is set. The module
/// and this process write them, by atomics alone.
#[derive(Debug)]
pub(crate) struct Latches {
    base: NonNull<LatchWords>,
    mark: Mark,
    /// Handles of the exposures, 0 where there is none.
    handles: [AtomicU64; LATCHES],
    /// Whether somebody decides which buffer has which latch; there must not be two.
    lent: AtomicBool,
}

// SAFETY: the mapping is of the process and not of a thread, and all accesses are atomic.
unsafe impl Send for Latches {}
// SAFETY: as for Send.
unsafe impl Sync for Latches {}

impl Latches {
    /// Maps them. The error is an errno.
    pub(crate) fn map(device: BorrowedFd<'_>) -> Result<Self, i32> {
        let mark = Mark::make()?;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                abi::LATCH_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                device.as_raw_fd(),
                abi::LATCH_OFFSET,
            )
        };
        match NonNull::new(base).filter(|base| base.as_ptr() != libc::MAP_FAILED) {
            // INVARIANT: just mapped, in this process.
            Some(base) => Ok(Self {
                base: base.cast(),
                mark,
                handles: [const { AtomicU64::new(0) }; LATCHES],
                lent: AtomicBool::new(false),
            }),
            None => Err(nix::errno::Errno::last_raw()),
        }
    }

    /// Lends them to one that asks, until [`give_back`](Self::give_back); false if somebody has
    /// them.
    pub(crate) fn lend(&self) -> bool {
        // Acquire: pairs with the release in `give_back`, before which the last one wrote the
        // handles.
        !self.lent.swap(true, Ordering::Acquire)
    }

    pub(crate) fn give_back(&self) {
        // Release: pairs with the acquire in `lend`.
        self.lent.store(false, Ordering::Release);
    }

    /// `None` in a forked child, and for a latch that there is not.
    #[inline]
    fn words(&self, index: usize) -> Option<&LatchWords> {
        if index >= LATCHES || !self.mark.is_mine() {
            return None;
        }
        // SAFETY: by the invariant there are so many of them, which are all atomics.
        Some(unsafe { self.base.add(index).as_ref() })
    }

    /// Opens a latch for one message more; false if it is struck. One locked instruction, in a line
    /// that this processor has had since it last shut the latch.
    #[inline]
    pub(crate) fn open(&self, index: usize) -> bool {
        let more = |open: u32| (open & abi::LATCH_STRUCK == 0).then(|| open + 1);
        // SeqCst, as `shut`; a peer learns of the message behind it.
        self.words(index).is_some_and(|words| {
            words
                .open
                .fetch_update(Ordering::SeqCst, Ordering::Relaxed, more)
                .is_ok()
        })
    }

    /// Shuts it for one message. False if the exposure has to be revoked, so that nobody touches
    /// the buffer any more, or since its memory has changed. One locked instruction, in a line that
    /// comes back from the receiver's processor, where the module counted in it.
    #[inline]
    pub(crate) fn shut(&self, index: usize) -> bool {
        let Some(words) = self.words(index) else {
            return true;
        };
        // SeqCst, and so is the load: pairs with the module, which counts itself in and then looks
        // whether it is open.
        match words.open.fetch_sub(1, Ordering::SeqCst) {
            // Also acquire: pairs with the release of whoever leaves.
            1 => words.inside.load(Ordering::SeqCst) == 0,
            before => before & !abi::LATCH_STRUCK != 1,
        }
    }

    /// Keeps a latch that is shut from being opened again; false if it is open.
    fn strike(&self, index: usize) -> bool {
        let Some(words) = self.words(index) else {
            return false;
        };
        let struck =
            words
                .open
                .compare_exchange(0, abi::LATCH_STRUCK, Ordering::Relaxed, Ordering::Relaxed);
        matches!(struck, Ok(_) | Err(abi::LATCH_STRUCK))
    }

    /// Notes what a latch is in front of.
    pub(crate) fn put(&self, index: usize, handle: u64) {
        if let Some(place) = self.handles.get(index) {
            place.store(handle, Ordering::Relaxed);
        }
    }

    fn take(&self, index: usize) -> u64 {
        let place = self.handles.get(index);
        place.map_or(0, |place| place.swap(0, Ordering::Relaxed))
    }

    /// What it is in front of.
    pub(crate) fn handle(&self, index: usize) -> u64 {
        let place = self.handles.get(index);
        place.map_or(0, |place| place.load(Ordering::Relaxed))
    }

    /// Whether an exposure behind it can be ended: no message is under way.
    pub(crate) fn is_shut(&self, index: usize) -> bool {
        self.words(index)
            .is_some_and(|words| words.open.load(Ordering::Relaxed) & !abi::LATCH_STRUCK == 0)
    }

    /// Whether it cannot be opened any more.
    pub(crate) fn is_struck(&self, index: usize) -> bool {
        self.words(index)
            .is_some_and(|words| words.open.load(Ordering::Relaxed) & abi::LATCH_STRUCK != 0)
    }
}

impl Session {
    /// Ends the exposure behind a latch that is shut. False if there is none, or if it is open.
    pub(crate) fn empty(&self, index: usize) -> bool {
        let Some(latches) = &self.latches else {
            return false;
        };
        if !latches.strike(index) {
            return false;
        }
        let handle = latches.take(index);
        // One whose memory has changed may be gone by itself.
        handle != 0 && self.revoke(handle).is_ok()
    }

    /// Ends what is exposed and shut, so that its memory is not locked any more. True if there was
    /// something.
    pub(crate) fn empty_all(&self) -> bool {
        let mut some = false;
        for index in 0..LATCHES {
            some |= self.empty(index);
        }
        some
    }
}

impl Drop for Latches {
    fn drop(&mut self) {
        if self.mark.is_mine() {
            // SAFETY: the mapping of the invariant, to which nobody else has a reference.
            unsafe { libc::munmap(self.base.as_ptr().cast(), abi::LATCH_BYTES) };
        }
    }
}
