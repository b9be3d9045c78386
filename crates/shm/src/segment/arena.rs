//! Memory beyond the segment: for loans, for what goes ahead of its receiver, and for the
//! application's buffers that peers may read.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use super::areas::make;
use super::mapping::{HUGE_PAGE, Mapping};
use super::memfd::Peers;
use super::{Granted, Placement, SegmentError, memfd};
use crate::process::OwnFile;
use crate::ring::{Mapped, Memory};

const PAGE: usize = 4096;

/// A sealed memfd, mapped here, zeroed. Its owner alone can write it: it is sealed against writing
/// through mappings made later (F_SEAL_FUTURE_WRITE). All its space is reserved, unless it was
/// [made otherwise](Self::create_lazy).
#[derive(Debug)]
pub struct Arena {
    fd: Arc<OwnFile>,
    view: Mapped,
    granted: Granted,
}

impl Arena {
    /// Makes an arena of `bytes`, rounded up to whole pages of 4096 bytes (at
    /// least one).
    ///
    /// # Errors
    ///
    /// [`SegmentError::NoMemory`] with the limit that stands against it,
    /// [`SegmentError::Map`], or [`SegmentError::System`] with the failed step.
    pub fn create(bytes: usize, placement: Placement) -> Result<Self, SegmentError> {
        Self::create_named(memfd::NAME, bytes, placement)
    }

    /// The same under a name of its own, which shows in /proc/PID/fd.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub fn create_named(
        name: &str,
        bytes: usize,
        placement: Placement,
    ) -> Result<Self, SegmentError> {
        let bytes = bytes
            .max(1)
            .checked_next_multiple_of(PAGE)
            .unwrap_or(usize::MAX);
        let (fd, mapping, granted) = make(name, bytes, placement, Peers::Read)?;
        Ok(Self {
            fd: Arc::new(OwnFile::new(fd)),
            view: mapping.into_view(),
            granted,
        })
    }

    /// Makes an arena of which each page is made when it is first touched, and which a forked child
    /// has a copy of: memory for a program's own data. Where the system gives no more memory than
    /// it has (`vm.overcommit_memory=2`), all pages are reserved at once.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub fn create_lazy(bytes: usize) -> Result<Self, SegmentError> {
        let bytes = bytes
            .max(1)
            .checked_next_multiple_of(rustix::param::page_size())
            .unwrap_or(usize::MAX);
        let placement = Placement {
            numa_node: None,
            huge_pages: true,
        };
        let fd = Arc::new(OwnFile::new(memfd::create(memfd::NAME, bytes as u64)?));
        let mapping = Mapping::new_copied(&fd, bytes, bytes >= HUGE_PAGE)?;
        let granted = placement.apply(&mapping);
        if strict_accounting() {
            memfd::reserve(fd.as_fd(), bytes as u64)?;
        }
        memfd::seal(fd.as_fd(), Peers::Read)?;
        Ok(Self {
            fd,
            view: mapping.into_view(),
            granted,
        })
    }

    /// The memfd. The program may have closed it, and its number may be another file's.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// A second descriptor of the memfd. `None`: none is free, or the program has closed the first
    /// one, whose number may be another file's.
    pub fn descriptor(&self) -> Option<OwnedFd> {
        self.fd.duplicate()
    }

    /// Its size in bytes, a multiple of 4096.
    pub fn bytes(&self) -> usize {
        self.view.len()
    }

    /// All of it. The view keeps it mapped when the arena is gone.
    pub fn view(&self) -> Mapped {
        self.view.clone()
    }

    /// What came of the [`Placement`].
    pub fn granted(&self) -> &Granted {
        &self.granted
    }
}

/// Whether the kernel promises no memory that it does not have. Then a page that cannot be made
/// raises SIGBUS; else the process that uses most memory is killed, as for all memory.
fn strict_accounting() -> bool {
    std::fs::read("/proc/sys/vm/overcommit_memory").is_ok_and(|mode| mode.starts_with(b"2"))
}

/// A peer's arena, mapped here for reading. The descriptor is not kept. Clones share the mapping.
#[derive(Debug, Clone)]
pub struct PeerArena {
    mapping: Arc<Mapping>,
}

impl PeerArena {
    /// Checks and maps the arena behind `fd`, which a peer sent: all of it, at
    /// most `most` bytes (page tables for it are this process' expense).
    ///
    /// # Errors
    ///
    /// [`SegmentError`] with the first check that failed.
    pub fn attach(fd: BorrowedFd<'_>, most: usize) -> Result<Self, SegmentError> {
        let has = memfd::examine(fd)?;
        if has < PAGE as u64 {
            return Err(SegmentError::Truncated {
                has,
                needs: PAGE as u64,
            });
        }
        match usize::try_from(has) {
            Ok(bytes) if bytes <= most => {
                let mapping = Mapping::new_readable(fd, bytes)?;
                Ok(Self {
                    mapping: Arc::new(mapping),
                })
            }
            _ => Err(SegmentError::ArenaTooLarge {
                has,
                most: most as u64,
            }),
        }
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.mapping.len()
    }

    /// The address of `len` bytes at `offset`, or `None` if they are not all within the arena.
    /// Valid for reads while this value or a clone of it lives. The owner may write there at any
    /// time, so make no reference of it.
    pub fn pointer(&self, offset: u64, len: u64) -> Option<*const u8> {
        let (offset, len) = (usize::try_from(offset).ok()?, usize::try_from(len).ok()?);
        let inside = offset
            .checked_add(len)
            .is_some_and(|end| end <= self.bytes());
        inside.then(|| {
            let base = self.mapping.base().as_ptr().cast::<u8>();
            base.wrapping_add(offset).cast_const()
        })
    }
}

/// A peer's arena that is not mapped here: its bytes are read by calls of the kernel. That takes a
/// descriptor, and no addresses.
#[derive(Debug)]
pub struct UnmappedArena {
    file: File,
    bytes: u64,
}

impl UnmappedArena {
    /// Checks the arena behind `fd`, which a peer sent.
    ///
    /// # Errors
    ///
    /// As [`PeerArena::attach`].
    pub fn new(fd: OwnedFd) -> Result<Self, SegmentError> {
        let bytes = memfd::examine(fd.as_fd())?;
        Ok(Self {
            file: fd.into(),
            bytes,
        })
    }

    /// Whether `len` bytes at `offset` are all within the arena.
    pub fn contains(&self, offset: u64, len: u64) -> bool {
        let end = offset.checked_add(len);
        end.is_some_and(|end| end <= self.bytes)
    }

    /// Copies the bytes at `offset` to all of `into`. False if they are not all within the arena;
    /// what is in `into` then means nothing.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> bool {
        self.file.read_exact_at(into, offset).is_ok()
    }
}
