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
        let header = unsafe { self.base.cast::<StatusHeader>().as_ref() };
        News {
            // Relaxed: what is looked at afterwards is read by an acquire of its own, or asked of
            // the kernel.
            completions: header.completions.load(Ordering::Relaxed),
            arrivals: header.arrivals.load(Ordering::Relaxed),
            departures: header.departures.load(Ordering::Relaxed),
        }
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
        // Acquire: pairs with the module's release, which it stores behind the rest.
        if status.state.load(Ordering::Acquire) != abi::DONE {
            return None;
        }
        let immediate = status.flags.load(Ordering::Relaxed) & abi::STATUS_IMMEDIATE != 0;
        Some(Ended {
            errno: -status.error.load(Ordering::Relaxed),
            len: status.len.load(Ordering::Relaxed),
            full_len: status.full_len.load(Ordering::Relaxed),
            tag: status.tag.load(Ordering::Relaxed),
            source: status.source.load(Ordering::Relaxed),
            immediate: immediate.then(|| status.immediate.load(Ordering::Relaxed)),
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
