//! Ways in which a process changes memory under an exposure.

use crate::child::Child;
use crate::memory::{Memory, PAGE};
use crate::session::Errno;

/// How memory is changed. It is there afterwards, and may be written.
pub type Way = fn(&Memory);

/// All of them, by name.
pub const WAYS: [(&str, Way); 6] = [
    ("mapped over", replace),
    ("moved away", remap),
    ("given back", Memory::throw_away),
    ("given back in the middle", give_back_the_middle),
    ("forked", fork),
    ("protected", protect_and_back),
];

/// Maps other memory where `memory` is.
pub fn replace(memory: &Memory) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: where the test's own mapping is or was, to which nothing refers.
    let base = unsafe { libc::mmap(memory.pointer().cast(), memory.len(), access, flags, -1, 0) };
    assert_ne!(base, libc::MAP_FAILED);
}

/// Moves the pages away, writes to them there, and puts new ones in their place.
fn remap(memory: &Memory) {
    let elsewhere = Memory::new(memory.len());
    let (old, new, len) = (memory.pointer(), elsewhere.pointer(), memory.len());
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: the test's own mappings, to which nothing refers.
    let moved = unsafe { libc::mremap(old.cast(), len, len, flags, new) };
    assert_eq!(moved, new.cast(), "{:?}", Errno::last());
    // SAFETY: just mapped there.
    unsafe { new.write_bytes(0xee, len) };
    replace(memory);
}

/// A child that ends; the memory is copied on write for one of the two.
fn fork(memory: &Memory) {
    Child::fork(|_| assert!(!memory.is_empty())).join();
}

/// Gives a page in the middle back, which reads as zeroes then.
pub fn give_back_the_middle(memory: &Memory) {
    let at = memory.len() / PAGE / 3 * PAGE;
    // SAFETY: within the mapping; it reads as zeroes afterwards.
    unsafe {
        let page = memory.pointer().add(at).cast();
        assert_eq!(libc::madvise(page, PAGE, libc::MADV_DONTNEED), 0);
    }
}

fn protect_and_back(memory: &Memory) {
    memory.protect(libc::PROT_NONE);
    memory.protect(libc::PROT_READ | libc::PROT_WRITE);
}
