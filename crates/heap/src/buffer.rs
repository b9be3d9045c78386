//! A buffer that peers may read.

use core::alloc::{GlobalAlloc, Layout};
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use crate::PeerReadable;
use crate::heap::PAGE;

/// Each length is long enough: the user has asked for a buffer.
const ALLOCATOR: PeerReadable = PeerReadable::from_bytes(1);

/// Bytes of this process that its peers may read and cannot write. At first they are 0.
///
/// It is sent as any slice is, whole or in part, as often as wanted; the room is given back when it
/// is dropped. It belongs to no endpoint.
///
/// ```
/// let mut buffer = limic_heap::Buffer::new(1 << 20).ok_or("no memory")?;
/// buffer[..5].copy_from_slice(b"hello");
/// assert!(buffer.is_peer_readable());
/// # Ok::<(), &str>(())
/// ```
pub struct Buffer {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: it owns its bytes, as a `Box<[u8]>` does.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A buffer of `len` bytes, on a page. If the system gives no memory that peers may read, or a
    /// thread forks at the moment, it is ordinary memory: see
    /// [`is_peer_readable`](Self::is_peer_readable). `None`: there is no memory.
    #[must_use]
    pub fn new(len: usize) -> Option<Self> {
        // SAFETY: the layout has at least one byte.
        let start = unsafe { ALLOCATOR.alloc_zeroed(Self::layout(len)?) };
        let start = NonNull::new(start)?;
        Some(Self { start, len })
    }

    /// Whether peers may read it. They cannot if it is ordinary memory, nor in a child that was
    /// forked from the process which made it.
    #[must_use]
    pub fn is_peer_readable(&self) -> bool {
        crate::place(self.start.as_ptr(), self.len).is_some()
    }

    fn layout(len: usize) -> Option<Layout> {
        Layout::from_size_align(len.max(1), PAGE).ok()
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: its own bytes, which were zeroed, and which peers cannot write.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; `&mut self` makes this the only access of this process, and peers only
        // read.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("len", &self.len)
            .field("is_peer_readable", &self.is_peer_readable())
            .finish()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(layout) = Self::layout(self.len) {
            // SAFETY: allocated with this layout, and nobody uses it any more.
            unsafe { ALLOCATOR.dealloc(self.start.as_ptr(), layout) };
        }
    }
}
