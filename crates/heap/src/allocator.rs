//! A global allocator: long blocks from the heap that peers may read, others from the system.

use core::alloc::{GlobalAlloc, Layout};
use std::alloc::System;

use crate::raw;

/// An allocator whose long blocks peers may read, so that a message out of each large `Vec` is
/// copied once.
///
/// ```
/// #[global_allocator]
/// static HEAP: limic_heap::PeerReadable = limic_heap::PeerReadable::new();
///
/// let bytes = vec![0_u8; 1 << 20];
/// assert!(limic_heap::place(bytes.as_ptr(), bytes.len()).is_some());
/// ```
#[derive(Debug, Clone, Copy)]
pub struct PeerReadable {
    from: usize,
}

impl PeerReadable {
    /// Blocks of 16 KiB and more can be read by peers: shorter messages gain nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self::from_bytes(16 << 10)
    }

    /// Blocks of `bytes` and more can be read by peers. Each has whole pages of 4096 bytes.
    #[must_use]
    pub const fn from_bytes(bytes: usize) -> Self {
        Self { from: bytes }
    }

    /// A block of the heap if it is long, and can be had there; else what the system gives.
    fn allocate(
        self,
        layout: Layout,
        zeroed: bool,
        system: impl FnOnce(Layout) -> *mut u8,
    ) -> *mut u8 {
        if layout.size() >= self.from {
            let block = raw::allocate(layout.size(), layout.align(), zeroed);
            if !block.is_null() {
                return block;
            }
        }
        system(layout)
    }
}

impl Default for PeerReadable {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: blocks of the heap are as long and as aligned as asked for, since they have whole pages,
// and are nobody else's until they are given back; all others are the system's. A block is the
// heap's if and only if its address is in an arena, and arenas stay while they have blocks.
unsafe impl GlobalAlloc for PeerReadable {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        self.allocate(layout, false, |layout| unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        self.allocate(layout, true, |layout| unsafe {
            System.alloc_zeroed(layout)
        })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller gives up a block, and this is its first byte. A short one is the
        // system's.
        if layout.size() < self.from || !unsafe { raw::free(block) } {
            // SAFETY: the caller's promise; the heap did not allocate it.
            unsafe { System.dealloc(block, layout) };
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.size() < self.from && size < self.from {
            // SAFETY: the caller's promise; so short a block is the system's.
            return unsafe { System.realloc(block, layout, size) };
        }
        // SAFETY: the caller's block, of which it keeps `size` bytes.
        if size >= self.from && unsafe { raw::resize(block, size) } {
            return block;
        }
        // SAFETY: the caller's promise says that this is a layout.
        let new_layout = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: the caller's promise: the size is not 0.
        let new = unsafe { self.alloc(new_layout) };
        if !new.is_null() {
            // SAFETY: both blocks have as many bytes, and are not the same.
            unsafe { core::ptr::copy_nonoverlapping(block, new, layout.size().min(size)) };
            // SAFETY: the caller's promise.
            unsafe { self.dealloc(block, layout) };
        }
        new
    }
}
