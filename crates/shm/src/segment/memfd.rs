//! The files under segments and arenas: made, reserved and sealed by their
//! owner, examined by everybody else.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fstat,
    fstatfs, ftruncate, memfd_create,
};
use rustix::io::Errno;

use super::limits::Sources;
use super::{MemoryLimit, SegmentError};
use crate::system::{self, Call};

/// The name of segments and arenas.
pub(super) const NAME: &str = "limic";

/// Space is reserved in steps of this: a signal makes the kernel undo the step
/// in which it arrives, so small steps get done even under a profiler's timer.
const STEP: u64 = 1 << 20;

/// A memfd of `bytes` bytes whose space is not reserved yet. The name is for people, in /proc.
pub(super) fn create(name: &str, bytes: u64) -> Result<OwnedFd, SegmentError> {
    if let Some(limit) = Sources::system().obstacle(bytes) {
        return Err(SegmentError::NoMemory { bytes, limit });
    }
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Since Linux 6.3 a memfd should say that it is not meant to be executed,
    // and may have to (vm.memfd_noexec=2); older kernels do not know the flag.
    let fd = match system::call(Call::Open)
        .and_then(|()| memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL))
    {
        Err(Errno::INVAL) => memfd_create(name, flags),
        answer => answer,
    }
    .map_err(|errno| SegmentError::System {
        step: "memfd_create",
        errno,
    })?;
    let fd = system::opened(fd);
    ftruncate(&fd, bytes).map_err(|errno| refused(bytes, "ftruncate", errno))?;
    Ok(fd)
}

/// Reserves the space of all `bytes`, so that no later access can fail.
pub(super) fn reserve(fd: BorrowedFd<'_>, bytes: u64) -> Result<(), SegmentError> {
    let mut start = 0;
    let mut interrupted = 0;
    while start < bytes {
        let len = STEP.min(bytes - start);
        let allocated = system::call(Call::Reserve)
            .and_then(|()| fallocate(fd, FallocateFlags::empty(), start, len));
        match allocated {
            Ok(()) => {
                start += len;
                interrupted = 0;
            }
            Err(Errno::INTR) if interrupted < 1000 => interrupted += 1,
            Err(errno) => return Err(refused(bytes, "fallocate", errno)),
        }
    }
    Ok(())
}

/// What those may do to whom a memfd is handed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peers {
    /// Map it for reading and writing.
    Write,
    /// Map it for reading; only mappings made before the seal can write.
    Read,
}

/// Fixes the size, and what peers may do, for ever.
pub(super) fn seal(fd: BorrowedFd<'_>, peers: Peers) -> Result<(), SegmentError> {
    let mut seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    if peers == Peers::Read {
        seals |= SealFlags::FUTURE_WRITE;
    }
    fcntl_add_seals(fd, seals).map_err(|errno| SegmentError::System {
        step: "F_ADD_SEALS",
        errno,
    })
}

/// Examines a descriptor that a peer gave: a memfd of small pages whose size
/// cannot change. Gives its size.
pub(super) fn examine(fd: BorrowedFd<'_>) -> Result<u64, SegmentError> {
    let seals = match fcntl_get_seals(fd) {
        Ok(seals) => seals,
        Err(Errno::INVAL) => {
            return Err(SegmentError::NotMemfd {
                what: "it cannot be sealed",
            });
        }
        Err(errno) => {
            return Err(SegmentError::System {
                step: "F_GET_SEALS",
                errno,
            });
        }
    };
    let missing = match (
        seals.contains(SealFlags::SHRINK),
        seals.contains(SealFlags::GROW),
    ) {
        (true, true) => None,
        (false, true) => Some("shrinking"),
        (true, false) => Some("growing"),
        (false, false) => Some("shrinking and growing"),
    };
    if let Some(missing) = missing {
        return Err(SegmentError::NotSealed { missing });
    }
    // A page of hugetlbfs that its owner has punched out raises SIGBUS when the
    // pool is empty; one of tmpfs comes back as zeroes.
    let system = fstatfs(fd).map_err(|errno| SegmentError::System {
        step: "fstatfs of a memfd",
        errno,
    })?;
    // The field is signed or not, 32 or 64 bits wide; the number is small.
    if system.f_type as u64 != TMPFS_MAGIC {
        return Err(SegmentError::NotMemfd {
            what: "its pages are not those of tmpfs",
        });
    }
    let stat = fstat(fd).map_err(|errno| SegmentError::System {
        step: "fstat of a memfd",
        errno,
    })?;
    Ok(u64::try_from(stat.st_size).unwrap_or(0))
}

const TMPFS_MAGIC: u64 = 0x0102_1994;

/// The error for a refused reservation, with the limit that explains it if there is one.
pub(super) fn refused(bytes: u64, step: &'static str, errno: Errno) -> SegmentError {
    match errno {
        Errno::NOSPC | Errno::NOMEM | Errno::FBIG | Errno::INVAL | Errno::DQUOT => {
            let limit = Sources::system()
                .obstacle(bytes)
                .unwrap_or(MemoryLimit::Kernel { step, errno });
            SegmentError::NoMemory { bytes, limit }
        }
        errno => SegmentError::System { step, errno },
    }
}
