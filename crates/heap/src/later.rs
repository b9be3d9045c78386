//! Blocks that are given back when the heap cannot take them: while a thread forks, or by a thread
//! that is in the heap. They wait for its next call, in a list that needs no memory of its own.

use core::iter::from_fn;
use core::ptr::null_mut;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The last one. In its first bytes each has the address of the one before.
static LAST: AtomicPtr<u8> = AtomicPtr::new(null_mut());

/// Has a block wait.
///
/// # Safety
/// Nobody uses the block any more.
pub(crate) unsafe fn push(block: *mut u8) {
    let mut before = LAST.load(Relaxed);
    loop {
        // SAFETY: a block has at least a page, and is the caller's to write.
        unsafe { block.cast::<*mut u8>().write_unaligned(before) };
        // Release pairs with the acquire of `take_all`.
        match LAST.compare_exchange_weak(before, block, Release, Relaxed) {
            Ok(_) => return,
            Err(now) => before = now,
        }
    }
}

/// Takes all blocks that wait.
pub(crate) fn take_all() -> impl Iterator<Item = *mut u8> {
    let mut next = if LAST.load(Relaxed).is_null() {
        null_mut()
    } else {
        // Acquire pairs with the release of `push`.
        LAST.swap(null_mut(), Acquire)
    };
    from_fn(move || {
        let block = next;
        if block.is_null() {
            return None;
        }
        // SAFETY: a block that nobody else has, with what `push` has written there.
        next = unsafe { block.cast::<*mut u8>().read_unaligned() };
        Some(block)
    })
}

/// In a child: others have given these back, and what they wrote may not be in its copy.
pub(crate) fn forget() {
    LAST.store(null_mut(), Relaxed);
}
