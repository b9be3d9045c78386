//! Blocks of the heap by address, for allocators.

use crate::heap;
use crate::table;

/// Gets ready, as long as nobody forks or loads a library: else the first block does so. Does
/// nothing within another call of the heap.
pub fn prepare() {
    heap::prepare();
}

/// Allocates at least `bytes` bytes, in whole pages of 4096 bytes and on one. Null if `align` is
/// more than that, or no memory is to be had that peers may read; other memory may be.
#[must_use]
pub fn allocate(bytes: usize, align: usize, zeroed: bool) -> *mut u8 {
    heap::allocate(bytes, align, zeroed)
}

/// Gives a block back. False: it is not one of the heap.
///
/// # Safety
/// The address is not in a block of the heap, or is its first byte, and nobody uses it any more.
pub unsafe fn free(block: *mut u8) -> bool {
    match table::find(block.addr()) {
        Some(found) => {
            // SAFETY: the caller's promise.
            unsafe { heap::free(block, found) };
            true
        }
        None => false,
    }
}

/// Makes a block `bytes` bytes long where it lies. False: that cannot be, and nothing has changed.
///
/// # Safety
/// As [`free`], but that the first `bytes` bytes stay in use.
pub unsafe fn resize(block: *mut u8, bytes: usize) -> bool {
    // SAFETY: the caller's promise.
    table::find(block.addr()).is_some_and(|found| unsafe { heap::resize(found, bytes) })
}

/// Whether an address lies in the heap, and so a block is one of it.
#[must_use]
pub fn contains(block: *mut u8) -> bool {
    table::find(block.addr()).is_some()
}

/// Bytes of a block. `None`: it is not one of the heap, or this thread is in the heap, and cannot
/// be told.
///
/// # Safety
/// As [`free`], but that the block stays in use.
#[must_use]
pub unsafe fn length(block: *mut u8) -> Option<usize> {
    table::find(block.addr()).and_then(heap::length)
}
