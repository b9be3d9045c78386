//! A page that is not there until the test says so: whoever touches it sleeps (userfaultfd).

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};

use crate::{Memory, PAGE};

const API: u64 = 0xaa;
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const UFFDIO_ZEROPAGE: libc::c_ulong = 0xc020_aa04;

/// Holds back pages of a mapping.
#[derive(Debug)]
pub struct Fault {
    file: File,
}

impl Fault {
    /// Holds back all pages of `memory` from the one at `at` on. They must not have been touched
    /// yet.
    #[must_use]
    pub fn hold(memory: &Memory, at: usize) -> Self {
        // SAFETY: makes a descriptor.
        let descriptor = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) };
        assert!(
            descriptor >= 0,
            "userfaultfd: {}",
            io::Error::last_os_error()
        );
        // SAFETY: just made, and owned by nobody else.
        let file = unsafe { File::from_raw_fd(descriptor as i32) };
        let mut api = [API, 0, 0];
        let len = (memory.len() - at).next_multiple_of(PAGE) as u64;
        let mut register = [memory.part(at, 0).base, len, 1, 0];
        // SAFETY: the structures have the sizes that the numbers say.
        unsafe {
            assert_eq!(
                libc::ioctl(file.as_raw_fd(), UFFDIO_API, api.as_mut_ptr()),
                0
            );
            assert_eq!(
                libc::ioctl(file.as_raw_fd(), UFFDIO_REGISTER, register.as_mut_ptr()),
                0,
                "{}",
                io::Error::last_os_error()
            );
        }
        Self { file }
    }

    /// Waits until somebody touches a page; gives its address.
    #[must_use]
    pub fn touched(&mut self) -> u64 {
        let mut message = [0; 32];
        self.file
            .read_exact(&mut message)
            .expect("a message from userfaultfd");
        let mut address = [0; 8];
        address.copy_from_slice(&message[16..24]);
        u64::from_ne_bytes(address) & !(PAGE as u64 - 1)
    }

    /// Gives out the page at an address, as zeroes.
    pub fn release(&self, address: u64) {
        let mut zero = [address, PAGE as u64, 0, 0];
        // SAFETY: the structure has the size that the number says.
        let done =
            unsafe { libc::ioctl(self.file.as_raw_fd(), UFFDIO_ZEROPAGE, zero.as_mut_ptr()) };
        assert_eq!(done, 0, "UFFDIO_ZEROPAGE: {}", io::Error::last_os_error());
    }
}
