//! Bytes of the heap, for Miri, tests, and endpoints of one process.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error};
use std::sync::Arc;

use super::Mapped;
use crate::ring::LINE;

/// One zeroed allocation, freed on drop.
#[derive(Debug)]
struct Allocation {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the allocation may be freed by any thread, and offers nothing else.
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout in `heap`, and freed once.
        unsafe { dealloc(self.base.as_ptr(), self.layout) }
    }
}

/// Zeroed memory of `len` bytes, rounded up to whole lines, that threads of this
/// process share as if it were a segment.
///
/// # Panics
///
/// If `len` exceeds what an allocation can have.
#[must_use]
pub fn heap(len: usize) -> Mapped {
    let rounded = len.max(1).next_multiple_of(LINE);
    let layout = Layout::from_size_align(rounded, LINE).expect("length of an allocation");
    // SAFETY: the layout has at least one line, so it is not empty.
    let Some(base) = NonNull::new(unsafe { alloc_zeroed(layout) }) else {
        handle_alloc_error(layout)
    };
    let allocation = Arc::new(Allocation { base, layout });
    // SAFETY: aligned to a line by the layout, valid until `allocation` is
    // dropped, and nobody else knows the address.
    unsafe { Mapped::new(base, rounded, allocation) }
}
