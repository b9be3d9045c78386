// SPDX-License-Identifier: GPL-2.0

//! Pinned memory of a process, as runs of pages that follow each other.

use crate::counters::COUNTERS;
use crate::ffi;
use crate::pieces::Pieces;
use crate::pool::{Descriptor, RUNS};
use core::ptr::NonNull;
use kernel::bindings;
use kernel::mm::Mm;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{Atomic, Relaxed};

/// Pages that one call to the kernel pins; their pointers lie on the stack.
const BATCH: usize = 128;
/// A run is not made longer than this, so that its length fits.
const LONGEST: u32 = 1 << 30;

/// Bytes that follow each other in the kernel's mapping of all memory.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    page: *mut bindings::page,
    /// Where it begins in the buffer.
    base: u64,
    /// Where it begins in its first page.
    offset: u32,
    len: u32,
}

// SAFETY: the pointer names a page that is pinned as long as the run is in use; pages belong to no
// thread.
unsafe impl Send for Run {}
// SAFETY: as for Send; nothing is reached through a shared run but by the copying helpers.
unsafe impl Sync for Run {}

impl Run {
    pub(crate) const EMPTY: Self = Self {
        page: core::ptr::null_mut(),
        base: 0,
        offset: 0,
        len: 0,
    };

    fn pages(&self) -> usize {
        (self.offset as usize + self.len as usize).div_ceil(PAGE_SIZE)
    }

    fn end(&self) -> u64 {
        self.base + u64::from(self.len)
    }
}

/// A buffer whose pages stay where they are.
///
/// # Invariants
/// - The first `count` runs in `descriptors` are pinned by this object, and cover bytes 0 to `len`
///   without gap.
/// - `charged` pages are charged to `mm`.
pub(crate) struct Pinned {
    first: Option<Descriptor>,
    /// Further ones, for buffers of many runs.
    more: KVVec<Descriptor>,
    count: usize,
    len: u64,
    charged: usize,
    mm: ARef<Mm>,
    /// Whether a byte was written into it, so that its pages are dirty.
    written: Atomic<bool>,
}

/// Pages that a buffer touches.
pub(crate) fn pages_of(base: u64, len: u64) -> usize {
    (base as usize % PAGE_SIZE + len as usize).div_ceil(PAGE_SIZE)
}

impl Pinned {
    /// Pins pieces of the calling process, whose address space is `mm`.
    pub(crate) fn new(mm: &Mm, pieces: &Pieces, write: bool) -> Result<Self> {
        let mut pinned = Self {
            first: None,
            more: KVVec::new(),
            count: 0,
            len: 0,
            charged: 0,
            mm: mm.into(),
            written: Atomic::new(false),
        };
        let occupied = pieces.as_slice().iter().filter(|piece| piece.len > 0);
        let pages = occupied.map(|piece| pages_of(piece.base, piece.len)).sum();
        if pages > 0 {
            // SAFETY: `mm` is alive, being the one of the calling task.
            kernel::error::to_result(unsafe { ffi::limic_charge(mm.as_raw(), pages) })?;
            // INVARIANT: charged just now.
            pinned.charged = pages;
            COUNTERS.pinned_pages.add(pages as i64, Relaxed);
        }
        for piece in pieces.as_slice() {
            // On failure the drop of `pinned` takes back what there is.
            pinned.pin(piece.base as usize, piece.len as usize, write)?;
        }
        Ok(pinned)
    }

    /// Appends one piece.
    fn pin(&mut self, base: usize, len: usize, write: bool) -> Result {
        let mut flags = bindings::FOLL_LONGTERM;
        if write {
            flags |= bindings::FOLL_WRITE;
        }
        let mut done = 0;
        while done < len {
            if ffi::killed() {
                return Err(EINTR);
            }
            let mut batch = [core::ptr::null_mut(); BATCH];
            let start = base + done;
            let wanted = pages_of(start as u64, (len - done) as u64).min(BATCH);
            // SAFETY: `batch` has room for `wanted` pointers; no lock is held. The range was
            // checked to lie in the user's half, and the kernel checks the rest.
            let got = unsafe {
                bindings::pin_user_pages_fast(
                    start & !(PAGE_SIZE - 1),
                    wanted as c_int,
                    flags as c_uint,
                    batch.as_mut_ptr(),
                )
            };
            if got <= 0 {
                return Err(refusal(got));
            }
            let got = batch.get(..got as usize).unwrap_or(&batch);
            for (at, &page) in got.iter().enumerate() {
                let offset = (base + done) % PAGE_SIZE;
                let bytes = (PAGE_SIZE - offset).min(len - done);
                if let Err(error) = self.push(page, offset as u32, bytes as u32) {
                    // What is not in a run yet would be forgotten.
                    for &page in got.iter().skip(at) {
                        // SAFETY: pinned above, and given to nobody.
                        unsafe { bindings::unpin_user_page(page) };
                    }
                    return Err(error);
                }
                done += bytes;
            }
            ffi::resched();
        }
        Ok(())
    }

    /// Appends `bytes` of a page that is pinned, which is its last user then; on error the page
    /// stays the caller's.
    fn push(&mut self, page: *mut bindings::page, offset: u32, bytes: u32) -> Result {
        if offset == 0 {
            if let Some(last) = self.count.checked_sub(1).and_then(|at| self.run_mut(at)) {
                let whole = (last.offset as usize + last.len as usize) % PAGE_SIZE == 0;
                if whole && last.len <= LONGEST && last.len > 0 {
                    // SAFETY: all pages of the run are pinned, and so is `page`.
                    let follows = unsafe {
                        let tail = ffi::limic_page_nth(last.page, last.pages() - 1);
                        ffi::limic_page_follows(tail, page)
                    };
                    if follows {
                        last.len += bytes;
                        self.len += u64::from(bytes);
                        return Ok(());
                    }
                }
            }
        }
        let run = Run {
            page,
            base: self.len,
            offset,
            len: bytes,
        };
        if self.count % RUNS == 0 {
            let descriptor = Descriptor::take()?;
            if self.count == 0 {
                self.first = Some(descriptor);
            } else {
                self.more.push(descriptor, GFP_KERNEL_ACCOUNT)?;
            }
        }
        *self.run_mut(self.count).ok_or(ENOMEM)? = run;
        // INVARIANT: the run is in its place, and begins where the one before ends.
        self.count += 1;
        self.len += u64::from(bytes);
        Ok(())
    }

    fn run_mut(&mut self, at: usize) -> Option<&mut Run> {
        let descriptor = match (at / RUNS).checked_sub(1) {
            None => self.first.as_mut()?,
            Some(further) => self.more.get_mut(further)?,
        };
        descriptor.runs_mut().get_mut(at % RUNS)
    }

    fn run(&self, at: usize) -> Option<&Run> {
        let descriptor = match (at / RUNS).checked_sub(1) {
            None => self.first.as_ref()?,
            Some(further) => self.more.get(further)?,
        };
        (at < self.count).then(|| descriptor.runs().get(at % RUNS))?
    }

    /// Bytes in all.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Pages that are charged for it.
    pub(crate) fn pages(&self) -> usize {
        self.charged
    }

    /// A position `offset` bytes from the start.
    pub(crate) fn seek(&self, offset: u64) -> Position<'_> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.run(middle) {
                Some(run) if run.end() <= offset => low = middle + 1,
                _ => high = middle,
            }
        }
        Position {
            pinned: self,
            run: low,
            offset,
        }
    }
}

/// The error for what `pin_user_pages_fast` gave.
fn refusal(got: c_int) -> Error {
    match got {
        0 => EFAULT,
        errno if errno == EINTR.to_errno() || errno == ENOMEM.to_errno() => {
            Error::from_errno(errno)
        }
        // Not mapped, not permitted, or not to be pinned for long: the caller's memory does not
        // serve.
        _ => EFAULT,
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let dirty = self.written.load(Relaxed);
        for at in 0..self.count {
            if let Some(run) = self.run(at) {
                // SAFETY: by the invariant these pages follow each other and are pinned by this
                // object, once.
                unsafe { bindings::unpin_user_page_range_dirty_lock(run.page, run.pages(), dirty) };
            }
            if at % RUNS == RUNS - 1 {
                ffi::resched();
            }
        }
        if self.charged > 0 {
            // SAFETY: the structure is alive, being counted; charged by the invariant.
            unsafe { ffi::limic_uncharge(self.mm.as_raw(), self.charged) };
            COUNTERS.pinned_pages.add(-(self.charged as i64), Relaxed);
        }
    }
}

/// A place in pinned memory.
pub(crate) struct Position<'a> {
    pinned: &'a Pinned,
    run: usize,
    offset: u64,
}

/// Bytes at a position that follow each other.
pub(crate) struct Stretch {
    page: NonNull<bindings::page>,
    skip: usize,
    pub(crate) len: usize,
}

impl Position<'_> {
    /// Notes that the buffer is written to.
    pub(crate) fn set_written(&self) {
        self.pinned.written.store(true, Relaxed);
    }

    /// What follows here without interruption; `None` at the end.
    pub(crate) fn stretch(&self) -> Option<Stretch> {
        let run = self.pinned.run(self.run)?;
        let into = self.offset - run.base;
        Some(Stretch {
            page: NonNull::new(run.page)?,
            skip: run.offset as usize + into as usize,
            len: run.len as usize - into as usize,
        })
    }

    /// Goes on by at most what [`stretch`](Self::stretch) has.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.offset += bytes as u64;
        if self
            .pinned
            .run(self.run)
            .is_some_and(|run| run.end() <= self.offset)
        {
            self.run += 1;
        }
    }
}

impl Stretch {
    /// Copies from here to a user address without taking a fault; returns the bytes that got
    /// through.
    pub(crate) fn copy_out(&self, to: usize, len: usize) -> usize {
        let len = len.min(self.len);
        // SAFETY: `len` bytes from `skip` on are in pages that are pinned while the `Pinned` is
        // borrowed, and follow each other. User memory is reached by the kernel's own copy, which
        // survives any address.
        let left = unsafe { ffi::limic_copy_out(to, self.page.as_ptr(), self.skip, len) };
        len - left.min(len)
    }

    /// The same in the other direction.
    pub(crate) fn copy_in(&self, from: usize, len: usize) -> usize {
        let len = len.min(self.len);
        // SAFETY: as in `copy_out`; these pages were pinned for writing. Others may write to them
        // at the same time, but nothing in the kernel holds a reference to their bytes.
        let left = unsafe { ffi::limic_copy_in(self.page.as_ptr(), self.skip, from, len) };
        len - left.min(len)
    }
}
