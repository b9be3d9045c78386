// SPDX-License-Identifier: GPL-2.0

//! The interface to user space, as in `uapi/limic.h`, which has the meaning of every field.

use kernel::ioctl::{_IO, _IOW, _IOWR};
use kernel::prelude::*;
use kernel::transmute::{AsBytes, FromBytes};

pub(crate) const VERSION: u32 = 1;
/// `LIMIC_FEATURE_JOIN_FD`, `LIMIC_FEATURE_IMMEDIATE`, `LIMIC_FEATURE_CLOSED`,
/// `LIMIC_FEATURE_KEEP`, `LIMIC_FEATURE_LATCH`, `LIMIC_FEATURE_END`
pub(crate) const FEATURES: u64 = 63;
const MAGIC: u32 = 0xC7;

pub(crate) const MAX_IOV: u32 = 1024;
pub(crate) const MAX_LEN: u64 = 1 << 40;
pub(crate) const MAX_SLOTS: u32 = 4096;
pub(crate) const MAX_UNEXPECTED: u32 = 65536;
pub(crate) const MAX_RANKS: u32 = 65536;
pub(crate) const MAX_SESSIONS: u32 = 64;
pub(crate) const MAX_WAIT: u32 = 4096;
pub(crate) const MAX_BUFFERED: u64 = 4096;
pub(crate) const LATCHES: usize = 64;
pub(crate) const LATCH_OFFSET: usize = 1 << 20;
pub(crate) const ANY_RANK: u32 = !0;
pub(crate) const DEFAULT_UNEXPECTED: u32 = 1024;
pub(crate) const DEFAULT_RANKS: u32 = 1024;

pub(crate) const JOIN_CREATE: u32 = 1;
pub(crate) const JOIN_FD: u32 = 2;
pub(crate) const MEMBER_ABSENT: u32 = 0;
pub(crate) const MEMBER_PRESENT: u32 = 1;
pub(crate) const MEMBER_LEFT: u32 = 2;
pub(crate) const MEMBER_CLOSED: u32 = 3;
pub(crate) const EXPOSE_READ: u32 = 1;
pub(crate) const EXPOSE_WRITE: u32 = 2;
pub(crate) const EXPOSE_ONCE: u32 = 4;
pub(crate) const EXPOSE_KEEP: u32 = 8;
pub(crate) const EXPOSE_LATCH: u32 = 16;
pub(crate) const TO_GROUP: u32 = 0;
pub(crate) const TO_RANK: u32 = 1;
pub(crate) const TO_SESSION: u32 = 2;
pub(crate) const COPY_READ: u32 = 1;
pub(crate) const COPY_WRITE: u32 = 2;
pub(crate) const SEND_BUFFERED: u32 = 1;
pub(crate) const SEND_IMMEDIATE: u32 = 2;
pub(crate) const SEND_KEEP: u32 = 4;
pub(crate) const RECV_MESSAGE: u32 = 1;
pub(crate) const RECV_KEEP: u32 = 2;
pub(crate) const PROBE_TAKE: u32 = 1;
pub(crate) const PROBE_IMMEDIATE: u32 = 2;
pub(crate) const CANCEL_FORCE: u32 = 1;
pub(crate) const STATUS_IMMEDIATE: u32 = 1;
pub(crate) const WAIT_ARRIVAL: u32 = 1;
pub(crate) const WAIT_DEPARTURE: u32 = 2;

pub(crate) const PENDING: u32 = 1;
pub(crate) const DONE: u32 = 2;

macro_rules! structure {
    ($(#[$meta:meta])* $name:ident, $size:literal { $($field:ident: $type:ty),* $(,)? }) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub(crate) struct $name {
            $(pub(crate) $field: $type),*
        }

        // No padding, so every byte of it is a field: the sum of the sizes is the size.
        const _: () = assert!(size_of::<$name>() == $size && 0 $(+ size_of::<$type>())* == $size);

        // SAFETY: all fields are integers, or arrays of them, which take any bits.
        unsafe impl FromBytes for $name {}
        // SAFETY: integers without padding, as asserted above.
        unsafe impl AsBytes for $name {}
    };
}

structure! {
    /// A piece of the caller's memory.
    Iov, 16 { base: u64, len: u64 }
}
structure! {
    /// `LIMIC_IOC_HELLO`
    Hello, 64 {
        version: u32, flags: u32, slots: u32, unexpected: u32,
        features: u64, session: u64, status_bytes: u64, reserved: [u64; 3],
    }
}
structure! {
    /// `LIMIC_IOC_JOIN`
    Join, 64 { token: [u64; 2], flags: u32, rank: u32, size: u32, fd: i32, reserved: [u64; 4] }
}
structure! {
    /// `LIMIC_IOC_MEMBER`
    Member, 16 { rank: u32, state: u32, reserved: u64 }
}
structure! {
    /// `LIMIC_IOC_EXPOSE`
    Expose, 64 {
        iov: u64, nr_iov: u32, flags: u32, to: u32, rank: u32, session: u64,
        handle: u64, len: u64, latch: u32, reserved0: u32, reserved: u64,
    }
}
structure! {
    /// `LIMIC_IOC_COPY`
    Copy, 64 {
        handle: u64, offset: u64, iov: u64, nr_iov: u32, flags: u32, copied: u64, reserved: [u64; 3],
    }
}
structure! {
    /// `LIMIC_IOC_REVOKE`
    Revoke, 16 { handle: u64, reserved: u64 }
}
structure! {
    /// `LIMIC_IOC_SEND`
    Send, 64 {
        iov: u64, nr_iov: u32, flags: u32, tag: u64, cookie: u64, rank: u32, slot: u32,
        state: u32, reserved0: u32, immediate: u64, reserved: u64,
    }
}
structure! {
    /// `LIMIC_IOC_RECV`
    Recv, 64 {
        iov: u64, nr_iov: u32, flags: u32, tag: u64, mask: u64, cookie: u64, message: u64,
        rank: u32, slot: u32, state: u32, reserved0: u32,
    }
}
structure! {
    /// `LIMIC_IOC_PROBE`
    Probe, 64 {
        tag: u64, mask: u64, rank: u32, flags: u32, len: u64, message: u64, immediate: u64,
        reserved: [u64; 2],
    }
}
structure! {
    /// `LIMIC_IOC_CANCEL`
    Cancel, 16 { slot: u32, flags: u32, reserved: u64 }
}
structure! {
    /// `LIMIC_IOC_WAIT`
    Wait, 64 {
        slots: u64, nr: u32, min: u32, timeout_ns: i64, flags: u32, done: u32,
        arrivals: u32, departures: u32, reserved: [u64; 3],
    }
}

pub(crate) const IOC_HELLO: u32 = _IOWR::<Hello>(MAGIC, 0x00);
pub(crate) const IOC_JOIN: u32 = _IOWR::<Join>(MAGIC, 0x01);
pub(crate) const IOC_MEMBER: u32 = _IOWR::<Member>(MAGIC, 0x02);
pub(crate) const IOC_PING: u32 = _IO(MAGIC, 0x03);
pub(crate) const IOC_END: u32 = _IO(MAGIC, 0x04);
pub(crate) const IOC_EXPOSE: u32 = _IOWR::<Expose>(MAGIC, 0x10);
pub(crate) const IOC_COPY: u32 = _IOWR::<Copy>(MAGIC, 0x11);
pub(crate) const IOC_REVOKE: u32 = _IOW::<Revoke>(MAGIC, 0x12);
pub(crate) const IOC_SEND: u32 = _IOWR::<Send>(MAGIC, 0x20);
pub(crate) const IOC_RECV: u32 = _IOWR::<Recv>(MAGIC, 0x21);
pub(crate) const IOC_PROBE: u32 = _IOWR::<Probe>(MAGIC, 0x22);
pub(crate) const IOC_CANCEL: u32 = _IOW::<Cancel>(MAGIC, 0x23);
pub(crate) const IOC_WAIT: u32 = _IOWR::<Wait>(MAGIC, 0x24);

/// Refuses bits of `flags` that have no meaning, and reserved fields that are not 0.
pub(crate) fn check(flags: u32, known: u32, reserved: &[u64]) -> Result {
    if flags & !known != 0 || reserved.iter().any(|&word| word != 0) {
        return Err(EINVAL);
    }
    Ok(())
}
