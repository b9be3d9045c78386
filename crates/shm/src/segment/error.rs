//! What can go wrong with a segment.

use rustix::io::Errno;

use super::header::LAYOUT_VERSION;

/// A number of a [`Shape`](super::Shape) is out of bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {given}, but must be {rule}")]
pub struct GeometryError {
    /// The field.
    pub field: &'static str,
    /// What it was.
    pub given: u64,
    /// What it must be.
    pub rule: &'static str,
}

/// Which limit stands against a reservation of shared memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryLimit {
    /// RLIMIT_FSIZE, which holds for memfds too.
    #[error("the file size limit is {limit} bytes (RLIMIT_FSIZE): raise it with ulimit -f")]
    FileSize {
        /// The soft limit in bytes.
        limit: u64,
    },
    /// The memory cgroup (shared memory is charged to it; /dev/shm plays no part).
    #[error(
        "the memory cgroup allows {limit} bytes, of which {in_use} are in use ({file}): raise that \
         limit (the memory limit of the container or batch job), or ask for fewer bytes"
    )]
    Cgroup {
        /// The file that holds the limit.
        file: String,
        /// The limit in bytes.
        limit: u64,
        /// Bytes in use that the kernel cannot simply drop.
        in_use: u64,
    },
    /// The machine.
    #[error("the machine has {available} bytes of memory and swap available: ask for fewer bytes")]
    System {
        /// MemAvailable and SwapFree of /proc/meminfo, in bytes.
        available: u64,
    },
    /// The kernel refused and no known limit explains it.
    #[error(
        "{step} failed: {errno}; no memory cgroup or file size limit that could be read explains \
         it: check the address space limit (ulimit -v), vm.overcommit_memory and free memory"
    )]
    Kernel {
        /// The system call.
        step: &'static str,
        /// The kernel's answer.
        errno: Errno,
    },
}

/// Why a segment or arena could not be made or attached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// The first bytes are not those of a segment.
    #[error("not a limic segment: its first bytes are {found:02x?}; refuse the peer")]
    Magic {
        /// The first 8 bytes.
        found: [u8; 8],
    },
    /// The peer was built with another layout.
    #[error(
        "the peer's segment has layout version {theirs}, this process understands {ours}: build \
         all ranks of a job with the same version of limic"
    )]
    LayoutVersion {
        /// The peer's version.
        theirs: u32,
        /// This library's, [`LAYOUT_VERSION`](super::LAYOUT_VERSION).
        ours: u32,
    },
    /// The header has another length than this layout version has.
    #[error("the peer's segment header has {theirs} bytes instead of {ours}: refuse the peer")]
    HeaderLength {
        /// As the header says.
        theirs: u32,
        /// As it should be.
        ours: u32,
    },
    /// A number of the geometry is out of bounds.
    #[error("the geometry of the segment is not valid: {0}")]
    Geometry(#[from] GeometryError),
    /// The total does not follow from the geometry.
    #[error(
        "the segment header says {header} bytes, but its geometry makes {geometry}: refuse the peer"
    )]
    TotalBytes {
        /// As the header says.
        header: u64,
        /// As the geometry makes.
        geometry: u64,
    },
    /// The segment is not the one that was announced.
    #[error(
        "the segment has epoch {found:#018x} instead of {expected:#018x}: the peer was restarted \
         under the same name; connect to it anew"
    )]
    Epoch {
        /// As announced.
        expected: u64,
        /// As the header says (0: never valid).
        found: u64,
    },
    /// The descriptor is not a memfd.
    #[error("the descriptor is not a memfd ({what}): refuse the peer")]
    NotMemfd {
        /// What speaks against it.
        what: &'static str,
    },
    /// The size could still change, and an access could raise SIGBUS.
    #[error("the memfd is not sealed against {missing}: refuse the peer")]
    NotSealed {
        /// `shrinking`, `growing`, or both.
        missing: &'static str,
    },
    /// The memfd is smaller than what should be in it.
    #[error("the memfd has {has} bytes and needs {needs}: refuse the peer")]
    Truncated {
        /// Its size in bytes.
        has: u64,
        /// What it needs.
        needs: u64,
    },
    /// An arena is larger than agreed.
    #[error("the peer's arena has {has} bytes, more than the {most} that are accepted")]
    ArenaTooLarge {
        /// Its size in bytes.
        has: u64,
        /// The most that the caller accepts.
        most: u64,
    },
    /// The space could not be reserved.
    #[error("cannot reserve {bytes} bytes of shared memory: {limit}")]
    NoMemory {
        /// Bytes that were asked for.
        bytes: u64,
        /// What stands against it.
        limit: MemoryLimit,
    },
    /// The memfd could not be mapped.
    #[error(
        "cannot map {bytes} bytes of shared memory: {errno}; check ulimit -v and vm.max_map_count \
         (EPERM or EACCES: the peer's memfd is sealed against writing or was opened for reading)"
    )]
    Map {
        /// Bytes of the mapping.
        bytes: u64,
        /// The kernel's answer.
        errno: Errno,
    },
    /// Any other answer of the kernel.
    #[error("{step} failed: {errno}")]
    System {
        /// The system call, and on what.
        step: &'static str,
        /// The kernel's answer.
        errno: Errno,
    },
}

impl SegmentError {
    /// Whether the same step may go well later: this process or the machine is
    /// short of memory, mappings or descriptors, and the descriptors that were
    /// given are no reason.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        let (Self::Map { errno, .. } | Self::System { errno, .. }) = self else {
            return false;
        };
        matches!(*errno, Errno::NOMEM | Errno::MFILE | Errno::NFILE)
    }

    pub(super) fn version(theirs: u32) -> Self {
        Self::LayoutVersion {
            theirs,
            ours: LAYOUT_VERSION,
        }
    }
}
