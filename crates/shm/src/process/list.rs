//! The mappings that a child must not write, in memory that nobody shares.
//!
//! The program's allocator may be one whose long blocks lie in shared memory of this very list: a
//! fork would read the list in a mapping that it replaces, and parent and child would have one.

use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use rustix::io::Errno;

use super::{MapFlags, Shared, map_private};

/// Entries in private memory of its own.
///
/// # Invariants
/// The first `len` of `room` places at `start` have entries, and nobody else has their memory. It
/// is a mapping, or none where `room` is 0.
pub(super) struct List {
    start: NonNull<Shared>,
    len: usize,
    room: usize,
}

// SAFETY: the memory is the list's alone, and a mapping belongs to the process, not to a thread.
unsafe impl Send for List {}

/// Places of the first mapping: a page of them. Entries have no destructor.
const FIRST: usize = 4096 / size_of::<Shared>();
const _: () = assert!(!core::mem::needs_drop::<Shared>() && align_of::<Shared>() <= 4096);

impl List {
    pub(super) const fn new() -> Self {
        Self {
            start: NonNull::dangling(),
            len: 0,
            room: 0,
        }
    }

    /// Allocates nothing, so whoever has the list locked may call it.
    pub(super) fn push(&mut self, entry: Shared) -> Result<(), Errno> {
        if self.len == self.room {
            self.grow()?;
        }
        // SAFETY: there is room behind the last entry.
        unsafe { self.start.add(self.len).write(entry) };
        self.len += 1;
        Ok(())
    }

    fn grow(&mut self) -> Result<(), Errno> {
        let room = (2 * self.room).max(FIRST);
        // SAFETY: the kernel chooses an address where nothing is mapped.
        let new = unsafe { map_private(0, room * size_of::<Shared>(), MapFlags::empty()) }?;
        let new = NonNull::new(new.cast::<Shared>()).ok_or(Errno::NOMEM)?;
        // SAFETY: the new mapping has more places, and is another one.
        unsafe { self.start.copy_to_nonoverlapping(new, self.len) };
        if self.room > 0 {
            // Its entries have moved.
            let start = self.start.as_ptr().expose_provenance();
            super::unmap(start, self.room * size_of::<Shared>());
        }
        (self.start, self.room) = (new, room);
        Ok(())
    }

    /// Takes an entry out; the last one has its place then.
    pub(super) fn swap_remove(&mut self, at: usize) {
        if let Some(last) = self.len.checked_sub(1) {
            self.swap(at, last);
            self.len = last;
        }
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }
}

impl Deref for List {
    type Target = [Shared];
    fn deref(&self) -> &[Shared] {
        // SAFETY: so many entries are there, and whoever writes them has `&mut self`.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for List {
    fn deref_mut(&mut self) -> &mut [Shared] {
        // SAFETY: as above.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}
