//! A mapping that ends with its last view.

use std::ffi::c_void;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use super::SegmentError;
use crate::process::{self, OwnFile};
use crate::ring::Mapped;
use crate::system;

/// A huge page of the processors that this is used on.
pub(super) const HUGE_PAGE: usize = 2 << 20;

/// A shared mapping of a sealed memfd; unmapped when dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<c_void>,
    len: usize,
    writable: bool,
    /// By this a forked child finds the pages that it copies.
    _copied: Option<Arc<OwnFile>>,
}

// SAFETY: the mapping belongs to the process, not to a thread; `Mapping` itself
// never accesses its bytes.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of `fd`; on a border of huge pages if
    /// `aligned`.
    pub(super) fn new(fd: BorrowedFd<'_>, len: usize, aligned: bool) -> Result<Self, SegmentError> {
        let mapping = Self::with(fd, len, aligned, ProtFlags::READ | ProtFlags::WRITE)?;
        mapping.enter(None)?;
        Ok(mapping)
    }

    /// The same of memory of which a forked child is to have a copy, and not zeroes in its place.
    pub(super) fn new_copied(
        fd: &Arc<OwnFile>,
        len: usize,
        aligned: bool,
    ) -> Result<Self, SegmentError> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let mut mapping = Self::with(fd.as_fd(), len, aligned, access)?;
        mapping.enter(Some(fd.as_fd()))?;
        mapping._copied = Some(Arc::clone(fd));
        Ok(mapping)
    }

    /// Like [`new`](Self::new), for reading only.
    pub(super) fn new_readable(fd: BorrowedFd<'_>, len: usize) -> Result<Self, SegmentError> {
        Self::with(fd, len, len >= HUGE_PAGE, ProtFlags::READ)
    }

    /// A child of a fork must not write it.
    fn enter(&self, copied: Option<BorrowedFd<'_>>) -> Result<(), SegmentError> {
        let entered = process::enter_mapping(self.base, self.len, copied);
        entered.map_err(|errno| SegmentError::Map {
            bytes: self.len as u64,
            errno,
        })
    }

    fn with(
        fd: BorrowedFd<'_>,
        len: usize,
        aligned: bool,
        access: ProtFlags,
    ) -> Result<Self, SegmentError> {
        let base = if aligned {
            map_aligned(fd, len, access)
        } else {
            map_anywhere(fd, len, access)
        };
        let base = base.and_then(|base| NonNull::new(base).ok_or(Errno::NOMEM));
        let base = base.map_err(|errno| SegmentError::Map {
            bytes: len as u64,
            errno,
        })?;
        let writable = access.contains(ProtFlags::WRITE);
        system::mapped(base.as_ptr().addr(), len, writable);
        Ok(Self {
            base,
            len,
            writable,
            _copied: None,
        })
    }

    pub(super) fn base(&self) -> NonNull<c_void> {
        self.base
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// All of it as a view, which keeps it mapped.
    pub(super) fn into_view(self) -> Mapped {
        let (base, len) = (self.base, self.len);
        // SAFETY: the mapping begins on a page; the view holds it, so it stays
        // mapped as long as the view; a sealed tmpfs file cannot shrink, so its
        // bytes stay valid; nobody makes references to them but through views.
        unsafe { Mapped::new(base.cast(), len, Arc::new(self)) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.writable {
            process::leave_mapping(self.base);
        }
        system::unmapped(self.base.as_ptr().addr());
        // SAFETY: the range was mapped by `new` and belongs to this value alone;
        // every view of it holds this value, so none is left.
        let _ = unsafe { munmap(self.base.as_ptr(), self.len) };
    }
}

fn map_anywhere(fd: BorrowedFd<'_>, len: usize, access: ProtFlags) -> Result<*mut c_void, Errno> {
    // SAFETY: the kernel chooses an address where nothing is mapped.
    unsafe { mmap(null_mut(), len, access, MapFlags::SHARED, fd, 0) }
}

/// The kernel can only use a huge page where file offset and address agree
/// modulo its size.
fn map_aligned(fd: BorrowedFd<'_>, len: usize, access: ProtFlags) -> Result<*mut c_void, Errno> {
    // Whole pages, as munmap wants them, and emulators of other pages than the kernel's.
    let covered = len.next_multiple_of(rustix::param::page_size());
    let room = covered + HUGE_PAGE;
    // SAFETY: the kernel chooses an address where nothing is mapped.
    let start = unsafe {
        mmap_anonymous(
            null_mut(),
            room,
            ProtFlags::empty(),
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )
    }?;
    let lead = start.addr().next_multiple_of(HUGE_PAGE) - start.addr();
    let base = start.wrapping_byte_add(lead);
    // SAFETY: base..base + covered lies in the reservation just made (lead is less
    // than a huge page), which nobody else knows of; mapping over it is its use.
    let mapped = unsafe {
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        mmap(base, covered, access, flags, fd, 0)
    };
    let Ok(base) = mapped else {
        // SAFETY: the reservation, all of it, still ours alone.
        let _ = unsafe { munmap(start, room) };
        return mapped;
    };
    // SAFETY: what is left of the reservation before and behind the mapping.
    unsafe {
        if lead > 0 {
            let _ = munmap(start, lead);
        }
        if lead < HUGE_PAGE {
            let _ = munmap(base.wrapping_byte_add(covered), HUGE_PAGE - lead);
        }
    }
    Ok(base)
}
