//! How a process knows that it is not a forked child of the one that mapped something.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

/// A word that is 1 in the process that made it, and 0 in its forked children, which do not have
/// the mapping.
///
/// # Invariants
/// It lies in a page of its own, which the kernel wipes on fork.
#[derive(Debug)]
pub(crate) struct Mark(NonNull<AtomicU32>);

/// Bytes mapped for the word: a page, of whatever size.
const MARK_BYTES: usize = 4096;

impl Mark {
    pub(crate) fn make() -> Result<Self, i32> {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let page = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                MARK_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        let mapped = NonNull::new(page).filter(|page| page.as_ptr() != libc::MAP_FAILED);
        let mark = Self(mapped.ok_or_else(nix::errno::Errno::last_raw)?.cast());
        // SAFETY: the page that was just mapped.
        if unsafe { libc::madvise(page, MARK_BYTES, libc::MADV_WIPEONFORK) } != 0 {
            return Err(nix::errno::Errno::last_raw());
        }
        // SAFETY: mapped, aligned, zeroed, and all accesses are atomic.
        unsafe { mark.0.as_ref() }.store(1, Ordering::Relaxed);
        Ok(mark)
    }

    #[inline(always)]
    pub(crate) fn is_mine(&self) -> bool {
        // SAFETY: by the invariant it is mapped, in children too.
        unsafe { self.0.as_ref() }.load(Ordering::Relaxed) != 0
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        // SAFETY: the mapping of the invariant, to which nobody else has a reference.
        unsafe { libc::munmap(self.0.as_ptr().cast(), MARK_BYTES) };
    }
}

// SAFETY: the mapping is of the process and not of a thread, and is read by atomics alone.
unsafe impl Send for Mark {}
// SAFETY: as for Send.
unsafe impl Sync for Mark {}
