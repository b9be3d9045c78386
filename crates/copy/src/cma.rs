//! Cross-memory attach: `process_vm_readv(2)` and `process_vm_writev(2)`.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::evidence::Evidence;
use crate::transfer::{Direction, Kernel, Stopped, read_word, transfer};
use crate::window::Span;
use crate::{
    Access, CopyEngine, CopyError, LocalSlice, LocalSliceMut, RefusalReason, Refused, RemoteRange,
};

/// The engine over cross-memory attach. It has no state: exposing costs nothing, and a
/// [`RemoteRange`] is an address in the owner with key 0.
///
/// The kernel asks whether this process may ptrace the peer, not whether the peer consented to
/// this copy: who may attach may read and write all of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cma;

/// A process whose memory this one could read when it was probed.
///
/// It names the process by its pid, which another process may be given some time after its owner
/// ended. Each read takes the [`ProbeWord`] along, so it fails where that is not the peer's. A
/// write cannot find out: hold a pidfd of the peer, and write no more when that says that it has
/// ended.
#[derive(Clone, PartialEq, Eq)]
pub struct CmaPeer {
    pub(crate) pid: i32,
    /// Where the word lies in the peer.
    pub(crate) word: usize,
    /// What it holds.
    pub(crate) value: u64,
}

impl fmt::Debug for CmaPeer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The value is a secret of the two.
        let mut it = formatter.debug_struct("CmaPeer");
        it.field("pid", &self.pid).finish_non_exhaustive()
    }
}

impl CmaPeer {
    /// The peer's pid, as this process's pid namespace counts.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }
}

/// A random word at a fixed address, by which peers make sure that a pid names this process.
///
/// Keep it for as long as peers may probe or read; publish address and value at the hand-shake.
#[derive(Debug)]
pub struct ProbeWord {
    // Boxed so that it does not move with its owner. Atomic because the kernel reads it while
    // other code holds references to it.
    word: Box<AtomicU64>,
}

impl ProbeWord {
    /// A word that holds `value`: 64 random bits, so that no other process holds it by chance.
    #[must_use]
    pub fn new(value: u64) -> Self {
        Self {
            word: Box::new(AtomicU64::new(value)),
        }
    }

    /// Its address in this process.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.word.as_ptr().expose_provenance() as u64
    }

    /// Its value.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.word.load(Relaxed)
    }
}

impl Cma {
    /// Tries to read the peer's [`ProbeWord`]: 8 bytes at `address` of process `pid`, which must
    /// be `expected`. One system call if all is well.
    ///
    /// Permission is not symmetric: each side probes the other.
    ///
    /// # Errors
    /// [`Refused`] with the reason and what to do: no permission, no such process, or a process
    /// that is not the peer (its word differs or is not there), as happens across pid namespaces.
    pub fn probe(pid: i32, address: u64, expected: u64) -> Result<CmaPeer, Refused> {
        // pid 0 or less would be answered with ESRCH; without a call the reason is plainer.
        if pid <= 0 {
            let reason = RefusalReason::InvalidPid { pid };
            return Err(Refused {
                errno: None,
                reason,
            });
        }
        let wrong = Refused {
            errno: None,
            reason: RefusalReason::WrongProcess { pid },
        };
        let Ok(word) = usize::try_from(address) else {
            return Err(wrong);
        };
        match read_word(&Kernel, pid, word) {
            Ok(Some(value)) if value == expected => Ok(CmaPeer { pid, word, value }),
            Ok(_) => Err(wrong),
            Err(errno) => Err(refused(errno, pid)),
        }
    }

    /// Moves the bytes and words what went wrong.
    ///
    /// # Safety
    /// As [`CopyEngine::read_at`] and [`CopyEngine::write_at`].
    unsafe fn copy<L: Span>(
        direction: Direction,
        peer: &CmaPeer,
        remote: &[RemoteRange],
        local: &[L],
        skip: u64,
        limit: u64,
    ) -> Result<u64, CopyError> {
        // SAFETY: the caller's promise, passed on.
        let result = unsafe { transfer(&Kernel, direction, peer, remote, local, skip, limit) };
        result.map_err(|stopped| match stopped {
            Stopped::Mismatch { remote, local } => CopyError::LengthMismatch { remote, local },
            Stopped::Skip { skip, total } => CopyError::SkipTooLong { skip, total },
            Stopped::Stranger => CopyError::PeerGone,
            Stopped::Errno { errno, copied } => match errno {
                libc::EFAULT => CopyError::BadAddress { copied },
                libc::ESRCH => CopyError::PeerGone,
                libc::EPERM | libc::EACCES | libc::ENOSYS => refused(errno, peer.pid).into(),
                other => CopyError::Other(other),
            },
        })
    }
}

/// A refusal with its reason.
#[cold]
fn refused(errno: i32, pid: i32) -> Refused {
    Refused {
        errno: Some(errno),
        reason: Evidence::collect(errno, pid).reason(),
    }
}

impl CopyEngine for Cma {
    type Peer = CmaPeer;

    fn name(&self) -> &'static str {
        "CMA"
    }

    unsafe fn expose(
        &self,
        local: &[LocalSlice],
        _: Access,
        out: &mut [RemoteRange],
    ) -> Result<usize, CopyError> {
        if out.len() < local.len() {
            return Err(CopyError::ListTooShort {
                have: out.len(),
                need: local.len(),
            });
        }
        for (range, slice) in out.iter_mut().zip(local) {
            let address = slice.pointer().expose_provenance() as u64;
            *range = RemoteRange {
                key: 0,
                address,
                len: slice.len() as u64,
            };
        }
        Ok(local.len())
    }

    fn revoke(&self, _: &[RemoteRange]) -> Result<(), CopyError> {
        // Nothing was opened: the kernel decides by process, not by buffer.
        Ok(())
    }

    unsafe fn read_at(
        &self,
        peer: &CmaPeer,
        remote: &[RemoteRange],
        local: &[LocalSliceMut],
        skip: u64,
        limit: u64,
    ) -> Result<u64, CopyError> {
        // SAFETY: the caller's promise, passed on: `local` is valid for writes.
        unsafe { Self::copy(Direction::Read, peer, remote, local, skip, limit) }
    }

    unsafe fn write_at(
        &self,
        peer: &CmaPeer,
        remote: &[RemoteRange],
        local: &[LocalSlice],
        skip: u64,
        limit: u64,
    ) -> Result<u64, CopyError> {
        // SAFETY: the caller's promise, passed on: `local` is valid for reads.
        unsafe { Self::copy(Direction::Write, peer, remote, local, skip, limit) }
    }
}
