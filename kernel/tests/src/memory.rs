//! Mapped memory.

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use crate::abi::Iov;

/// Bytes of a small page.
pub const PAGE: usize = 4096;

/// A mapping, unmapped when dropped.
#[derive(Debug)]
pub struct Memory {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: it owns its mapping, as a box owns its allocation.
unsafe impl Send for Memory {}
// SAFETY: bytes are reached through `&self` for reading only.
unsafe impl Sync for Memory {}

impl Memory {
    /// Private memory, not touched yet.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self::map(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, None)
            .expect("memory for a test buffer")
    }

    /// Private memory with the pattern of `seed`.
    #[must_use]
    pub fn filled(len: usize, seed: u64) -> Self {
        let mut memory = Self::new(len);
        crate::fill(&mut memory, seed);
        memory
    }

    /// Memory that forked processes share.
    #[must_use]
    pub fn shared(len: usize) -> Self {
        Self::map(len, libc::MAP_SHARED | libc::MAP_ANONYMOUS, None)
            .expect("shared memory for a test")
    }

    /// Memory below 4 GiB, for 32-bit callers.
    #[must_use]
    pub fn low(len: usize) -> Self {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT;
        Self::map(len, flags, None).expect("memory below 4 GiB")
    }

    /// Memory of 2 MiB pages: huge ones by request, or reserved ones.
    ///
    /// # Errors
    /// There are none.
    pub fn huge(len: usize, reserved: bool) -> io::Result<Self> {
        const HUGE: usize = 2 << 20;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        if reserved {
            return Self::map(len, flags | libc::MAP_HUGETLB, None);
        }
        // One page more than needed, and the ends are cut off.
        let mut whole = Self::map(len + HUGE, flags, None)?;
        let skip = whole.base.as_ptr().align_offset(HUGE);
        whole.cut(skip, len);
        // SAFETY: advice about memory that this object owns.
        let done = unsafe { libc::madvise(whole.pointer().cast(), len, libc::MADV_HUGEPAGE) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(whole)
    }

    /// A mapping of a file.
    ///
    /// # Errors
    /// Of mmap.
    pub fn of_file(file: &File, len: usize, shared: bool) -> io::Result<Self> {
        let flags = if shared {
            libc::MAP_SHARED
        } else {
            libc::MAP_PRIVATE
        };
        Self::map(len, flags, Some(file))
    }

    fn map(len: usize, flags: c_int, file: Option<&File>) -> io::Result<Self> {
        let descriptor = file.map_or(-1, AsRawFd::as_raw_fd);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, descriptor, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::Other)?;
        Ok(Self { base, len })
    }

    /// Keeps `len` bytes after the first `skip`.
    fn cut(&mut self, skip: usize, len: usize) {
        let (base, end) = (self.pointer(), skip + len);
        // SAFETY: both parts belong to this mapping and are not used any more.
        unsafe {
            if skip > 0 {
                libc::munmap(base.cast(), skip);
            }
            if self.len > end {
                libc::munmap(base.add(end).cast(), self.len - end);
            }
            self.base = self.base.add(skip);
        }
        self.len = len;
    }

    /// Unmaps a part, which must not be touched any more. The addresses stay reserved, so that no
    /// other memory comes there.
    pub fn punch(&self, at: usize, len: usize) {
        assert!(at + len <= self.len);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        // SAFETY: within this mapping, and the tests do not touch it again.
        let hole = unsafe {
            let place = self.pointer().add(at).cast();
            libc::mmap(place, len, libc::PROT_NONE, flags, -1, 0)
        };
        assert_ne!(hole, libc::MAP_FAILED, "{}", io::Error::last_os_error());
    }

    /// Changes the protection of all of it; with writing gone, `&mut` access faults.
    pub fn protect(&self, access: c_int) {
        // SAFETY: within this mapping.
        let done = unsafe { libc::mprotect(self.pointer().cast(), self.len, access) };
        assert_eq!(done, 0, "mprotect: {}", io::Error::last_os_error());
    }

    /// Tells the kernel to throw the content away.
    pub fn throw_away(&self) {
        // SAFETY: within this mapping; it reads as zeroes afterwards.
        unsafe { libc::madvise(self.pointer().cast(), self.len, libc::MADV_DONTNEED) };
    }

    /// First byte.
    #[must_use]
    pub fn pointer(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// First byte, as the module wants it.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.pointer() as u64
    }

    /// The whole as a piece.
    #[must_use]
    pub fn piece(&self) -> Iov {
        self.part(0, self.len)
    }

    /// A part as a piece.
    #[must_use]
    pub fn part(&self, at: usize, len: usize) -> Iov {
        Iov {
            base: self.address() + at as u64,
            len: len as u64,
        }
    }
}

impl std::ops::Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped and initialised by the kernel. Another process may write to it only where
        // a test waits for that to be over.
        unsafe { std::slice::from_raw_parts(self.pointer(), self.len) }
    }
}

impl std::ops::DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(), self.len) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: its own mapping.
        unsafe { libc::munmap(self.pointer().cast(), self.len) };
    }
}

/// Sets RLIMIT_MEMLOCK of this process, in bytes, and gives up the right to ignore it.
///
/// # Panics
/// If that fails.
pub fn lock_at_most(bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: bytes,
    };
    let version = 0x2008_0522_u32;
    let header = [version, 0];
    let none = [0_u32; 6];
    // SAFETY: plain system calls with structures of the right size.
    unsafe {
        assert_eq!(libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit), 0);
        let done = libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr());
        assert_eq!(done, 0, "capset: {:?}", io::Error::last_os_error());
    }
}
