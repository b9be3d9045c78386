// SPDX-License-Identifier: GPL-2.0

//! Memory that the module shares with user space: zeroed, and mapped by the owner of a session.

use crate::ffi;
use core::ptr::NonNull;
use kernel::mm::virt::VmaNew;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

/// Whole pages that user space maps.
///
/// # Invariants
/// `base` is from `limic_area_alloc`, with room for `bytes` bytes. All accesses to them are atomic.
pub(crate) struct Area {
    base: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: the area is plain memory, and all of it is atomics.
unsafe impl Send for Area {}
// SAFETY: as for Send.
unsafe impl Sync for Area {}

impl Area {
    /// Zeroed memory, at least so much.
    pub(crate) fn new(bytes: usize) -> Result<Self> {
        let bytes = bytes.next_multiple_of(PAGE_SIZE);
        // SAFETY: no preconditions.
        let base = unsafe { ffi::limic_area_alloc(bytes) };
        // INVARIANT: just allocated, with this size.
        let base = NonNull::new(base).ok_or(ENOMEM)?;
        Ok(Self { base, bytes })
    }

    pub(crate) fn base(&self) -> NonNull<c_void> {
        self.base
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Maps it from its beginning. A forked child does not inherit the mapping, and nothing in it
    /// is ever run.
    pub(crate) fn map(&self, vma: &VmaNew) -> Result {
        if vma.end() - vma.start() > self.bytes {
            return Err(EINVAL);
        }
        vma.try_clear_mayexec()?;
        vma.set_dontcopy();
        // SAFETY: the mapping is being set up, and not longer than the area, whose pages hold
        // nothing else.
        kernel::error::to_result(unsafe { ffi::limic_area_map(vma.as_ptr(), self.base.as_ptr()) })
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: by the invariant; a mapping keeps references to the pages of its own.
        unsafe { ffi::limic_area_free(self.base.as_ptr()) };
    }
}
