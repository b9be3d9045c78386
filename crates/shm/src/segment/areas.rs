//! The two sides of one segment.

use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, pread};

use super::header::{HEADER_BYTES, Header};
use super::layout::{ACCESS_OFFSET, Area, SLEEP_OFFSET, STATUS_OFFSET};
use super::mapping::{HUGE_PAGE, Mapping};
use super::memfd::Peers;
use super::placement::populate;
use super::read_only::ReadOnly;
use super::{Geometry, Grant, Granted, Placement, SegmentError, Shape, memfd};
use crate::ring::{LINE, Mapped, Memory};
use crate::sync::Ordering;
use crate::system;

/// The areas of a mapped segment's shared part. Each view keeps the whole mapping alive; what is in
/// it can be written by all who have mapped it.
#[derive(Debug, Clone)]
pub struct Areas {
    header: Header,
    whole: Mapped,
}

impl Areas {
    /// What the segment has, and where.
    pub fn geometry(&self) -> &Geometry {
        &self.header.geometry
    }

    /// The numbers of the geometry.
    pub fn shape(&self) -> Shape {
        self.header.geometry.shape()
    }

    /// The segment's random number, never 0: another one means another life of
    /// its owner.
    pub fn epoch(&self) -> u64 {
        self.header.epoch
    }

    /// The memory of the [`shared`](crate::ring::shared) ring of `shared_slots` slots.
    pub fn shared_ring(&self) -> Mapped {
        self.view(self.geometry().shared_ring())
    }

    /// The memory of private [`line`](crate::ring::line) ring `index`: `ring_bytes / 64`
    /// lines and its control lines. `None` if there is no such ring.
    pub fn private_ring(&self, index: u32) -> Option<Mapped> {
        Some(self.view(self.geometry().private_ring(index)?))
    }

    /// The [release flags](crate::ring::ReleaseFlags) of the pool, one for each of its
    /// [pages](super::Shape::staging_pages).
    pub fn staging_flags(&self) -> Mapped {
        self.view(self.geometry().staging_flags())
    }

    /// The [release flags](crate::ring::PackedFlags) of all [`LOAN_FLAGS`](super::LOAN_FLAGS)
    /// loans.
    pub fn loan_flags(&self) -> Mapped {
        self.view(self.geometry().loan_flags())
    }

    /// The pool of memory through which the owner sends long messages: all chunks, one behind the
    /// other.
    pub fn staging(&self) -> Mapped {
        self.view(self.geometry().staging())
    }

    /// The line of probe word `index`. `None` if there is no such word.
    pub fn probe_word(&self, index: u32) -> Option<Mapped> {
        Some(self.view(self.geometry().probe_word(index)?))
    }

    /// The [sleep flag](crate::ring::wakeup) of the owner, on a line of its own.
    pub fn sleep(&self) -> Mapped {
        self.view(Area {
            offset: SLEEP_OFFSET,
            len: LINE,
        })
    }

    /// A `Geometry` places all areas on lines inside of the mapping, whose
    /// length is its `shared_bytes()`: `sub` finds nothing to object to.
    fn view(&self, area: Area) -> Mapped {
        self.whole.sub(area.offset, area.len)
    }
}

/// The line on which the owner says how it is.
const STATUS: Area = Area {
    offset: STATUS_OFFSET,
    len: LINE,
};

/// The line on which the owner says what it accesses.
const ACCESS: Area = Area {
    offset: ACCESS_OFFSET,
    len: LINE,
};

/// The segment of this endpoint, made by it. All bytes but the header are 0.
///
/// It has two parts, each a memfd: the shared part, which peers write, and the owner's part, which
/// they can only read (F_SEAL_FUTURE_WRITE).
#[derive(Debug)]
pub struct OwnSegment {
    fd: OwnedFd,
    areas: Areas,
    owner_fd: OwnedFd,
    owner: Mapped,
    granted: Granted,
}

impl OwnSegment {
    /// Makes a segment: reserves its space, seals its size, maps it.
    ///
    /// # Errors
    ///
    /// [`SegmentError::NoMemory`] with the limit that stands against it,
    /// [`SegmentError::Map`], or [`SegmentError::System`] with the failed step.
    pub fn create(geometry: Geometry, placement: Placement) -> Result<Self, SegmentError> {
        let (fd, mapping, granted) = make(
            memfd::NAME,
            geometry.shared_bytes(),
            placement,
            Peers::Write,
        )?;
        let small = Placement {
            huge_pages: false,
            ..placement
        };
        let (owner_fd, owner, _) = make(memfd::NAME, geometry.owner_bytes(), small, Peers::Read)?;
        let owner = owner.into_view();
        let header = Header {
            epoch: random()?,
            geometry,
        };
        // Before anybody else has the descriptor, and never again.
        for (index, word) in header.encode().chunks_exact(8).enumerate() {
            let word = std::array::from_fn(|at| word[at]);
            owner
                .word64(8 * index)
                .store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
        let areas = Areas {
            header,
            whole: mapping.into_view(),
        };
        system::segment(&areas);
        let segment = Self {
            fd,
            areas,
            owner_fd,
            owner,
            granted,
        };
        system::own_segment(&segment);
        Ok(segment)
    }

    /// The memfds of the shared part and of the owner's part, to be sent to peers.
    pub fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.fd.as_fd(), self.owner_fd.as_fd()]
    }

    /// The line on which this endpoint says how it is (pressure and the like).
    pub fn status(&self) -> Mapped {
        self.owner_view(STATUS)
    }

    /// The line on which this endpoint says which region of a peer it accesses.
    pub fn access(&self) -> Mapped {
        self.owner_view(ACCESS)
    }

    /// What this endpoint says of split copies into its memory:
    /// [`owner::split`](crate::owner::split).
    pub fn split_in(&self) -> Mapped {
        self.owner_view(self.geometry().split_in())
    }

    /// What this endpoint says of split copies out of its memory:
    /// [`owner::split`](crate::owner::split).
    pub fn split_out(&self) -> Mapped {
        self.owner_view(self.geometry().split_out())
    }

    /// The table of exposed regions: [`owner::region`](crate::owner::region).
    pub fn regions(&self) -> Mapped {
        self.owner_view(self.geometry().regions())
    }

    /// As [`Areas::view`], of `owner_bytes()`.
    fn owner_view(&self, area: Area) -> Mapped {
        self.owner.sub(area.offset, area.len)
    }

    /// What came of the [`Placement`].
    pub fn granted(&self) -> &Granted {
        &self.granted
    }

    /// Bytes of the segment that lie in huge pages at the moment. Reads
    /// `/proc/self/smaps`, which takes milliseconds: for reports only.
    ///
    /// # Errors
    ///
    /// If that file cannot be read.
    pub fn huge_bytes(&self) -> io::Result<u64> {
        let smaps = std::fs::read_to_string("/proc/self/smaps")?;
        let start = format!("{:x}-", self.areas.whole.pointer(0).addr());
        let mapping = smaps.lines().skip_while(|line| !line.starts_with(&start));
        let huge = mapping
            .take_while(|line| !line.starts_with("VmFlags:"))
            .find_map(|line| {
                line.strip_prefix("ShmemPmdMapped:")?
                    .split_whitespace()
                    .next()?
                    .parse::<u64>()
                    .ok()
            });
        Ok(huge.map_or(0, |kib| kib.saturating_mul(1024)))
    }
}

impl Deref for OwnSegment {
    type Target = Areas;

    fn deref(&self) -> &Areas {
        &self.areas
    }
}

/// A peer's segment, mapped here: its owner's part for reading only. The descriptors are not kept.
#[derive(Debug)]
pub struct PeerSegment {
    areas: Areas,
    owner: ReadOnly,
}

impl PeerSegment {
    /// Checks and maps the segment behind the descriptors of its shared part and of its owner's
    /// part, which a peer sent. `epoch`: what its address says, if known.
    ///
    /// The header is read once, into private memory, and nothing that the peer
    /// writes there later plays a part.
    ///
    /// # Errors
    ///
    /// [`SegmentError`] with the first check that failed.
    pub fn attach(
        [fd, owner_fd]: [BorrowedFd<'_>; 2],
        epoch: Option<u64>,
    ) -> Result<Self, SegmentError> {
        let has = [memfd::examine(fd)?, memfd::examine(owner_fd)?];
        let mut bytes = [0; HEADER_BYTES];
        let read = pread(owner_fd, &mut bytes, 0).map_err(|errno| SegmentError::System {
            step: "pread of a header",
            errno,
        })?;
        if read != HEADER_BYTES {
            return Err(SegmentError::Truncated {
                has: has[1],
                needs: HEADER_BYTES as u64,
            });
        }
        let header = Header::decode(&bytes)?;
        let expected = epoch.unwrap_or(header.epoch);
        if header.epoch == 0 || header.epoch != expected {
            return Err(SegmentError::Epoch {
                expected,
                found: header.epoch,
            });
        }
        let needs = [
            header.geometry.shared_bytes(),
            header.geometry.owner_bytes(),
        ];
        for (has, needs) in has.into_iter().zip(needs) {
            let needs = needs as u64;
            if has < needs {
                return Err(SegmentError::Truncated { has, needs });
            }
        }
        let [shared, owner] = needs;
        let mapping = Mapping::new(fd, shared, shared >= HUGE_PAGE)?;
        let owner = Mapping::new_readable(owner_fd, owner)?;
        let areas = Areas {
            header,
            whole: mapping.into_view(),
        };
        system::segment(&areas);
        Ok(Self {
            areas,
            owner: ReadOnly::new(owner),
        })
    }

    /// The line on which the peer says how it is (pressure and the like).
    pub fn status(&self) -> ReadOnly {
        self.owner_view(STATUS)
    }

    /// The line on which the peer says which region it accesses.
    pub fn access(&self) -> ReadOnly {
        self.owner_view(ACCESS)
    }

    /// What the peer says of split copies into its memory: [`owner::split`](crate::owner::split).
    pub fn split_in(&self) -> ReadOnly {
        self.owner_view(self.geometry().split_in())
    }

    /// What the peer says of split copies out of its memory:
    /// [`owner::split`](crate::owner::split).
    pub fn split_out(&self) -> ReadOnly {
        self.owner_view(self.geometry().split_out())
    }

    /// The peer's table of exposed regions: [`owner::region`](crate::owner::region).
    pub fn regions(&self) -> ReadOnly {
        self.owner_view(self.geometry().regions())
    }

    /// As [`Areas::view`], of `owner_bytes()`.
    fn owner_view(&self, area: Area) -> ReadOnly {
        self.owner.sub(area.offset, area.len)
    }
}

impl Deref for PeerSegment {
    type Target = Areas;

    fn deref(&self) -> &Areas {
        &self.areas
    }
}

/// A sealed memfd of `bytes` bytes, and what is left of the last page, with all its space reserved,
/// mapped.
pub(super) fn make(
    name: &str,
    bytes: usize,
    placement: Placement,
    peers: Peers,
) -> Result<(OwnedFd, Mapping, Granted), SegmentError> {
    let whole = bytes.checked_next_multiple_of(rustix::param::page_size());
    // What is too much for a number is refused as what is too much for the machine.
    let whole = whole.unwrap_or(usize::MAX) as u64;
    let fd = memfd::create(name, whole)?;
    let mapping = Mapping::new(fd.as_fd(), bytes, placement.aligned(bytes))?;
    let mut granted = placement.apply(&mapping);
    // fallocate knows nothing of the mapping's wish for huge pages, and pages
    // keep the size with which they were born: populate first where it was
    // granted. What that leaves over, fallocate reserves; it has the last word.
    if granted.huge_pages == Grant::Granted {
        let _ = populate(&mapping);
    }
    memfd::reserve(fd.as_fd(), whole)?;
    granted.populated = populate(&mapping);
    memfd::seal(fd.as_fd(), peers)?;
    Ok((fd, mapping, granted))
}

/// A random number that is not 0.
fn random() -> Result<u64, SegmentError> {
    loop {
        match system::random() {
            Ok(0) => {}
            Ok(number) => return Ok(number),
            Err(error) => {
                let errno = error
                    .raw_os_error()
                    .map_or(Errno::IO, Errno::from_raw_os_error);
                return Err(SegmentError::System {
                    step: "getrandom",
                    errno,
                });
            }
        }
    }
}
