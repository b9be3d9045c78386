//! The interface to the module, as in `kernel/limic_rs/uapi/limic.h`, which has the meaning of
//! every field.

#![allow(
    missing_docs,
    reason = "the header documents them; a second text would only drift"
)]

use std::ffi::c_ulong;

pub const DEVICE: &str = "/dev/limic";
pub const VERSION: u32 = 1;
pub const MAX_IOV: u32 = 1024;
pub const MAX_LEN: u64 = 1 << 40;
pub const MAX_SLOTS: u32 = 4096;
pub const MAX_RANKS: u32 = 65536;
pub const MAX_BUFFERED: usize = 4096;
pub const MAX_SESSIONS: u32 = 64;
pub const ANY_RANK: u32 = !0;
pub const JOIN_CREATE: u32 = 1;
pub const JOIN_FD: u32 = 2;
pub const MEMBER_ABSENT: u32 = 0;
pub const MEMBER_PRESENT: u32 = 1;
pub const MEMBER_LEFT: u32 = 2;
pub const MEMBER_CLOSED: u32 = 3;
pub const EXPOSE_READ: u32 = 1;
pub const EXPOSE_WRITE: u32 = 2;
pub const EXPOSE_ONCE: u32 = 4;
pub const EXPOSE_KEEP: u32 = 8;
pub const EXPOSE_LATCH: u32 = 16;
pub const LATCHES: u32 = 64;
pub const LATCH_BYTES: usize = 4096;
pub const LATCH_OFFSET: libc::off_t = 0x10_0000;
pub const LATCH_STRUCK: u32 = 1 << 31;
pub const TO_GROUP: u32 = 0;
pub const TO_RANK: u32 = 1;
pub const TO_SESSION: u32 = 2;
pub const COPY_READ: u32 = 1;
pub const COPY_WRITE: u32 = 2;
pub const SEND_BUFFERED: u32 = 1;
pub const SEND_IMMEDIATE: u32 = 2;
pub const SEND_KEEP: u32 = 4;
pub const RECV_MESSAGE: u32 = 1;
pub const RECV_KEEP: u32 = 2;
pub const PROBE_TAKE: u32 = 1;
pub const PROBE_IMMEDIATE: u32 = 2;
pub const CANCEL_FORCE: u32 = 1;
pub const STATUS_IMMEDIATE: u32 = 1;
pub const WAIT_ARRIVAL: u32 = 1;
pub const WAIT_DEPARTURE: u32 = 2;
pub const IDLE: u32 = 0;
pub const PENDING: u32 = 1;
pub const DONE: u32 = 2;

macro_rules! structures {
    ($($name:ident, $size:literal { $($field:ident: $type:ty),* $(,)? })*) => { $(
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name { $(pub $field: $type),* }
        const _: () = assert!(size_of::<$name>() == $size);
        // SAFETY: integers only, without padding since the sizes add up: any bytes are one of it,
        // and it is bytes.
        unsafe impl Plain for $name {}
        const _: () = assert!(0 $(+ size_of::<$type>())* == $size);
    )* };
}

/// Plain bytes.
///
/// # Safety
/// Any bit pattern is a value, and there is no padding.
pub unsafe trait Plain: Copy + Default {}

structures! {
    Iov, 16 { base: u64, len: u64 }
    Hello, 64 {
        version: u32, flags: u32, slots: u32, unexpected: u32,
        features: u64, session: u64, status_bytes: u64, reserved: [u64; 3],
    }
    Join, 64 { token: [u64; 2], flags: u32, rank: u32, size: u32, fd: i32, reserved: [u64; 4] }
    Member, 16 { rank: u32, state: u32, reserved: u64 }
    Expose, 64 {
        iov: u64, nr_iov: u32, flags: u32, to: u32, rank: u32, session: u64,
        handle: u64, len: u64, latch: u32, reserved0: u32, reserved: u64,
    }
    Copy_, 64 {
        handle: u64, offset: u64, iov: u64, nr_iov: u32, flags: u32, copied: u64, reserved: [u64; 3],
    }
    Revoke, 16 { handle: u64, reserved: u64 }
    Send_, 64 {
        iov: u64, nr_iov: u32, flags: u32, tag: u64, cookie: u64, rank: u32, slot: u32,
        state: u32, reserved0: u32, immediate: u64, reserved: u64,
    }
    Recv, 64 {
        iov: u64, nr_iov: u32, flags: u32, tag: u64, mask: u64, cookie: u64, message: u64,
        rank: u32, slot: u32, state: u32, reserved0: u32,
    }
    Probe, 64 {
        tag: u64, mask: u64, rank: u32, flags: u32, len: u64, message: u64, immediate: u64,
        reserved: [u64; 2],
    }
    Cancel, 16 { slot: u32, flags: u32, reserved: u64 }
    Wait, 64 {
        slots: u64, nr: u32, min: u32, timeout_ns: i64, flags: u32, done: u32,
        arrivals: u32, departures: u32, reserved: [u64; 3],
    }
    Header, 64 {
        version: u32, slots: u32, completions: u32, arrivals: u32, departures: u32, ended: u32,
        reserved: [u32; 10],
    }
    Status, 64 {
        state: u32, error: i32, len: u64, full_len: u64, tag: u64, cookie: u64, source: u32,
        flags: u32, immediate: u64, reserved: u64,
    }
}

const fn number(direction: c_ulong, nr: c_ulong, size: usize) -> c_ulong {
    direction << 30 | (size as c_ulong) << 16 | 0xC7 << 8 | nr
}

pub const HELLO: c_ulong = number(3, 0x00, 64);
pub const JOIN: c_ulong = number(3, 0x01, 64);
pub const MEMBER: c_ulong = number(3, 0x02, 16);
pub const PING: c_ulong = number(0, 0x03, 0);
pub const END: c_ulong = number(0, 0x04, 0);
pub const EXPOSE: c_ulong = number(3, 0x10, 64);
pub const COPY: c_ulong = number(3, 0x11, 64);
pub const REVOKE: c_ulong = number(1, 0x12, 16);
pub const SEND: c_ulong = number(3, 0x20, 64);
pub const RECV: c_ulong = number(3, 0x21, 64);
pub const PROBE: c_ulong = number(3, 0x22, 64);
pub const CANCEL: c_ulong = number(1, 0x23, 16);
pub const WAIT: c_ulong = number(3, 0x24, 64);

/// All calls that take a structure, with its size.
pub const CALLS: [(c_ulong, usize); 11] = [
    (HELLO, 64),
    (JOIN, 64),
    (MEMBER, 16),
    (EXPOSE, 64),
    (COPY, 64),
    (REVOKE, 16),
    (SEND, 64),
    (RECV, 64),
    (PROBE, 64),
    (CANCEL, 16),
    (WAIT, 64),
];
