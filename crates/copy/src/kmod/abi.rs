//! The interface of `/dev/limic`, as `kernel/limic_rs/uapi/limic.h` lays it out: sizes, numbers,
//! structures.
//!
//! The header is the document; the names here are its own. Every structure is free of padding, and
//! each call carries its structure's size in its number, so that a difference between the two is
//! ENOTTY and not a misread field.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

/// The device.
pub(crate) const DEVICE: &str = "/dev/limic";
/// Version of the interface that this crate speaks.
pub(crate) const VERSION: u32 = 1;
/// Slices in one list, at most.
pub(crate) const MAX_IOV: usize = 1024;

pub(crate) const EXPOSE_READ: u32 = 1 << 0;
pub(crate) const EXPOSE_WRITE: u32 = 1 << 1;
pub(crate) const EXPOSE_KEEP: u32 = 1 << 3;
pub(crate) const EXPOSE_LATCH: u32 = 1 << 4;
pub(crate) const TO_GROUP: u32 = 0;
pub(crate) const TO_SESSION: u32 = 2;
pub(crate) const COPY_READ: u32 = 1 << 0;
pub(crate) const COPY_WRITE: u32 = 1 << 1;

pub(crate) const ANY_RANK: u32 = u32::MAX;
pub(crate) const MAX_BUFFERED: u64 = 4096;
pub(crate) const JOIN_CREATE: u32 = 1 << 0;
pub(crate) const JOIN_FD: u32 = 1 << 1;
pub(crate) const FEATURE_JOIN_FD: u64 = 1 << 0;
pub(crate) const FEATURE_IMMEDIATE: u64 = 1 << 1;
pub(crate) const FEATURE_CLOSED: u64 = 1 << 2;
pub(crate) const FEATURE_KEEP: u64 = 1 << 3;
pub(crate) const FEATURE_LATCH: u64 = 1 << 4;
pub(crate) const FEATURE_END: u64 = 1 << 5;
pub(crate) const MEMBER_ABSENT: u32 = 0;
pub(crate) const MEMBER_PRESENT: u32 = 1;
pub(crate) const MEMBER_CLOSED: u32 = 3;
pub(crate) const SEND_BUFFERED: u32 = 1 << 0;
pub(crate) const SEND_IMMEDIATE: u32 = 1 << 1;
pub(crate) const SEND_KEEP: u32 = 1 << 2;
pub(crate) const RECV_MESSAGE: u32 = 1 << 0;
pub(crate) const RECV_KEEP: u32 = 1 << 1;
pub(crate) const CANCEL_FORCE: u32 = 1 << 0;
pub(crate) const PROBE_TAKE: u32 = 1 << 0;
pub(crate) const PROBE_IMMEDIATE: u32 = 1 << 1;
pub(crate) const DONE: u32 = 2;
pub(crate) const STATUS_IMMEDIATE: u32 = 1 << 0;
pub(crate) const LATCHES: usize = 64;
pub(crate) const LATCH_BYTES: usize = 4096;
pub(crate) const LATCH_OFFSET: libc::off_t = 0x10_0000;
pub(crate) const LATCH_STRUCK: u32 = 1 << 31;

/// A structure that one of the calls takes.
///
/// # Safety
/// `NUMBER` is the call that takes exactly this structure: it reads and writes nothing beyond
/// `size_of::<Self>()` bytes of it, and every bit pattern is a value of each field.
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

/// `LIMIC_IOC_PING`, which takes nothing and does nothing.
pub(crate) const PING: libc::c_ulong = number(0, 0x03, 0);

/// `LIMIC_IOC_END`, which takes nothing and ends the session.
pub(crate) const END: libc::c_ulong = number(0, 0x04, 0);

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
    pub(crate) latch: u32,
    pub(crate) reserved0: u32,
    pub(crate) reserved: u64,
}

// SAFETY: `LIMIC_IOC_EXPOSE` takes `struct limic_expose`, of which this is a copy. The list that it
// names is only read.
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

// SAFETY: `LIMIC_IOC_COPY` takes `struct limic_copy`, of which this is a copy. What its list names
// is touched too: the callers answer for that.
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

/// `struct limic_join`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Join {
    pub(crate) token: [u64; 2],
    pub(crate) flags: u32,
    pub(crate) rank: u32,
    pub(crate) size: u32,
    pub(crate) fd: i32,
    pub(crate) reserved: [u64; 4],
}

// SAFETY: `LIMIC_IOC_JOIN` takes `struct limic_join`, of which this is a copy.
unsafe impl Call for Join {
    const NUMBER: libc::c_ulong = number(READ | WRITE, 0x01, size_of::<Self>());
}

/// `struct limic_member`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Member {
    pub(crate) rank: u32,
    pub(crate) state: u32,
    pub(crate) reserved: u64,
}

// SAFETY: `LIMIC_IOC_MEMBER` takes `struct limic_member`, of which this is a copy.
unsafe impl Call for Member {
    const NUMBER: libc::c_ulong = number(READ | WRITE, 0x02, size_of::<Self>());
}

/// `struct limic_send`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Send {
    pub(crate) iov: u64,
    pub(crate) nr_iov: u32,
    pub(crate) flags: u32,
    pub(crate) tag: u64,
    pub(crate) cookie: u64,
    pub(crate) rank: u32,
    pub(crate) slot: u32,
    pub(crate) state: u32,
    pub(crate) reserved0: u32,
    pub(crate) immediate: u64,
    pub(crate) reserved: u64,
}

// SAFETY: `LIMIC_IOC_SEND` takes `struct limic_send`, of which this is a copy. What its list names
// is read until the request is over: the callers answer for that.
unsafe impl Call for Send {
    const NUMBER: libc::c_ulong = number(READ | WRITE, 0x20, size_of::<Self>());
}

/// `struct limic_recv`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Recv {
    pub(crate) iov: u64,
    pub(crate) nr_iov: u32,
    pub(crate) flags: u32,
    pub(crate) tag: u64,
    pub(crate) mask: u64,
    pub(crate) cookie: u64,
    pub(crate) message: u64,
    pub(crate) rank: u32,
    pub(crate) slot: u32,
    pub(crate) state: u32,
    pub(crate) reserved0: u32,
}

// SAFETY: `LIMIC_IOC_RECV` takes `struct limic_recv`, of which this is a copy. What its list names
// is written until the request is over: the callers answer for that.
unsafe impl Call for Recv {
    const NUMBER: libc::c_ulong = number(READ | WRITE, 0x21, size_of::<Self>());
}

/// `struct limic_probe`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Probe {
    pub(crate) tag: u64,
    pub(crate) mask: u64,
    pub(crate) rank: u32,
    pub(crate) flags: u32,
    pub(crate) len: u64,
    pub(crate) message: u64,
    pub(crate) immediate: u64,
    pub(crate) reserved: [u64; 2],
}

// SAFETY: `LIMIC_IOC_PROBE` takes `struct limic_probe`, of which this is a copy.
unsafe impl Call for Probe {
    const NUMBER: libc::c_ulong = number(READ | WRITE, 0x22, size_of::<Self>());
}

/// `struct limic_cancel`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Cancel {
    pub(crate) slot: u32,
    pub(crate) flags: u32,
    pub(crate) reserved: u64,
}

// SAFETY: `LIMIC_IOC_CANCEL` takes `struct limic_cancel`, of which this is a copy.
unsafe impl Call for Cancel {
    const NUMBER: libc::c_ulong = number(WRITE, 0x23, size_of::<Self>());
}

/// `struct limic_wait`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Wait {
    pub(crate) slots: u64,
    pub(crate) nr: u32,
    pub(crate) min: u32,
    pub(crate) timeout_ns: i64,
    pub(crate) flags: u32,
    pub(crate) done: u32,
    pub(crate) arrivals: u32,
    pub(crate) departures: u32,
    pub(crate) reserved: [u64; 3],
}

// SAFETY: `LIMIC_IOC_WAIT` takes `struct limic_wait`, of which this is a copy. Its list of slots is
// only read.
unsafe impl Call for Wait {
    const NUMBER: libc::c_ulong = number(READ | WRITE, 0x24, size_of::<Self>());
}

/// `struct limic_status_header`: what the module counts for a session, in memory that it maps.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct StatusHeader {
    pub(crate) version: AtomicU32,
    pub(crate) slots: AtomicU32,
    pub(crate) completions: AtomicU32,
    pub(crate) arrivals: AtomicU32,
    pub(crate) departures: AtomicU32,
    pub(crate) ended: AtomicU32,
    pub(crate) reserved: [AtomicU32; 10],
}

/// `struct limic_status`: one slot, behind the header.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct SlotStatus {
    pub(crate) state: AtomicU32,
    pub(crate) error: AtomicI32,
    pub(crate) len: AtomicU64,
    pub(crate) full_len: AtomicU64,
    pub(crate) tag: AtomicU64,
    pub(crate) cookie: AtomicU64,
    pub(crate) source: AtomicU32,
    pub(crate) flags: AtomicU32,
    pub(crate) immediate: AtomicU64,
    pub(crate) reserved: AtomicU64,
}

const _: () = assert!(size_of::<StatusHeader>() == 64 && size_of::<SlotStatus>() == 64);

/// `struct limic_latch`: the words between the owner of an exposure and the module, one cache line.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct LatchWords {
    pub(crate) open: AtomicU32,
    pub(crate) inside: AtomicU32,
    pub(crate) reserved: [AtomicU32; 14],
}

const _: () = assert!(LATCHES * size_of::<LatchWords>() == LATCH_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    /// Structures and numbers against the header itself, as the C compiler of this machine reads
    /// it.
    #[test]
    fn the_header_says_the_same() {
        let header = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../kernel/limic_rs/uapi/limic.h"
        );
        let program = format!(
            "#include \"{header}\"\n#include <stdio.h>\nint main(void) {{ printf(\"%d %d %lx %lx %lx %lx %d %d %d %d %d \
             %lx %lx %lx %lx %lx %lx %lx %d %d %x %x %x %lx %x %llx\", \
             LIMIC_UAPI_VERSION, LIMIC_MAX_IOV, (long)LIMIC_IOC_HELLO, (long)LIMIC_IOC_EXPOSE, (long)LIMIC_IOC_COPY, \
             (long)LIMIC_IOC_REVOKE, LIMIC_EXPOSE_READ, LIMIC_EXPOSE_WRITE, LIMIC_TO_SESSION, LIMIC_COPY_READ, \
             LIMIC_COPY_WRITE, (long)LIMIC_IOC_JOIN, (long)LIMIC_IOC_MEMBER, (long)LIMIC_IOC_SEND, (long)LIMIC_IOC_RECV, \
             (long)LIMIC_IOC_PROBE, (long)LIMIC_IOC_CANCEL, (long)LIMIC_IOC_WAIT, \
             LIMIC_LATCHES, LIMIC_LATCH_BYTES, LIMIC_LATCH_OFFSET, LIMIC_LATCH_STRUCK, LIMIC_EXPOSE_LATCH, \
             (long)LIMIC_IOC_END, LIMIC_CANCEL_FORCE, LIMIC_FEATURE_END); }}"
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
            "{VERSION} {MAX_IOV} {:x} {:x} {:x} {:x} {EXPOSE_READ} {EXPOSE_WRITE} {TO_SESSION} {COPY_READ} {COPY_WRITE} {:x} {:x} {:x} {:x} {:x} {:x} {:x} {LATCHES} {LATCH_BYTES} {LATCH_OFFSET:x} {LATCH_STRUCK:x} {EXPOSE_LATCH:x} {END:x} {CANCEL_FORCE:x} {FEATURE_END:x}",
            Hello::NUMBER,
            Expose::NUMBER,
            Copy::NUMBER,
            Revoke::NUMBER,
            Join::NUMBER,
            Member::NUMBER,
            Send::NUMBER,
            Recv::NUMBER,
            Probe::NUMBER,
            Cancel::NUMBER,
            Wait::NUMBER
        );
        assert_eq!(String::from_utf8_lossy(&said.stdout), ours);
        assert_eq!(
            [
                std::mem::offset_of!(Hello, session),
                std::mem::offset_of!(Expose, handle),
                std::mem::offset_of!(Expose, latch),
                std::mem::offset_of!(Copy, copied)
            ],
            [24, 32, 48, 32]
        );
    }
}
