//! An open `/dev/limic`.

use std::ffi::{c_int, c_ulong};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::abi::{self, Iov, Plain};
use crate::requests::Slot;

/// An errno, comparable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub c_int);

impl Errno {
    /// The error of the last system call of this thread.
    #[must_use]
    pub fn last() -> Self {
        Self(io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", io::Error::from_raw_os_error(self.0))
    }
}

/// A session. Without [`hello`](Self::hello) it takes no calls.
#[derive(Debug)]
pub struct Session {
    file: File,
    /// The session's id.
    pub id: u64,
    status: *const u8,
    status_len: usize,
}

// SAFETY: the status area is read by atomics and volatile reads only.
unsafe impl Send for Session {}
// SAFETY: as for Send; the module serves threads side by side.
unsafe impl Sync for Session {}

impl Session {
    /// Opens the device and says nothing.
    ///
    /// # Errors
    /// Of open.
    pub fn silent() -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(abi::DEVICE)?;
        Ok(Self {
            file,
            id: 0,
            status: ptr::null(),
            status_len: 0,
        })
    }

    /// A session for the primitives.
    #[must_use]
    pub fn primitives() -> Self {
        let mut session = Self::silent().expect("open /dev/limic");
        session.hello(0, 0).expect("hello");
        session
    }

    /// A member of the group with this token.
    #[must_use]
    pub fn member(token: [u64; 2], rank: u32) -> Self {
        let mut session = Self::silent().expect("open /dev/limic");
        session.hello(64, 0).expect("hello");
        session.join(token, rank).expect("join");
        session
    }

    /// Says hello, and maps the status area if there are slots.
    ///
    /// # Errors
    /// Of the call.
    pub fn hello(&mut self, slots: u32, unexpected: u32) -> Result<abi::Hello, Errno> {
        let mut hello = abi::Hello {
            version: abi::VERSION,
            slots,
            unexpected,
            ..Default::default()
        };
        self.call(abi::HELLO, &mut hello)?;
        self.id = hello.session;
        if slots > 0 {
            self.status = self
                .map(hello.status_bytes as usize, libc::PROT_READ)
                .expect("map the status area");
            self.status_len = hello.status_bytes as usize;
        }
        Ok(hello)
    }

    /// Maps the status area.
    ///
    /// # Errors
    /// Of mmap.
    pub fn map(&self, len: usize, access: c_int) -> Result<*const u8, Errno> {
        self.map_at(len, access, 0)
    }

    /// Maps what is at an offset.
    ///
    /// # Errors
    /// Of mmap.
    pub fn map_at(
        &self,
        len: usize,
        access: c_int,
        offset: libc::off_t,
    ) -> Result<*const u8, Errno> {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                access,
                libc::MAP_SHARED,
                self.descriptor(),
                offset,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        Ok(base.cast_const().cast())
    }

    /// Joins a group, and makes it if it is not there.
    ///
    /// # Errors
    /// Of the call.
    pub fn join(&self, token: [u64; 2], rank: u32) -> Result<abi::Join, Errno> {
        let mut join = abi::Join {
            token,
            flags: abi::JOIN_CREATE,
            rank,
            ..Default::default()
        };
        self.call(abi::JOIN, &mut join)?;
        Ok(join)
    }

    /// One ioctl with a structure.
    ///
    /// # Errors
    /// Of the call; the structure holds what the module wrote back.
    pub fn call<T: Plain>(&self, number: c_ulong, arg: &mut T) -> Result<(), Errno> {
        // SAFETY: the structure is plain bytes of the size that the number says, and lives during
        // the call.
        unsafe { self.raw(number, ptr::from_mut(arg) as usize) }
    }

    /// One ioctl with any argument.
    ///
    /// # Errors
    /// Of the call.
    ///
    /// # Safety
    /// What the argument names, if the module takes the call, is memory that nobody holds
    /// references to.
    pub unsafe fn raw(&self, number: c_ulong, arg: usize) -> Result<(), Errno> {
        // SAFETY: by the caller.
        let done = unsafe { libc::ioctl(self.descriptor(), number, arg) };
        if done < 0 { Err(Errno::last()) } else { Ok(()) }
    }

    /// The file descriptor.
    #[must_use]
    pub fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Exposes pieces; gives the handle.
    ///
    /// # Errors
    /// Of the call.
    pub fn expose(&self, pieces: &[Iov], flags: u32, to: To) -> Result<u64, Errno> {
        self.expose_behind(pieces, flags, to, 0)
    }

    /// Exposes pieces behind a latch, if the flags say so; gives the handle.
    ///
    /// # Errors
    /// Of the call.
    pub fn expose_behind(
        &self,
        pieces: &[Iov],
        flags: u32,
        to: To,
        latch: u32,
    ) -> Result<u64, Errno> {
        let mut arg = abi::Expose {
            iov: pieces.as_ptr() as u64,
            nr_iov: pieces.len() as u32,
            flags,
            latch,
            ..Default::default()
        };
        match to {
            To::Group => arg.to = abi::TO_GROUP,
            To::Rank(rank) => (arg.to, arg.rank) = (abi::TO_RANK, rank),
            To::Session(session) => (arg.to, arg.session) = (abi::TO_SESSION, session),
        }
        self.call(abi::EXPOSE, &mut arg)?;
        Ok(arg.handle)
    }

    /// Copies between an exposure and pieces; gives the bytes that got through.
    pub fn copy(
        &self,
        handle: u64,
        offset: u64,
        pieces: &[Iov],
        flags: u32,
    ) -> (u64, Result<(), Errno>) {
        let mut arg = abi::Copy_ {
            handle,
            offset,
            iov: pieces.as_ptr() as u64,
            nr_iov: pieces.len() as u32,
            flags,
            ..Default::default()
        };
        let result = self.call(abi::COPY, &mut arg);
        (arg.copied, result)
    }

    /// Ends an exposure.
    ///
    /// # Errors
    /// Of the call.
    pub fn revoke(&self, handle: u64) -> Result<(), Errno> {
        self.call(
            abi::REVOKE,
            &mut abi::Revoke {
                handle,
                reserved: 0,
            },
        )
    }

    /// Ends the session.
    ///
    /// # Errors
    /// Of the call.
    pub fn end(&self) -> Result<(), Errno> {
        // SAFETY: it takes no argument.
        unsafe { self.raw(abi::END, 0) }
    }

    /// What the mapped memory says of a slot.
    #[must_use]
    pub fn status(&self, slot: Slot) -> abi::Status {
        let at = (1 + slot as usize) * size_of::<abi::Status>();
        self.read_area(at)
    }

    /// Where the status area is mapped.
    #[must_use]
    pub fn status_address(&self) -> *mut u8 {
        self.status.cast_mut()
    }

    /// The header of the mapped memory.
    #[must_use]
    pub fn header(&self) -> abi::Header {
        self.read_area(0)
    }

    fn read_area<T: Plain>(&self, at: usize) -> T {
        assert!(at + size_of::<T>() <= self.status_len);
        // SAFETY: within the mapping. Its first word is an atomic that only the kernel writes.
        let (first, rest) = unsafe {
            let place = self.status.add(at);
            #[allow(
                clippy::cast_ptr_alignment,
                reason = "64-byte places of a page-aligned area"
            )]
            (
                AtomicU32::from_ptr(place.cast_mut().cast()),
                place.cast::<T>(),
            )
        };
        // Acquire: pairs with the kernel's release, which comes after the rest.
        first.load(Ordering::Acquire);
        // SAFETY: any bytes are a value.
        unsafe { rest.read_volatile() }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.status.is_null() {
            // SAFETY: its own mapping. In a forked child it is not there, and unmapping nothing is
            // no error.
            unsafe { libc::munmap(self.status.cast_mut().cast(), self.status_len) };
        }
    }
}

/// Whom an exposure is for.
#[derive(Clone, Copy, Debug)]
pub enum To {
    /// All members of the group.
    Group,
    /// One member.
    Rank(u32),
    /// One session.
    Session(u64),
}
