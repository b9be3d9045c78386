//! What a session's owner sees without a trap: the memory in which the module shows how requests
//! end.

use core::ffi::c_void;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use std::os::fd::AsRawFd;

use super::abi::{self, SlotStatus, StatusHeader};
use super::mark::Mark;
use super::session::Session;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// 0, or the errno of `limic.h`: EMSGSIZE, ECANCELED, EPIPE, EFAULT.
    pub errno: i32,
    /// Bytes delivered.
    pub len: u64,
    /// Bytes of the message.
    pub full_len: u64,
    /// The message's tag.
    pub tag: u64,
    /// The sender's rank.
    pub source: u32,
    /// The word that came beside the bytes.
    pub immediate: Option<u64>,
}

/// Counts of what others did to a session. They wrap; a difference means that something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct News {
    /// Requests that others' calls have completed.
    pub completions: u32,
    /// Messages that joined the unexpected queue.
    pub arrivals: u32,
    /// Members of the group that left.
    pub departures: u32,
}

/// The mapping.
///
/// # Invariants
/// `base` is a mapping of `bytes` bytes of the session's status area: a header and `slots` slots,
/// whose layout `abi` has, in the process in which `mark` is set. The module writes it, this
/// process cannot.
#[derive(Debug)]
pub(crate) struct StatusArea {
    base: NonNull<c_void>,
    bytes: usize,
    slots: u32,
    mark: Mark,
}

// SAFETY: the mapping is of the process and not of a thread, and is read by atomics alone.
unsafe impl Send for StatusArea {}
// SAFETY: as for Send.
unsafe impl Sync for StatusArea {}

impl StatusArea {
    /// Maps it. The error is an errno.
    pub(crate) fn map(session: &Session, slots: u32) -> Result<Self, i32> {
        let bytes = usize::try_from(session.status_bytes).unwrap_or(0);
        let needed = size_of::<StatusHeader>() + slots as usize * size_of::<SlotStatus>();
        if needed > bytes {
            return Err(libc::EINVAL);
        }
        let mark = Mark::make()?;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                bytes,
                libc::PROT_READ,
                libc::MAP_SHARED,
                session.descriptor().as_raw_fd(),
                0,
            )
        };
        match NonNull::new(base).filter(|base| base.as_ptr() != libc::MAP_FAILED) {
            // INVARIANT: just mapped, and long enough.
            Some(base) => Ok(Self {
                base,
                bytes,
                slots,
                mark,
            }),
            None => Err(nix::errno::Errno::last_raw()),
        }
    }

    /// Loads of three words in one cache line that the module writes, and of one that nobody does.
    /// Nothing in a forked child.
    #[inline]
    pub(crate) fn news(&self) -> News {
        if !self.mark.is_mine() {
            return News::default();
        }
        // SAFETY: by the invariant the header lies there, in memory that is all atomics.
        unsafe { self.base.cast::<StatusHeader>().as_ref() }.news()
    }

    /// How the request in a slot ended; `None` while it is pending. One cache line.
    #[inline]
    pub(crate) fn ended(&self, slot: u32) -> Option<Ended> {
        if slot >= self.slots || !self.mark.is_mine() {
            return None;
        }
        // SAFETY: by the invariant there are `slots` of them, behind the header, which is as long
        // as one.
        let status = unsafe {
            let first = self.base.cast::<SlotStatus>();
            first.add(1 + slot as usize).as_ref()
        };
        status.ended()
    }
}

impl StatusHeader {
    #[inline]
    fn news(&self) -> News {
        // Acquire: pairs with the module, which counts, in full order, behind what it counts. Who
        // sees a count and not yet what was counted would wait for the next one.
        News {
            completions: self.completions.load(Ordering::Acquire),
            arrivals: self.arrivals.load(Ordering::Acquire),
            departures: self.departures.load(Ordering::Acquire),
        }
    }
}

impl SlotStatus {
    #[inline]
    fn ended(&self) -> Option<Ended> {
        // Acquire: pairs with the module's release, which it stores behind the rest.
        if self.state.load(Ordering::Acquire) != abi::DONE {
            return None;
        }
        let immediate = self.flags.load(Ordering::Relaxed) & abi::STATUS_IMMEDIATE != 0;
        Some(Ended {
            errno: -self.error.load(Ordering::Relaxed),
            len: self.len.load(Ordering::Relaxed),
            full_len: self.full_len.load(Ordering::Relaxed),
            tag: self.tag.load(Ordering::Relaxed),
            source: self.source.load(Ordering::Relaxed),
            immediate: immediate.then(|| self.immediate.load(Ordering::Relaxed)),
        })
    }
}

impl Drop for StatusArea {
    fn drop(&mut self) {
        if self.mark.is_mine() {
            // SAFETY: the mapping of the invariant, to which nobody else has a reference.
            unsafe { libc::munmap(self.base.as_ptr(), self.bytes) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Miri and weakly ordered processors show old words where the order allows it.
    #[test]
    fn a_request_that_was_counted_shows_as_over() {
        for _ in 0..100 {
            let (header, status) = (StatusHeader::default(), SlotStatus::default());
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    // As the module does it.
                    status.len.store(7, Ordering::Relaxed);
                    status.state.store(abi::DONE, Ordering::Release);
                    header.completions.fetch_add(1, Ordering::SeqCst);
                });
                while header.news().completions == 0 {
                    std::thread::yield_now();
                }
                assert_eq!(status.ended().map(|ended| ended.len), Some(7));
            });
        }
    }
}
