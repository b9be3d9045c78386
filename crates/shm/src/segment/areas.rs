//! The two sides of one segment.

use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, pread, pwrite};

use super::header::{HEADER_BYTES, Header};
use super::layout::{Area, SLEEP_OFFSET, STATUS_OFFSET};
use super::mapping::{HUGE_PAGE, Mapping};
use super::memfd::Peers;
use super::placement::populate;
use super::{Geometry, Grant, Granted, Placement, SegmentError, Shape, memfd};
use crate::ring::{LINE, Mapped, Memory};
use crate::world;

/// The areas of a mapped segment. Each view keeps the whole mapping alive; what
/// is in it can be written by all who have mapped it.
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

    /// The line of meet word `index`. `None` if there is no such word.
    pub fn rendezvous_word(&self, index: u32) -> Option<Mapped> {
        Some(self.view(self.geometry().rendezvous_word(index)?))
    }

    /// The [sleep flag](crate::ring::wakeup) of the owner, on a line of its own.
    pub fn sleep(&self) -> Mapped {
        self.view(Area {
            offset: SLEEP_OFFSET,
            len: LINE,
        })
    }

    /// The line on which the owner says how it is (pressure and the like).
    pub fn status(&self) -> Mapped {
        self.view(Area {
            offset: STATUS_OFFSET,
            len: LINE,
        })
    }

    /// The table of exposed regions, [`REGION_BYTES`](super::REGION_BYTES) each.
    pub fn regions(&self) -> Mapped {
        self.view(self.geometry().regions())
    }

    /// The access slots, [`ACCESS_SLOT_BYTES`](super::ACCESS_SLOT_BYTES) each,
    /// filled up to whole lines.
    pub fn access_slots(&self) -> Mapped {
        self.view(self.geometry().access_slots())
    }

    /// A `Geometry` places all areas on lines inside of the mapping, whose
    /// length is its `bytes()`: `sub` finds nothing to object to.
    fn view(&self, area: Area) -> Mapped {
        self.whole.sub(area.offset, area.len)
    }
}

/// The segment of this endpoint, made by it. All bytes behind the header are 0.
#[derive(Debug)]
pub struct OwnSegment {
    fd: OwnedFd,
    areas: Areas,
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
            super::memfd::NAME,
            geometry.bytes(),
            placement,
            Peers::Write,
        )?;
        let header = Header {
            epoch: random()?,
            geometry,
        };
        // Written before anybody else has the descriptor, and never again.
        let written = pwrite(&fd, &header.encode(), 0).map_err(|errno| SegmentError::System {
            step: "pwrite of the header",
            errno,
        })?;
        if written != HEADER_BYTES {
            return Err(SegmentError::System {
                step: "pwrite of the header",
                errno: Errno::IO,
            });
        }
        let areas = Areas {
            header,
            whole: mapping.into_view(),
        };
        world::segment(&areas);
        Ok(Self { fd, areas, granted })
    }

    /// The memfd, to be sent to peers.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
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

/// A peer's segment, mapped here. The descriptor is not kept.
#[derive(Debug)]
pub struct PeerSegment {
    areas: Areas,
}

impl PeerSegment {
    /// Checks and maps the segment behind `fd`, which a peer sent. `epoch`: what
    /// its address says, if known.
    ///
    /// The header is read once, into private memory, and nothing that the peer
    /// writes there later plays a part.
    ///
    /// # Errors
    ///
    /// [`SegmentError`] with the first check that failed.
    pub fn attach(fd: OwnedFd, epoch: Option<u64>) -> Result<Self, SegmentError> {
        let has = memfd::examine(fd.as_fd())?;
        let mut bytes = [0; HEADER_BYTES];
        let read = pread(&fd, &mut bytes, 0).map_err(|errno| SegmentError::System {
            step: "pread of a header",
            errno,
        })?;
        if read != HEADER_BYTES {
            return Err(SegmentError::Truncated {
                has,
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
        let needs = header.geometry.bytes();
        if has < needs as u64 {
            return Err(SegmentError::Truncated {
                has,
                needs: needs as u64,
            });
        }
        let mapping = Mapping::new(fd.as_fd(), needs, needs >= HUGE_PAGE)?;
        let areas = Areas {
            header,
            whole: mapping.into_view(),
        };
        world::segment(&areas);
        Ok(Self { areas })
    }
}

impl Deref for PeerSegment {
    type Target = Areas;

    fn deref(&self) -> &Areas {
        &self.areas
    }
}

/// A sealed memfd of `bytes` bytes with all its space reserved, mapped.
pub(super) fn make(
    name: &str,
    bytes: usize,
    placement: Placement,
    peers: Peers,
) -> Result<(OwnedFd, Mapping, Granted), SegmentError> {
    let fd = memfd::create(name, bytes as u64)?;
    let mapping = Mapping::new(fd.as_fd(), bytes, placement.aligned(bytes))?;
    let mut granted = placement.apply(&mapping);
    // fallocate knows nothing of the mapping's wish for huge pages, and pages
    // keep the size with which they were born: populate first where it was
    // granted. What that leaves over, fallocate reserves; it has the last word.
    if granted.huge_pages == Grant::Granted {
        let _ = populate(&mapping);
    }
    memfd::reserve(fd.as_fd(), bytes as u64)?;
    granted.populated = populate(&mapping);
    memfd::seal(fd.as_fd(), peers)?;
    Ok((fd, mapping, granted))
}

/// A random number that is not 0.
fn random() -> Result<u64, SegmentError> {
    loop {
        match world::random() {
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
