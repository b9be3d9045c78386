//! The interface of `/dev/limic`, as `kernel/limic_rs/uapi/limic.h` lays it out: sizes, numbers, structures.
//!
//! The header is the document; the names here are its own. Every structure is free of padding, and each call carries its
//! structure's size in its number, so that a difference between the two is ENOTTY and not a misread field.

/// The device.
pub(crate) const DEVICE: &str = "/dev/limic";
/// Version of the interface that this crate speaks.
pub(crate) const VERSION: u32 = 1;
/// Pieces in one list, at most.
pub(crate) const MAX_IOV: usize = 1024;

pub(crate) const EXPOSE_READ: u32 = 1 << 0;
pub(crate) const EXPOSE_WRITE: u32 = 1 << 1;
pub(crate) const TO_SESSION: u32 = 2;
pub(crate) const COPY_READ: u32 = 1 << 0;
pub(crate) const COPY_WRITE: u32 = 1 << 1;

/// A structure that one of the calls takes.
///
/// # Safety
/// `NUMBER` is the call that takes exactly this structure: it reads and writes nothing beyond `size_of::<Self>()` bytes
/// of it, and every bit pattern is a value of each field.
pub(crate) unsafe trait Call {
    /// The ioctl's number.
    const NUMBER: libc::c_ulong;
}

const READ: libc::c_ulong = 2;
const WRITE: libc::c_ulong = 1;

/// `_IOC` of `asm-generic/ioctl.h`, which x86 and aarch64 share.
const fn number(direction: libc::c_ulong, nr: libc::c_ulong, size: usize) -> libc::c_ulong {
    const MAGIC: libc::c_ulong = 0xC7;
    (direction << 30) | ((size as libc::c_ulong) << 16) | (MAGIC << 8) | nr
}

/// `struct limic_iov`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Iov {
    pub(crate) base: u64,
    pub(crate) len: u64,
}

/// `struct limic_hello`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Hello {
    pub(crate) version: u32,
    pub(crate) flags: u32,
    pub(crate) slots: u32,
    pub(crate) unexpected: u32,
    pub(crate) features: u64,
    pub(crate) session: u64,
    pub(crate) status_bytes: u64,
    pub(crate) reserved: [u64; 3],
}

// SAFETY: `LIMIC_IOC_HELLO` takes `struct limic_hello`, of which this is a copy.
unsafe impl Call for Hello {
    const NUMBER: libc::c_ulong = number(READ | WRITE, 0x00, size_of::<Self>());
}

/// `struct limic_expose`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Expose {
    pub(crate) iov: u64,
    pub(crate) nr_iov: u32,
    pub(crate) flags: u32,
    pub(crate) to: u32,
    pub(crate) rank: u32,
    pub(crate) session: u64,
    pub(crate) handle: u64,
    pub(crate) len: u64,
    pub(crate) reserved: [u64; 2],
}

// SAFETY: `LIMIC_IOC_EXPOSE` takes `struct limic_expose`, of which this is a copy. The list that it names is only read.
unsafe impl Call for Expose {
    const NUMBER: libc::c_ulong = number(READ | WRITE, 0x10, size_of::<Self>());
}

/// `struct limic_copy`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Copy {
    pub(crate) handle: u64,
    pub(crate) offset: u64,
    pub(crate) iov: u64,
    pub(crate) nr_iov: u32,
    pub(crate) flags: u32,
    pub(crate) copied: u64,
    pub(crate) reserved: [u64; 3],
}

// SAFETY: `LIMIC_IOC_COPY` takes `struct limic_copy`, of which this is a copy. What its list names is touched too: the
// callers answer for that.
unsafe impl Call for Copy {
    const NUMBER: libc::c_ulong = number(READ | WRITE, 0x11, size_of::<Self>());
}

/// `struct limic_revoke`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Revoke {
    pub(crate) handle: u64,
    pub(crate) reserved: u64,
}

// SAFETY: `LIMIC_IOC_REVOKE` takes `struct limic_revoke`, of which this is a copy.
unsafe impl Call for Revoke {
    const NUMBER: libc::c_ulong = number(WRITE, 0x12, size_of::<Self>());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Structures and numbers against the header itself, as the C compiler of this machine reads it.
    #[test]
    fn the_header_says_the_same() {
        let header = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../kernel/limic_rs/uapi/limic.h"
        );
        let program = format!(
            "#include \"{header}\"\n#include <stdio.h>\nint main(void) {{ printf(\"%d %d %lx %lx %lx %lx %d %d %d %d %d\", \
             LIMIC_VERSION, LIMIC_MAX_IOV, (long)LIMIC_IOC_HELLO, (long)LIMIC_IOC_EXPOSE, (long)LIMIC_IOC_COPY, \
             (long)LIMIC_IOC_REVOKE, LIMIC_EXPOSE_READ, LIMIC_EXPOSE_WRITE, LIMIC_TO_SESSION, LIMIC_COPY_READ, \
             LIMIC_COPY_WRITE); }}"
        );
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (source, binary) = (folder.path().join("abi.c"), folder.path().join("abi"));
        std::fs::write(&source, program).expect("a file");
        let compiled = std::process::Command::new("cc")
            .arg(&source)
            .arg("-o")
            .arg(&binary)
            .status();
        if !compiled.is_ok_and(|status| status.success()) {
            println!("SKIPPED: no C compiler that compiles the module's header");
            return;
        }
        let said = std::process::Command::new(&binary)
            .output()
            .expect("it runs");
        let ours = format!(
            "{VERSION} {MAX_IOV} {:x} {:x} {:x} {:x} {EXPOSE_READ} {EXPOSE_WRITE} {TO_SESSION} {COPY_READ} {COPY_WRITE}",
            Hello::NUMBER,
            Expose::NUMBER,
            Copy::NUMBER,
            Revoke::NUMBER
        );
        assert_eq!(String::from_utf8_lossy(&said.stdout), ours);
        assert_eq!(
            [
                std::mem::offset_of!(Hello, session),
                std::mem::offset_of!(Expose, handle),
                std::mem::offset_of!(Copy, copied)
            ],
            [24, 32, 32]
        );
    }
}
