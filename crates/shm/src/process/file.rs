//! Files of which only the number may be left: a program may close any descriptor, as daemons do at
//! their start, and put another file there.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};

use rustix::fs::fstat;
use rustix::io::{close, fcntl_dupfd_cloexec};

use crate::system::opened;

/// An open file, and what tells whether its descriptor is still its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    fd: RawFd,
    device: u64,
    inode: u64,
}

impl File {
    pub(super) fn of(fd: BorrowedFd<'_>) -> Self {
        // Without an answer it is taken for closed.
        let (device, inode) = fstat(fd).map_or((0, 0), |stat| (stat.st_dev, stat.st_ino));
        Self {
            fd: fd.as_raw_fd(),
            device,
            inode,
        }
    }

    /// The descriptor, if it is still this file's.
    pub(super) fn get(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: used for nothing but to ask what it is, before that is known.
        let fd = unsafe { BorrowedFd::borrow_raw(self.fd) };
        self.is(fd).then_some(fd)
    }

    fn is(&self, fd: BorrowedFd<'_>) -> bool {
        fstat(fd).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (self.device, self.inode))
    }

    /// Closes the descriptor, if it is still this file's. What the program has there stays open.
    pub(super) fn close(&self) {
        if self.get().is_some() {
            // SAFETY: this file's descriptor, whose owner does not use it any more.
            unsafe { close(self.fd) };
        }
    }
}

/// An open file that is closed when this is dropped, if the descriptor is still its own.
#[derive(Debug)]
pub(crate) struct OwnFile(File);

impl OwnFile {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        let file = File::of(fd.as_fd());
        let _ = fd.into_raw_fd();
        Self(file)
    }

    /// A second descriptor of the file. `None`: the program has closed the first one, or none is
    /// free.
    pub(crate) fn duplicate(&self) -> Option<OwnedFd> {
        // The new one is asked what it is: it is this caller's alone, and stays what it is.
        let new = fcntl_dupfd_cloexec(self.as_fd(), 0).map(opened).ok()?;
        self.0.is(new.as_fd()).then_some(new)
    }
}

impl AsFd for OwnFile {
    /// The number, which may be another file's by now.
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: open as long as this lives, unless the program has closed what is not its own.
        unsafe { BorrowedFd::borrow_raw(self.0.fd) }
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        self.0.close();
    }
}
