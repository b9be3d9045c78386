//! Memory that an adapter may read and write.

use core::fmt;
use core::ops::BitOr;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::sys;

use super::domain::ProtectionDomain;
use crate::VerbsError;
use crate::error::leaked;

/// What an adapter may do with registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Access(u32);

impl Access {
    /// Only what this process posts may read it.
    pub const LOCAL_READ: Self = Self(0);
    /// Receives and RDMA reads of this process may fill it.
    pub const LOCAL: Self = Self(1);
    /// Peers that know the key may write.
    pub const REMOTE_WRITE: Self = Self(1 | 2);
    /// Peers that know the key may read.
    pub const REMOTE_READ: Self = Self(4);

    /// The registration follows the page tables: the adapter finds at an address what the process
    /// would find there, also after the range was unmapped and mapped anew. Only where
    /// [`Limits::on_demand`](super::Limits::on_demand) says so.
    pub const ON_DEMAND: Self = Self(64);
}

impl BitOr for Access {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Bytes at an address that stays the same while the owner lives, also when the owner is moved.
///
/// # Safety
/// `start` and `len` give the same answer at each call; the memory is readable and writable, is not
/// freed and is not referred to by anything but the owner until the owner is dropped.
pub unsafe trait StableBytes: Send {
    /// First byte.
    fn start(&self) -> NonNull<u8>;
    /// How many.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Page-aligned bytes, zero at first, which nobody holds a reference to: an adapter may write there
/// at any time.
pub struct Bytes {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory belongs to the value alone.
unsafe impl Send for Bytes {}

impl Bytes {
    /// `len` bytes, rounded up to whole pages, zero.
    ///
    /// # Errors
    /// [`VerbsError::Call`] if there is too little memory.
    pub fn zeroed(len: usize) -> Result<Self, VerbsError> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let page = rustix::param::page_size();
        let failed = |errno| VerbsError::Call {
            call: "mmap",
            errno,
        };
        let len = len
            .max(1)
            .checked_next_multiple_of(page)
            .ok_or(failed(rustix::io::Errno::NOMEM))?;
        // SAFETY: a new mapping at an address that the kernel picks.
        let start = unsafe {
            mmap_anonymous(
                core::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }
        .map_err(failed)?;
        // A forked child must not share these pages with the adapter (copy-on-write would move
        // them).
        // SAFETY: the mapping made above.
        let _ = unsafe { rustix::mm::madvise(start, len, rustix::mm::Advice::LinuxDontFork) };
        let start = NonNull::new(start.cast::<u8>()).ok_or(failed(rustix::io::Errno::NOMEM))?;
        Ok(Self { start, len })
    }

    /// Copies bytes in.
    ///
    /// # Panics
    /// If they do not fit: callers check the room.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at <= self.len && bytes.len() <= self.len - at, "no room");
        // SAFETY: inside the mapping (checked above), which no reference points into.
        unsafe {
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(at).as_ptr(), bytes.len())
        };
    }

    /// Copies bytes out. They may be an adapter's, and hostile: they are read once.
    ///
    /// # Panics
    /// If they lie outside: callers check the range.
    pub fn read(&self, at: usize, into: &mut [u8]) {
        assert!(at <= self.len && into.len() <= self.len - at, "outside");
        // SAFETY: inside the mapping (checked above); a write by an adapter at the same time gives
        // some mixture of bytes, as with any memory that another process writes.
        unsafe {
            core::ptr::copy_nonoverlapping(
                self.start.add(at).as_ptr(),
                into.as_mut_ptr(),
                into.len(),
            )
        };
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:p}", self.len, self.start)
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: mapped by `zeroed`, unmapped once.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

// SAFETY: a mapping of its own that lives until drop.
unsafe impl StableBytes for Bytes {
    fn start(&self) -> NonNull<u8> {
        self.start
    }
    fn len(&self) -> usize {
        self.len
    }
}

/// A registration of memory that belongs to somebody else.
#[derive(Debug)]
pub struct Registration {
    raw: NonNull<sys::ibv_mr>,
    start: u64,
    len: usize,
    access: Access,
    _domain: Arc<ProtectionDomain>,
}

// SAFETY: libibverbs allows every call on a memory region from any thread.
unsafe impl Send for Registration {}
// SAFETY: as above.
unsafe impl Sync for Registration {}

impl Registration {
    /// Registers a range.
    ///
    /// # Errors
    /// [`VerbsError::Call`]: out of memory, over RLIMIT_MEMLOCK, not mapped with the needed
    /// permission.
    ///
    /// # Safety
    /// While the registration lives, nothing that the range's owner relies on is broken by an
    /// adapter's reads, or (as `access` says) writes, of the physical pages that back the range
    /// now.
    pub unsafe fn new(
        domain: &Arc<ProtectionDomain>,
        start: *mut u8,
        len: usize,
        access: Access,
    ) -> Result<Self, VerbsError> {
        // SAFETY: the domain is alive and stays so; the kernel checks the range.
        let raw = unsafe { sys::ibv_reg_mr(domain.raw(), start.cast(), len, access.0 as i32) };
        let raw = NonNull::new(raw).ok_or_else(|| VerbsError::last("ibv_reg_mr"))?;
        Ok(Self {
            raw,
            start: start as u64,
            len,
            access,
            _domain: Arc::clone(domain),
        })
    }

    /// First byte as the adapter names it.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What is allowed.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access
    }

    /// The key for work requests of this process.
    #[must_use]
    pub fn local_key(&self) -> u32 {
        // SAFETY: a live region; the key never changes.
        unsafe { (*self.raw.as_ptr()).lkey }
    }

    /// The key for peers.
    #[must_use]
    pub fn remote_key(&self) -> u32 {
        // SAFETY: as above.
        unsafe { (*self.raw.as_ptr()).rkey }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: registered once, given back once.
        let returned = unsafe { sys::ibv_dereg_mr(self.raw.as_ptr()) };
        if returned != 0 {
            leaked("ibv_dereg_mr", returned);
        }
    }
}

/// Registered memory with its owner: neither goes without the other.
#[derive(Debug)]
pub struct MemoryRegion<M: StableBytes> {
    // Fields drop in this order: the registration first, then its memory.
    registration: Registration,
    owner: M,
}

impl<M: StableBytes> MemoryRegion<M> {
    /// Registers what `owner` owns.
    ///
    /// # Errors
    /// As [`Registration::new`].
    pub fn new(
        domain: &Arc<ProtectionDomain>,
        owner: M,
        access: Access,
    ) -> Result<Self, VerbsError> {
        // SAFETY: the owner promises (StableBytes) that nobody refers to the bytes, and is kept
        // until the registration is gone.
        let registration =
            unsafe { Registration::new(domain, owner.start().as_ptr(), owner.len(), access)? };
        Ok(Self {
            registration,
            owner,
        })
    }

    /// The registration.
    #[must_use]
    pub fn registration(&self) -> &Registration {
        &self.registration
    }

    /// The memory.
    #[must_use]
    pub fn memory(&self) -> &M {
        &self.owner
    }

    /// The memory.
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.owner
    }
}
